package relay

import (
	"regexp"
	"strings"
)

// template matches the URIs that a resource template can stand for (RFC 6570). It does not expand:
// the client does that, and we find the server that the result belongs to.
type template struct {
	literal int // bytes outside of expressions: the more, the better the match
	match   *regexp.Regexp
}

var expression = regexp.MustCompile(`\{([+#./;?&]?)([^{}]*)\}`)

// parseTemplate makes the matcher; nil where the text is no template that can be matched.
func parseTemplate(text string) *template {
	var pattern strings.Builder
	pattern.WriteString("^")
	t := &template{}
	at := 0
	for _, m := range expression.FindAllStringSubmatchIndex(text, -1) {
		pattern.WriteString(regexp.QuoteMeta(text[at:m[0]]))
		t.literal += m[0] - at
		switch text[m[2]:m[3]] {
		case "+":
			pattern.WriteString(".*")
		case "#":
			pattern.WriteString("(?:#.*)?")
		case ".":
			pattern.WriteString(`(?:\.[^/?#]*)?`)
		case "/":
			pattern.WriteString("(?:/[^?#]*)?")
		case ";":
			pattern.WriteString("(?:;[^/?#]*)*")
		case "?":
			pattern.WriteString(`(?:\?[^#]*)?`)
		case "&":
			pattern.WriteString("(?:&[^#]*)?")
		default:
			pattern.WriteString("[^/?#]*")
		}
		at = m[1]
	}
	pattern.WriteString(regexp.QuoteMeta(text[at:]))
	t.literal += len(text) - at
	pattern.WriteString("$")
	var err error
	if t.match, err = regexp.Compile(pattern.String()); err != nil {
		return nil
	}
	return t
}

// resource finds the server of a URI and the URI that the server knows it by: a listed one, one of
// ours, or what a template stands for. known is false where nothing fits.
func (t *table) resource(uri string) (server, own string, known bool) {
	if r := t.resources[uri]; r != nil {
		return r.server, r.name, true
	}
	if o, ours := parseOwnURI(uri); ours {
		if _, there := t.members[o.server]; there {
			return o.server, o.name, true
		}
	}
	var best *route
	for _, r := range t.templates {
		if r.template != nil && r.template.match.MatchString(uri) && (best == nil || r.template.literal > best.template.literal) {
			best = r
		}
	}
	if best != nil {
		return best.server, uri, true
	}
	return "", uri, false
}
