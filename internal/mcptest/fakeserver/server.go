package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// keepLines bounds what the tool "received" can tell.
const keepLines = 10_000

// server is the running fake.
type server struct {
	o   *options
	out *output
	in  *bufio.Reader

	mu          sync.Mutex
	changed     *sync.Cond // signalled when cancelled or received grows
	initialized bool
	inflight    map[string]context.CancelCauseFunc
	asks        map[string]chan *message
	nextAsk     int
	cancelled   []json.RawMessage // params of each notifications/cancelled
	received    []*message
	added       []tool
	removed     map[string]bool
	extra       struct{ prompts, resources []string }
	subscribed  map[string]bool
	logLevel    string
	runs        map[string]int  // calls of "steps" by their nonces
	ended       map[string]bool // those that have ended
	tasks       map[string]*task
	watching    []watching
}

// errCancelled is the cause of a handler's context that the client cancelled.
var errCancelled = fmt.Errorf("cancelled by the client")

func newServer(o *options) *server {
	s := &server{
		o: o, out: &output{o: o}, in: bufio.NewReaderSize(os.Stdin, 1<<16),
		inflight: map[string]context.CancelCauseFunc{}, asks: map[string]chan *message{},
		removed: map[string]bool{}, subscribed: map[string]bool{}, runs: map[string]int{}, ended: map[string]bool{},
		tasks: map[string]*task{},
	}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// run starts up, then reads lines until stdin ends.
func (s *server) run() int {
	if code, exit := s.startUp(); exit {
		return code
	}
	for {
		line, err := s.in.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			s.handleLine(line)
		}
		if err == nil {
			continue
		}
		if s.o.ignoreEOF {
			time.Sleep(sleeperLife)
		}
		if err != io.EOF {
			fmt.Fprintln(os.Stderr, "read stdin:", err)
			return 1
		}
		return 0
	}
}

func (s *server) handleLine(line string) {
	if s.o.record != "" {
		appendTo(s.o.record, line)
	}
	m := &message{line: strings.TrimRight(line, "\n")}
	if err := json.Unmarshal([]byte(line), m); err != nil {
		s.out.answer("null", "error", rpcError(-32700, err.Error()))
		return
	}
	s.mu.Lock()
	if len(s.received) < keepLines {
		s.received = append(s.received, m)
	}
	s.countRun(m)
	s.changed.Broadcast()
	s.mu.Unlock()
	if s.o.silent {
		return
	}
	switch {
	case m.Method == "":
		s.deliver(m)
	case m.ID == nil:
		s.notification(m)
	default:
		s.startRequest(m)
	}
}

// deliver hands a response of the client to the handler that asked.
func (s *server) deliver(m *message) {
	s.mu.Lock()
	ch := s.asks[m.key()]
	delete(s.asks, m.key())
	s.mu.Unlock()
	if ch != nil {
		ch <- m
	}
}

func (s *server) notification(m *message) {
	switch m.Method {
	case "notifications/initialized":
		if s.o.askAtStart {
			go s.ask(context.Background(), "", "roots/list", "{}")
		}
		return
	case "notifications/cancelled":
		if s.o.exitOnUnknownNotification {
			break
		}
		s.cancel(m)
		return
	}
	if s.o.exitOnUnknownNotification {
		fmt.Fprintf(os.Stderr, "unknown notification %q\n", m.Method)
		os.Exit(3)
	}
}

func (s *server) cancel(m *message) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = append(s.cancelled, m.Params)
	s.changed.Broadcast()
	if stop := s.inflight[string(p.RequestID)]; stop != nil {
		stop(errCancelled)
	}
}

// inOrder are the requests that are handled before the next one is read: what they change is seen by
// the ones after them.
var inOrder = map[string]bool{
	"initialize": true, "ping": true, "logging/setLevel": true, "resources/subscribe": true, "resources/unsubscribe": true,
}

// startRequest handles a request, in a goroutine of its own where order does not matter.
func (s *server) startRequest(m *message) {
	ctx, stop := context.WithCancelCause(context.Background())
	s.mu.Lock()
	s.inflight[m.key()] = stop
	s.mu.Unlock()
	if s.o.serial || inOrder[m.Method] || s.eatsInput(m) {
		s.request(ctx, m)
		return
	}
	go s.request(ctx, m)
}

func (s *server) request(ctx context.Context, m *message) {
	id := m.key()
	result, failure := s.route(ctx, m)
	s.mu.Lock()
	delete(s.inflight, id)
	s.mu.Unlock()
	if context.Cause(ctx) == errCancelled && !s.o.answerCancelled {
		return
	}
	switch {
	case failure != "":
		s.out.answer(id, "error", failure)
	case result != "":
		s.out.answer(id, "result", result)
	}
}

// route gives the JSON text of the result, or of the error, of one request; neither means that no
// answer is to be sent.
func (s *server) route(ctx context.Context, m *message) (result, failure string) {
	for _, a := range s.o.answer {
		method, line, _ := strings.Cut(a, "=")
		if method == m.Method {
			s.out.line(strings.ReplaceAll(line, "$ID", m.key()))
			return "", ""
		}
	}
	if m.Method == "initialize" || m.Method == "tools/call" {
		floodStderr(s.o.stderrFlood)
	}
	if slices.Contains(s.o.askIn, m.Method) {
		s.ask(ctx, "", "roots/list", "{}")
	}
	if slices.Contains(s.o.hangIn, m.Method) {
		<-ctx.Done()
	}
	for _, group := range []func(context.Context, *message) (string, string, bool){s.handshake, s.taskMethods, s.toolMethods, s.featureMethods} {
		if result, failure, known := group(ctx, m); known {
			return result, failure
		}
	}
	if s.o.exitOnUnknownRequest {
		fmt.Fprintf(os.Stderr, "unknown request %q\n", m.Method)
		os.Exit(3)
	}
	return "", rpcError(-32601, "method not found: "+m.Method)
}

// ask sends a request to the client and returns its answer as {"result":…} or {"error":…}. A call that
// the client has cancelled asks nothing.
func (s *server) ask(ctx context.Context, id, method, params string) string {
	ch := make(chan *message, 1)
	s.mu.Lock()
	if context.Cause(ctx) == errCancelled {
		s.mu.Unlock()
		return `{"error":"cancelled"}`
	}
	if id == "" {
		s.nextAsk++
		id = fmt.Sprint(s.nextAsk)
	}
	s.asks[id] = ch
	s.out.request(id, method, params)
	s.mu.Unlock()
	select {
	case m := <-ch:
		if m.Error != nil {
			return `{"error":` + string(m.Error) + `}`
		}
		return `{"result":` + string(m.Result) + `}`
	case <-ctx.Done():
		return `{"error":"cancelled"}`
	}
}
