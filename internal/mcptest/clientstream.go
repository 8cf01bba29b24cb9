package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"
)

// Message is one JSON-RPC message with its parts as they came.
type Message struct {
	Raw    json.RawMessage `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func parseMessage(raw []byte) (Message, error) {
	m := Message{Raw: bytes.Clone(raw)}
	if err := json.Unmarshal(m.Raw, &m); err != nil {
		return m, fmt.Errorf("message %.200q: %w", raw, err)
	}
	return m, nil
}

// events ranges over the messages of an event stream. Events without data, which only carry an id, and
// comments are left out.
func events(body io.Reader) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		lines := bufio.NewReader(body)
		var data []string
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Message{}, err)
				}
				return
			}
			line = strings.TrimSuffix(line, "\n")
			if text, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(text, " "))
				continue
			}
			if line != "" || len(data) == 0 {
				continue
			}
			text := strings.Join(data, "\n")
			data = nil
			if text == "" {
				continue
			}
			m, err := parseMessage([]byte(text))
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// inbox collects messages for whoever awaits them.
type inbox struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	waiting []Message
	ended   bool
}

func (b *inbox) init() { b.changed = make(chan struct{}) }

func (b *inbox) put(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, m)
	b.wake()
}

func (b *inbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.wake()
}

func (b *inbox) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *inbox) all() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Message(nil), b.waiting...)
}

// await takes the first message that fits, and everything before it.
func (b *inbox) await(fits func(Message) bool) (Message, error) {
	late := time.After(Patience)
	for {
		b.mu.Lock()
		for i, m := range b.waiting {
			if fits(m) {
				b.waiting = b.waiting[i+1:]
				b.mu.Unlock()
				return m, nil
			}
		}
		changed, ended, seen := b.changed, b.ended, b.waiting
		b.mu.Unlock()
		if ended {
			return Message{}, fmt.Errorf("the stream ended before the message that is awaited; it had %d others: %s", len(seen), rawOf(seen))
		}
		select {
		case <-changed:
		case <-late:
			return Message{}, fmt.Errorf("the message that is awaited did not come; %d others did: %s", len(seen), rawOf(seen))
		}
	}
}

func rawOf(messages []Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Raw))
	}
	return strings.Join(all, " ")
}

// dataLines are the events of a whole stream that have data.
func dataLines(stream []byte) (data [][]byte) {
	for line := range bytes.Lines(stream) {
		if text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok && len(bytes.TrimSpace(text)) > 0 {
			data = append(data, bytes.TrimSpace(text))
		}
	}
	return data
}
