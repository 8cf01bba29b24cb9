package catalog

import (
	"net/url"
	"regexp"
)

// The names that processes and HTTP can carry.
var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	// forbiddenInHeader are the control characters but the tab, which HTTP libraries refuse at the first call.
	forbiddenInHeader = regexp.MustCompile("[\x00-\x08\x0a-\x1f\x7f]")
)

// CheckEnvName says what is wrong with the name of an environment variable, or "".
func CheckEnvName(name string) string {
	if !envName.MatchString(name) {
		return "is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit"
	}
	return ""
}

// CheckHeader says what is wrong with a header, or "". It never quotes the value.
func CheckHeader(name, value string) string {
	switch {
	case !headerName.MatchString(name):
		return "is not a name for an HTTP header"
	case forbiddenInHeader.MatchString(value):
		return "must not hold line breaks or other control characters"
	}
	return ""
}

// CheckURL says what is wrong with the URL of a remote server, or "". It never quotes it, since keys
// stand in URLs.
func CheckURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return "must be an absolute URL with http or https"
	}
	return ""
}
