package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Error codes of JSON-RPC 2.0 section 5.1 and of MCP.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeNotFound       = -32002 // a resource, before 2026-07-28
	CodeURLElicitation = -32042
	// 2026-07-28
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Msg is one JSON-RPC message. Its fields are slices of Raw; an absent one is nil.
type Msg struct {
	Raw    []byte
	ID     []byte // as written; "null" is kept
	Method string // decoded; "" for a response
	Params []byte
	Result []byte
	Err    []byte

	// Members of Params that routing looks at, so that no second pass over them is needed.
	Name      []byte
	URI       []byte
	Meta      []byte
	Arguments []byte
	Task      []byte

	id, params span
}

// IsRequest tells a request: a method and an id.
func (m *Msg) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification tells a notification: a method and no id.
func (m *Msg) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse tells a response: a result or an error, and no method.
func (m *Msg) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Err != nil) }

// Split returns Raw before and after the id, so that an answer can be written under another id
// without being copied.
func (m *Msg) Split() (head, tail []byte) { return m.Raw[:m.id.from], m.Raw[m.id.to:] }

// Parse reads one message of a client. The whole text is validated, since it goes on to a process
// that others share. The error is a *Error with the code to answer with; m.ID is set where it was read.
func Parse(raw []byte) (m Msg, err error) { return parse(raw, false) }

// ParseServer reads one message of a server, more leniently: UTF-8 may be broken, "jsonrpc" may be
// missing.
func ParseServer(raw []byte) (m Msg, err error) { return parse(raw, true) }

func parse(raw []byte, server bool) (m Msg, err error) {
	m.Raw = raw
	s := scan(raw, server)
	defer s.release()
	if !s.open('{') {
		if !Valid(raw) {
			return m, &Error{Code: CodeParse, Message: "parse error: the body is not valid JSON"}
		}
		return m, &Error{Code: CodeInvalidRequest, Message: "invalid request: a message is a JSON object"}
	}
	if err := m.envelope(s, server); err != nil {
		if !isID(m.ID) {
			m.ID = nil // it cannot be answered to
		}
		var own *Error
		if errors.As(err, &own) {
			// The rest of the text is still checked: broken JSON is a parse error whatever came first.
			if !Valid(raw) {
				return m, &Error{Code: CodeParse, Message: "parse error: the body is not valid JSON"}
			}
			return m, own
		}
		return m, &Error{Code: CodeParse, Message: "parse error: the body is not valid JSON: " + syntax(err)}
	}
	return m, m.check()
}

// envelope reads the members of the message.
func (m *Msg) envelope(s *scanner, server bool) error {
	var method []byte
	version := false
	for s.dec.PeekKind() == '"' {
		k, err := s.value()
		if err != nil {
			return err
		}
		key := k.of(m.Raw)
		if same(key, "params") {
			if m.Params != nil {
				return duplicate("params")
			}
			if err := m.readParams(s); err != nil {
				return err
			}
			continue
		}
		v, err := s.value()
		if err != nil {
			return err
		}
		value := v.of(m.Raw)
		switch {
		case same(key, "id"):
			if m.ID != nil {
				return duplicate("id")
			}
			m.ID, m.id = value, v
		case same(key, "method"):
			if method != nil {
				return duplicate("method")
			}
			method = value
		case same(key, "result"):
			m.Result = value
		case same(key, "error"):
			m.Err = value
		case same(key, "jsonrpc"):
			version = string(value) == `"2.0"`
		}
	}
	if !s.open('}') {
		_, err := s.dec.ReadToken()
		return fmt.Errorf("%w: %v", ErrSyntax, err)
	}
	if err := s.end(); err != nil {
		return err
	}
	if method != nil {
		name, ok := String(method)
		if !ok || name == "" {
			return &Error{Code: CodeInvalidRequest, Message: `invalid request: "method" is a string that is not empty`}
		}
		m.Method = name
	}
	if !version && !server {
		return &Error{Code: CodeInvalidRequest, Message: `invalid request: "jsonrpc" is "2.0"`}
	}
	return nil
}

// readParams reads the params and, where they are an object, notes the members for routing.
func (m *Msg) readParams(s *scanner) error {
	if s.dec.PeekKind() != '{' {
		v, err := s.value()
		m.Params, m.params = v.of(m.Raw), v
		return err
	}
	s.open('{')
	from := int(s.dec.InputOffset()) - 1
	for s.dec.PeekKind() == '"' {
		k, err := s.value()
		if err != nil {
			return err
		}
		v, err := s.value()
		if err != nil {
			return err
		}
		key, value := k.of(m.Raw), v.of(m.Raw)
		for _, known := range [...]struct {
			name string
			at   *[]byte
		}{{"name", &m.Name}, {"uri", &m.URI}, {"_meta", &m.Meta}, {"arguments", &m.Arguments}, {"task", &m.Task}} {
			if same(key, known.name) {
				if *known.at != nil {
					return duplicate("params." + known.name)
				}
				*known.at = value
			}
		}
	}
	if !s.open('}') {
		_, err := s.dec.ReadToken()
		return fmt.Errorf("%w: %v", ErrSyntax, err)
	}
	m.params = span{from, int(s.dec.InputOffset())}
	m.Params = m.params.of(m.Raw)
	return nil
}

// check refuses what is JSON but no message.
func (m *Msg) check() error {
	if id := m.ID; id != nil && !isID(id) {
		m.ID = nil
		return &Error{Code: CodeInvalidRequest, Message: "invalid request: an id is a string or a number, not " + string(clip(id, 40))}
	}
	if m.Method == "" && m.Result == nil && m.Err == nil {
		return &Error{Code: CodeInvalidRequest, Message: "invalid request: neither a method nor a result"}
	}
	if m.Params != nil && m.Method != "" {
		if kind := Kind(m.Params); kind != '{' && kind != 'n' && kind != '[' {
			return &Error{Code: CodeInvalidRequest, Message: "invalid request: params are an object"}
		}
	}
	return nil
}

func isID(v []byte) bool {
	kind := Kind(v)
	return kind == '"' || kind == '0'
}

// ParamsWith returns the message with other params.
func (m *Msg) ParamsWith(params []byte) []byte {
	if m.Params == nil {
		return Edit(m.Raw, Change{Key: "params", Value: params})
	}
	out := make([]byte, 0, len(m.Raw)-len(m.Params)+len(params))
	out = append(out, m.Raw[:m.params.from]...)
	out = append(out, params...)
	return append(out, m.Raw[m.params.to:]...)
}

// Request is a request's bytes; params may be nil.
func Request(id int64, method string, params []byte) []byte {
	out := make([]byte, 0, 64+len(method)+len(params))
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = strconv.AppendInt(out, id, 10)
	return finish(out, method, params)
}

// Notification is a notification's bytes; params may be nil.
func Notification(method string, params []byte) []byte {
	out := make([]byte, 0, 48+len(method)+len(params))
	out = append(out, `{"jsonrpc":"2.0"`...)
	return finish(out, method, params)
}

func finish(out []byte, method string, params []byte) []byte {
	out = append(out, `,"method":`...)
	out = AppendQuote(out, method)
	if params != nil {
		out = append(append(out, `,"params":`...), params...)
	}
	return append(out, '}')
}

// Reply is a response's bytes with a result.
func Reply(id, result []byte) []byte {
	return fmt.Appendf(make([]byte, 0, 40+len(id)+len(result)), `{"jsonrpc":"2.0","id":%s,"result":%s}`, orNull(id), result)
}

// ErrorReply is a response's bytes with an error, given as a raw JSON object.
func ErrorReply(id, object []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, orNull(id), object)
}

func orNull(id []byte) []byte {
	if id == nil {
		return []byte("null")
	}
	return id
}

// Error is a JSON-RPC error object (section 5.1).
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON, may be nil
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Object is the error as JSON.
func (e *Error) Object() []byte {
	out := fmt.Appendf(nil, `{"code":%d,"message":%s`, e.Code, Quote(e.Message))
	if e.Data != nil {
		out = append(append(out, `,"data":`...), e.Data...)
	}
	return append(out, '}')
}

// AsError turns any error into one for the wire: an *Error as it is, others as an internal error.
func AsError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

func duplicate(name string) error {
	return &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("invalid request: %q stands in it twice", name)}
}

func syntax(err error) string { return string(clip([]byte(err.Error()), 120)) }

func clip(b []byte, n int) []byte {
	if len(b) > n {
		return append(bytes.Clone(b[:n]), "…"...)
	}
	return b
}

// Flatten turns raw line ends into spaces, in place: outside of strings, where JSON allows no raw
// control characters, they are white space. On a stdio line they would cut the message in two, in an
// event stream they would end the data line.
func Flatten(b []byte) []byte {
	for _, end := range []byte{'\n', '\r'} {
		for i := bytes.IndexByte(b, end); i >= 0; {
			b[i] = ' '
			next := bytes.IndexByte(b[i+1:], end)
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	return b
}
