package upstream

import (
	"context"
	"io"
	"net/http"

	"mcp-gateway/internal/secret"
)

// Credentials are what a user's sign-in to a remote server brought. They are asked at every request.
type Credentials interface {
	// Bearer returns the access token that requests carry, "" for none. It may renew it first.
	Bearer(ctx context.Context) (secret.Value, error)
	// Challenged is told of an answer with status 401 or 403, its WWW-Authenticate headers, and the token
	// that the request had. The request is sent again, once, where again is true. An error is what
	// becomes of it: *SignInRequiredError where a user has to sign in. With neither, the answer stands.
	Challenged(ctx context.Context, status int, challenges []string, used secret.Value) (again bool, err error)
}

// SignInRequiredError means that a server takes requests only after a user has signed in to it.
type SignInRequiredError struct {
	Server string
	Reason string // why what there was is not enough; "" where nobody has signed in yet
}

// Error says why a sign-in is needed.
func (e *SignInRequiredError) Error() string {
	if e.Reason == "" {
		return "a user has to sign in to it"
	}
	return "a user has to sign in to it again: " + e.Reason
}

// signsIn tells whether requests carry a token of the credentials: what the entry sets itself comes first.
func (r *Remote) signsIn() bool {
	return r.o.Credentials != nil && r.header.Get("Authorization") == "" && r.url.User == nil
}

// do sends a request, with the credentials that there are. Of the errors that it returns, *UnsentError
// means that nothing has reached the server.
func (r *Remote) do(ctx context.Context, client *http.Client, o outgoing) (*http.Response, error) {
	if !r.signsIn() {
		return r.send(ctx, client, o)
	}
	response, used, err := r.sendSigned(ctx, client, o)
	if err != nil || response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
		return response, err
	}
	again, err := r.o.Credentials.Challenged(ctx, response.StatusCode, response.Header.Values("WWW-Authenticate"), used)
	if err == nil && !again {
		return response, nil
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxErrorBody) // so that its connection can be used again
	response.Body.Close()
	if err != nil {
		return nil, &AskError{Asked: o.asked(), Err: err}
	}
	if o.s != nil {
		o.s.whole.Store(false)
	}
	response, _, err = r.sendSigned(ctx, client, o)
	return response, err
}

// sendSigned sends a request with the token that there is now.
func (r *Remote) sendSigned(ctx context.Context, client *http.Client, o outgoing) (*http.Response, secret.Value, error) {
	token, err := r.o.Credentials.Bearer(ctx)
	if err != nil {
		return nil, "", &AskError{Asked: o.asked(), Err: err}
	}
	delete(o.header, "Authorization") // of the first try
	if token != "" {
		o.header["Authorization"] = []string{"Bearer " + token.Reveal()}
	}
	response, err := r.send(ctx, client, o)
	return response, token, err
}
