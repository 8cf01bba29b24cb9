package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcp-gateway/internal/secret"
)

// LaunchOptions say what to start in the background.
type LaunchOptions struct {
	Argv     []string         // the program and its arguments; nothing secret
	Env      []string         // the whole environment; Launch takes token and configuration out of it
	Input    []byte           // given over a pipe: the configuration and the token
	Limit    time.Duration    // how long to wait for the report; 0 means as long as ctx
	Grace    time.Duration    // how long a daemon that was told to give up may take; 0 means 3 s
	Log      string           // the daemon's log, quoted when it dies without a report; may be empty
	Scrubber *secret.Scrubber // for what is quoted; may be nil
}

const defaultGrace = 3 * time.Second

// Report is what the daemon says to its launcher, once.
type Report struct {
	OK     bool            `json:"ok"`
	Text   string          `json:"text,omitempty"`   // what to print
	Code   int             `json:"code,omitempty"`   // the launcher's exit code
	Status json.RawMessage `json:"status,omitempty"` // for --json
}

// ErrLimit is the cause when the report did not come in time.
var ErrLimit = errors.New("start-up limit reached")

// private are the variables that never reach the daemon: they came for the launcher alone.
var private = []string{"GATEWAY_ACCESS_TOKEN", "MCP_GATEWAY_CONFIG", "MCP_GATEWAY_ATTACH_TOKEN"}

// Environ returns env without the tokens and the configuration.
func Environ(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(private, name)
	})
}

// Launch starts the daemon in a session of its own and returns its report. The daemon has none of the
// caller's descriptors. When Launch returns an error, or a report that is not OK, the daemon is gone.
//
// Standard input of the daemon is a pipe that stays open until the report is accepted, so the end of
// the launcher, whatever ends it, is seen there. The report comes over a second pipe, descriptor 3,
// whose end without a report tells of the daemon's death.
func Launch(ctx context.Context, o LaunchOptions) (Report, error) {
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	l, err := start(o)
	if err != nil {
		return Report{}, fmt.Errorf("start the gateway in the background: %w", err)
	}
	defer l.close()
	waiting, stop := ctx, context.CancelFunc(func() {})
	if o.Limit > 0 {
		limit := fmt.Errorf("%w (%s)", ErrLimit, o.Limit)
		waiting, stop = context.WithTimeoutCause(ctx, o.Limit, limit)
	}
	defer stop()
	select {
	case said := <-l.said:
		return l.settle(said)
	case <-waiting.Done():
		return l.giveUp(context.Cause(waiting))
	}
}

// launch is one daemon on its way to a report.
type launch struct {
	options LaunchOptions
	cmd     *exec.Cmd
	input   *os.File // our end of its standard input
	ready   *os.File // our end of the report's pipe
	crash   *crashFile
	tasks   sync.WaitGroup // feed and listen
	fed     chan struct{}  // closed when the input is written, or cannot be
	said    chan saying    // gets one
	over    bool           // the daemon is reaped, or left on its own
	killed  atomic.Bool    // it took too long to end
}

// saying is what came over the report's pipe.
type saying struct {
	report Report
	err    error // nothing, or nonsense, came
}

func start(o LaunchOptions) (*launch, error) {
	if err := sealDescriptors(); err != nil {
		return nil, err
	}
	crash, err := newCrashFile(o.Log)
	if err != nil {
		return nil, err
	}
	stdin, input, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, crash.close())
	}
	defer stdin.Close()
	ready, report, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, crash.close(), input.Close())
	}
	defer report.Close()

	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.Env = Environ(o.Env)
	cmd.Stdin, cmd.Stderr = stdin, crash.file // standard output is /dev/null
	cmd.ExtraFiles = []*os.File{report}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, crash.close(), input.Close(), ready.Close())
	}
	l := &launch{options: o, cmd: cmd, input: input, ready: ready, crash: crash,
		fed: make(chan struct{}), said: make(chan saying, 1)}
	l.tasks.Go(l.feed)
	l.tasks.Go(l.listen)
	return l, nil
}

// feed writes the input. A daemon that does not take it has ended, which listen tells.
func (l *launch) feed() {
	defer close(l.fed)
	frame := binary.BigEndian.AppendUint64(nil, uint64(len(l.options.Input)))
	if _, err := l.input.Write(frame); err == nil {
		l.input.Write(l.options.Input)
	}
}

// listen reads the report. It does not read to the pipe's end: that would hang on a descriptor that
// the daemon leaked.
func (l *launch) listen() {
	const most = 4 << 20
	var s saying
	s.err = json.NewDecoder(io.LimitReader(l.ready, most)).Decode(&s.report)
	l.said <- s
}

// settle ends a launch whose daemon has spoken, or died.
func (l *launch) settle(s saying) (Report, error) {
	if s.err == nil && s.report.OK {
		<-l.fed
		if _, err := l.input.Write([]byte{accepted}); err == nil {
			l.over = true
			return s.report, l.cmd.Process.Release()
		}
	}
	l.end()
	if s.err == nil && !s.report.OK {
		return s.report, nil
	}
	ended := l.cmd.ProcessState.String()
	if l.killed.Load() {
		ended = "it gave no report, and was killed"
	}
	return Report{}, l.crash.died(ended, l.options.Scrubber)
}

// giveUp tells the daemon to end and waits for that. A reason that the daemon still gives is better
// than ours: it names the server that is late.
func (l *launch) giveUp(cause error) (Report, error) {
	l.end()
	// What it wrote is in the pipe already; the deadline is for a pipe that somebody else holds open.
	l.ready.SetReadDeadline(time.Now().Add(time.Second))
	if last := <-l.said; last.err == nil && !last.report.OK {
		return last.report, nil
	}
	return Report{}, fmt.Errorf("wait for the gateway to be ready: %w", cause)
}

// end tells the daemon to end, waits for that, and brings it about when it takes too long.
func (l *launch) end() {
	l.input.Close()
	kill := time.AfterFunc(l.options.Grace, func() {
		l.killed.Store(true)
		// Its whole process group; a server's own group is the affair of whoever started it.
		syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
	})
	defer kill.Stop()
	l.cmd.Wait() // how it ended is in ProcessState
	l.over = true
}

// close ends both tasks and frees the files.
func (l *launch) close() {
	if !l.over {
		l.end()
	}
	l.input.Close()
	l.ready.Close()
	l.tasks.Wait()
	l.crash.close()
}
