package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// raw is a session of revision 2025-11-25 without any SDK: the test sees the very bytes.
type raw struct {
	t       *testing.T
	url     string
	session string
}

// openRaw does the handshake.
func (g *running) openRaw(t *testing.T) *raw {
	t.Helper()
	r := &raw{t: t, url: g.url}
	res, err := r.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	r.session = res.Header.Get("Mcp-Session-Id")
	if body := read(t, res); res.StatusCode != http.StatusOK || r.session == "" {
		t.Fatalf("initialize: %s, session %q, %s", res.Status, r.session, body)
	}
	if res, err = r.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	read(t, res)
	return r
}

func (r *raw) post(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.session != "" {
		req.Header.Set("Mcp-Session-Id", r.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return http.DefaultClient.Do(req)
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// send posts a whole message and returns the answer: the body, or the last event of a stream.
func (r *raw) send(message string) string {
	r.t.Helper()
	answer, err := r.try(message)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// try is send for other goroutines than the test's own.
func (r *raw) try(message string) (string, error) {
	res, err := r.post(r.t.Context(), message)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		_, last, _ := strings.Cut(string(body[bytes.LastIndex(body, []byte("data:")):]), "data:")
		body = []byte(last)
	}
	return strings.TrimSpace(string(body)), nil
}

// request is a tools/call with these arguments.
func request(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// text is the first text of a result, or the whole answer where there is none.
func text(answer string) string {
	var a struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if json.Unmarshal([]byte(answer), &a) != nil || len(a.Result.Content) == 0 {
		return answer
	}
	return a.Result.Content[0].Text
}
