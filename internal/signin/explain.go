package signin

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// explain says what went wrong with an authorization server, without its answers' bodies, without URLs but
// for their origins and paths, and without these secrets.
func explain(err error, secrets ...string) string {
	var token *oauth2.RetrieveError
	var registration *oauthex.ClientRegistrationError
	var request *url.Error
	switch {
	case errors.As(err, &token) && token.ErrorCode != "":
		return hide(described(token.ErrorCode, token.ErrorDescription), secrets)
	case errors.As(err, &token):
		return fmt.Sprintf("HTTP %d", token.Response.StatusCode)
	case errors.As(err, &registration):
		return hide(described(registration.ErrorCode, registration.ErrorDescription), secrets)
	case errors.As(err, &request):
		return hide(request.Err.Error(), secrets)
	}
	text, _, _ := strings.Cut(err.Error(), " (") // before the body of an answer, which may hold a secret
	return hide(text, secrets)
}

// described joins the code and the description of an OAuth error.
func described(code, description string) string {
	if description == "" {
		return code
	}
	return code + " (" + description + ")"
}

func hide(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return clean(text)
}

// errorCode is the code of an OAuth error in the answer to a request for a token, "" for another trouble.
func errorCode(err error) string {
	var token *oauth2.RetrieveError
	if errors.As(err, &token) {
		return token.ErrorCode
	}
	return ""
}

const maxText = 300 // characters of somebody else's text

var addresses = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>()]+`)

// clean bounds somebody else's text, on one line and without what is secret in URLs.
func clean(text string) string {
	text = addresses.ReplaceAllStringFunc(strings.ToValidUTF8(text, "\uFFFD"), withoutQuery)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
	}
	return text
}

// withoutQuery is a URL without what may be secret.
func withoutQuery(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
