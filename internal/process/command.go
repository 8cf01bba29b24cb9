package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// command is a Spec made ready for the kernel.
type command struct {
	path  string
	argv  []string
	env   []string
	dir   string
	cred  *syscall.Credential
	files []*os.File
}

// prepare checks everything that can be said better before the fork than after it.
func prepare(spec Spec) (*command, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, errors.New("no command")
	}
	cmd := &command{argv: spec.Argv, env: spec.Env, dir: spec.Dir}
	if spec.User != "" {
		u, cred, err := credential(spec.User)
		if err != nil {
			return nil, err
		}
		cmd.cred = cred
		for name, value := range map[string]string{"HOME": u.HomeDir, "USER": u.Username, "LOGNAME": u.Username} {
			cmd.env = setEnv(cmd.env, name, value)
		}
	}
	if spec.Dir != "" {
		info, err := os.Stat(spec.Dir)
		if err != nil {
			return nil, fmt.Errorf("enter working directory: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("enter working directory: %q is not a directory", spec.Dir)
		}
		cmd.env = setEnv(cmd.env, "PWD", spec.Dir)
	}
	var err error
	cmd.path, err = LookPath(spec.Argv[0], spec.Dir, cmd.env)
	return cmd, err
}

// attr describes the child to the kernel: a session of its own, so that no signal from a terminal
// reaches it and its processes know each other; dead when the gateway is; in its control group from
// its first instruction.
func (c *command) attr(g *group) *syscall.ProcAttr {
	attr := &syscall.ProcAttr{
		Dir: c.dir,
		Env: c.env,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c.cred},
	}
	for _, f := range c.files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if g != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(g.fd.Fd())
	}
	return attr
}

// startError explains what the kernel says of a file that is there and has its execute bit.
func startError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &lookupError{fmt.Sprintf("command %q cannot run: the interpreter of its first line, or its loader, does not exist", name)}
	case errors.Is(err, syscall.EACCES):
		return &lookupError{fmt.Sprintf("command %q must not be executed by this user, or there", name)}
	}
	return fmt.Errorf("start %q: %w", name, err)
}
