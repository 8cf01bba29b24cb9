package downstream

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"mcp-gateway/internal/wire"
)

// acceptBoth is what clients are to send, and what nearly all do.
const acceptBoth = "application/json, text/event-stream"

// acceptable looks at the headers that say what is sent and what can be taken.
func acceptable(r *http.Request) (form, *wire.Error, int) {
	if kind := header(r, "Content-Type"); kind != "application/json" {
		if base, _, err := mime.ParseMediaType(kind); err != nil && base == "" || base != "application/json" {
			return 0, invalid("the Content-Type header is %.80q; MCP messages are application/json", kind), http.StatusUnsupportedMediaType
		}
	}
	values := r.Header["Accept"]
	if len(values) == 0 || values[0] == acceptBoth {
		return anyForm, nil, 0
	}
	json, events := accepts(values, "application/json"), accepts(values, "text/event-stream")
	switch {
	case json && events:
		return anyForm, nil, 0
	case json:
		return onlyJSON, nil, 0
	case events:
		return onlyEvents, nil, 0
	}
	return 0, invalid("the Accept header %.80q allows neither of the two forms of an answer: send Accept: %s", strings.Join(values, ", "), acceptBoth), http.StatusNotAcceptable
}

// acceptsEvents tells whether a client takes an event stream.
func acceptsEvents(r *http.Request) bool {
	values := r.Header["Accept"]
	return len(values) == 0 || accepts(values, "text/event-stream")
}

// accepts tells whether Accept headers allow a media type (RFC 9110, section 12.5.1): of the ranges
// that it falls into, the most specific one decides.
func accepts(values []string, want string) bool {
	major, _, _ := strings.Cut(want, "/")
	ranges := [...]string{"*/*", major + "/*", want}
	best, allowed := -1, false
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			kind, quality, _ := strings.Cut(part, ";")
			kind = strings.ToLower(strings.TrimSpace(kind))
			for n, name := range ranges {
				if kind == name && n > best {
					best, allowed = n, !zeroQuality(quality)
				}
			}
		}
	}
	return allowed
}

// zeroQuality tells whether a media range's parameters hold q=0, which forbids it.
func zeroQuality(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q <= 0
		}
	}
	return false
}
