package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

func TestRemote_ByteExactness(t *testing.T) {
	for _, how := range []string{"document", "events"} {
		t.Run(how, func(t *testing.T) {
			s := newWebServer(t)
			var sent string
			s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
				sent = string(echoReply(q.msg))
				if how == "events" {
					writeEvents(w, event([]byte(sent)))
					return
				}
				writeJSON(w, []byte(sent))
			})
			p := dialRemote(t, s.URL)
			for _, args := range []string{
				`{"z":12345678901234567890,"a":1.0,"m":-0.0,"e":1E+2,"\u0061":"b","deep":[[[{"k":null}]]]}`,
				`{ "white" : [ 1 , 2 ] }`,
				`{"emoji":"🎉 \ud83c\udf89 <>&","a":1,"a":2}`,
			} {
				r := p.begin("echo", args, "").wait()
				if r.err != nil {
					t.Fatal(r.err)
				}
				sameBytes(t, "the response", r.m.Raw, []byte(sent))
				calls := s.got("tools/call")
				sameBytes(t, "the request's arguments", calls[len(calls)-1].msg.Arguments, []byte(args))
			}
		})
	}
}

// What decides between the revisions and transports is the state of the transport and the codes of the
// answers, never their texts.
func TestB26_Negotiation(t *testing.T) {
	rpcError := func(status, code int) answerFunc {
		return func(w http.ResponseWriter, _ *http.Request, q request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write(wire.ErrorReply(q.msg.ID, fmt.Appendf(nil, `{"code":%d,"message":"as you like it","data":{"supported":["2025-06-18"]}}`, code)))
		}
	}
	discovered := func(versions string) answerFunc {
		return func(w http.ResponseWriter, _ *http.Request, q request) {
			writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{"tools":{}}}`)))
		}
	}
	const fallback = "server/discover initialize notifications/initialized GET"
	for _, test := range []struct {
		name     string
		discover answerFunc
		version  string
		order    string
	}{
		{"modern", discovered(`["2025-11-25","2026-07-28"]`), Modern, "server/discover"},
		{"discovers, but is older", discovered(`["2025-11-25"]`), Legacy, fallback},
		{"400 and a text", status(400, "no valid session ID provided"), Legacy, fallback},
		{"404 and a page", status(404, "<html>not here</html>"), Legacy, fallback},
		{"405", status(405, ""), Legacy, fallback},
		{"406", status(406, "?"), Legacy, fallback},
		{"422", status(422, `{"detail":[]}`), Legacy, fallback},
		{"403", status(403, ""), Legacy, fallback},
		{"500", status(500, "Internal Server Error"), Legacy, fallback},
		{"502 and a page", status(502, "<html>"), Legacy, fallback},
		{"unsupported version", rpcError(400, wire.CodeUnsupportedVersion), Legacy, fallback},
		{"method not found", rpcError(404, wire.CodeMethodNotFound), Legacy, fallback},
		{"method not found, 200", rpcError(200, wire.CodeMethodNotFound), Legacy, fallback},
		{"code 0, 200", rpcError(200, 0), Legacy, fallback},
		{"-32000, 400", rpcError(400, -32000), Legacy, fallback},
		{"202 and nothing", status(202, ""), Legacy, fallback},
		{"200 and a page", status(200, "<html>welcome</html>"), Legacy, fallback},
		{"200 and nothing", status(200, ""), Legacy, fallback},
		{"connection dropped", func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }, Legacy, fallback},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWebServer(t)
			s.on("server/discover", test.discover)
			got := make(chan bool, 1)
			s.on("GET", func(w http.ResponseWriter, _ *http.Request, _ request) {
				w.WriteHeader(http.StatusMethodNotAllowed)
				got <- true
			})
			p := dialRemote(t, s.URL)
			if test.version == Legacy {
				<-got
			}
			if hello := p.conn.Hello(); hello.Version != test.version || hello.Stateless != (test.version == Modern) {
				t.Errorf("version %q, stateless %t", hello.Version, hello.Stateless)
			}
			// net/http sends what met a dropped connection once more, where that is harmless.
			if order := strings.ReplaceAll(s.order(), "server/discover server/discover", "server/discover"); order != test.order {
				t.Errorf("requests: %s", order)
			}
		})
	}
	t.Run("no answer at all", func(t *testing.T) {
		s := newWebServer(t)
		s.on("server/discover", hang)
		p := newRemotePeer(t, s.URL)
		ctx, cancel := context.WithTimeout(t.Context(), 4*patience/30)
		defer cancel()
		c, err := p.dialer.Dial(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if c.Hello().Version != Legacy {
			t.Errorf("version %q", c.Hello().Version)
		}
	})
	t.Run("what only a server of 2026-07-28 says is the last word", func(t *testing.T) {
		for _, code := range []int{wire.CodeHeaderMismatch, wire.CodeMissingCapability} {
			s := newWebServer(t)
			s.on("server/discover", rpcError(400, code))
			contains(t, newRemotePeer(t, s.URL).refused(nil).Error(), "[handshake_invalid]", fmt.Sprintf("server/discover: the server answered with error %d", code))
			if s.order() != "server/discover" {
				t.Errorf("requests: %s", s.order())
			}
		}
	})
	t.Run("the entry names the revision", func(t *testing.T) {
		s := newWebServer(t)
		p := newRemotePeer(t, s.URL)
		p.dialer.Protocol = "legacy"
		p.connect()
		if order := s.order(); !strings.HasPrefix(order, "initialize notifications/initialized") {
			t.Errorf("requests: %s", order)
		}
		p.dialer.Protocol = "modern"
		contains(t, p.refused(nil).Error(), "[unreachable]", "POST server/discover: HTTP 400 Bad Request: Bad Request: no session")
	})
	t.Run("a session that server/discover opened is ended", func(t *testing.T) {
		s := newWebServer(t)
		s.on("server/discover", func(w http.ResponseWriter, r *http.Request, q request) {
			w.Header().Set("Mcp-Session-Id", "stray")
			rpcError(200, 0)(w, r, q)
		})
		dialRemote(t, s.URL)
		if ended := s.got("DELETE"); len(ended) != 1 || ended[0].header.Get("Mcp-Session-Id") != "stray" {
			t.Errorf("requests: %s", s.order())
		}
	})
}

func TestRemote_Session(t *testing.T) {
	s := newWebServer(t)
	p := dialRemote(t, s.URL, withHeaders(map[string]secret.Value{"authorization": "Bearer s3cr3t", "X-Team": "a b"}))
	p.call("echo", "{}")
	if err := p.conn.Notify("notifications/roots/list_changed", nil); err != nil {
		t.Fatal(err)
	}
	if err := p.conn.Answer(wire.Reply([]byte("7"), []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	p.conn.Close(context.Background())
	for _, q := range s.got() {
		session, version := q.header.Get("Mcp-Session-Id"), q.header.Get("Mcp-Protocol-Version")
		switch q.rpc {
		case "server/discover":
			if session != "" || version != Modern {
				t.Errorf("server/discover with session %q, version %q", session, version)
			}
		case "initialize":
			if session != "" || version != "" {
				t.Errorf("initialize with session %q, version %q", session, version)
			}
		default:
			if session != "session-1" || version != Legacy {
				t.Errorf("%s %s with session %q, version %q", q.verb, q.rpc, session, version)
			}
		}
		if q.header.Get("Authorization") != "Bearer s3cr3t" || q.header.Get("X-Team") != "a b" || q.header.Get("User-Agent") != "test/1" {
			t.Errorf("%s %s: headers %v", q.verb, q.rpc, q.header)
		}
		accept := "application/json, text/event-stream"
		if q.verb == "GET" {
			accept = "text/event-stream"
		}
		if q.header.Get("Accept") != accept && q.verb != "DELETE" {
			t.Errorf("%s %s: Accept %q", q.verb, q.rpc, q.header.Get("Accept"))
		}
		if q.header.Get("Mcp-Method") != "" && q.rpc != "server/discover" || q.header.Get("X-Idempotency-Key") != "" {
			t.Errorf("%s %s: headers %v", q.verb, q.rpc, q.header)
		}
	}
	if len(s.got("DELETE")) != 1 {
		t.Errorf("requests: %s", s.order())
	}
	contains(t, p.ended().Error(), "the connection was closed")
	if _, err := p.try("echo", "{}", ""); !errors.Is(err, ErrGone) {
		t.Errorf("after the end: %v", err)
	}
	if strings.Contains(p.logged(), "s3cr3t") || strings.Contains(p.logged(), "session-1") {
		t.Errorf("the log has secrets:\n%s", p.logged())
	}
}

func TestB26_SessionIsNotKnown(t *testing.T) {
	page400 := func(w http.ResponseWriter, _ *http.Request, q request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"who are you?"},"id":null}`)
	}
	t.Run("404", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		p.call("echo", "{}")
		s.forget()
		if err := p.begin("echo", "{}", "").failure(); !Retryable(err) {
			t.Errorf("the call cannot be made again: %v", err)
		}
		if p.ended() != errSessionOver {
			t.Errorf("ended by %v", p.conn.Err())
		}
		p.conn.Close(context.Background())
		if len(s.got("DELETE")) > 0 {
			t.Error("a session that is over was ended")
		}
	})
	t.Run("404 to a notification", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.forget()
		if err := p.conn.Notify("notifications/roots/list_changed", nil); err != nil {
			t.Fatal(err)
		}
		p.ended()
	})
	t.Run("404 to the stream of the GET", func(t *testing.T) {
		s := newWebServer(t)
		s.on("GET", func(w http.ResponseWriter, r *http.Request, _ request) {
			writeEvents(w, "id: 1\ndata:\n\n")
			s.on("GET", status(404, ""))
		})
		p := dialRemote(t, s.URL)
		p.ended()
	})
	t.Run("400, and a ping too", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.on("tools/call", page400)
		s.on("ping", page400)
		if err := p.begin("echo", "{}", "").failure(); !Retryable(err) {
			t.Errorf("the call cannot be made again: %v", err)
		}
		p.ended()
	})
	t.Run("400 to the stream of the GET, and to a ping", func(t *testing.T) {
		s := newWebServer(t)
		s.on("GET", func(w http.ResponseWriter, r *http.Request, _ request) {
			writeEvents(w, "id: 1\ndata:\n\n")
			s.on("GET", page400)
			s.on("ping", page400)
		})
		p := dialRemote(t, s.URL)
		p.ended()
	})
	t.Run("400 that names the call, as if that were the reason", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write(wire.ErrorReply(q.msg.ID, []byte(`{"code":-32000,"message":"anything"}`)))
		})
		s.on("ping", page400)
		if err := p.begin("echo", "{}", "").failure(); !Retryable(err) {
			t.Errorf("the call cannot be made again: %v", err)
		}
	})
	t.Run("400, but not to a ping", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.on("tools/call", page400)
		r := p.begin("echo", "{}", "").wait()
		sameBytes(t, "the error", r.m.Err, []byte(`{"code":-32000,"message":"who are you?"}`))
		s.on("tools/call", nil)
		p.call("echo", "{}")
	})
	t.Run("400 that answers the call", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write(wire.ErrorReply(q.msg.ID, []byte(`{"code":-32602,"message":"no","data":{"n":12345678901234567890}}`)))
		})
		r := p.begin("echo", "{}", "").wait()
		sameBytes(t, "the error", r.m.Err, []byte(`{"code":-32602,"message":"no","data":{"n":12345678901234567890}}`))
		if len(s.got("ping")) > 0 {
			t.Error("asked without need")
		}
	})
	t.Run("calls in flight get their own answers", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		var arrived sync.WaitGroup
		arrived.Add(2)
		release := make(chan bool)
		s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			switch string(q.msg.Arguments) {
			case `{"slow":1}`: // it was taken before the session ended
				arrived.Done()
				<-release
				writeJSON(w, echoReply(q.msg))
			case `{"slow":2}`:
				arrived.Done()
				<-release
				w.WriteHeader(http.StatusNotFound)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		taken, late := p.begin("echo", `{"slow":1}`, ""), p.begin("echo", `{"slow":2}`, "")
		arrived.Wait()
		first := p.begin("echo", "{}", "")
		if err := first.failure(); !Retryable(err) {
			t.Errorf("%v", err)
		}
		closed := make(chan bool)
		go func() {
			p.conn.Close(context.Background())
			close(closed)
		}()
		<-p.conn.Done()
		close(release)
		if got := taken.text(); got != `{"slow":1}` {
			t.Errorf("got %s", got)
		}
		if err := late.failure(); !Retryable(err) {
			t.Errorf("%v", err)
		}
		<-closed
	})
}

// A server that asks on the stream of its GET may do so for a call until it has read that the call is
// cancelled, as by stdio.
func TestTrap14_CancelledRemoteCallLingers(t *testing.T) {
	s := newWebServer(t)
	reached, pinged, answer := make(chan bool, 1), make(chan bool, 1), make(chan bool)
	s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
		reached <- true
		hang(w, r, q)
	})
	s.on("ping", func(w http.ResponseWriter, _ *http.Request, q request) {
		pinged <- true
		<-answer
		writeJSON(w, wire.Reply(q.msg.ID, []byte("{}")))
	})
	p := dialRemote(t, s.URL)
	r := p.begin("echo", "{}", "")
	<-reached
	r.call.Cancel([]byte(`{"reason":"enough"}`))
	<-pinged
	if got := s.got("notifications/cancelled"); len(got) != 1 || !strings.Contains(string(got[0].body), `"reason":"enough"`) {
		t.Errorf("before the ping came %v", got)
	}
	if !slices.Contains(p.conn.InFlight(), Sink(r)) {
		t.Error("it is forgotten before the server has read the cancellation")
	}
	close(answer)
	for end := time.Now().Add(patience); slices.Contains(p.conn.InFlight(), Sink(r)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not forgotten")
		}
	}
}
