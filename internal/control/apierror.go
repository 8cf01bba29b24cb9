package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Code is the kind of an error, which callers tell apart by it.
type Code string

// The codes that the gateway answers with, and the HTTP status that goes with each unless an Error says
// another.
const (
	InvalidArgument    Code = "invalidArgument"    // 400
	Unauthenticated    Code = "unauthenticated"    // 401
	PermissionDenied   Code = "permissionDenied"   // 403
	NotFound           Code = "notFound"           // 404
	FailedPrecondition Code = "failedPrecondition" // 409; 412 for a stale ETag
	ResourceExhausted  Code = "resourceExhausted"  // 429
	Internal           Code = "internal"           // 500
	Unimplemented      Code = "unimplemented"      // 501
	Unavailable        Code = "unavailable"        // 503
	DeadlineExceeded   Code = "deadlineExceeded"   // 504
)

// Error is the body of every answer that is none, and of a failure inside a resource.
type Error struct {
	Code    Code              `json:"code"`
	Message string            `json:"message,omitempty"` // for a person; without secrets
	Details []json.RawMessage `json:"details,omitempty"` // objects with an "@type"
	Status  int               `json:"-"`                 // of HTTP; 0 for the code's own
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Errorf makes an error whose message is formatted.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The "@type" of details.
const (
	TypeETagMismatch        = "type.googleapis.com/docker.sandboxes.v1.EtagMismatch"
	TypeConfigurationReport = "type.googleapis.com/docker.sandboxes.v1.McpConfigurationReport"
	TypeErrorInfo           = "type.googleapis.com/google.rpc.ErrorInfo"
	TypeBadRequest          = "type.googleapis.com/google.rpc.BadRequest"
)

// Detail makes a detail of an object: v with its "@type".
func Detail(kind string, v any) json.RawMessage {
	body, err := JSON(v)
	head, _ := JSON(map[string]string{"@type": kind})
	if err != nil || len(body) < 2 || body[0] != '{' {
		return head
	}
	if string(body) == "{}" {
		return head
	}
	return append(append(head[:len(head)-1], ','), body[1:]...)
}

// JSON encodes v as people read it: <, > and & as they are, since no answer becomes part of a page.
func JSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Violation is one field of a request that is wrong (google.rpc.BadRequest.FieldViolation).
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
	Reason      string `json:"reason,omitempty"`
}

// BadRequest is the refusal of a request for what is wrong with its fields.
func BadRequest(message string, wrong ...Violation) *Error {
	return &Error{Code: InvalidArgument, Message: message, Details: []json.RawMessage{
		Detail(TypeBadRequest, map[string][]Violation{"fieldViolations": wrong}),
	}}
}

// ETagMismatch is the refusal of an If-Match that names another version than the current one, which is
// given as it stands in the resource's own etag.
func ETagMismatch(current string) *Error {
	return &Error{
		Code: FailedPrecondition, Status: http.StatusPreconditionFailed,
		Message: "etag_mismatch: the authorization has changed since that version",
		Details: []json.RawMessage{Detail(TypeETagMismatch, struct {
			CurrentETag string `json:"currentEtag,omitempty"`
		}{current})},
	}
}
