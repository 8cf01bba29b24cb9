// Package telemetry is where the gateway tells what it does: the log file with its reader, and the
// names of the attributes.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"

	"mcp-gateway/internal/secret"
)

// LogOptions tune a Log. The zero value is the gateway's own setting.
type LogOptions struct {
	Level   slog.Leveler // the lowest level written; nil means info
	MaxSize int64        // the size at which the file is put aside as PATH.1; 0 means 64 MiB
	Second  io.Writer    // gets the same records, for a gateway in the foreground; may be nil
}

const defaultMaxSize = 64 << 20

// Log is the log file: the gateway's records and the stderr lines of its servers, one a line in the
// form of slog's text handler. Its methods never wait for the disk: what a stuck or slow one cannot
// take is dropped, and counted in a record as soon as it takes something again.
type Log struct {
	logger  *slog.Logger
	servers *slog.Logger // for the servers' own lines, whatever the level
	scrub   atomic.Pointer[secret.Scrubber]
	file    *logFile
	sinks   []*sink
}

// OpenLog opens the log for appending, with mode 0600 whatever mode it had, and makes its folder.
func OpenLog(path string, o LogOptions) (*Log, error) {
	if o.MaxSize <= 0 {
		o.MaxSize = defaultMaxSize
	}
	file, err := openLogFile(path, o.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{file: file, sinks: []*sink{newSink(file)}}
	if o.Second != nil {
		l.sinks = append(l.sinks, newSink(o.Second))
	}
	l.logger = l.newLogger(maxPending, o.Level)
	l.servers = l.newLogger(maxServerLines, nil)
	return l, nil
}

func (l *Log) newLogger(room int, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(&fanOut{sinks: l.sinks, room: room},
		&slog.HandlerOptions{Level: level, ReplaceAttr: l.scrubAttr}))
}

// fanOut gives each record to every sink that has room for it.
type fanOut struct {
	sinks []*sink
	room  int
}

func (f *fanOut) Write(record []byte) (int, error) {
	for _, s := range f.sinks {
		s.put(record, f.room)
	}
	return len(record), nil
}

// Logger writes records to the log.
func (l *Log) Logger() *slog.Logger { return l.logger }

// SetScrubber takes these values out of everything that is logged from now on.
func (l *Log) SetScrubber(s *secret.Scrubber) { l.scrub.Store(s) }

// scrubAttr takes known secrets out before the handler quotes the text, which would hide those with
// special characters.
func (l *Log) scrubAttr(_ []string, a slog.Attr) slog.Attr {
	scrub := l.scrub.Load()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(scrub.Scrub(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case nil, slog.Level:
		default: // errors, lists, structs
			a.Value = slog.StringValue(scrub.Scrub(textOf(v)))
		}
	}
	return a
}

// textOf is the text of a value, where raw JSON and other bytes are text too.
func textOf(v any) string {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8 {
		return string(r.Bytes())
	}
	return fmt.Sprintf("%+v", v)
}

// ServerLine logs one line that a server wrote to stderr, cleaned, scrubbed and cut. Of an empty one
// nothing is logged.
func (l *Log) ServerLine(server, line string) {
	if line = l.clean(line); line != "" {
		l.servers.LogAttrs(context.Background(), slog.LevelInfo, "stderr",
			slog.String(KeyServer, server), slog.String(KeyLine, line))
	}
}

// CatchCrashes has the Go runtime write the text of a crash of this process to the log as well, until
// Close. The runtime writes it itself, so it is not scrubbed.
func (l *Log) CatchCrashes() error {
	if err := l.file.catchCrashes(); err != nil {
		return fmt.Errorf("catch crashes: %w", err)
	}
	return nil
}

// Close writes what is pending and ends the writers. It gives a stuck disk a few seconds.
func (l *Log) Close() error {
	var stuck []*sink
	for _, s := range l.sinks {
		if !s.close() {
			stuck = append(stuck, s)
		}
	}
	err := l.file.close() // frees a writer that waits for a pipe
	for _, s := range stuck {
		s.join()
		err = errors.Join(err, errStuck)
	}
	return err
}

var errStuck = errors.New("close log: some records could not be written in time")
