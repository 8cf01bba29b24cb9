package daemon

import (
	"context"
	"errors"
	"os"
)

// Start is the daemon's side of a Launch.
type Start struct{ input []byte }

// ReadyFile returns the pipe for the report, or an error when this process was not started by Launch.
func ReadyFile() (*os.File, error) { return nil, errors.New("not started by a launcher") }

// Receive reads the launcher's input and watches the launcher from then on. It takes both files over:
// standard input is replaced by /dev/null, and no child inherits either.
func Receive(ctx context.Context, stdin, ready *os.File) (*Start, error) {
	return nil, errors.New("receive: not built yet")
}

// Input is what the launcher sent.
func (s *Start) Input() []byte { return s.input }

// Context ends with the one given to Receive, and, until a report was accepted, when the launcher is
// gone: its cause is then ErrLauncherGone.
func (s *Start) Context() context.Context { return nil }

// Report sends the report and waits until the launcher has accepted it. ErrLauncherGone means that
// nobody did: the gateway must end.
func (s *Start) Report(r Report) error { return nil }

// Close ends the watch. It is needed after an error as well.
func (s *Start) Close() error { return nil }
