package process

import "strings"

// Spec is one process to start.
type Spec struct {
	Name string   // the server it belongs to, for errors and log lines
	Argv []string // never empty; Argv[0] is looked up on the PATH of Env
	Env  []string // the whole environment, "NAME=value"
	Dir  string   // working directory; empty means the gateway's own
	User string   // run as this user; empty means as the gateway
}

// CommandLine is the command as a person would type it into a shell. It may hold secrets.
func (s Spec) CommandLine() string {
	words := make([]string, len(s.Argv))
	for i, word := range s.Argv {
		words[i] = quoteWord(word)
	}
	return strings.Join(words, " ")
}

func quoteWord(word string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:@,+%", r))
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
