package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotRunning means that no gateway answers on the socket.
var ErrNotRunning = errors.New("gateway is not running")

// maxAddress is the longest path that a unix socket's address holds.
const maxAddress = 107

// Listen makes the socket, for its owner only from the first moment, in place of one that a dead
// gateway left. Closing the listener removes the file. The path may be longer than a socket's address.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket %q: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := removeDead(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), path)
	defer socket.Close() // net.FileListener has a copy
	// Linux gives the socket's mode to the file that bind makes.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, err
	}
	err = withAddress(path, func(address string) error {
		return unix.Bind(fd, &unix.SockaddrUnix{Name: address})
	})
	if err != nil {
		return nil, err
	}
	made, err := os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o600) // for systems where bind does not
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &listener{Listener: l, path: path, made: made}, nil
}

// removeDead removes a socket that nobody answers on.
func removeDead(path string) error {
	var conn net.Conn
	err := withAddress(path, func(address string) (err error) {
		conn, err = net.Dial("unix", address)
		return err
	})
	if err == nil {
		return errors.Join(errors.New("a gateway answers there"), conn.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// listener removes its file when it is closed, unless another gateway has put its own there.
type listener struct {
	net.Listener
	path string
	made fs.FileInfo
}

func (l *listener) Close() error {
	if there, err := os.Lstat(l.path); err == nil && os.SameFile(l.made, there) {
		os.Remove(l.path) // who finds it dead replaces it
	}
	return l.Listener.Close()
}

// Dial connects to the gateway behind the socket. Its error is ErrNotRunning when there is none.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := withAddress(path, func(address string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", address)
		return err
	})
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTSOCK):
		return nil, ErrNotRunning
	}
	return nil, fmt.Errorf("connect to gateway %q: %w", path, err)
}

// withAddress calls do with an address that leads to path: a path that is too long goes by way of its
// opened folder.
func withAddress(path string, do func(address string) error) error {
	if len(path) <= maxAddress {
		return do(path)
	}
	folder, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open folder %q: %w", filepath.Dir(path), err)
	}
	defer unix.Close(folder)
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", folder, filepath.Base(path)))
}
