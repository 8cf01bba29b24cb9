package gateway

import (
	"net"
	"os"
)

// reachable turns a listening address into one that can be dialled from this machine.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func pid() int { return os.Getpid() }
