package daemon

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PortInUse is the error of a listen address that another program has.
type PortInUse struct {
	Addr string
	PID  int    // 0 where it cannot be known
	Comm string // the program's name
	Err  error
}

// Error names the address and, where it is known, the holder.
func (e *PortInUse) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("listen on %q: the port is taken by another program", e.Addr)
	}
	return fmt.Sprintf("listen on %q: the port is taken by %q (pid %d)", e.Addr, e.Comm, e.PID)
}

// Unwrap returns the system's error.
func (e *PortInUse) Unwrap() error { return e.Err }

// ListenError turns the error of a net.Listen on addr into *PortInUse where that is the cause, and
// returns any other error as it is.
func ListenError(addr string, err error) error {
	if !errors.Is(err, unix.EADDRINUSE) {
		return err
	}
	pid, comm, _ := PortHolder(addr)
	return &PortInUse{Addr: addr, PID: pid, Comm: comm, Err: err}
}

// PortHolder finds the process that keeps addr from being listened on. It sees the processes of this
// user only, or all of them as root.
func PortHolder(addr string) (pid int, comm string, ok bool) {
	want, ok := parseListen(addr)
	if !ok {
		return 0, "", false
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for inode, at := range listeners(table) {
			if at.Port() == want.Port() && overlap(at.Addr(), want.Addr()) {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return 0, "", false
	}
	return socketHolder(inodes)
}

// parseListen reads an address as net.Listen takes it. Where the host is left out or is a name, it
// stands for every address.
func parseListen(addr string) (netip.AddrPort, bool) {
	i := strings.LastIndexByte(addr, ':')
	port, err := strconv.ParseUint(addr[i+1:], 10, 16)
	if i < 0 || err != nil {
		return netip.AddrPort{}, false
	}
	host, err := netip.ParseAddr(strings.Trim(addr[:i], "[]"))
	if err != nil {
		host = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(host.Unmap(), uint16(port)), true
}

// overlap tells whether listening on one address excludes the other, the port being the same.
func overlap(a, b netip.Addr) bool {
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}

// listeners reads the listening sockets, by inode, of a table of /proc/net.
func listeners(table string) map[string]netip.AddrPort {
	file, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer file.Close()
	found := map[string]netip.AddrPort{}
	const local, state, inode, listening = 1, 3, 9, "0A" // columns, and TCP_LISTEN
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) <= inode || f[state] != listening {
			continue
		}
		if at, ok := parseKernelAddr(f[local]); ok {
			found[f[inode]] = at
		}
	}
	return found
}

// parseKernelAddr reads "0100007F:C355": the address as 32 bit words in the machine's byte order.
func parseKernelAddr(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok && err == nil
}

// socketHolder finds a process that has one of the sockets open.
func socketHolder(links map[string]bool) (pid int, comm string, ok bool) {
	for _, pid := range numbersIn("/proc") {
		process := "/proc/" + strconv.Itoa(pid)
		for _, fd := range numbersIn(process + "/fd") {
			link, err := os.Readlink(process + "/fd/" + strconv.Itoa(fd))
			if err != nil || !links[link] {
				continue
			}
			if name, err := os.ReadFile(process + "/comm"); err == nil {
				return pid, string(bytes.TrimSpace(name)), true
			}
		}
	}
	return 0, "", false
}

// numbersIn lists the names in a folder that are numbers. A process may end while it is looked at, or
// be another user's: then there are none.
func numbersIn(folder string) []int {
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // the part that could be read is good too
	var numbers []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
