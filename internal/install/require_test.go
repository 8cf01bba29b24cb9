package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
)

// Programs that tell a version, as the real ones do.
func saying(text string) string { return "#!/bin/sh\n/bin/cat <<'END'\n" + text + "\nEND\n" }

func fakePython(version, venv string) string {
	return saying("a shim says something\n" + pythonMark + " " + strings.ReplaceAll(version, ".", " ") + " " + venv + " /opt/py " + version + "/bin/python")
}

// Everything that is missing is said, with what to install, before anything is started.
func TestB71_MissingRuntimes(t *testing.T) {
	npm := catalog.Launch{Kind: catalog.NPM, Package: "p"}
	pypi := catalog.Launch{Kind: catalog.PyPI, Package: "p"}
	with := func(l catalog.Launch, needs ...string) catalog.Launch { l.Needs = needs; return l }
	git := func(steps ...string) catalog.Launch {
		l := catalog.Launch{Kind: catalog.Git, Program: []string{"x"}}
		for _, s := range steps {
			l.Steps = append(l.Steps, []string{s, "build"})
		}
		return l
	}
	const noPath = ` not found on PATH "DIR"`
	const uvHint = "install uv (pip install uv), or Python with the package python3-venv"
	for _, tt := range []struct {
		name       string
		have       map[string]string
		launch     catalog.Launch
		want, hint string
	}{
		{"node and npm", nil, npm, `needs Node.js: command "node"` + noPath + `; needs npm: command "npm"` + noPath,
			"install Node.js with npm: https://nodejs.org, or the packages nodejs and npm"},
		{"npm", map[string]string{"node": saying("v22.1.0")}, npm, `needs npm: command "npm"` + noPath,
			"install Node.js with npm: https://nodejs.org, or the packages nodejs and npm"},
		{"a too old node", map[string]string{"node": saying("v20.20.2"), "npm": ""}, with(npm, "node>=22.14.0"),
			`needs Node.js 22.14.0 or newer: "DIR/node" is 20.20.2`, "install Node.js 22.14.0 or newer with npm: https://nodejs.org, or the packages nodejs and npm"},
		{"a new enough node", map[string]string{"node": saying("v22.14.0"), "npm": ""}, with(npm, "node>=22.14.0"), "", ""},
		{"a node that does not tell", map[string]string{"node": "#!/bin/sh\nexit 1\n", "npm": ""}, with(npm, "node>=22.14.0"), "", ""},
		{"neither uv nor python", nil, pypi, `needs Python: there is none, and command "uv"` + noPath, uvHint},
		{"python without venv", map[string]string{"python3": fakePython("3.11.2", "0")}, pypi,
			`needs uv, or Python with venv: command "uv"` + noPath + `, and "/opt/py 3.11.2/bin/python" has no venv`, "install uv (pip install uv), or the package python3-venv"},
		{"python with venv", map[string]string{"python3": fakePython("3.11.2", "1")}, with(pypi, "python>=3.10"), "", ""},
		{"uv alone, which fetches a python", map[string]string{"uv": ""}, with(pypi, "python>=3.10"), "", ""},
		{"uv and an old python, but uv fetches another", map[string]string{"uv": "", "python3": fakePython("3.8.1", "1")}, with(pypi, "python>=3.10"), "", ""},
		{"uv must not fetch", map[string]string{"uv": "", "python3": fakePython("3.11.2", "0"), "UV_PYTHON_DOWNLOADS": "never"}, with(pypi, "python==3.13"),
			`needs Python 3.13: "/opt/py 3.11.2/bin/python" is 3.11.2`, "install Python 3.13, or let uv fetch one with UV_PYTHON_DOWNLOADS=automatic"},
		{"a second python fits", map[string]string{"uv": "", "python3": fakePython("3.11.2", "0"), "python3.13": fakePython("3.13.0", "0"), "UV_PYTHON_DOWNLOADS": "never"},
			with(pypi, "python==3.13"), "", ""},
		{"a broken python before it", map[string]string{"python3": "#!/bin/sh\nexit 127\n", "python3.12": fakePython("3.12.1", "1")}, with(pypi, "python>=3.12"), "", ""},
		{"one that pyenv has", map[string]string{"HOME/.pyenv/versions/3.12.1/bin/python3": fakePython("3.12.1", "1")}, with(pypi, "python>=3.12"), "", ""},
		{"one that uv has fetched", map[string]string{"HOME/.local/share/uv/python/cpython-3.12.1-x/bin/python3": fakePython("3.12.1", "1")}, with(pypi, "python>=3.12"), "", ""},
		{"an old python alone", map[string]string{"python3": fakePython("3.9.2", "1")}, with(pypi, "python>=3.10"),
			`needs Python 3.10 or newer: "/opt/py 3.9.2/bin/python" is 3.9.2, and command "uv"` + noPath,
			"install uv (pip install uv), or Python 3.10 or newer with the package python3-venv"},
		{"go", nil, catalog.Launch{Kind: catalog.Go, Package: "p"}, `needs go: command "go"` + noPath, "install Go: https://go.dev/dl/, or the package golang"},
		{"cargo", nil, catalog.Launch{Kind: catalog.Crate, Package: "p"}, `needs cargo: command "cargo"` + noPath, "install Rust with cargo: https://rustup.rs"},
		{"tools of the build", map[string]string{"uv": ""}, git("uv", "mvn", "./gradlew"), `needs mvn: command "mvn"` + noPath, "install Maven: the package maven"},
		{"java", map[string]string{"java": "#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xmx512m' >&2\necho 'openjdk version \"17.0.12\" 2024-07-16' >&2\n"}, with(git(), "java>=21"),
			`needs Java 21 or newer: "DIR/java" is 17.0.12`, "install Java 21 or newer: for instance the package default-jdk-headless"},
		{"dotnet", map[string]string{"dotnet": saying("Microsoft.AspNetCore.App 10.0.1 [/x]\nMicrosoft.NETCore.App 6.0.36 [/x]\nMicrosoft.NETCore.App 8.0.11 [/x]")}, with(git(), "dotnet>=9"),
			`needs .NET 9 or newer: "DIR/dotnet" is 8.0.11`, "install the SDK of .NET 9 or newer: https://dotnet.microsoft.com/download"},
		{"what only tools need is no reason", map[string]string{"node": "", "npm": ""}, with(npm, "chromium", "network"), "", ""},
		{"a command is asked for its interpreter only", nil, with(catalog.Launch{Kind: catalog.Command, Command: "x", Steps: [][]string{{"apt-get"}}}, "node>=18"),
			`needs Node.js 18 or newer: command "node"` + noPath, "install Node.js 18 or newer with npm: https://nodejs.org, or the packages nodejs and npm"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			home := t.TempDir()
			env := []string{"HOME=" + home}
			for name, text := range tt.have {
				if strings.HasPrefix(name, "UV_") {
					env = append(env, name+"="+text)
					continue
				}
				if below, ok := strings.CutPrefix(name, "HOME/"); ok {
					if err := os.MkdirAll(filepath.Join(home, filepath.Dir(below)), 0o755); err != nil {
						t.Fatal(err)
					}
					programs(t, home, map[string]string{below: text})
					continue
				}
				if text == "" {
					text = "#!/bin/sh\n"
				}
				programs(t, dir, map[string]string{name: text})
			}
			f := newFixture(t, "", env...)
			missing := f.Check(t.Context(), []Server{{Name: "srv", Launch: onPath(tt.launch, dir)}})
			if tt.want == "" {
				if len(missing) > 0 {
					t.Errorf("%v", missing)
				}
				return
			}
			if len(missing) != 1 || missing[0].Cause != fault.NotFound || missing[0].Server != "srv" {
				t.Fatalf("%v", missing)
			}
			if got := strings.ReplaceAll(missing[0].Err.Error(), dir, "DIR"); got != tt.want || missing[0].Hint != tt.hint {
				t.Errorf("%s\n%s\nwant\n%s\n%s", got, missing[0].Hint, tt.want, tt.hint)
			}
		})
	}
}

// All servers are looked at, and a program is asked once.
func TestB18_CheckNamesAllServers(t *testing.T) {
	dir := t.TempDir()
	programs(t, dir, map[string]string{"node": "#!/bin/sh\necho asked >>" + dir + "/log\necho v18.0.0\n", "npm": "#!/bin/sh\n"})
	f := newFixture(t, "", "HOME="+t.TempDir())
	var servers []Server
	for _, l := range []catalog.Launch{
		{Kind: catalog.NPM, Package: "a", Needs: []string{"node>=20"}}, {Kind: catalog.Shell, Run: "x"},
		{Kind: catalog.NPM, Package: "b", Needs: []string{"node>=22"}}, {Kind: catalog.PyPI, Package: "c"},
		{Kind: catalog.NPM, Package: "d", Needs: []string{"node>=18"}}, {Kind: catalog.Remote},
	} {
		servers = append(servers, Server{Name: l.Package, Launch: onPath(l, dir)})
	}
	var names []string
	for _, fault := range f.Check(t.Context(), servers) {
		names = append(names, fault.Server)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("faults of %q", names)
	}
	if got := read(t, dir, "log"); got != "asked" {
		t.Errorf("node was asked %q", got)
	}
}
