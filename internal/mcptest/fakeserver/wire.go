package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// message is one line received. The raw parts are slices of exactly what was sent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	line string
}

// key finds the id in a map, whatever white space is around it.
func (m *message) key() string { return string(bytes.TrimSpace(m.ID)) }

// output writes lines to stdout, one at a time and with the faults that the flags ask for.
type output struct {
	o *options

	mu      sync.Mutex
	started bool
	answers int
}

// line writes one message. Params, results and errors arrive as JSON text and stay untouched.
func (w *output) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(text)
}

func (w *output) write(text string) {
	if w.o.noVersion {
		text = strings.Replace(text, `"jsonrpc":"2.0",`, "", 1)
	}
	if w.o.batch {
		text = "[" + text + "]"
	}
	var b strings.Builder
	if w.o.bom && !w.started {
		b.WriteString("\ufeff")
	}
	w.started = true
	end := "\n"
	if w.o.crlf {
		end = "\r\n"
	}
	if w.o.blankLines {
		b.WriteString(end)
	}
	b.WriteString(text)
	b.WriteString(end)
	if w.o.bytewise {
		writeBytewise(b.String(), w.o.byteDelay)
		return
	}
	os.Stdout.WriteString(b.String())
}

// writeBytewise gives each byte of a character outside ASCII a write of its own, and a pause
// after it, so that the reader sees half characters.
func writeBytewise(text string, pause time.Duration) {
	for text != "" {
		n := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
		if n < 0 {
			n = len(text)
		}
		if n == 0 {
			n = 1
		}
		os.Stdout.WriteString(text[:n])
		if text[0] >= utf8.RuneSelf {
			time.Sleep(pause)
		}
		for text = text[n:]; text != "" && !utf8.RuneStart(text[0]); text = text[1:] {
			os.Stdout.WriteString(text[:1])
			time.Sleep(pause)
		}
	}
}

// raw writes text as it is, for noise.
func (w *output) raw(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	os.Stdout.WriteString(text)
}

// notify sends a notification.
func (w *output) notify(method, params string) {
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// request sends a request of the server.
func (w *output) request(id, method, params string) {
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
}

// answer sends a result or an error (member is "result" or "error") and counts it.
func (w *output) answer(id, member, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.o.stray {
		w.write(`{"jsonrpc":"2.0","id":424242,"result":{"content":[]}}`)
		w.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"stray"}}`)
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && w.o.stringIDs {
		id = strconv.Quote(strconv.FormatInt(n, 10))
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%q:%s}`, id, member, body)
	w.write(text)
	if w.o.double {
		w.write(text)
	}
	w.answers++
	if w.o.exitAfter > 0 && w.answers >= w.o.exitAfter {
		if !w.o.closeStdout {
			os.Exit(w.o.exitCode)
		}
		os.Stdout.Close()
	}
}

// rpcError is the text of a JSON-RPC error object.
func rpcError(code int, text string) string {
	return fmt.Sprintf(`{"code":%d,"message":%s}`, code, quote(text))
}

// quote is JSON text of a string with nothing escaped that need not be.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// textResult is a tool result of one text.
func textResult(s string) string {
	return `{"content":[{"type":"text","text":` + quote(s) + `}]}`
}
