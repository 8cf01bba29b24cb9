package control

import (
	"slices"
	"strings"
)

// An entity tag is compared as RFC 9110, section 8.8.3.2, has it.

// matchesWeakly says whether an If-None-Match names the tag: one tag, a list, or "*". A value that is not
// well formed names none.
func matchesWeakly(header []string, tag string) bool {
	tags, all, valid := parseTags(header)
	return valid && (all || slices.ContainsFunc(tags, func(t string) bool {
		return strings.TrimPrefix(t, "W/") == tag
	}))
}

// matchesStrongly says whether an If-Match names the tag. The gateway's tags are strong, so a weak one of the
// header equals none.
func matchesStrongly(header []string, tag string) bool {
	tags, all, valid := parseTags(header)
	return valid && (all || slices.Contains(tags, tag))
}

// parseTags splits the values of a header into tags, which keep their quotes and W/.
func parseTags(header []string) (tags []string, all, valid bool) {
	rest := strings.Trim(strings.Join(header, ","), " \t")
	if rest == "*" {
		return nil, true, true
	}
	for rest != "" {
		if rest[0] == ',' { // an empty element is no mistake
			rest = strings.TrimLeft(rest[1:], " \t")
			continue
		}
		end := tagEnd(rest)
		if end < 0 {
			return nil, false, false
		}
		tags = append(tags, rest[:end])
		rest = strings.TrimLeft(rest[end:], " \t")
		if rest != "" && rest[0] != ',' {
			return nil, false, false
		}
	}
	return tags, false, len(tags) > 0
}

// tagEnd is where the tag at the beginning of s ends; -1 where there is none.
func tagEnd(s string) int {
	open := 0
	if strings.HasPrefix(s, "W/") {
		open = len("W/")
	}
	if open >= len(s) || s[open] != '"' {
		return -1
	}
	for i := open + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c < 0x21 || c == 0x7f:
			return -1
		}
	}
	return -1
}
