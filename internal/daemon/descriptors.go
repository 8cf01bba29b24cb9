package daemon

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstOther is the first descriptor after the standard three.
const firstOther = 3

// sealDescriptors keeps every descriptor that this process inherited from reaching the daemon: the
// caller of an SDK reads its pipes until nobody has them open any more.
func sealDescriptors() error {
	err := unix.CloseRange(firstOther, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, listErr := os.ReadDir("/proc/self/fd") // for kernels without that flag
	if listErr != nil {
		return fmt.Errorf("keep descriptors from the daemon: %w", errors.Join(err, listErr))
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= firstOther {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// redirectToNull puts /dev/null in the place of a descriptor.
func redirectToNull(fd int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), fd, 0)
}
