package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// patience is how long a person is left without a word.
const patience = 2 * time.Second

// waiting tells a person at a terminal what is waited for, when that takes long. The returned function
// ends that.
func (a *app) waiting(format string, args ...any) (done func()) {
	if !a.errIsTerminal() {
		return func() {}
	}
	told := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(told)
		fmt.Fprintf(a.Err, format+"\n", args...)
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-told
		}
	})
}

// showProgress writes what a tool tells of its progress.
func (a *app) showProgress(_ context.Context, told *mcp.ProgressNotificationClientRequest) {
	fmt.Fprintln(a.Err, progressText(told.Params))
}

// progressText is one line: how far of how much, and what the server says of it.
func progressText(p *mcp.ProgressNotificationParams) string {
	var b strings.Builder
	fmt.Fprintf(&b, "progress: %g", p.Progress)
	if p.Total != 0 {
		fmt.Fprintf(&b, " of %g", p.Total)
	}
	if message := cleanLine(p.Message); message != "" {
		b.WriteString(": " + message)
	}
	return b.String()
}
