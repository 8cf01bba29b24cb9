package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLauncherGone is the cause when the launcher has disappeared, or given up, before it accepted the
// report.
var ErrLauncherGone = errors.New("launcher is gone")

// accepted is the byte by which the launcher accepts a good report.
const accepted = 'A'

// Start is the daemon's side of a Launch.
type Start struct {
	input    []byte
	launcher *os.File // from the launcher: the input, then the acceptance
	ready    *os.File // to the launcher: the report
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watched  chan struct{} // closed when the watch has ended
	accepted bool          // written before watched is closed
}

// ReadyFile returns the pipe for the report, or an error when this process was not started by Launch.
func ReadyFile() (*os.File, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(firstOther, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, fmt.Errorf("find the launcher: descriptor %d is not its pipe", firstOther)
	}
	return os.NewFile(firstOther, "ready"), nil
}

// Receive reads the launcher's input and watches the launcher from then on. It takes both files over:
// standard input becomes /dev/null, and no child of the daemon inherits either pipe.
func Receive(ctx context.Context, stdin, ready *os.File) (*Start, error) {
	unix.CloseOnExec(int(ready.Fd()))
	launcher, err := takeOver(stdin)
	if err != nil {
		return nil, fmt.Errorf("take over standard input: %w", errors.Join(err, ready.Close()))
	}
	s := &Start{launcher: launcher, ready: ready, watched: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { launcher.SetReadDeadline(time.Unix(1, 0)) })
	s.input, err = readFrame(launcher)
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the launcher's input: %w", errors.Join(err, launcher.Close(), ready.Close()))
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	go s.watch()
	return s, nil
}

// takeOver moves a pipe to a descriptor that no child inherits and whose reads end when it is closed.
func takeOver(file *os.File) (*os.File, error) {
	from := int(file.Fd())
	fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, firstOther)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	taken := os.NewFile(uintptr(fd), "launcher")
	if from >= firstOther {
		err = file.Close()
	} else {
		err = redirectToNull(from)
	}
	if err != nil {
		return nil, errors.Join(err, taken.Close())
	}
	return taken, nil
}

// readFrame reads a length of 8 bytes and that many bytes.
func readFrame(r io.Reader) ([]byte, error) {
	var size [8]byte
	_, err := io.ReadFull(r, size[:])
	if err != nil {
		return nil, fromEOF(err)
	}
	n := binary.BigEndian.Uint64(size[:])
	const most = 1 << 30
	if n > most {
		return nil, fmt.Errorf("%d bytes announced, %d are allowed", n, most)
	}
	input, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(input)) < n {
		err = io.ErrUnexpectedEOF
	}
	return input, fromEOF(err)
}

func fromEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrLauncherGone
	}
	return err
}

// watch waits for the launcher's acceptance or its end.
func (s *Start) watch() {
	defer close(s.watched)
	var answer [1]byte
	if n, _ := s.launcher.Read(answer[:]); n == 1 && answer[0] == accepted {
		s.accepted = true
		return
	}
	s.cancel(ErrLauncherGone)
}

// Input is what the launcher sent.
func (s *Start) Input() []byte { return s.input }

// Context ends with the one given to Receive, and, until a report was accepted, when the launcher is
// gone: its cause is then ErrLauncherGone.
func (s *Start) Context() context.Context { return s.ctx }

// Report sends the report. After a good one it waits until the launcher has accepted it, so that a
// gateway never stays whose launcher has told of a failure; an error means that the gateway must end.
func (s *Start) Report(r Report) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("report to the launcher: %w", err)
	}
	_, err = s.ready.Write(append(doc, '\n'))
	err = errors.Join(err, s.ready.Close())
	if errors.Is(err, unix.EPIPE) {
		err = ErrLauncherGone
	}
	if err != nil {
		return fmt.Errorf("report to the launcher: %w", err)
	}
	if !r.OK {
		return nil
	}
	select {
	case <-s.watched:
	case <-s.ctx.Done():
	}
	select {
	case <-s.watched: // also where the context has ended at the same time
		if s.accepted {
			return leaveCrashFile()
		}
		return fmt.Errorf("report to the launcher: %w", ErrLauncherGone)
	default:
		return fmt.Errorf("wait for the launcher's acceptance: %w", context.Cause(s.ctx))
	}
}

// Close ends the watch and frees the pipes. Context has ended then.
func (s *Start) Close() error {
	s.cancel(context.Canceled)
	s.ready.Close() // closed already after a report
	err := s.launcher.Close()
	<-s.watched
	return err
}
