package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
)

// announced are the capabilities that the gateway tells a shared server of: what any client may have.
const announced = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// direct is a client over a server's standard input and output, without a gateway. It says what the
// gateway says and shows the bytes of everything.
type direct struct {
	t      *testing.T
	in     io.Writer
	answer func(mcptest.Message) (result, failure string)
	ended  chan struct{} // closed when the server's output has ended
	wait   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each message
	id      int
	replies map[string]mcptest.Message
	said    []mcptest.Message // notifications, in the order of their coming
}

// startDirect starts the server and shakes hands.
func startDirect(t *testing.T, env []string, answer func(mcptest.Message) (string, string), argv ...string) *direct {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = env
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	d := &direct{t: t, in: in, answer: answer, ended: make(chan struct{}), changed: make(chan struct{}), replies: map[string]mcptest.Message{}}
	go d.read(bufio.NewReader(out))
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		<-d.ended
		d.wait.Wait()
		_ = c.Wait()
	})
	d.request("initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"test","version":"1"}}`, announced))
	d.notify("notifications/initialized", "")
	return d
}

// read takes the server's lines.
func (d *direct) read(lines *bufio.Reader) {
	defer close(d.ended)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		m := mcptest.Message{Raw: line}
		if json.Unmarshal(line, &m) != nil {
			continue // no message
		}
		if m.Method != "" && m.ID != nil {
			d.wait.Go(func() { d.reply(m) })
			continue
		}
		d.mu.Lock()
		if m.Method == "" {
			d.replies[string(m.ID)] = m
		} else {
			d.said = append(d.said, m)
		}
		close(d.changed)
		d.changed = make(chan struct{})
		d.mu.Unlock()
	}
}

// reply answers what the server asks.
func (d *direct) reply(ask mcptest.Message) {
	result, failure := d.answer(ask)
	member, body := "result", result
	if result == "" {
		member, body = "error", failure
	}
	d.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%q:%s}`, ask.ID, member, body))
}

// write sends one line. A server that has ended answers nothing, which shows elsewhere.
func (d *direct) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = io.WriteString(d.in, line+"\n")
}

// notify sends a notification.
func (d *direct) notify(method, params string) {
	line := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q`, method)
	if params != "" {
		line += `,"params":` + params
	}
	d.write(line + "}")
}

// begin sends a request; the function returned waits for the answer and for what came before it.
func (d *direct) begin(method, params string) func() answered {
	d.mu.Lock()
	d.id++
	id := fmt.Sprint(d.id)
	from := len(d.said)
	d.mu.Unlock()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q`, id, method)
	if params != "" {
		line += `,"params":` + params
	}
	d.write(line + "}")
	return func() answered {
		d.t.Helper()
		var out answered
		d.until("an answer to "+method, func() bool {
			m, ok := d.replies[id]
			if !ok {
				return false
			}
			out.answer = outcomeOf(m)
			for _, s := range d.said[from:] {
				if s.Method == "notifications/progress" {
					out.progress = append(out.progress, string(s.Params))
				}
			}
			return true
		})
		return out
	}
}

func (d *direct) request(method, params string) answered {
	d.t.Helper()
	return d.begin(method, params)()
}

// await waits for a notification and forgets it and all before it.
func (d *direct) await(method string) string {
	d.t.Helper()
	var params string
	d.until(method, func() bool {
		for i, m := range d.said {
			if m.Method == method {
				d.said, params = d.said[i+1:], string(m.Params)
				return true
			}
		}
		return false
	})
	return params
}

// until waits, under the lock, for a condition.
func (d *direct) until(what string, ok func() bool) {
	d.t.Helper()
	late := time.After(mcptest.Patience)
	for {
		d.mu.Lock()
		done, changed := ok(), d.changed
		d.mu.Unlock()
		if done {
			return
		}
		var err error
		select {
		case <-changed:
			continue
		case <-d.ended:
			err = errors.New("the server has ended")
		case <-late:
			err = errors.New("it did not come")
		}
		d.t.Fatalf("wait for %s: %v", what, err)
	}
}

// outcomeOf is the result or the error of a response, as it came.
func outcomeOf(m mcptest.Message) string {
	if m.Error != nil {
		return `"error":` + string(m.Error)
	}
	return `"result":` + string(m.Result)
}
