package cli

import (
	"net"
	"path/filepath"
	"testing"
)

func TestNotifyService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := notifyService(newEnvironment([]string{"NOTIFY_SOCKET=" + path}), "READY=1"); err != nil {
		t.Fatal(err)
	}
	var got [64]byte
	if n, err := socket.Read(got[:]); err != nil || string(got[:n]) != "READY=1" {
		t.Errorf("got %q, %v", got[:n], err)
	}
	if err := notifyService(newEnvironment(nil), "READY=1"); err != nil {
		t.Error(err)
	}
	if err := notifyService(newEnvironment([]string{"NOTIFY_SOCKET=" + path + "x"}), "READY=1"); err == nil {
		t.Error("a missing socket is no error")
	}
}
