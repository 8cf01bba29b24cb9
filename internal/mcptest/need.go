package mcptest

import (
	"os"
	"os/exec"
	"testing"
)

// Need skips a test without a program or file that "make deps" installs; where CI runs, it fails.
func Need(t testing.TB, what string) {
	t.Helper()
	_, err := exec.LookPath(what)
	if err != nil {
		_, err = os.Stat(what)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing: make deps installs it", what)
	default:
		t.Skipf("%s is missing: make deps installs it", what)
	}
}
