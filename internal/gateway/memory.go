package gateway

import (
	"bufio"
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ballast is address space that the collector counts as heap in use. Without it a gateway, whose heap is
// of a few megabytes, would collect every 4 MiB that pass through. Nothing ever touches it, so it takes
// no memory itself, and a large heap is collected as often as without. It is made before the heap has free
// pages that would have to be cleared for it.
type ballast []byte

const ballastSize = 10 << 20

const (
	restEvery = 300 * time.Millisecond // how often it is looked whether the gateway rests
	restBelow = 64 << 10               // bytes allocated meanwhile where it does
	restAbove = 1 << 20                // bytes allocated since memory was given back that are worth doing so again
)

// rest gives memory back whenever the gateway has come to rest after its start or work, until ctx ends.
func rest(ctx context.Context) {
	giveBack()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocated)
	last := allocated[0].Value.Uint64()
	returned := last
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if now-last < restBelow && now-returned > restAbove {
			giveBack()
			returned = now
		}
		last = now
	}
}

// giveBack returns the memory that is not needed now: the heap's free pages, and the pages of the program
// file that are mapped, most of which (flags, catalogue, clones, what the collector reads) are not looked
// at again soon. What is needed after all is mapped anew from the page cache at its first use.
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
