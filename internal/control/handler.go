package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one operation of the API. In its path a segment in braces stands for any one segment.
type route struct {
	method, path string
	serve        func(a *api, q request) (answer, error)
}

const (
	gatewayPath       = "/v1/sandboxes/{sandbox}/mcp-gateway"
	authorizationPath = "/v1/mcp-servers/{server}/authorization"
)

// routes are all operations. openapi.json describes each of them.
var routes = []route{
	{"GET", gatewayPath, (*api).getGateway},
	{"POST", gatewayPath + "/start", (*api).startGateway},
	{"POST", gatewayPath + "/stop", (*api).stopGateway},
	{"GET", gatewayPath + "/report", (*api).report},
	{"GET", gatewayPath + "/servers", (*api).listServers},
	{"POST", gatewayPath + "/servers", (*api).addServer},
	{"GET", gatewayPath + "/servers/{server}", (*api).getServer},
	{"DELETE", gatewayPath + "/servers/{server}", (*api).removeServer},
	{"POST", gatewayPath + "/servers/{server}/restart", (*api).restartServer},
	{"GET", authorizationPath, (*api).getAuthorization},
	{"POST", authorizationPath + "/authorize", (*api).authorize},
	{"POST", authorizationPath + "/code", (*api).submitCode},
	{"GET", "/v1/status", (*api).status},
	{"GET", "/v1/tools", (*api).tools},
	{"POST", "/v1/stop", (*api).stop},
	{"GET", "/v1/openapi.json", (*api).openAPI},
}

// api serves the operations of one gateway.
type api struct{ b Backend }

// request is one with the values of its path's segments in braces.
type request struct {
	*http.Request
	w       http.ResponseWriter // of which the body's limit tells net/http
	sandbox string
	server  string
}

// answer is what a request gets; a body of nil is none.
type answer struct {
	status int
	body   any
	etag   string
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

// Handler serves the API of openapi.json. Who may ask is not its business: its caller has checked the
// token, or the file mode of the socket has.
func Handler(b Backend) http.Handler {
	a := &api{b}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := a.dispatch(w, r)
		if err != nil {
			got = refusal(err)
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store") // states change, and a sign-in's URL is for one reader
		if got.etag != "" {
			h.Set("ETag", got.etag)
		}
		if got.body == nil {
			w.WriteHeader(got.status)
			return
		}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(got.status)
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.Encode(got.body) // an error means that the caller has gone
	})
}

// dispatch finds the operation. Paths are compared as they are escaped, so that %2F is part of a name.
// net/http's own mux would redirect names such as "..", and answers what it does not know as text.
func (a *api) dispatch(w http.ResponseWriter, r *http.Request) (answer, error) {
	path := strings.Split(r.URL.EscapedPath(), "/")
	var allowed []string
	for _, route := range routes {
		q := request{Request: r, w: w}
		if !q.match(strings.Split(route.path, "/"), path) {
			continue
		}
		if q.sandbox != "" && q.sandbox != "-" && q.sandbox != a.b.Sandbox() {
			return answer{}, notFound("sandbox %.100q is not this one", q.sandbox)
		}
		if r.Method == route.method || r.Method == http.MethodHead && route.method == http.MethodGet {
			return route.serve(a, q)
		}
		allowed = append(allowed, route.method)
		if route.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if len(allowed) == 0 {
		return answer{}, notFound("there is no operation %.100q", r.URL.Path)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return answer{}, &Error{Code: Unimplemented, Status: http.StatusMethodNotAllowed,
		Message: fmt.Sprintf("%.100q takes %s, not %.20s", r.URL.Path, strings.Join(allowed, ", "), r.Method)}
}

// match compares a request's path with a route's, and keeps what stands for its variables.
func (q *request) match(pattern, path []string) bool {
	if len(pattern) != len(path) {
		return false
	}
	for i, segment := range pattern {
		value, err := url.PathUnescape(path[i])
		switch {
		case err != nil:
			return false
		case segment == "{sandbox}" && value != "":
			q.sandbox = value
		case segment == "{server}" && value != "":
			q.server = value
		case segment != value || segment != path[i]:
			return false
		}
	}
	return true
}

func notFound(format string, args ...any) *Error {
	return Errorf(NotFound, format, args...)
}

// statuses are those of the codes.
var statuses = map[Code]int{
	InvalidArgument: http.StatusBadRequest, Unauthenticated: http.StatusUnauthorized,
	PermissionDenied: http.StatusForbidden, NotFound: http.StatusNotFound,
	FailedPrecondition: http.StatusConflict, ResourceExhausted: http.StatusTooManyRequests,
	Internal: http.StatusInternalServerError, Unimplemented: http.StatusNotImplemented,
	Unavailable: http.StatusServiceUnavailable, DeadlineExceeded: http.StatusGatewayTimeout,
}

// refusal is the answer to a request that an error ends.
func refusal(err error) answer {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: Internal, Message: err.Error()}
	}
	status := e.Status
	if status == 0 {
		status = statuses[e.Code]
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if len(e.Message) > maxText { // it may repeat what the caller has sent
		clipped := *e
		clipped.Message = strings.ToValidUTF8(e.Message[:maxText], "") + "…"
		e = &clipped
	}
	return answer{status: status, body: e}
}

// maxText bounds an error's message.
const maxText = 8 << 10
