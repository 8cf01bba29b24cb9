package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotFound is in the chain of an error of Start, Run and LookPath when the command is not on PATH
// or cannot be executed.
var ErrNotFound = errors.New("not found")

// LookPath finds a command as a process with this environment and working directory would find it.
func LookPath(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		// The child changes its directory before it executes.
		path := command
		if !filepath.IsAbs(path) && dir != "" {
			path = filepath.Join(dir, path)
		}
		if err := executable(path); err != nil {
			return "", &lookupError{fmt.Sprintf("command %q %v", command, err)}
		}
		return command, nil
	}
	path, _ := lookupEnv(env, "PATH")
	refused := ""
	for _, folder := range filepath.SplitList(path) {
		if folder == "" {
			folder = "."
		}
		file := filepath.Join(folder, command)
		if !filepath.IsAbs(file) {
			file = "./" + file
		}
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if err != errMissing && refused == "" {
			refused = fmt.Sprintf(" (%q %v)", file, err)
		}
	}
	return "", &lookupError{fmt.Sprintf("command %q not found on PATH %q%s", command, path, refused)}
}

// lookupError says in its own words that there is no such command.
type lookupError struct{ text string }

func (e *lookupError) Error() string { return e.text }

func (e *lookupError) Is(target error) bool { return target == ErrNotFound }

var (
	errMissing       = errors.New("not found")
	errIsFolder      = errors.New("is a directory")
	errNotExecutable = errors.New("is not executable")
)

// executable says why a file cannot be run. Root may read everything, but runs only what has an
// execute bit; whose bit it is, the kernel checks.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil && errors.Is(err, os.ErrPermission):
		return errNotExecutable
	case err != nil:
		return errMissing
	case info.IsDir():
		return errIsFolder
	case info.Mode()&0o111 == 0:
		return errNotExecutable
	}
	return nil
}

// lookupEnv finds a variable in an environment; of several, the last counts.
func lookupEnv(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(env[i], "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// setEnv returns the environment with one variable set, which stands in it once.
func setEnv(env []string, name, value string) []string {
	kept := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if key, _, _ := strings.Cut(entry, "="); key != name {
			kept = append(kept, entry)
		}
	}
	return append(kept, name+"="+value)
}
