package downstream

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcp-gateway/internal/wire"
)

// Keys of _meta that every request of 2026-07-28 carries.
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// isModern tells a message of 2026-07-28 or later: by its header, else, where it names no session, by
// what only such a message has.
func isModern(r *http.Request, m *wire.Msg) bool {
	if modernVersion(header(r, "Mcp-Protocol-Version")) {
		return true
	}
	if header(r, "Mcp-Session-Id") != "" {
		return false
	}
	if m.Method == "server/discover" {
		return true
	}
	return m.Meta != nil && wire.Get(m.Meta, MetaVersion) != nil
}

// ParamHeader says that an argument of a tool is repeated in the header Mcp-Param-<Name>.
type ParamHeader struct {
	Path []string // of property names in the arguments
	Name string
}

// modern takes a request of 2026-07-28: no session, everything is in the request itself.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, f form, m wire.Msg) {
	if m.IsNotification() {
		s.handler.Notified(r.Context(), nil, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.IsResponse() {
		refuse(w, http.StatusBadRequest, m.ID, invalid("2026-07-28 has no requests to clients, so a client sends no responses"))
		return
	}
	if e, status := s.checkModern(r, &m); e != nil {
		refuse(w, status, m.ID, e)
		return
	}
	x := s.exchange(w, m, nil, V20260728, f)
	if x.listens() && f == onlyJSON {
		refuse(w, http.StatusNotAcceptable, m.ID, invalid("subscriptions/listen opens an event stream: send Accept: %s", acceptBoth))
		return
	}
	s.serve(r.Context(), x)
}

// checkModern makes the checks of 2026-07-28 in their order.
func (s *Server) checkModern(r *http.Request, m *wire.Msg) (*wire.Error, int) {
	mismatch := func(format string, args ...any) (*wire.Error, int) {
		return &wire.Error{Code: wire.CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}, http.StatusBadRequest
	}
	asked := header(r, "Mcp-Protocol-Version")
	version, ok := wire.GetString(m.Meta, MetaVersion)
	switch {
	case asked == "":
		return mismatch("the MCP-Protocol-Version header is missing; it repeats _meta[%q]", MetaVersion)
	case !ok || version == "":
		return &wire.Error{Code: wire.CodeInvalidParams, Message: fmt.Sprintf("params._meta[%q] is missing", MetaVersion)}, http.StatusBadRequest
	case asked != version:
		return mismatch("the MCP-Protocol-Version header %q is not the %q of _meta[%q]", asked, version, MetaVersion)
	case version != V20260728:
		data := fmt.Appendf(nil, `{"supported":["%s"],"requested":%s}`, strings.Join(Versions, `","`), wire.Quote(version))
		return &wire.Error{Code: wire.CodeUnsupportedVersion, Message: fmt.Sprintf("protocol version %q is not supported", version), Data: data}, http.StatusBadRequest
	case !s.handler.Knows(m.Method):
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("method %q not found", m.Method)}, http.StatusNotFound
	}
	if method := header(r, "Mcp-Method"); method == "" {
		return mismatch("the Mcp-Method header is missing; it repeats the method")
	} else if method != m.Method {
		return mismatch("the Mcp-Method header %q is not the method %q", method, m.Method)
	}
	if wire.Kind(wire.Get(m.Meta, MetaCapabilities)) != '{' {
		return &wire.Error{Code: wire.CodeInvalidParams, Message: fmt.Sprintf("params._meta[%q] is missing; it is an object, {} for none", MetaCapabilities)}, http.StatusBadRequest
	}
	if name, is := namedBy(m); is {
		header := header(r, "Mcp-Name")
		given, ok := decodeHeader(header)
		switch {
		case header == "":
			return mismatch("the Mcp-Name header is missing; it repeats the name, URI or task of %s", m.Method)
		case !ok:
			return mismatch("the Mcp-Name header %.80q holds no valid base64", header)
		case given != name:
			return mismatch("the Mcp-Name header %.80q is not the %.80q of the request", given, name)
		}
		if m.Method == "tools/call" {
			if err := checkParams(r, m.Arguments, s.handler.ParamHeaders(name)); err != nil {
				return mismatch("%v", err)
			}
		}
	}
	return nil, 0
}

// namedBy returns what the Mcp-Name header repeats.
func namedBy(m *wire.Msg) (name string, is bool) {
	switch m.Method {
	case "tools/call", "prompts/get":
		name, _ = wire.String(m.Name)
		return name, true
	case "resources/read":
		name, _ = wire.String(m.URI)
		return name, true
	case "tasks/get", "tasks/update", "tasks/cancel":
		name, _ = wire.GetString(m.Params, "taskId")
		return name, true
	}
	return "", false
}

// decodeHeader undoes =?base64?…?=, the form of values that a header cannot hold.
func decodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v, true
	}
	out, err := base64.StdEncoding.DecodeString(inner)
	return string(out), err == nil
}

// checkParams compares the Mcp-Param-* headers with the arguments.
func checkParams(r *http.Request, arguments []byte, headers []ParamHeader) error {
	for _, h := range headers {
		value := arguments
		for _, key := range h.Path {
			var twice bool
			if value, twice = member(value, key); twice {
				return fmt.Errorf("the argument %q stands in it twice, and the server may read the other one", strings.Join(h.Path, "."))
			}
		}
		name := http.CanonicalHeaderKey("Mcp-Param-" + h.Name)
		_, there := r.Header[name]
		given := header(r, name)
		path := strings.Join(h.Path, ".")
		switch kind := wire.Kind(value); {
		case kind == 0 || kind == 'n':
			if given != "" {
				return fmt.Errorf("the %s header is there, but the argument %q is not", name, path)
			}
			continue
		case !there:
			return fmt.Errorf("the %s header is missing; it repeats the argument %q", name, path)
		case kind == '{' || kind == '[':
			return fmt.Errorf("the %s header stands for the argument %q, which is no string, integer or boolean", name, path)
		}
		text, ok := decodeHeader(given)
		if !ok {
			return fmt.Errorf("the %s header %.80q holds no valid base64", name, given)
		}
		if !sameValue(text, value) {
			return fmt.Errorf("the %s header %.80q is not the value of the argument %q", name, given, path)
		}
	}
	return nil
}

// member returns the value of a member, and whether there is another one of that name.
func member(object []byte, name string) (value []byte, twice bool) {
	for key, v := range wire.Members(object) {
		if key == name {
			twice = value != nil
			value = v
		}
	}
	return value, twice
}

// sameValue compares a header's text with a JSON string, integer or boolean.
func sameValue(text string, value []byte) bool {
	if wire.Kind(value) == '"' {
		s, _ := wire.String(value)
		return s == text
	}
	if text == string(value) {
		return true
	}
	// Two ways to write one integer, of which the greater ones could be different ones all the same.
	a, errA := strconv.ParseFloat(text, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) < 1<<53
}

// modernStatus is the HTTP status that 2026-07-28 wants for an error object, 0 for the usual one. It
// counts only where the error comes first: later, the event stream's 200 has been sent.
func modernStatus(object []byte) int {
	if object == nil {
		return 0
	}
	code, _ := strconv.Atoi(string(wire.Get(object, "code")))
	switch {
	case code == wire.CodeMethodNotFound:
		return http.StatusNotFound
	case slices.Contains([]int{wire.CodeInvalidParams, wire.CodeUnsupportedVersion, wire.CodeMissingCapability, wire.CodeHeaderMismatch}, code):
		return http.StatusBadRequest
	}
	return 0
}
