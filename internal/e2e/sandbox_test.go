package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sandbox is an image's files as a running machine without a network: own processes, own mounts, and a
// loopback interface alone. What is written there goes with it.
type sandbox struct {
	init *os.Process // its process 1
	env  []string    // what the image sets
	disk string      // everything that was written
}

// sandboxInit makes the machine and becomes its process 1, which reaps, as an init does.
const sandboxInit = `set -e
mount --make-rprivate /
cd "$2" # its name may have a comma, which options do not bear
mount -t overlay -o "lowerdir=$1,upperdir=disk,workdir=work" overlay root
mount -t proc proc root/proc
mount --rbind /dev root/dev
ip link set lo up
cd root
exec chroot . /bin/bash -c 'echo up; while :; do sleep 3600 & wait $!; done'`

// newSandbox starts a machine on the files below image.
func newSandbox(t *testing.T, image string, env []string) *sandbox {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"disk", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("/bin/bash", "-c", sandboxInit, "init", image, dir)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS,
		Setsid:     true,
	}
	var failure bytes.Buffer
	c.Stderr = &failure
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatalf("start a sandbox: %v", err)
	}
	t.Cleanup(func() { // everything in it ends with its process 1
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		_ = c.Process.Kill()
		_ = c.Wait()
		t.Fatalf("start a sandbox: %s", failure.String())
	}
	return &sandbox{init: c.Process, env: env, disk: filepath.Join(dir, "disk")}
}

// path is where a file of the sandbox is found from outside.
func (s *sandbox) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(s.init.Pid), "root", name)
}

// enter makes a command that runs in the given namespaces of the sandbox.
func (s *sandbox) enter(flags []string, argv ...string) *exec.Cmd {
	args := append([]string{"--target", strconv.Itoa(s.init.Pid)}, flags...)
	return exec.Command("nsenter", append(append(args, "--"), argv...)...)
}

// shell runs a line in the sandbox as an SDK does: by a login shell as root, with pipes that are read to
// their end. A pipe that is still open when the command has exited fails the test (A1, A4).
func (s *sandbox) shell(t *testing.T, line, stdin string, env ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	argv := slices.Concat([]string{"/usr/bin/env", "-i", "HOME=/root", "USER=root"}, s.env, env, []string{"/bin/bash", "-l", "-c", line})
	c := s.enter([]string{"--mount", "--pid", "--net", "--uts", "--root", "--wd"}, argv...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errOut
	c.WaitDelay = 10 * time.Second // begins when the command has exited
	err := c.Run()
	if exitError := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exitError) {
		t.Fatalf("%s: %v\n%s", line, err, errOut.String())
	}
	return c.ProcessState.ExitCode(), out.String(), errOut.String()
}

// start starts the gateway with a token, and tells how long the command took.
func (s *sandbox) start(t *testing.T, config string) time.Duration {
	t.Helper()
	began := time.Now()
	exit, stdout, stderr := s.shell(t, "mcp-gateway --config "+quote(config), "", "GATEWAY_ACCESS_TOKEN="+testToken)
	if exit != 0 || stdout != "" {
		t.Fatalf("exit %d, stdout %q, stderr:\n%s", exit, stdout, stderr)
	}
	return time.Since(began)
}

func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// processes are the command lines of all processes but the first one and its sleep.
func (s *sandbox) processes(t *testing.T) []string {
	t.Helper()
	exit, stdout, stderr := s.shell(t, `for p in /proc/[0-9]*; do [ -e $p/exe ] && [ $p != /proc/$$ ] && tr '\0' ' ' <$p/cmdline && echo; done; true`, "")
	if exit != 0 {
		t.Fatalf("list processes: exit %d, %s", exit, stderr)
	}
	var found []string
	for line := range strings.Lines(stdout) {
		if line = strings.TrimSpace(line); line != "" && line != "sleep 3600" && !strings.HasPrefix(line, "/bin/bash -c echo up") {
			found = append(found, line)
		}
	}
	return found
}

// written lists the files in which the sandbox has written the text.
func (s *sandbox) written(t *testing.T, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(s.disk, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			found = append(found, strings.TrimPrefix(path, s.disk))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// inNetwork runs f on a thread that is in the sandbox's network.
func (s *sandbox) inNetwork(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		namespace, err := os.Open(filepath.Join("/proc", strconv.Itoa(s.init.Pid), "ns/net"))
		if err != nil {
			done <- err
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the sandbox's network: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// listen opens a port on the sandbox's loopback interface.
func (s *sandbox) listen(t *testing.T) net.Listener {
	t.Helper()
	var listener net.Listener
	err := s.inNetwork(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// client makes HTTP requests in the sandbox's network.
func (s *sandbox) client(t *testing.T) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = s.inNetwork(func() (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
