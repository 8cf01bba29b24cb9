package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Streams are the standard streams of the process.
type Streams struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // talk
}

// outWidth is the width of the terminal behind standard output, or 0 when it is none.
func (s *Streams) outWidth() int { return terminalWidth(s.Out) }

// errIsTerminal says whether a person sees standard error as it is written.
func (s *Streams) errIsTerminal() bool { return terminalWidth(s.Err) > 0 }

func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// environment is the process's environment.
type environment struct{ list []string }

func newEnvironment(list []string) environment { return environment{list: list} }

// get returns the variable's value; an empty one counts as not set. Where a name stands twice, the
// last one is taken, as a shell would pass it on.
func (e environment) get(name string) string {
	value := ""
	for _, entry := range e.list {
		if k, v, ok := strings.Cut(entry, "="); ok && k == name {
			value = v
		}
	}
	return value
}

// without returns all variables but the named ones.
func (e environment) without(names ...string) []string {
	kept := make([]string, 0, len(e.list))
entries:
	for _, entry := range e.list {
		for _, name := range names {
			if strings.HasPrefix(entry, name+"=") {
				continue entries
			}
		}
		kept = append(kept, entry)
	}
	return kept
}
