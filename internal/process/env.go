package process

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/secret"
)

// ServerEnv makes the environment of one server: the one that the gateway was started in (base)
// without the gateway's own variables (GATEWAY_ACCESS_TOKEN and MCP_GATEWAY_*), and the server's envs,
// which win. PATH is completed at its end with the usual directories, and HOME is one that can be
// written, unless the server's envs set them.
func ServerEnv(base []string, envs map[string]secret.Value) []string {
	env := make([]string, 0, len(base)+len(envs)+2)
	for _, entry := range base {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && name != "GATEWAY_ACCESS_TOKEN" && !strings.HasPrefix(name, "MCP_GATEWAY_") {
			env = setEnv(env, name, value)
		}
	}
	home := envs["HOME"].Reveal()
	if home == "" {
		home, _ = Home(base)
		env = setEnv(env, "HOME", home)
	}
	path, _ := lookupEnv(env, "PATH")
	env = setEnv(env, "PATH", completePath(path, home, base))
	for _, name := range slices.Sorted(maps.Keys(envs)) {
		env = setEnv(env, name, envs[name].Reveal())
	}
	return env
}

// Home says which home directory servers get, and, when that is not the one in the environment, why.
func Home(base []string) (dir, reason string) {
	given, set := lookupEnv(base, "HOME")
	switch {
	case !set || given == "":
		reason = "HOME is not set"
	case filepath.Clean(given) == "/":
		reason = `HOME is "/"`
	case !writable(given):
		reason = fmt.Sprintf("HOME %q is not a directory that can be written", given)
	default:
		return given, ""
	}
	if u, err := user.Current(); err == nil && filepath.Clean(u.HomeDir) != "/" && writable(u.HomeDir) {
		return u.HomeDir, reason
	}
	temp, _ := lookupEnv(base, "TMPDIR")
	for _, parent := range []string{temp, "/tmp", "/var/tmp"} {
		dir := filepath.Join(parent, "mcp-gateway-home-"+strconv.Itoa(os.Geteuid()))
		if parent != "" && ownFolder(dir) {
			return dir, reason
		}
	}
	return "/tmp", reason
}

func writable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// ownFolder makes a folder in one that others can write to, and refuses what another user has put there.
func ownFolder(dir string) bool {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// completePath appends the directories that a command without a login shell misses.
func completePath(path, home string, base []string) string {
	usual := []string{
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
		filepath.Join(home, ".local/bin"), filepath.Join(home, ".cargo/bin"),
	}
	if os.Geteuid() == 0 {
		usual = append(usual, "/root/.local/bin")
	}
	nvm, _ := lookupEnv(base, "NVM_DIR")
	if nvm == "" {
		nvm = filepath.Join(home, ".nvm")
	}
	if bin := newestNode(nvm); bin != "" {
		usual = append(usual, bin)
	}
	var dirs []string
	if path != "" {
		dirs = filepath.SplitList(path)
	}
	for _, dir := range usual {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// newestNode finds the newest Node.js that nvm has installed, or "".
func newestNode(nvm string) string {
	bins, err := filepath.Glob(filepath.Join(nvm, "versions/node/v*/bin"))
	if err != nil || len(bins) == 0 {
		return ""
	}
	return slices.MaxFunc(bins, func(a, b string) int {
		return slices.Compare(versionOf(a), versionOf(b))
	})
}

// versionOf reads the numbers of ".../v22.1.0/bin".
func versionOf(bin string) []int {
	var numbers []int
	for part := range strings.SplitSeq(strings.TrimPrefix(filepath.Base(filepath.Dir(bin)), "v"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}
