package config

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
)

// reserved is the key under which the gateway's own settings for a server stand.
const reserved = "gateway"

var (
	optionNames = []string{"tools", "callTimeout", "startTimeout", "isolated", "noCancel", "prefix", "protocol", "user", "oauth"}
	filterNames = []string{"allow", "deny"}
	protocols   = []string{"legacy", "modern", "both"}
)

// prefixForm leaves a tool's own name at least half of the 64 characters that a name may have.
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,32}$`)

// options reads the reserved key. Unlike a server's own fields, an unknown option is refused: it was
// written for this program.
func (e *entry) options() catalog.Options {
	var options catalog.Options
	raw, ok := e.take(reserved)
	if !ok {
		return options
	}
	for _, member := range e.object(reserved, raw, "") {
		at := document.Field(reserved, member.Name)
		if document.IsNull(member.Value) && slices.Contains(optionNames, member.Name) {
			continue
		}
		switch member.Name {
		case "tools":
			e.filters(at, member.Value, &options)
		case "callTimeout":
			options.CallTimeout = e.duration(at, member.Value)
		case "startTimeout":
			options.StartTimeout = e.duration(at, member.Value)
		case "isolated":
			options.Isolated = e.flag(at, member.Value)
		case "noCancel":
			options.NoCancel = e.flag(at, member.Value)
		case "prefix":
			options.Prefix = e.matching(at, member.Value, prefixForm.MatchString, "must be up to 32 letters, digits, _, . and -")
		case "protocol":
			isOne := func(text string) bool { return slices.Contains(protocols, text) }
			options.Protocol = e.matching(at, member.Value, isOne, `must be "legacy", "modern" or "both"`)
		case "user":
			options.User = e.matching(at, member.Value, isUserName, "must be the name of a user")
		case "oauth":
			options.OAuth = e.oauth(at, member.Value)
		default:
			e.unknownOption(at, member.Name, optionNames)
		}
	}
	return options
}

func isUserName(text string) bool {
	odd := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == ':' || r == '/' }
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, odd)
}

// flag takes true or false.
func (e *entry) flag(at string, raw json.RawMessage) bool {
	value, ok := document.Bool(raw)
	if !ok {
		e.problem(at, "must be true or false, is "+document.Kind(raw), "")
	}
	return value
}

// matching takes a string that must pass a check.
func (e *entry) matching(at string, raw json.RawMessage, passes func(string) bool, message string) string {
	text, ok := document.String(raw)
	if !ok {
		message += ", is " + document.Kind(raw)
	}
	if !ok || !passes(text) {
		e.problem(at, message, "")
		return ""
	}
	return text
}

func (e *entry) unknownOption(at, name string, allowed []string) {
	hint := ""
	if near := catalog.Nearest(name, allowed); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", near[0])
	}
	e.problem(at, "is no option, must be one of "+strings.Join(allowed, ", "), hint)
}

// filters reads which tools are shown.
func (e *entry) filters(at string, raw json.RawMessage, options *catalog.Options) {
	for _, member := range e.object(at, raw, "") {
		field := document.Field(at, member.Name)
		switch member.Name {
		case "allow":
			options.Allow = e.patterns(field, member.Value)
			if elements, ok := document.List(member.Value); ok && len(elements) == 0 {
				// Read as "no pattern", it would show every tool to somebody who wanted none.
				e.problem(field, "must not be empty", `leave it out to allow every tool, or deny "*"`)
			}
		case "deny":
			options.Deny = e.patterns(field, member.Value)
		default:
			e.unknownOption(field, member.Name, filterNames)
		}
	}
}

func (e *entry) patterns(field string, raw json.RawMessage) []string {
	if document.IsNull(raw) {
		return nil
	}
	before := len(e.problems)
	patterns := e.list(field, raw)
	if len(e.problems) > before {
		return nil
	}
	for i, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			e.problem(fmt.Sprintf("%s[%d]", field, i), "is not a pattern", "* stands for any characters, ? for one, [a-z] for one of a set")
		}
	}
	return patterns
}

// duration takes "1m30s", or a number of seconds.
func (e *entry) duration(at string, raw json.RawMessage) time.Duration {
	text, ok := document.String(raw)
	if !ok {
		if text, ok = document.Number(raw); ok {
			text += "s"
		}
	}
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d < 0 {
		e.problem(at, `must be a duration such as "90s" or "1m30s", or a number of seconds`, "")
		return 0
	}
	return d
}
