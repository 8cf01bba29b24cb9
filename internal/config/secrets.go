package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/secret"
)

// minPart is the shortest line of a value that is taken for a secret of its own.
const minPart = 8

// addSecrets notes every value that people must not read. Beside whole values these are the parts
// that programs print alone: the token after "Bearer", a URL's password, the lines of a key.
func addSecrets(launch *catalog.Launch, environment map[string]secret.Value) {
	secrets := slices.Clone(launch.Secrets)
	for _, value := range environment {
		secrets = append(secrets, value)
	}
	for _, value := range launch.Headers {
		secrets = append(secrets, value)
		if match := credentials.FindStringSubmatch(value.Reveal()); match != nil {
			secrets = append(secrets, secret.Value(match[1]))
		}
	}
	secrets = append(secrets, inURL(launch.URL)...)
	for _, value := range launch.Env {
		secrets = append(secrets, inURL(value.Reveal())...)
	}
	for _, arg := range launch.Args {
		secrets = append(secrets, inURL(arg)...)
	}
	for _, value := range slices.Clone(secrets) {
		secrets = append(secrets, lines(value)...)
	}
	slices.Sort(secrets)
	launch.Secrets = slices.DeleteFunc(slices.Compact(secrets), func(v secret.Value) bool { return v == "" })
}

// credentials is a header's value with a scheme, as in "Bearer TOKEN".
var credentials = regexp.MustCompile(`^[A-Za-z]+ +([^ ]+)$`)

// lines returns the lines of a value with several, since logs are read line by line.
func lines(value secret.Value) []secret.Value {
	var parts []secret.Value
	if text := value.Reveal(); strings.ContainsAny(text, "\r\n") {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= minPart {
				parts = append(parts, secret.Value(line))
			}
		}
	}
	return parts
}

// keyWords are what the names of a URL's secret parameters hold.
var keyWords = []string{"key", "token", "secret", "password", "auth", "sig"}

// inURL returns the password of a URL and the values of its parameters that are named like a key, as
// they stand in it and decoded. It reads the text itself, because the URLs of databases are often
// none that a parser takes.
func inURL(text string) []secret.Value {
	_, rest, found := strings.Cut(text, "://")
	if !found {
		return nil
	}
	var secrets []secret.Value
	add := func(escaped string, decode func(string) (string, error)) {
		secrets = append(secrets, secret.Value(escaped))
		if decoded, err := decode(escaped); err == nil {
			secrets = append(secrets, secret.Value(decoded))
		}
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if _, password, set := strings.Cut(authority[:at], ":"); set {
			add(password, url.PathUnescape)
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		isKey := func(word string) bool { return strings.Contains(strings.ToLower(name), word) }
		if slices.ContainsFunc(keyWords, isKey) {
			add(value, url.QueryUnescape)
		}
	}
	return secrets
}
