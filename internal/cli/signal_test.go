package cli

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// watchedReader tells when it is first read.
type watchedReader struct {
	io.Reader
	reading chan struct{}
}

func (r *watchedReader) Read(p []byte) (int, error) {
	select {
	case r.reading <- struct{}{}:
	default:
	}
	return r.Reader.Read(p)
}

// A second signal ends a command that the first one could not end.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	// Signals that come when Main has returned already must not end the test. This is never undone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	never, end := io.Pipe()
	defer end.Close()
	in := &watchedReader{Reader: never, reading: make(chan struct{}, 1)}
	var out, errs bytes.Buffer
	code := make(chan int)
	go func() {
		code <- Main(t.Context(), []string{"config", "check", "-"}, Streams{In: in, Out: &out, Err: &errs}, nil)
	}()
	<-in.reading // from here on Main watches for signals
	for range 2 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	// The kernel may fold two signals that are pending at once into one.
	for {
		select {
		case got := <-code:
			if got != 128+int(syscall.SIGTERM) {
				t.Errorf("exit code is %d", got)
			}
			return
		default:
			syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
		}
	}
}
