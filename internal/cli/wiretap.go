package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"mcp-gateway/internal/secret"
)

// wireTap is the HTTP transport below the SDK. It adds the token, and keeps the bytes of the answers
// to the request that is being made.
type wireTap struct {
	next   *http.Transport
	name   string       // of the gateway, for errors
	origin string       // scheme and host that may see the token
	token  secret.Value // may be empty

	mu     sync.Mutex
	method string          // the request whose answer is wanted
	id     json.RawMessage // the id of its latest message
	bodies []*tappedBody
	status int   // the last status, when it was an error's
	failed error // the last failure to get an answer at all
}

// rpcAnswer is the response to a request, undecoded.
type rpcAnswer struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// begin says which request's answer to keep from now on.
func (t *wireTap) begin(method string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.method, t.id, t.bodies = method, nil, nil
}

// RoundTrip sends one request.
func (t *wireTap) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if t.token != "" && request.URL.Scheme+"://"+request.URL.Host == t.origin {
		request.Header.Set("Authorization", "Bearer "+t.token.Reveal())
	}
	t.note(request)
	response, err := t.next.RoundTrip(request)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status, t.failed = 0, err
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		t.status = response.StatusCode
	}
	if t.method != "" {
		body := &tappedBody{ReadCloser: response.Body, events: strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")}
		t.bodies = append(t.bodies, body)
		response.Body = body
	}
	return response, nil
}

// note remembers the id when the message is the request whose answer is wanted. A call may be made
// several times, when the server asks for something first: the last one's answer is the result.
func (t *wireTap) note(request *http.Request) {
	if request.GetBody == nil {
		return
	}
	body, err := request.GetBody()
	if err != nil {
		return
	}
	defer body.Close()
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&message) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if message.Method == t.method && len(message.ID) > 0 {
		t.id, t.bodies = message.ID, nil
	}
}

// answer returns the response to the request, when it has come.
func (t *wireTap) answer() (rpcAnswer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, body := range t.bodies {
		for _, message := range body.messages() {
			var answer rpcAnswer
			if json.Unmarshal(message, &answer) != nil || !bytes.Equal(bytes.TrimSpace(answer.ID), t.id) {
				continue
			}
			if answer.Result != nil || answer.Error != nil {
				return answer, true
			}
		}
	}
	return rpcAnswer{}, false
}

// trouble returns the last error status and the last failure of the transport.
func (t *wireTap) trouble() (status int, failed error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.failed
}

// tappedBody keeps what is read from a body.
type tappedBody struct {
	io.ReadCloser
	events bool

	mu   sync.Mutex
	kept bytes.Buffer
}

func (b *tappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.kept.Write(p[:n])
	b.mu.Unlock()
	return n, err
}

// messages returns the JSON texts read so far: the body, or the data of each event in it.
func (b *tappedBody) messages() [][]byte {
	b.mu.Lock()
	text := bytes.Clone(b.kept.Bytes())
	b.mu.Unlock()
	if !b.events {
		return [][]byte{text}
	}
	var messages [][]byte
	var data []byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			messages, data = append(messages, data), nil
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if data != nil {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
	}
	return append(messages, data)
}
