package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/control/controltest"
)

// send makes one request of the API.
func send(t *testing.T, b control.Backend, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	control.Handler(b).ServeHTTP(w, r)
	return w
}

const (
	gw     = "/v1/sandboxes/-/mcp-gateway"
	signIn = "/v1/mcp-servers/mail/authorization"

	readyGateway = `{"name":"sandboxes/sb-1/mcp-gateway","uid":"g1","state":"ready","url":"http://127.0.0.1:50005/mcp","servers":[{"name":"time","type":"stdio"}]`
	liveTime     = `{"name":"time","type":"stdio","state":"ready","outcome":"applied","pid":8,"restarts":0,"tools":2,"since":"2026-01-02T03:04:05.123456789Z"`
	pendingMail  = `{"name":"mcp-servers/mail/authorization","server":"mcp-servers/mail","uid":"a1","status":"pending","authorizationUrl":"https://as.example/authorize?state=s1&x=<y>",` +
		`"createdAt":"2026-01-02T03:04:05.123456789Z","updatedAt":"2026-01-02T03:04:05.123456789Z","expiresAt":"2026-01-02T03:14:05.123456789Z","etag":"\"a1-1\""}`
	authorizedMail = `{"name":"mcp-servers/mail/authorization","server":"mcp-servers/mail","uid":"a1","status":"authorized",` +
		`"createdAt":"2026-01-02T03:04:05.123456789Z","updatedAt":"2026-01-02T03:04:05.123456789Z","etag":"\"a1-2\""}`
)

// violation is the answer to a request with one problem.
func violation(field, description, reason string) string {
	return fmt.Sprintf(`{"code":"invalidArgument","message":%q,"details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":%q,"description":%q,"reason":%q}]}]}`,
		strings.TrimSpace(field+" "+description), field, description, reason)
}

// mismatch is the answer to a stale If-Match.
func mismatch(current string) string {
	detail := `{"@type":"type.googleapis.com/docker.sandboxes.v1.EtagMismatch"`
	if current != "" {
		detail += fmt.Sprintf(`,"currentEtag":%q`, current)
	}
	return `{"code":"failedPrecondition","message":"etag_mismatch: the authorization has changed since that version","details":[` + detail + `}]}`
}

// exchange is one request and what it has to get. A body that ends in … is the beginning.
type exchange struct {
	request string // METHOD PATH
	header  string
	body    string
	status  int
	want    string
}

func (e exchange) check(t *testing.T, b control.Backend) {
	t.Helper()
	method, path, _ := strings.Cut(e.request, " ")
	var header []string
	if e.header != "" {
		header = append(header, e.header)
	}
	w := send(t, b, method, path, e.body, header...)
	got := strings.TrimSpace(w.Body.String())
	begin, cut := strings.CutSuffix(e.want, "…")
	if w.Code != e.status || got != e.want && !(cut && strings.HasPrefix(got, begin)) {
		t.Errorf("%s %s %s:\ngot  %d %s\nwant %d %s", e.request, e.header, e.body, w.Code, got, e.status, e.want)
	}
	if got != "" && w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s: headers %v", e.request, w.Header())
	}
}

// Every operation, each time with a gateway of its own that is ready and holds "time".
func TestOperations(t *testing.T) {
	for _, e := range []exchange{
		{"GET " + gw, "", "", 200, readyGateway + "}"}, // "Read it as sandboxes/{sandbox}/mcp-gateway"
		{"GET /v1/sandboxes/sb-1/mcp-gateway", "", "", 200, readyGateway + "}"},
		{"GET " + gw + "?wait=30s", "", "", 200, readyGateway + "}"},
		{"GET /v1/sandboxes/other/mcp-gateway", "", "", 404, `{"code":"notFound","message":"sandbox \"other\" is not this one"}`},
		{"POST /v1/sandboxes/other/mcp-gateway/stop", "", "", 404, `{"code":"notFound"…`},
		{"HEAD " + gw, "", "", 200, readyGateway + "}"}, // the server leaves the body out
		{"POST " + gw + "/start", "", "{}", 200, readyGateway + `,"reused":true}`},
		{"POST " + gw + "/start", "", ` {"servers": ["time"], "static": false, "gatewayUrl": null} `, 200, readyGateway + `,"reused":true}`},
		{"POST " + gw + "/start", "", `{"servers": ["mail"]}`, 409, `{"code":"failedPrecondition","message":"the gateway runs without server \"mail\""}`},
		{"POST " + gw + "/stop", "", "", 200, "{}"},
		{"POST " + gw + "/stop", "", "{}", 200, "{}"},
		{"POST " + gw + "/stop", "", `{"now":true}`, 400, violation("now", "is no field of this request", "UNKNOWN_FIELD")},
		{"GET " + gw + "/report", "", "", 200, `{"generation":"g-1","mode":"dynamic","complete":true,"servers":[{"server":{"name":"time","type":"stdio"},"outcome":"applied"}]}`},
		{"GET " + gw + "/servers", "", "", 200, `{"servers":[` + liveTime + `}]}`},
		{"GET " + gw + "/servers/time", "", "", 200, liveTime + `,"definition":{"kind":"command","runs":"server time","envs":["KEY"],"headers":[]}}`},
		{"GET " + gw + "/servers/tmie", "", "", 404, `{"code":"notFound","message":"there is no server \"tmie\""}`},
		{"POST " + gw + "/servers", "", `{"server":"mail"}`, 200, `{"server":{"name":"mail","type":"remote"}}`},
		{"POST " + gw + "/servers", "", `{"server":"time"}`, 200, `{"server":{"name":"time","type":"stdio"}}`},
		{"POST " + gw + "/servers", "", `{"server":"own","registration":{"own":{"command":"x"}}}`, 200, `{"server":{"name":"own","type":"stdio"}}`},
		{"POST " + gw + "/servers", "", `{"server":"own","registration":{"other":{}}}`, 409, `{"code":"failedPrecondition",…`},
		{"POST " + gw + "/servers", "", `{"server":"Display Name"}`, 404, `{"code":"notFound","message":"there is no server \"Display Name\""}`}, // "not invented display names"
		{"DELETE " + gw + "/servers/time", "", "", 200, "{}"},
		{"DELETE " + gw + "/servers/mail", "", "", 404, `{"code":"notFound","message":"there is no server \"mail\""}`},
		{"POST " + gw + "/servers/time/restart", "", "", 200, liveTime + "…"},
		{"POST " + gw + "/servers/mail/restart", "", "", 404, `{"code":"notFound","message":"there is no server \"mail\""}`},
		{"GET " + signIn, "", "", 404, `{"code":"notFound"…`},
		{"POST " + signIn + "/authorize", "", "{}", 202, pendingMail}, // "Start the sign-in; show its URL to the user"
		{"POST " + signIn + "/authorize", "", `{"remoteUrl": "https://mail.example/mcp", "forceReauth": true}`, 202, pendingMail},
		{"POST " + signIn + "/authorize", "", `{"remoteUrl": null}`, 202, pendingMail},
		{"POST " + signIn + "/authorize", `If-Match: "a1-1"`, "{}", 412, mismatch("")}, // there is none yet
		{"POST /v1/mcp-servers/time/authorization/authorize", "", "{}", 409, `{"code":"failedPrecondition",…`},
		{"POST /v1/mcp-servers/x/authorization/authorize", "", "{}", 404, `{"code":"notFound"…`},
		{"POST " + signIn + "/code", "", `{"code":"c","state":"s9"}`, 409, `{"code":"failedPrecondition","message":"the state belongs to no pending sign-in"}`},
		{"GET /v1/status", "", "", 200, `{"state":"ready","url":"http://127.0.0.1:50005/mcp","pid":7,…`},
		{"GET /v1/tools", "", "", 200, `[{"name":"now","original_name":"now","server":"time","description":""}]`},
		{"POST /v1/stop", "", "", 202, "{}"},
		{"GET /v1/openapi.json", "", "", 200, `{"openapi":"3.1…`},
	} {
		e.check(t, controltest.New())
	}
}

// A slash in a key is %2F, in a path and in the names of resources; a key may look like a path's "..".
func TestKeysWithSlashes(t *testing.T) {
	m := controltest.New()
	for _, e := range []exchange{
		{"POST " + gw + "/servers", "", `{"server":"github/o/r"}`, 200, `{"server":{"name":"github/o/r","type":"remote"}}`},
		{"GET " + gw + "/servers/github%2Fo%2Fr", "", "", 200, `{"name":"github/o/r","type":"remote","state":"signInRequired","outcome":"applied",…`},
		{"GET " + gw + "/servers/github%2fo%2fr", "", "", 200, `{"name":"github/o/r",…`},
		{"GET " + gw + "/servers/github/o/r", "", "", 404, `{"code":"notFound","message":"there is no operation …`},
		{"POST /v1/mcp-servers/github%2Fo%2Fr/authorization/authorize", "", "{}", 202, `{"name":"mcp-servers/github%2Fo%2Fr/authorization","server":"mcp-servers/github%2Fo%2Fr",…`},
		{"POST " + gw + "/servers", "", `{"server":"..","registration":{"..":{}}}`, 200, `{"server":{"name":"..",…`},
		{"GET " + gw + "/servers/..", "", "", 200, `{"name":"..",…`},
		{"GET " + gw + "/servers/%2E%2e", "", "", 200, `{"name":"..",…`},
		{"DELETE " + gw + "/servers/..", "", "", 200, "{}"},
	} {
		e.check(t, m)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	for _, path := range []string{"/v1/", "/v1/other", "/v1/status/", "/v1//status", "/v1/mcp%2Dservers/mail/authorization",
		"/v1/sandboxes//mcp-gateway", "/v1/mcp-servers//authorization", "/v1/sandboxes", gw + "/", gw + "/servers/", "/v1/mcp-servers"} {
		exchange{"GET " + path, "", "", 404, `{"code":"notFound","message":"there is no operation…`}.check(t, controltest.New())
	}
	for path, allow := range map[string]string{
		gw: "GET, HEAD", gw + "/servers": "GET, HEAD, POST", gw + "/servers/x": "DELETE, GET, HEAD", gw + "/stop": "POST", "/v1/status": "GET, HEAD",
	} {
		w := send(t, controltest.New(), "PATCH", path, "")
		if w.Code != 405 || w.Header().Get("Allow") != allow || !strings.HasPrefix(w.Body.String(), `{"code":"unimplemented","message":`) {
			t.Errorf("%s: %d %s, %v", path, w.Code, w.Body, w.Header())
		}
	}
}

// "Refuse unknown fields", and everything else that is no such request. Nothing has changed after it.
func TestStrictBodies(t *testing.T) {
	long := strings.Repeat("n", 200)
	const start, add, authorize, code = gw + "/start", gw + "/servers", signIn + "/authorize", signIn + "/code"
	const list = "has to be a list of strings that are not empty"
	m := controltest.New()
	before := send(t, m, "GET", gw, "").Body.String()
	for _, c := range []struct{ path, body, field, description, reason string }{
		{start, ``, "", "the body is not valid JSON at line 1, column 1: it is empty, expected an object", "MALFORMED"},
		{add, ` `, "", "the body is not valid JSON at line 1, column 1: it is empty, expected an object", "MALFORMED"},
		{authorize, ``, "", "the body is not valid JSON at line 1, column 1: it is empty, expected an object", "MALFORMED"},
		{start, `{"servers":[]}{}`, "", "the body is not valid JSON at line 1, column 15: expected nothing more after the end", "MALFORMED"},
		{start, "{\"servers\":[\"\xff\"]}", "", "the body is not valid JSON at line 1, column 14: expected UTF-8 text", "MALFORMED"},
		{start, `[]`, "", "the body has to be an object, it is a list", "MALFORMED"},
		{start, `null`, "", "the body has to be an object, it is null", "MALFORMED"},
		{start, `{"Servers":[]}`, "Servers", "is no field of this request", "UNKNOWN_FIELD"},
		{start, `{"` + long + `":1}`, long[:100], "is no field of this request", "UNKNOWN_FIELD"},
		{start, `{"<a> & b":1}`, "<a> & b", "is no field of this request", "UNKNOWN_FIELD"},
		{start, `{"static":true,"static":true}`, "static", "is given twice", "REPEATED_FIELD"},
		{start, `{"servers":null}`, "servers", list, "INVALID_VALUE"},
		{start, `{"servers":"time"}`, "servers", list, "INVALID_VALUE"},
		{start, `{"servers":[""]}`, "servers", list, "INVALID_VALUE"},
		{start, `{"servers":[1]}`, "servers", list, "INVALID_VALUE"},
		{start, `{"static":"true"}`, "static", "has to be true or false", "INVALID_VALUE"},
		{start, `{"gatewayUrl":""}`, "gatewayUrl", "has to be an absolute http or https URL, or null", "INVALID_VALUE"},
		{start, `{"gatewayUrl":"ftp://x/"}`, "gatewayUrl", "has to be an absolute http or https URL, or null", "INVALID_VALUE"},
		{start, `{"gatewayUrl":1}`, "gatewayUrl", "has to be an absolute http or https URL, or null", "INVALID_VALUE"},
		{start, `{"gatewayUrl":"http://x/mcp","servers":["time"]}`, "servers", "has to be empty beside gatewayUrl: a shared gateway has its own servers", "INVALID_VALUE"},
		{add, `{}`, "server", "is missing", "REQUIRED"},
		{add, `{"server":""}`, "server", "has to be a string that is not empty", "INVALID_VALUE"},
		{add, `{"server":null}`, "server", "has to be a string that is not empty", "INVALID_VALUE"},
		{add, `{"server":"x","registration":[]}`, "registration", "has to be an object", "INVALID_VALUE"},
		{authorize, `{"forceReauth":null}`, "forceReauth", "has to be true or false", "INVALID_VALUE"},
		{authorize, `{"remoteUrl":"mail.example"}`, "remoteUrl", "has to be an absolute http or https URL, or null", "INVALID_VALUE"},
		{code, `{"code":"c"}`, "state", "is missing", "REQUIRED"},
		{code, `{"state":"s"}`, "code", "or error is needed, one of them", "REQUIRED"},
		{code, `{"state":"s","code":"c","error":"e"}`, "code", "or error is needed, one of them", "REQUIRED"},
		{code, `{"state":"s","code":"c","iss":1}`, "iss", "has to be a string", "INVALID_VALUE"},
	} {
		exchange{"POST " + c.path, "", c.body, 400, violation(c.field, c.description, c.reason)}.check(t, m)
	}
	for _, wait := range []string{"30", "1m", "-1s", "s", "1.s", "1.0000000001s", "600.1s", "soon", "1s%20", ""} {
		for _, path := range []string{gw, signIn, "/v1/status"} {
			exchange{"GET " + path + "?wait=" + wait, "", "", 400, `{"code":"invalidArgument","message":"wait…`}.check(t, m)
		}
	}
	exchange{"GET " + gw + "?wait=1s&wait=1s", "", "", 400, violation("wait", "is given twice", "REPEATED_FIELD")}.check(t, m)
	exchange{"GET " + gw + "?wait=%zz", "", "", 400, violation("", "the query is not well formed", "MALFORMED")}.check(t, m)
	if after := send(t, m, "GET", gw, "").Body.String(); after != before {
		t.Errorf("changed from %s to %s", before, after)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	w := send(t, controltest.New(), "POST", gw+"/start", `{"statik":true,"servers":1,"static":2}`)
	want := `"message":"statik is no field of this request; servers has to be a list of strings that are not empty; static has to be true or false"`
	if !strings.Contains(w.Body.String(), want) {
		t.Errorf("got %s", w.Body)
	}
}

func TestTooLargeBody(t *testing.T) {
	body := `{"server":"x","registration":{"x":{"runCmd":"` + strings.Repeat("x", 16<<20) + `"}}}`
	exchange{"POST " + gw + "/servers", "", body, 429, `{"code":"resourceExhausted","message":"the request is over 16 MiB"}`}.check(t, controltest.New())
}

// A body of unknown length that turns out to be none is none.
func TestNoBodyInChunks(t *testing.T) {
	s := httptest.NewServer(control.Handler(controltest.New()))
	defer s.Close()
	for body, status := range map[string]int{"": 200, "{}": 200, `{"x":1}`: 400, "x": 400} {
		chunks := struct{ io.Reader }{strings.NewReader(body)} // whose length net/http does not see
		r, err := http.Post(s.URL+gw+"/stop", "application/json", chunks)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != status {
			t.Errorf("stop with %q: %d", body, r.StatusCode)
		}
	}
}

// An answer stays small, whatever a request holds.
func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("ü", 500_000)
	if w := send(t, refusing{err: &control.Error{Code: control.NotFound, Message: "no " + long}}, "GET", gw, ""); w.Body.Len() > 10_000 || !utf8.Valid(w.Body.Bytes()) {
		t.Errorf("a message of %d bytes", w.Body.Len())
	}
	var fields []string
	for i := range 10_000 {
		fields = append(fields, fmt.Sprintf(`"f%d":1`, i))
	}
	w := send(t, controltest.New(), "POST", gw+"/start", "{"+strings.Join(fields, ",")+"}")
	if w.Code != 400 || w.Body.Len() > 10_000 || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), "f0 is no field") {
		t.Errorf("%d: %d bytes, %.300s", w.Code, w.Body.Len(), w.Body)
	}
}

// refusing is a gateway that says one error to everything.
type refusing struct {
	control.Backend
	err error
}

func (r refusing) Sandbox() string                   { return "sb-1" }
func (r refusing) Gateway() (control.Gateway, error) { return control.Gateway{}, r.err }

func TestStatusOfEachCode(t *testing.T) {
	for code, status := range map[control.Code]int{
		control.InvalidArgument: 400, control.Unauthenticated: 401, control.PermissionDenied: 403, control.NotFound: 404,
		control.FailedPrecondition: 409, control.ResourceExhausted: 429, control.Internal: 500, control.Unimplemented: 501,
		control.Unavailable: 503, control.DeadlineExceeded: 504, "aCodeOfTomorrow": 500,
	} {
		err := fmt.Errorf("read the gateway: %w", &control.Error{Code: code, Message: "no"})
		exchange{"GET " + gw, "", "", status, fmt.Sprintf(`{"code":%q,"message":"no"}`, code)}.check(t, refusing{err: err})
	}
	exchange{"GET " + gw, "", "", 428, `{"code":"failedPrecondition"}`}.check(t, refusing{err: &control.Error{Code: control.FailedPrecondition, Status: 428}})
	exchange{"GET " + gw, "", "", 500, `{"code":"internal","message":"odd"}`}.check(t, refusing{err: errors.New("odd")})
}

// A stopped gateway is not found; what was asked of it is refused; stopping again is a success.
func TestStoppedGateway(t *testing.T) {
	m := controltest.New()
	for _, e := range []exchange{
		{"POST " + gw + "/stop", "", "", 200, "{}"},
		{"GET " + gw, "", "", 404, `{"code":"notFound","message":"there is no gateway"}`},
		{"GET " + gw + "?wait=9s", "", "", 404, `{"code":"notFound",…`},
		{"GET " + gw + "/report", "", "", 404, `{"code":"notFound",…`},
		{"GET " + gw + "/servers", "", "", 404, `{"code":"notFound",…`},
		{"GET " + gw + "/servers/time", "", "", 404, `{"code":"notFound",…`},
		{"POST " + gw + "/servers", "", `{"server":"mail"}`, 409, `{"code":"failedPrecondition",…`},
		{"POST " + gw + "/stop", "", "", 200, "{}"},
		{"POST " + gw + "/start", "", `{"servers":["nobody"]}`, 404, `{"code":"notFound",…`},
		{"POST " + gw + "/start", "", `{"servers":["time"],"static":true}`, 200, readyGateway + "}"},
		{"POST " + gw + "/stop", "", "", 200, "{}"},
		{"POST " + gw + "/start", "", `{"gatewayUrl":"https://shared.example/mcp"}`, 200, `{"name":"sandboxes/sb-1/mcp-gateway","uid":"g1","state":"ready","url":"http://127.0.0.1:50005/mcp","servers":[]}`},
		{"POST " + gw + "/servers", "", `{"server":"mail"}`, 409, `{"code":"failedPrecondition",…`}, // "a shared gateway … cannot be changed here"
	} {
		e.check(t, m)
	}
}

// A server whose add failed stays among those that were asked for, with its outcome.
func TestFailedAddIsListed(t *testing.T) {
	m := controltest.New()
	for _, e := range []exchange{
		{"POST " + gw + "/servers", "", `{"server":"broken"}`, 409, `{"code":"failedPrecondition","message":"server \"broken\": exit status 1"}`},
		{"GET " + gw + "/servers/broken", "", "", 200, `{"name":"broken","type":"stdio","state":"failed","outcome":"failed","pid":0,"restarts":0,"tools":0,"lastError":"exit status 1",…`},
		{"GET " + gw, "", "", 200, `{"name":"sandboxes/sb-1/mcp-gateway","uid":"g1","state":"ready","url":"http://127.0.0.1:50005/mcp","servers":[{"name":"time","type":"stdio"},{"name":"broken","type":"stdio"}]}`},
		{"POST " + gw + "/servers/broken/restart", "", "", 409, `{"code":"failedPrecondition",…`},
	} {
		e.check(t, m)
	}
}

// The sign-in from nothing to its end, with ETags all the way: "read the authorization for progress", "the
// URL only while pending", "keep the identity, so a later attempt is not taken for an earlier one".
func TestF4_SignIn(t *testing.T) {
	m := controltest.New()
	for _, e := range []exchange{
		{"POST " + signIn + "/authorize", "", "{}", 202, pendingMail},
		{"POST " + signIn + "/authorize", "", `{"forceReauth":true}`, 202, pendingMail}, // the same, while it is pending
		{"GET " + signIn, "", "", 200, pendingMail},
		{"GET " + signIn, `If-None-Match: "a1-1"`, "", 304, ""},
		{"GET " + signIn, `If-None-Match: W/"a1-1"`, "", 304, ""},
		{"GET " + signIn, `If-None-Match: "x,y" , W/"a1-1","z"`, "", 304, ""},
		{"GET " + signIn, `If-None-Match: *`, "", 304, ""},
		{"GET " + signIn, `If-None-Match: "a1-0"`, "", 200, pendingMail},
		{"GET " + signIn, `If-None-Match: a1-1`, "", 200, pendingMail}, // malformed: no match
		{"GET " + signIn, `If-None-Match: "a1-1" "x"`, "", 200, pendingMail},
		{"GET " + signIn, `If-None-Match: "a1-1", *`, "", 200, pendingMail},
		{"GET " + signIn, `If-None-Match: w/"a1-1"`, "", 200, pendingMail},
		{"POST " + signIn + "/authorize", `If-Match: "a1-1"`, "{}", 202, pendingMail},
		{"POST " + signIn + "/authorize", `If-Match: "a1-0", "a1-1"`, "{}", 202, pendingMail},
		{"POST " + signIn + "/authorize", `If-Match: *`, "{}", 202, pendingMail},
		{"POST " + signIn + "/authorize", `If-Match: "a1-0"`, "{}", 412, mismatch(`"a1-1"`)},
		{"POST " + signIn + "/authorize", `If-Match: W/"a1-1"`, "{}", 412, mismatch(`"a1-1"`)}, // weak never matches
		{"POST " + signIn + "/authorize", `If-Match: a1-1`, "{}", 412, mismatch(`"a1-1"`)},
		{"POST " + signIn + "/authorize", `If-Match: "a1-0"`, `{"x":1}`, 400, violation("x", "is no field of this request", "UNKNOWN_FIELD")},
		{"POST " + signIn + "/code", "", `{"code":"c","state":"s1","iss":"https://as.example"}`, 200, authorizedMail},
		{"GET " + signIn, `If-None-Match: "a1-1"`, "", 200, authorizedMail},
		{"GET " + signIn, `If-None-Match: "a1-2"`, "", 304, ""},
		{"POST " + signIn + "/authorize", "", "{}", 200, authorizedMail}, // "reauthorize only when a new sign-in is meant"
		{"POST " + signIn + "/authorize", "", `{"forceReauth":true}`, 202, strings.NewReplacer("a1", "a2", "s1", "s2").Replace(pendingMail)},
		{"POST " + signIn + "/code", "", `{"code":"c","state":"s1"}`, 409, `{"code":"failedPrecondition",…`}, // of an earlier attempt
		{"POST " + signIn + "/code", "", `{"error":"access_denied","state":"s2"}`, 200, `{"name":"mcp-servers/mail/authorization","server":"mcp-servers/mail","uid":"a2","status":"failed","createdAt":"2026-01-02T03:04:05.123456789Z",` +
			`"updatedAt":"2026-01-02T03:04:05.123456789Z","failure":{"code":"permissionDenied","message":"the sign-in was refused"},"etag":"\"a2-2\""}`},
	} {
		e.check(t, m)
	}
	for _, known := range []string{`"x"`, `"a2-2"`} {
		w := send(t, m, "GET", signIn, "", "If-None-Match: "+known)
		if w.Header().Get("ETag") != `"a2-2"` {
			t.Errorf("%d: headers %v", w.Code, w.Header())
		}
	}
	if w := send(t, m, "POST", signIn+"/authorize", "{}"); w.Header().Get("ETag") != `"a3-1"` { // a failed one begins anew
		t.Errorf("%d: headers %v", w.Code, w.Header())
	}
}

// "Wait, bounded, for ready or failed", under a clock that costs nothing.
func TestF1_WaitForTheGateway(t *testing.T) {
	report := func(outcome, generation string) string {
		return `"details":[{"@type":"type.googleapis.com/docker.sandboxes.v1.McpConfigurationReport","generation":"` + generation +
			`","mode":"dynamic","complete":false,"servers":[{"server":{"name":"time","type":"stdio"},"outcome":` + outcome + `}]}]}`
	}
	provisioning := `{"name":"sandboxes/sb-1/mcp-gateway","uid":"g1","state":"provisioning","servers":[{"name":"time","type":"stdio"}]`
	t.Run("without waiting", func(t *testing.T) {
		exchange{"GET " + gw, "", "", 200, provisioning + "}"}.check(t, controltest.Starting())
		exchange{"POST " + gw + "/start", "", "{}", 202, provisioning + `,"reused":true}`}.check(t, controltest.Starting())
	})
	for _, c := range []struct {
		name  string
		end   control.GatewayState
		after time.Duration
		want  exchange
	}{
		{"ready", control.GatewayReady, 7 * time.Second, exchange{"GET " + gw + "?wait=30s", "", "", 200, readyGateway + "}"}},
		{"failed", control.GatewayFailed, 7 * time.Second, exchange{"GET " + gw + "?wait=30s", "", "", 409,
			`{"code":"failedPrecondition","message":"server \"time\" did not start",` + report(`"failed","reason":"exit status 1"`, "g-2")}},
		{"expired", "", 30 * time.Second, exchange{"GET " + gw + "?wait=30s", "", "", 504,
			`{"code":"deadlineExceeded","message":"the gateway is still being started after 30s",` + report(`"pending"`, "g-1")}},
		{"no time", "", 0, exchange{"GET " + gw + "?wait=0s", "", "", 504, `{"code":"deadlineExceeded",…`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, began := controltest.Starting(), time.Now()
				if c.end != "" {
					time.AfterFunc(c.after, func() { m.Settle(c.end) })
				}
				c.want.check(t, m)
				if took := time.Since(began); took != c.after {
					t.Errorf("took %s, want %s", took, c.after)
				}
			})
		})
	}
	t.Run("failed before", func(t *testing.T) {
		m := controltest.Starting()
		m.Settle(control.GatewayFailed)
		exchange{"GET " + gw + "?wait=1s", "", "", 409, `{"code":"failedPrecondition",…`}.check(t, m)
		exchange{"GET " + gw, "", "", 200, `{"name":"sandboxes/sb-1/mcp-gateway","uid":"g1","state":"failed","servers":[{"name":"time","type":"stdio"}],"failure":{"code":"failedPrecondition","message":"server \"time\" did not start"}}`}.check(t, m)
	})
	t.Run("the caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, gw+"?wait=600s", nil)
			began := time.Now()
			control.Handler(controltest.Starting()).ServeHTTP(httptest.NewRecorder(), r)
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %s", took)
			}
		})
	})
}

func TestF4_WaitForASignIn(t *testing.T) {
	for _, c := range []struct {
		name, header string
		change       string // the body of what happens after 7 s; empty for nothing
		after        time.Duration
		status       int
		want         string
	}{
		{"authorized", "", `{"code":"c","state":"s1"}`, 7 * time.Second, 200, authorizedMail},
		{"refused", "", `{"error":"access_denied","state":"s1"}`, 7 * time.Second, 200, `{"name":"mcp-servers/mail/authorization","server":"mcp-servers/mail","uid":"a1","status":"failed",…`},
		{"expired", "", "", 30 * time.Second, 200, pendingMail},
		{"changed", `If-None-Match: "a1-1"`, `{"code":"c","state":"s1"}`, 7 * time.Second, 200, authorizedMail},
		{"changed before", `If-None-Match: "a1-0"`, "", 0, 200, pendingMail},
		{"unchanged", `If-None-Match: "a1-1"`, "", 30 * time.Second, 304, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, began := controltest.New(), time.Now()
				send(t, m, "POST", signIn+"/authorize", "{}")
				if c.change != "" {
					time.AfterFunc(7*time.Second, func() { send(t, m, "POST", signIn+"/code", c.change) })
				}
				exchange{"GET " + signIn + "?wait=30s", c.header, "", c.status, c.want}.check(t, m)
				if took := time.Since(began); took != c.after {
					t.Errorf("took %s, want %s", took, c.after)
				}
			})
		})
	}
}

// untold is a gateway that tells of no change: an expiry, for one.
type untold struct{ *controltest.Memory }

func (untold) Changed() <-chan struct{} { return nil }

func TestWaitSeesWhatIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := controltest.Starting(), time.Now()
		time.AfterFunc(6500*time.Millisecond, func() { m.Settle(control.GatewayReady) })
		exchange{"GET " + gw + "?wait=30s", "", "", 200, readyGateway + "}"}.check(t, untold{m})
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
