package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// Client speaks to a running gateway.
type Client struct{ http *http.Client }

// NewClient makes a client of the gateway behind the socket. It keeps no connection open.
func NewClient(socket string) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return Dial(ctx, socket)
		},
		DisableKeepAlives: true,
	}}}
}

// Status asks for the gateway's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	if err := c.call(ctx, http.MethodGet, "/v1/status", nil, &status); err != nil {
		return Status{}, fmt.Errorf("ask for the status: %w", err)
	}
	return status, nil
}

// Tools asks for the exposed tools.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	var tools []Tool
	if err := c.call(ctx, http.MethodGet, "/v1/tools", nil, &tools); err != nil {
		return nil, fmt.Errorf("ask for the tools: %w", err)
	}
	return tools, nil
}

// Stop asks the gateway to end. It does not wait for the end.
func (c *Client) Stop(ctx context.Context) error {
	err := c.call(ctx, http.MethodPost, "/v1/stop", nil, nil)
	if err != nil && !hasEnded(err) { // it may end faster than it answers
		return fmt.Errorf("ask the gateway to end: %w", err)
	}
	return nil
}

const (
	askInterval  = 50 * time.Millisecond // between looks for a gateway that is not there yet
	askingAtOnce = 30 * time.Second      // how long one request waits
)

// Wait returns the status as soon as the gateway is ready, degraded, failed or stopped, also when there is no
// gateway yet. When ctx ends first, it returns the last status that it saw and the context's error.
func (c *Client) Wait(ctx context.Context) (Status, error) {
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	var last Status
	for {
		path := "/v1/status"
		if last.State != "" { // there is something to tell when ctx ends meanwhile
			path += waitQuery(askingAtOnce)
		}
		var status Status
		err := c.call(ctx, http.MethodGet, path, nil, &status)
		switch {
		case err == nil && status.settled():
			return status, nil
		case err == nil:
			last = status
		case ctx.Err() != nil:
		case errors.Is(err, ErrNotRunning) || hasEnded(err): // another one may come
			last = Status{}
		default:
			return last, fmt.Errorf("wait for the gateway: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, fmt.Errorf("wait for the gateway: %w", context.Cause(ctx))
		}
	}
}

// hasEnded tells whether a connection broke off because the other side has ended.
func hasEnded(err error) bool {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// call makes one request with a body of JSON, nil for none; result may be nil. An error that the gateway
// tells is an *Error.
func (c *Client) call(ctx context.Context, method, path string, body, result any) error {
	status, answer, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status >= 300 {
		told := &Error{Status: status}
		if json.Unmarshal(answer, told) != nil || told.Message == "" {
			told.Message = fmt.Sprintf("%s %s: the gateway answers %d %s", method, path, status, http.StatusText(status))
		}
		return told
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, sent)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error // names a URL that nobody knows
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// waitQuery is the query of a request that waits.
func waitQuery(wait time.Duration) string {
	return "?wait=" + strconv.FormatFloat(wait.Seconds(), 'f', -1, 64) + "s"
}
