package control

import (
	"context"
	"errors"
)

// ErrNotRunning means that no gateway answers on the socket.
var ErrNotRunning = errors.New("gateway is not running")

// Client speaks to a running gateway.
type Client struct{ socket string }

// NewClient makes a client of the gateway behind the socket.
func NewClient(socket string) *Client { return &Client{socket: socket} }

// Status asks for the gateway's status.
func (c *Client) Status(ctx context.Context) (Status, error) { return Status{}, ErrNotRunning }

// Tools asks for the exposed tools.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) { return nil, ErrNotRunning }

// Stop asks the gateway to end. It does not wait for the end.
func (c *Client) Stop(ctx context.Context) error { return ErrNotRunning }

// Wait returns the status as soon as the gateway is ready, degraded or failed, also when there is no
// gateway yet. When ctx ends first, it returns the last status that it saw and the context's error.
func (c *Client) Wait(ctx context.Context) (Status, error) { return Status{}, ErrNotRunning }
