package gateway

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack returns the memory that only starting needed: the heap's free pages, and the pages of the
// program file that are mapped, most of which (flags, catalogue, clones) are not looked at again. What
// is needed after all is mapped anew from the page cache at its first use.
func giveBack() {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// address perms offset dev inode path (proc_pid_maps(5))
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[5] != program || strings.Contains(fields[1], "w") {
			continue
		}
		if start, length, ok := parseRange(fields[0]); ok {
			unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED)
		}
	}
}

func parseRange(text string) (start, length uintptr, ok bool) {
	from, to, found := strings.Cut(text, "-")
	a, errA := strconv.ParseUint(from, 16, 64)
	b, errB := strconv.ParseUint(to, 16, 64)
	return uintptr(a), uintptr(b - a), found && errA == nil && errB == nil && b > a
}
