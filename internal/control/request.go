package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"mcp-gateway/internal/catalog/document"
)

// maxBody bounds a request: a registration holds one server's properties.
const maxBody = 16 << 20

// maxProblems bounds how many problems of a request are told.
const maxProblems = 32

// field is one that a request's body may have.
type field struct {
	name     string
	required bool
	// read takes the value, or says what it has to be.
	read func(value json.RawMessage) (needed string)
}

// The reasons of violations.
const (
	unknownField = "UNKNOWN_FIELD"
	repeated     = "REPEATED_FIELD"
	required     = "REQUIRED"
	invalid      = "INVALID_VALUE"
	malformed    = "MALFORMED"
)

// read reads a body that has to be an object of these fields and nothing else. All problems are told.
func (q request) read(fields ...field) error {
	members, err := q.members()
	if err != nil {
		return err
	}
	var problems []Violation
	seen := map[string]bool{}
	for _, member := range members {
		seen[member.Name] = true
		if problem, bad := check(member, fields); bad && len(problems) < maxProblems {
			problems = append(problems, problem)
		}
	}
	for _, field := range fields {
		if field.required && !seen[field.name] {
			problems = append(problems, Violation{field.name, "is missing", required})
		}
	}
	return badRequest(problems)
}

// check reads one member.
func check(member document.Member, fields []field) (Violation, bool) {
	if member.Repeated {
		return Violation{clipName(member.Name), "is given twice", repeated}, true
	}
	for _, field := range fields {
		if field.name != member.Name {
			continue
		}
		if needed := field.read(member.Value); needed != "" {
			return Violation{field.name, "has to be " + needed, invalid}, true
		}
		return Violation{}, false
	}
	return Violation{clipName(member.Name), "is no field of this request", unknownField}, true
}

// members are those of the body.
func (q request) members() ([]document.Member, error) {
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &Error{Code: ResourceExhausted, Message: fmt.Sprintf("the request is over %d MiB", maxBody>>20)}
	}
	if err != nil {
		return nil, badRequest([]Violation{{"", "the body breaks off", malformed}})
	}
	raw, fault := document.Check(body)
	if fault != nil {
		return nil, badRequest([]Violation{{"", "the body is " + fault.Error(), malformed}})
	}
	members, isObject := document.Object(raw)
	if !isObject {
		return nil, badRequest([]Violation{{"", "the body has to be an object, it is " + document.Kind(raw), malformed}})
	}
	return members, nil
}

// readNothing reads the body of an operation that takes none; an empty object is as good. A body of unknown
// length may turn out to be none.
func (q request) readNothing() error {
	if q.ContentLength == 0 {
		return nil
	}
	body := bufio.NewReader(q.Body)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return nil
	}
	q.Body = io.NopCloser(body)
	return q.read()
}

// badRequest makes one error of the problems, nil of none.
func badRequest(problems []Violation) error {
	if len(problems) == 0 {
		return nil
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = strings.TrimSpace(p.Field + " " + p.Description)
	}
	return BadRequest(strings.Join(texts, "; "), problems...)
}

// clipName bounds a name that a caller made up.
func clipName(name string) string { return fmt.Sprintf("%.100s", name) }

func text(into *string) func(json.RawMessage) string {
	return func(value json.RawMessage) string {
		var isString bool
		if *into, isString = document.String(value); !isString || *into == "" {
			return "a string that is not empty"
		}
		return ""
	}
}

func optionalText(into *string) func(json.RawMessage) string {
	return func(value json.RawMessage) string {
		var isString bool
		if *into, isString = document.String(value); !isString {
			return "a string"
		}
		return ""
	}
}

func boolean(into *bool) func(json.RawMessage) string {
	return func(value json.RawMessage) string {
		var isBool bool
		if *into, isBool = document.Bool(value); !isBool {
			return "true or false"
		}
		return ""
	}
}

func texts(into *[]string) func(json.RawMessage) string {
	const needed = "a list of strings that are not empty"
	return func(value json.RawMessage) string {
		elements, isList := document.List(value)
		if !isList {
			return needed
		}
		*into = []string{}
		for _, element := range elements {
			s, isString := document.String(element)
			if !isString || s == "" {
				return needed
			}
			*into = append(*into, s)
		}
		return ""
	}
}

// address takes a URL or null, which is none.
func address(into **string) func(json.RawMessage) string {
	return func(value json.RawMessage) string {
		if document.IsNull(value) {
			return ""
		}
		s, isString := document.String(value)
		u, err := url.Parse(s)
		if !isString || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return "an absolute http or https URL, or null"
		}
		*into = &s
		return ""
	}
}

func object(into *json.RawMessage) func(json.RawMessage) string {
	return func(value json.RawMessage) string {
		if _, isObject := document.Object(value); !isObject {
			return "an object"
		}
		*into = value
		return ""
	}
}

// MaxWait is the longest time that a request waits for.
const MaxWait = 10 * time.Minute

// durationForm is that of the model's durations, up to MaxWait.
var durationForm = regexp.MustCompile(`^([0-5]?[0-9]{1,2}(\.[0-9]{1,9})?|600(\.0{1,9})?)s$`)

// wait returns the time of ?wait=, and whether it was given.
func (q request) wait() (wait time.Duration, given bool, err error) {
	query, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return 0, false, badRequest([]Violation{{"", "the query is not well formed", malformed}})
	}
	values := query["wait"]
	if len(values) == 0 {
		return 0, false, nil
	}
	if len(values) > 1 {
		return 0, false, badRequest([]Violation{{"wait", "is given twice", repeated}})
	}
	if durationForm.MatchString(values[0]) {
		wait, err = time.ParseDuration(values[0])
		return wait, true, err
	}
	return 0, false, badRequest([]Violation{{"wait", fmt.Sprintf("has to be seconds such as 30s or 1.5s, at most %.0fs, not %.40q", MaxWait.Seconds(), values[0]), invalid}})
}
