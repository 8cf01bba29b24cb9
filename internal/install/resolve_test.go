package install

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
)

// fakeNPM installs what it is told to, as far as the gateway looks, and writes down that it ran. The
// server that it installs says which version it is.
const fakeNPM = `#!/bin/sh
echo "$*" >>"$LOG"
cat
name=${2%@*} version=${2##*@}
[ -z "$HOOK" ] || . "$HOOK"
mkdir -p "node_modules/$name"
echo '{"name":"'$name'","version":"'$version'","bin":"run.sh"}' >"node_modules/$name/package.json"
printf '#!/bin/sh\necho "'$version' $*"\ncat\n' >"node_modules/$name/run.sh"
chmod +x "node_modules/$name/run.sh"
`

// faked is a fixture on a machine whose npm is a fake.
type faked struct {
	*fixture
	log, hook string
}

func newFaked(t *testing.T, env ...string) *faked {
	t.Helper()
	dir := t.TempDir()
	programs(t, dir, map[string]string{"npm": fakeNPM, "node": "#!/bin/sh\necho v20.20.2\n"})
	f := &faked{log: filepath.Join(dir, "log"), hook: filepath.Join(dir, "hook")}
	f.fixture = newFixture(t, "", append([]string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "LOG=" + f.log}, env...)...)
	return f
}

func programs(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// hooked makes the fake npm run a piece of shell at each install.
func (f *faked) hooked(t *testing.T, shell string) {
	t.Helper()
	programs(t, filepath.Dir(f.hook), map[string]string{"hook": shell})
	f.opts.BaseEnv = append(f.opts.BaseEnv, "HOOK="+f.hook)
}

func (f *faked) installs(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(f.log); err != nil {
		return nil
	}
	return strings.Split(read(t, f.log), "\n")
}

func npmServer(version string) catalog.Launch {
	return catalog.Launch{Kind: catalog.NPM, Package: "server", Version: version, Args: []string{"arg"}}
}

// What a pull or another start has not installed, the start installs.
func TestD2_FirstStartInstalls(t *testing.T) {
	f := newFaked(t)
	for range 2 {
		spec, err := f.prepare(t.Context(), npmServer("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.firstLine(t, spec); got != "1.0.0 arg" {
			t.Errorf("it said %q", got)
		}
	}
	if got, want := f.installs(t), []string{"install server@1.0.0"}; !slices.Equal(got, want) {
		t.Errorf("npm ran %q, want %q", got, want)
	}
	if want := []string{"srv: installing server@1.0.0 from npm"}; !slices.Equal(f.lines, want) {
		t.Errorf("progress %q, want %q", f.lines, want)
	}
	t.Run("another version is installed beside it", func(t *testing.T) {
		old, err := f.prepare(t.Context(), npmServer("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := f.prepare(t.Context(), npmServer("1.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.firstLine(t, spec); got != "1.1.0 arg" {
			t.Errorf("it said %q", got)
		}
		if got := f.firstLine(t, old); got != "1.0.0 arg" { // a gateway may be running it
			t.Errorf("the old one said %q", got)
		}
	})
	t.Run("what the user sets makes no other install", func(t *testing.T) {
		before := len(f.installs(t))
		l := npmServer("1.1.0")
		l.Args, l.Env = []string{"other"}, map[string]secret.Value{"KEY": "v"}
		if _, err := f.prepare(t.Context(), l); err != nil || len(f.installs(t)) != before {
			t.Errorf("%v, %q", err, f.installs(t))
		}
	})
	t.Run("each server has its own", func(t *testing.T) {
		before := len(f.installs(t))
		if _, err := f.Prepare(t.Context(), Server{Name: "other", Launch: npmServer("1.1.0")}); err != nil || len(f.installs(t)) != before+1 {
			t.Errorf("%v, %q", err, f.installs(t))
		}
	})
}

// A record or an install that is damaged is made anew, and never used.
func TestD2_DamagedInstalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, record string)
	}{
		{"record cut off", func(t *testing.T, record string) { rewrite(t, record, func(s string) string { return s[:len(s)/2] }) }},
		{"record empty", func(t *testing.T, record string) { rewrite(t, record, func(string) string { return "" }) }},
		{"record of another kind", func(t *testing.T, record string) { rewrite(t, record, func(string) string { return `[1, 2]` }) }},
		{"record of another program", func(t *testing.T, record string) {
			change(t, record, func(r map[string]any) { r["format"] = 99 })
		}},
		{"record without a program", func(t *testing.T, record string) { change(t, record, func(r map[string]any) { delete(r, "argv") }) }},
		{"record of another version", func(t *testing.T, record string) {
			change(t, record, func(r map[string]any) { r["identity"].(map[string]any)["version"] = "0.9.0" })
		}},
		{"record of another server", func(t *testing.T, record string) { change(t, record, func(r map[string]any) { r["server"] = "other" }) }},
		{"record missing, as after a crash", func(t *testing.T, record string) {
			if err := os.Remove(record); err != nil {
				t.Fatal(err)
			}
		}},
		{"program missing", func(t *testing.T, record string) {
			if err := os.Remove(filepath.Join(strings.TrimSuffix(record, recordSuffix), "node_modules/server/run.sh")); err != nil {
				t.Fatal(err)
			}
		}},
		{"folder missing", func(t *testing.T, record string) {
			if err := os.RemoveAll(strings.TrimSuffix(record, recordSuffix)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFaked(t)
			f.pulled(t, npmServer("1.0.0"), StateInstalled)
			records, err := filepath.Glob(filepath.Join(f.dir, "packages/srv/*.json"))
			if err != nil || len(records) != 1 {
				t.Fatalf("%q, %v", records, err)
			}
			leftover := filepath.Join(strings.TrimSuffix(records[0], recordSuffix), "leftover")
			if err := os.WriteFile(leftover, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			tt.damage(t, records[0])
			spec, err := f.prepare(t.Context(), npmServer("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.firstLine(t, spec); got != "1.0.0 arg" || len(f.installs(t)) != 2 {
				t.Errorf("it said %q after %q", got, f.installs(t))
			}
			if _, err := os.Stat(leftover); err == nil {
				t.Error("the damaged install was built upon")
			}
			f.pulled(t, npmServer("1.0.0"), StatePresent)
		})
	}
}

func rewrite(t *testing.T, file string, f func(string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(f(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
}

func change(t *testing.T, record string, f func(map[string]any)) {
	t.Helper()
	rewrite(t, record, func(text string) string {
		var r map[string]any
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		f(r)
		changed, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(changed)
	})
}

// Pulls and starts of one server, by several processes too, install it once.
func TestD2_ConcurrentPullsInstallOnce(t *testing.T) {
	f := newFaked(t)
	var group errgroup.Group
	for n := range 8 {
		i := New(f.opts) // locks hold between installers as between processes
		group.Go(func() error {
			s := Server{Name: "srv", Launch: npmServer("1.0.0")}
			if n%2 == 0 {
				_, err := i.Pull(t.Context(), s)
				return err
			}
			_, err := i.Prepare(t.Context(), s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.installs(t); len(got) != 1 {
		t.Errorf("npm ran %q", got)
	}
}

// No more installs run at a time than were asked for.
func TestD2_Jobs(t *testing.T) {
	f := newFaked(t)
	f.hooked(t, `mkdir "$LOG.busy" || exit 9; rmdir "$LOG.busy"`)
	f.opts.Jobs = 1
	i := New(f.opts)
	var group errgroup.Group
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		group.Go(func() error {
			_, err := i.Pull(t.Context(), Server{Name: name, Launch: npmServer("1.0.0")})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestB22_InstallOutlastsTheStart(t *testing.T) {
	f := newFaked(t)
	f.hooked(t, `(setsid sh -c 'echo ready; sleep 3600' &); sleep 3600`)
	ctx, cancel := context.WithCancelCause(t.Context())
	f.opts.Output = func(_, line string) {
		if line == "ready" {
			cancel(errors.New("the start-up limit of 55s has passed"))
		}
	}
	i := New(f.opts)
	got := mustFail(t, i, ctx, npmServer("1.0.0"))
	if got.Cause != fault.InstallFailed || got.Ran != "npm install server@1.0.0" || got.Ended != "still running" ||
		got.Err.Error() != "the start-up limit of 55s has passed" || got.After <= 0 ||
		got.Hint != "install it ahead of time: mcp-gateway pull srv; or raise --startup-timeout" {
		t.Errorf("%v, hint %q", got, got.Hint)
	}
	if left := running(t, f.dir); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, "packages/srv/*")); len(left) != 1 {
		t.Errorf("files left: %q", left)
	}
	t.Run("so does the wait for another one", func(t *testing.T) {
		unlock, err := lock(t.Context(), filepath.Join(f.dir, "packages/srv", lockName))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		got := mustFail(t, i, ctx, npmServer("1.0.0"))
		if want := `server "srv" [install_failed]: server@1.0.0 from npm: wait for other installs: the start-up limit of 55s has passed`; got.Error() != want || got.Hint == "" {
			t.Errorf("%v, want %s", got, want)
		}
	})
}

func TestB27_PackageInstallFails(t *testing.T) {
	for _, tt := range []struct{ name, hook, want, hint string }{
		{"it says why", `echo "npm error 404 server@1.0.0" >&2; exit 1`, "exit status 1", ""},
		{"it asks", `read answer || { echo "Ok to proceed? (y)"; exit 2; }`, "exit status 2", ""},
		{"no network", `echo "npm error code ECONNREFUSED"; exit 1`, "exit status 1", "is there no network? Where there is one, install it ahead of time: mcp-gateway pull srv"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFaked(t)
			f.hooked(t, tt.hook)
			got := mustFail(t, f.Installer, soon(t), npmServer("1.0.0"))
			if got.Cause != fault.InstallFailed || got.Ran != "npm install server@1.0.0" || got.Ended != tt.want || len(got.Stderr) != 1 || got.Hint != tt.hint {
				t.Errorf("%v, hint %q, stderr %q", got, got.Hint, got.Stderr)
			}
			if left, _ := filepath.Glob(filepath.Join(f.dir, "packages/srv/*")); len(left) != 1 {
				t.Errorf("left: %q", left)
			}
		})
	}
	t.Run("nobody who pulls is told to pull", func(t *testing.T) {
		f := newFaked(t)
		f.hooked(t, `echo "npm error code ECONNREFUSED"; exit 1`)
		_, err := f.Pull(t.Context(), Server{Name: "srv", Launch: npmServer("1.0.0")})
		var got *fault.Fault
		if !errors.As(err, &got) || got.Hint != "is there no network?" {
			t.Errorf("%v", err)
		}
	})
	t.Run("B75 what it prints is scrubbed", func(t *testing.T) {
		f := newFaked(t)
		f.hooked(t, `echo "key is $KEY"; exit 1`)
		l := npmServer("1.0.0")
		l.Env = map[string]secret.Value{"KEY": "s3cr3t-123"}
		if got := mustFail(t, f.Installer, t.Context(), l); !slices.Equal(got.Stderr, []string{"key is ***"}) {
			t.Errorf("%q", got.Stderr)
		}
	})
}

// An installer that only looks needs neither host nor environment.
func TestLookup(t *testing.T) {
	f := newFaked(t)
	s := Server{Name: "srv", Launch: npmServer("1.0.0")}
	look := New(Options{Dir: f.dir})
	if _, ok := look.Lookup(s); ok {
		t.Error("it is installed before it was")
	}
	f.pulled(t, s.Launch, StateInstalled)
	is, ok := look.Lookup(s)
	if !ok || is.Name != "srv" || is.Version != "1.0.0" || is.Kind != catalog.NPM || len(is.Argv) != 1 || is.At.IsZero() {
		t.Errorf("%+v, %t", is, ok)
	}
	s.Launch.Version = "1.1.0"
	if _, ok := look.Lookup(s); ok {
		t.Error("another version is installed")
	}
}
