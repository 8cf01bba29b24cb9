package signin

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"

	"mcp-gateway/internal/control"
)

// The paths below the public URL that authorization servers send users to and read from.
const (
	callbackPath = "/oauth/callback"
	clientPath   = "/oauth/client.json"
)

// Handler answers what comes from authorization servers, without a bearer: at /oauth/callback the redirect of
// a user's browser, whose state is the proof that it belongs to a sign-in, and at /oauth/client.json requests
// for the gateway's own metadata.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(callbackPath, m.callback)
	mux.HandleFunc(clientPath, m.document)
	return mux
}

func onlyGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", http.MethodGet)
	http.Error(w, "only GET", http.StatusMethodNotAllowed) // a HEAD, of whoever previews links, must use nothing up
	return false
}

// callback takes the redirect of a user's browser.
func (m *Manager) callback(w http.ResponseWriter, r *http.Request) {
	if !onlyGet(w, r) {
		return
	}
	q := r.URL.Query()
	a, err := m.take(nil, control.CodeRequest{
		Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description"),
	})
	if err == nil {
		err = a.await(r.Context())
	}
	if err != nil {
		page(w, http.StatusBadRequest, "Nothing was changed", sentence(err))
		return
	}
	m.mu.Lock()
	name, failure := a.s.name, a.failure
	m.mu.Unlock()
	if failure != nil {
		page(w, http.StatusBadRequest, "Not signed in", fmt.Sprintf("You are not signed in to %q. ", name)+sentence(failure))
		return
	}
	page(w, http.StatusOK, "Signed in", fmt.Sprintf("You are signed in to %q. This page can be closed.", name))
}

// sentence makes one of an error.
func sentence(err error) string {
	text := err.Error()
	var own *control.Error
	if !errors.As(err, &own) {
		text = "it was not waited for"
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// page answers with a small page that keeps its address, which holds a code, to itself.
func page(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>"+
		html.EscapeString(title)+"</title><body style=\"font:16px sans-serif;max-width:40em;margin:4em auto;padding:0 1em\"><h1>"+
		html.EscapeString(title)+"</h1><p>"+html.EscapeString(text)+"</p>\n")
}

// document is the gateway's own metadata, for authorization servers that take the URL of it as client id.
func (m *Manager) document(w http.ResponseWriter, r *http.Request) {
	if !onlyGet(w, r) {
		return
	}
	redirect, _ := m.public.redirect()
	if redirect == "" {
		http.NotFound(w, r)
		return
	}
	body, err := json.Marshal(metadataOf(redirect))
	if err != nil {
		http.Error(w, "no metadata", http.StatusInternalServerError)
		return
	}
	id, _ := json.Marshal(strings.TrimSuffix(redirect, callbackPath) + clientPath)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(append([]byte(`{"client_id":`+string(id)+`,`), body[1:]...))
}
