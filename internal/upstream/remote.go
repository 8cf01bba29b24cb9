package upstream

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

// RemoteOptions describe a server that is reached by its URL.
type RemoteOptions struct {
	Server  string
	URL     string
	Headers map[string]secret.Value // sent with every request
	SSE     bool                    // it speaks the HTTP+SSE transport of 2024-11-05
	Env     []string                // names proxies and certificate authorities
	Limit   int                     // bytes of one message
	// Credentials are of users who sign in; nil for none. An Authorization header of the entry's own comes first.
	Credentials Credentials
	Log         *slog.Logger
	Scrub       func(text string) string // takes secrets out of what goes into errors
}

// Remote is a server that is reached by HTTP: what all connections to it share.
type Remote struct {
	o         RemoteOptions
	url       *url.URL
	host      string // of the entry's headers, "" for the URL's
	header    http.Header
	transport *http.Transport
	clock     pauses
	err       error       // why no connection can be made
	sse       atomic.Bool // it was found to speak HTTP+SSE only
	mute      atomic.Bool // it gives no headers before it has something to say
	legacy    atomic.Bool // it was found to know no server/discover
}

// NewRemote prepares for connections to a server. What is wrong with its description is told by the
// first Dial.
func NewRemote(o RemoteOptions) *Remote {
	r := &Remote{o: o, header: http.Header{}}
	r.sse.Store(o.SSE)
	if r.url, r.err = url.Parse(o.URL); r.err != nil {
		return r
	}
	for name, value := range o.Headers {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Host":
			r.host = value.Reveal()
		case "Accept-Encoding": // what is decoded here is what is asked for here
		default:
			r.header.Set(name, value.Reveal())
		}
	}
	r.transport, r.err = NewTransport(o.Env)
	r.clock.start()
	return r
}

// name is the URL without what may be secret: password, query and fragment.
func (r *Remote) name() string { return r.o.Scrub(cleanURL(r.url)) }

// client makes HTTP requests for one connection. Its cookies are its own, since load balancers keep a
// session at one server by them.
func (r *Remote) client() *http.Client {
	jar, _ := cookiejar.New(nil) // never fails
	return &http.Client{Transport: r.transport, Jar: jar, CheckRedirect: SameOrigin}
}

// sending tells how far a request has gone on its way.
type sending struct{ begun, whole atomic.Bool }

// traced notes it in s. A request that met the end of an idle connection begins anew.
func (s *sending) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { s.begun.Store(false) },
		GotConn:      func(httptrace.GotConnInfo) { s.begun.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { s.whole.Store(info.Err == nil) },
	})
}

// outgoing is one HTTP request.
type outgoing struct {
	verb   string // GET, POST or DELETE
	rpc    string // the JSON-RPC method, for errors
	to     *url.URL
	header http.Header
	body   []byte
	s      *sending // may be nil
}

// send sends a request as it is.
func (r *Remote) send(ctx context.Context, client *http.Client, o outgoing) (*http.Response, error) {
	if r.clock.paused() {
		r.transport.CloseIdleConnections()
	}
	if o.s == nil {
		o.s = &sending{}
	}
	request := &http.Request{
		Method: o.verb, URL: o.to, Host: r.host, Header: o.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if o.body != nil {
		request.ContentLength = int64(len(o.body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(o.body)), nil }
		request.Body, _ = request.GetBody()
	}
	response, err := client.Do(request.WithContext(o.s.traced(ctx)))
	if err == nil {
		return response, nil
	}
	asked := &AskError{Asked: o.asked(), Err: withoutURL(err)}
	if ctx.Err() == nil && !o.s.begun.Load() {
		return nil, &UnsentError{asked}
	}
	return nil, asked
}

// asked names a request in errors.
func (o *outgoing) asked() string {
	if o.rpc == "" {
		return o.verb
	}
	return o.verb + " " + o.rpc
}

var (
	acceptBoth   = []string{"application/json, text/event-stream"}
	acceptEvents = []string{"text/event-stream"}
	contentJSON  = []string{"application/json"}
	noCompress   = []string{"identity"}
)

// headers are the entry's own ones, and the gateway's name.
func (r *Remote) headers(agent []string) http.Header {
	h := make(http.Header, len(r.header)+8)
	h["User-Agent"] = agent
	for name, values := range r.header {
		h[name] = values
	}
	return h
}

// agentOf is the User-Agent that stands for an identity.
func agentOf(id Identity) []string {
	name, _ := wire.GetString(id.ClientInfo, "name")
	version, _ := wire.GetString(id.ClientInfo, "version")
	if name == "" || requiresBase64(name+version) {
		return []string{"mcp-gateway"}
	}
	return []string{name + "/" + version}
}
