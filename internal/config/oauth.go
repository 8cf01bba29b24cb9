package config

import (
	"encoding/json"
	"regexp"
	"slices"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

var oauthNames = []string{"clientId", "clientSecret", "scopes", "resource", "authorizationServer"}

// scopeForm is a scope of RFC 6749, section 3.3.
var scopeForm = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]+$`)

// oauth reads what is said of a remote server's sign-in.
func (e *entry) oauth(at string, raw json.RawMessage) catalog.OAuth {
	var o catalog.OAuth
	isURL := func(text string) bool { return catalog.CheckURL(text) == "" }
	notEmpty := func(text string) bool { return text != "" }
	for _, member := range e.object(at, raw, "") {
		field := document.Field(at, member.Name)
		e.signsIn = true
		if document.IsNull(member.Value) && slices.Contains(oauthNames, member.Name) {
			continue
		}
		switch member.Name {
		case "clientId":
			o.ClientID = e.matching(field, member.Value, notEmpty, "must be a string that is not empty")
		case "clientSecret":
			o.ClientSecret = secret.Value(e.matching(field, member.Value, notEmpty, "must be a string that is not empty"))
		case "scopes":
			o.Scopes = e.scopes(field, member.Value)
		case "resource":
			o.Resource = e.matching(field, member.Value, isURL, "must be a URL")
		case "authorizationServer":
			o.AuthorizationServer = e.matching(field, member.Value, isURL, "must be the URL of an issuer")
		default:
			e.unknownOption(field, member.Name, oauthNames)
		}
	}
	if o.ClientSecret != "" && o.ClientID == "" {
		e.problem(document.Field(at, "clientId"), "is missing, must be the client that clientSecret is of", "")
	}
	return o
}

// scopes reads a list, which may be empty: then none are asked for.
func (e *entry) scopes(at string, raw json.RawMessage) []string {
	scopes := append([]string{}, e.list(at, raw)...)
	for _, scope := range scopes {
		if !scopeForm.MatchString(scope) {
			e.problem(at, "holds "+document.Quote(scope)+", which is no scope", "each scope is an element of its own, without spaces")
		}
	}
	return scopes
}

// fillSecret puts the entry's variables into the client secret, as into headers.
func (e *entry) fillSecret(o *catalog.OAuth, variables map[string]secret.Value) {
	o.ClientSecret = secret.Value(e.fill(document.Field(document.Field(reserved, "oauth"), "clientSecret"), o.ClientSecret.Reveal(), variables))
}
