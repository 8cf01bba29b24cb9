package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// waitInterval is how often a waiting request looks at the status.
const waitInterval = 20 * time.Millisecond

// Handler serves GET /v1/status, GET /v1/tools and POST /v1/stop. With ?wait=DURATION the status comes
// when the gateway has settled, at the latest after that time.
func Handler(b Backend) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		wait, err := waitOf(r)
		if err != nil {
			writeError(w, http.StatusBadRequest, "invalidArgument", err)
			return
		}
		writeJSON(w, http.StatusOK, await(r.Context(), b, wait))
	})
	mux.HandleFunc("GET /v1/tools", func(w http.ResponseWriter, _ *http.Request) {
		tools := b.Tools()
		if tools == nil {
			tools = []Tool{}
		}
		writeJSON(w, http.StatusOK, tools)
	})
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) {
		b.Stop(context.WithoutCancel(r.Context())) // it goes on when the caller has gone
		writeJSON(w, http.StatusAccepted, struct{}{})
	})
	return mux
}

func waitOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("wait %q: a duration such as 30s is needed", text)
	}
	return wait, nil
}

// await returns the status as soon as the gateway has settled, or the time is over.
func await(ctx context.Context, b Backend, wait time.Duration) Status {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		status := b.Status()
		if status.Servers == nil {
			status.Servers = []ServerStatus{}
		}
		if status.settled() {
			return status
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return status
		}
	}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v) // an error means that the caller has gone
}

// problem is the body of every answer that is an error.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func writeError(w http.ResponseWriter, status int, code string, err error) {
	writeJSON(w, status, problem{Code: code, Message: err.Error()})
}
