package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

func TestB66_ServerWithoutSessions(t *testing.T) {
	s := newWebServer(t)
	s.stateless = true
	p := dialRemote(t, s.URL)
	if !p.conn.Hello().Stateless {
		t.Error("it keeps something")
	}
	for i := range 100 {
		args := fmt.Sprintf(`{"i":%d}`, i)
		if got := p.call("echo", args); got != args {
			t.Fatalf("got %s", got)
		}
	}
	if n := len(s.got("initialize")); n != 1 {
		t.Errorf("%d times initialized", n)
	}
	s.on("tools/call", status(404, "no such page")) // means no session, as there is none
	contains(t, p.begin("echo", "{}", "").failure().Error(), "POST tools/call: HTTP 404 Not Found: no such page")
	s.on("tools/call", nil)
	p.call("echo", "{}")
	p.conn.Close(context.Background())
	if len(s.got("DELETE")) > 0 {
		t.Error("a session was ended that there is not")
	}
}

func TestB66_TypesThatLie(t *testing.T) {
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`
	for _, test := range []struct {
		name, contentType, body string
		progress                int
	}{
		{"document as event stream", "text/event-stream", "$R", 0},
		{"event stream as document", "application/json", "data: $R\n\n", 0},
		{"event stream as text", "text/plain", "event: message\nid: 5\ndata: $R\n\n", 0},
		{"document without a type", "", "$R", 0},
		{"document as a page", "text/html", "$R", 0},
		{"event stream after keep-alives", "application/json", ": ping\n\n: ping\n\ndata: $P\n\ndata: $R\n\n", 1},
		{"event stream that begins with an unknown field", "text/event-stream", "x-mine: 1\n\ndata: $R\n\n", 0},
		{"event stream that begins with empty lines", "application/json", "\n\n\r\ndata: $R\n\n", 0},
		{"document after white space and a byte order mark", "application/json", "\xef\xbb\xbf \r\n\t$R\n\n", 0},
		{"document after much white space that kept it alive", "application/json", strings.Repeat(" ", 2000) + "$R", 0},
		{"array", "application/json", "[$P,$R]", 1},
		{"array in an event", "text/event-stream", "data: [$P,$R]\n\n", 1},
		{"two documents", "application/json", "$P\n$R\n", 1},
		{"event without the empty line at its end", "text/event-stream", "data: $P\n\ndata: $R\n", 1},
		{"event without any line end", "text/event-stream", "data: $R", 0},
		{"events that are no messages", "text/event-stream", "event: ping\ndata: 2026-07-28\n\ndata: {}\n\ndata: {\"hello\":1}\n\nevent: other\ndata: $R\n\n", 0},
		{"id as a string", "application/json", `{"jsonrpc":"2.0","id":"$I","result":{"content":[{"type":"text","text":"ok"}]}}`, 0},
		{"id as a float", "text/event-stream", `data: {"jsonrpc":"2.0","id":$I.0,"result":{"content":[{"type":"text","text":"ok"}]}}` + "\n\n", 0},
		{"id of its own in a document", "application/json", `{"jsonrpc":"2.0","id":"response","result":{"content":[{"type":"text","text":"ok"}]}}`, 0},
		{"after the response, more", "text/event-stream", "data: $R\n\n: bye\n\ndata: $R\n\ndata: $P\n\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWebServer(t)
			s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
				response := string(wire.Reply(q.msg.ID, []byte(`{"content":[{"type":"text","text":"ok"}]}`)))
				w.Header()["Content-Type"] = nil
				if test.contentType != "" {
					w.Header().Set("Content-Type", test.contentType)
				}
				io.WriteString(w, strings.NewReplacer("$R", response, "$P", progress, "$I", string(q.msg.ID)).Replace(test.body))
			})
			p := dialRemote(t, s.URL)
			r := p.begin("echo", "{}", `"t"`)
			if got := r.text(); got != "ok" {
				t.Errorf("got %q", got)
			}
			if len(r.progress) != test.progress {
				t.Errorf("%d notifications, want %d", len(r.progress), test.progress)
			}
		})
	}
}

func TestRemote_AnswersThatAreNone(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answerFunc
		want   string
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<!DOCTYPE html><html><head><style>a{b:c}</style><title>Sign\tin</title></head>\n<body>Please <b>sign in</b> s3cr3t</body></html>")
		}, "POST tools/call: the answer is no message of MCP: HTTP 200 text/html: Sign in Please sign in ***"},
		{"nothing", status(200, ""), "POST tools/call: the answer is no message of MCP: HTTP 200, empty"},
		{"202 and nothing", status(202, ""), "POST tools/call: the answer is no message of MCP: HTTP 202, empty"},
		{"JSON of something else", status(200, `{"status":"ok"}`), `: {"status":"ok"}`},
		{"a message that is no response", func(w http.ResponseWriter, _ *http.Request, _ request) {
			writeJSON(w, wire.Notification("notifications/x", nil))
		}, "POST tools/call: the answer is no message of MCP"},
		{"an event stream that ends", func(w http.ResponseWriter, _ *http.Request, _ request) {
			writeEvents(w, ": nothing\n\n")
		}, "the answer broke off"},
		{"a document that is cut", func(w http.ResponseWriter, _ *http.Request, q request) {
			w.Header().Set("Content-Length", "1000")
			w.Write(echoReply(q.msg))
		}, "the answer broke off: unexpected EOF"},
		{"an event stream that is cut", func(w http.ResponseWriter, _ *http.Request, q request) {
			writeEvents(w, "data: {\"jsonrpc\":")
			panic(http.ErrAbortHandler)
		}, "the answer broke off: unexpected EOF"},
		{"no answer", func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }, "POST tools/call: EOF"},
		{"500", status(500, "\x1b[31mpanic\x1b[0m: \xff oh"), "POST tools/call: HTTP 500 Internal Server Error: [31mpanic [0m: \uFFFD oh"},
		{"long text", status(502, strings.Repeat("ä", 300)), "POST tools/call: HTTP 502 Bad Gateway: " + strings.Repeat("ä", 200) + "…"},
		{"429", func(w http.ResponseWriter, r *http.Request, q request) {
			w.Header().Set("Retry-After", "120")
			status(429, `{"error":"slow down"}`)(w, r, q)
		}, `POST tools/call: HTTP 429 Too Many Requests, to be tried again after 120 s: {"error":"slow down"}`},
		{"401", func(w http.ResponseWriter, r *http.Request, q request) {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			status(401, `{"error":"invalid_token"}`)(w, r, q)
		}, `POST tools/call: HTTP 401 Unauthorized (Bearer error="invalid_token"): {"error":"invalid_token"}`},
		{"an unknown status", status(599, ""), "POST tools/call: HTTP 599"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWebServer(t)
			s.on("tools/call", test.answer)
			p := dialRemote(t, s.URL)
			err := p.begin("echo", "{}", "").failure()
			contains(t, err.Error(), test.want)
			if Retryable(err) {
				t.Error("it would be made again")
			}
			s.on("tools/call", nil) // 500, then fine
			p.call("echo", "{}")
		})
	}
}

func TestRemote_ErrorsPassAsTheyAre(t *testing.T) {
	object := `{"code":-32042,"message":"<&>","data":{"n":12345678901234567890},"x":1}`
	for _, test := range []struct{ status, id string }{
		{"200", "$I"}, {"400", "$I"}, {"404", "$I"}, {"500", "$I"}, {"403", "$I"}, {"500", "null"}, {"403", `"$I"`}, {"422", ""},
	} {
		s := newWebServer(t)
		s.stateless = true
		s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
			code, _ := strconv.Atoi(test.status)
			w.WriteHeader(code)
			id := `,"id":` + strings.ReplaceAll(test.id, "$I", string(q.msg.ID))
			if test.id == "" {
				id = ""
			}
			io.WriteString(w, `{"jsonrpc":"2.0"`+id+`,"error":`+object+`}`)
		})
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", "").wait()
		if r.err != nil {
			t.Errorf("HTTP %s, id %s: %v", test.status, test.id, r.err)
			continue
		}
		sameBytes(t, "the error", r.m.Err, []byte(object))
		if head, tail := r.m.Split(); len(head) == 0 || len(tail) == 0 {
			t.Errorf("HTTP %s, id %q: the id cannot be exchanged: %s", test.status, test.id, r.m.Raw)
		}
	}
}

func TestRemote_OverTheLimit(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	response := func(q request) []byte {
		return wire.Reply(q.msg.ID, fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, long))
	}
	for name, answer := range map[string]answerFunc{
		"document": func(w http.ResponseWriter, _ *http.Request, q request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(response(q))))
			w.Write(response(q))
		},
		"document of unknown length": func(w http.ResponseWriter, _ *http.Request, q request) {
			w.(http.Flusher).Flush()
			w.Write(response(q))
		},
		"event": func(w http.ResponseWriter, _ *http.Request, q request) { writeEvents(w, event(response(q))) },
		"event with the id at its end": func(w http.ResponseWriter, _ *http.Request, q request) {
			writeEvents(w, event(fmt.Appendf(nil, `{"jsonrpc":"2.0","result":{"text":%q},"id":%s}`, long, q.msg.ID)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWebServer(t)
			s.on("tools/call", answer)
			p := dialRemote(t, s.URL, func(o *RemoteOptions) { o.Limit = 1 << 20 })
			err := p.begin("echo", "{}", "").failure()
			contains(t, err.Error(), `server "far" answered with `, "over the limit of 1048576 bytes for one message")
			var own *wire.Error
			if !errors.As(err, &own) {
				t.Errorf("%T", err)
			}
			s.on("tools/call", nil)
			p.call("echo", "{}")
		})
		t.Run(name+" below", func(t *testing.T) {
			s := newWebServer(t)
			s.on("tools/call", answer)
			p := dialRemote(t, s.URL)
			if r := p.begin("echo", "{}", "").wait(); r.err != nil || len(r.m.Raw) < 3<<20 {
				t.Errorf("%d bytes, %v", len(r.m.Raw), r.err)
			}
		})
	}
}

// resumable is a server whose streams have event ids. Each connection gets the next part of what it has
// to say, and then is dropped or ended.
func resumable(s *webServer, parts ...string) {
	var mu sync.Mutex
	next := 0
	serve := func(w http.ResponseWriter, q request, id string) {
		mu.Lock()
		part := parts[min(next, len(parts)-1)]
		next++
		mu.Unlock()
		text, dropped := strings.CutSuffix(part, "DROP")
		writeEvents(w, strings.ReplaceAll(text, "$I", id))
		if dropped {
			panic(http.ErrAbortHandler)
		}
	}
	var id string
	s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
		id = string(q.msg.ID)
		serve(w, q, id)
	})
	s.on("GET", func(w http.ResponseWriter, r *http.Request, q request) {
		if r.Header.Get("Last-Event-Id") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		serve(w, q, id)
	})
}

func TestRemote_StreamIsGoneOnWith(t *testing.T) {
	const (
		progress = `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":$N}}` + "\n\n"
		response = `data: {"jsonrpc":"2.0","id":$I,"result":{"content":[{"type":"text","text":"ok"}]}}` + "\n\n"
	)
	step := func(n string) string { return "id: e" + n + "\n" + strings.ReplaceAll(progress, "$N", n) }
	for _, test := range []struct {
		name     string
		parts    []string
		progress int
		after    []string // Last-Event-Id of each GET
	}{
		{"dropped", []string{step("1") + "DROP", step("2") + "DROP", "id: e3\n" + response}, 2, []string{"e1", "e2"}},
		{"dropped in an event", []string{step("1") + "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"me" + "DROP", step("2") + response}, 2, []string{"e1"}},
		{"ended on purpose", []string{"id: e0\nretry: 1\ndata: \n\n", "", "id: e1\n\n", response}, 0, []string{"e0", "e0", "e1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWebServer(t)
			resumable(s, test.parts...)
			p := dialRemote(t, s.URL)
			r := p.begin("echo", "{}", `"t"`)
			if got := r.text(); got != "ok" {
				t.Errorf("got %q", got)
			}
			if len(r.progress) != test.progress {
				t.Errorf("progress %v", r.progress)
			}
			var after []string
			for _, q := range s.got("GET") {
				if id := q.header.Get("Last-Event-Id"); id != "" {
					after = append(after, id)
				}
			}
			if fmt.Sprint(after) != fmt.Sprint(test.after) {
				t.Errorf("gone on after %v, want %v", after, test.after)
			}
			if n := len(s.got("tools/call")); n != 1 {
				t.Errorf("the tool was called %d times", n)
			}
		})
	}
	t.Run("the server does not remember the event", func(t *testing.T) {
		s := newWebServer(t)
		resumable(s, "id: e1\ndata: \n\nDROP")
		p := dialRemote(t, s.URL)
		s.on("GET", status(400, "unknown event"))
		contains(t, p.begin("echo", "{}", "").failure().Error(), "the answer broke off and cannot be gone on with: GET: HTTP 400 Bad Request: unknown event")
	})
	t.Run("given up by the client", func(t *testing.T) {
		s := newWebServer(t)
		resumable(s, "id: e1\nretry: 3600000\ndata: \n\n")
		told := make(chan bool, 1)
		s.on("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.WriteHeader(http.StatusAccepted)
			told <- true
		})
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", "")
		for len(s.got("tools/call")) == 0 {
			time.Sleep(time.Millisecond)
		}
		r.call.Cancel(nil)
		select {
		case <-told:
		case <-time.After(patience):
			t.Error("the server was not told")
		}
	})
}
