package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// AskError is a request that got no HTTP answer, or not a whole one.
type AskError struct {
	Asked string // as "POST tools/call"
	Err   error
}

// Error says what was asked and what went wrong.
func (e *AskError) Error() string { return e.Asked + ": " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *AskError) Unwrap() error { return e.Err }

// UnsentError is a request of which nothing has reached the server.
type UnsentError struct{ *AskError }

// Unwrap returns the error that it is.
func (e *UnsentError) Unwrap() error { return e.AskError }

// StatusError is an HTTP answer without a message of MCP.
type StatusError struct {
	Asked      string // as "POST tools/call"
	Status     int
	Challenges []string // the values of WWW-Authenticate
	Location   string   // where a redirect leads that is not followed, without its query
	RetryAfter string
	Body       string // its beginning, cleaned
}

// Error says what was asked and what came back, bounded.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: HTTP %d", e.Asked, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Location != "" {
		text += " to " + e.Location
	}
	if e.RetryAfter != "" {
		text += ", to be tried again after " + e.RetryAfter
	}
	if len(e.Challenges) > 0 {
		text += " (" + cleaned(strings.Join(e.Challenges, ", ")) + ")"
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// SignIn tells that the server wants credentials, or others.
func (e *StatusError) SignIn() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// statusError reads an answer as an error. body is its beginning.
func (r *Remote) statusError(asked string, response *http.Response, body []byte) *StatusError {
	e := &StatusError{
		Asked: asked, Status: response.StatusCode, Body: r.beginning(response, body),
	}
	for _, challenge := range response.Header.Values("WWW-Authenticate") {
		e.Challenges = append(e.Challenges, r.scrub(response, challenge))
	}
	if at, err := response.Location(); err == nil && response.StatusCode/100 == 3 {
		e.Location = r.o.Scrub(cleanURL(at))
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		if e.RetryAfter = cleaned(after); strings.Trim(after, "0123456789") == "" {
			e.RetryAfter += " s"
		}
	}
	return e
}

// scrub takes out of a server's text what it may repeat of the URL and of the token that it was sent, beside
// the known secrets.
func (r *Remote) scrub(response *http.Response, text string) string {
	if query := r.url.RawQuery; query != "" {
		text = strings.ReplaceAll(text, query, "…")
	}
	if _, token, ok := strings.Cut(response.Request.Header.Get("Authorization"), " "); ok && r.signsIn() {
		text = strings.ReplaceAll(text, token, "***")
	}
	return r.o.Scrub(text)
}

// beginning is that of an answer's body. It is scrubbed whole: of a token that is cut, a part would be left.
func (r *Remote) beginning(response *http.Response, body []byte) string {
	return beginning([]byte(r.scrub(response, string(body[:min(len(body), maxErrorBody)]))))
}

// errNoMessage is an answer without a message of MCP where one has to be.
var errNoMessage = errors.New("the answer is no message of MCP")

func (r *Remote) noMessage(asked string, response *http.Response, body []byte) error {
	text := fmt.Sprintf("HTTP %d", response.StatusCode)
	if kind := response.Header.Get("Content-Type"); kind != "" {
		text += " " + cleaned(kind)
	}
	if body := r.beginning(response, body); body != "" {
		text += ": " + body
	} else {
		text += ", empty"
	}
	return &AskError{Asked: asked, Err: fmt.Errorf("%w: %s", errNoMessage, text)}
}

// withoutURL takes the request's URL, which may hold keys, out of an error of net/http.
func withoutURL(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// cleanURL is a URL without what may be secret. Of the parameters the names are left.
func cleanURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	text := clean.String()
	if u.RawQuery != "" {
		text += "?…"
	}
	return text
}

const maxBeginning = 200 // characters of an answer in an error

var (
	invisible = regexp.MustCompile(`(?is)<script\b.*?</script>|<style\b.*?</style>|<!--.*?-->`)
	tags      = regexp.MustCompile(`(?s)</?[a-zA-Z!][^>]*>`)
)

// beginning makes the beginning of an answer fit for an error: the text of a page, on one line.
func beginning(body []byte) string {
	text := string(body)
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		text = tags.ReplaceAllString(invisible.ReplaceAllString(text, " "), " ")
	}
	return cleaned(text)
}

// cleaned bounds a text of a server's and takes control characters out.
func cleaned(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	runes := 0
	for i := range text {
		if runes++; runes > maxBeginning {
			return text[:i] + "…"
		}
	}
	return text
}

// maxErrorBody is how much of an answer that is an error is read.
const maxErrorBody = 64 << 10
