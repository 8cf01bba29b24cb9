package install

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// need is a program that must be on the machine, and perhaps its version, as an entry's needs name it:
// "node>=22.14.0", "python==3.13" (any 3.13), "chromium".
type need struct {
	name    string
	exact   bool // ==, else >=
	version []int
}

func parseNeed(text string) need {
	for _, op := range []string{">=", "=="} {
		if name, version, ok := strings.Cut(text, op); ok {
			return need{name: name, exact: op == "==", version: numbers(version)}
		}
	}
	return need{name: text}
}

func (n need) meets(version []int) bool {
	if n.exact {
		return slices.Compare(version[:min(len(version), len(n.version))], n.version) == 0
	}
	return slices.Compare(version, n.version) >= 0
}

// String says the need as a person would: "node 22.14.0 or newer".
func (n need) String() string {
	name := cmp.Or(map[string]string{"python": "Python", "java": "Java", "dotnet": ".NET", "node": "Node.js"}[n.name], n.name)
	switch {
	case len(n.version) == 0:
		return name
	case n.exact:
		return name + " " + dotted(n.version)
	}
	return name + " " + dotted(n.version) + " or newer"
}

// specifier is the need in the form of Python's tools.
func (n need) specifier() string {
	switch {
	case len(n.version) == 0:
		return ""
	case n.exact:
		return "==" + dotted(n.version) + ".*"
	}
	return ">=" + dotted(n.version)
}

var digits = regexp.MustCompile(`\d+(\.\d+)*`)

// numbers reads the first version number in a text.
func numbers(text string) []int {
	var parts []int
	for part := range strings.SplitSeq(digits.FindString(text), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		parts = append(parts, n)
	}
	return parts
}

func dotted(version []int) string {
	parts := make([]string, len(version))
	for i, n := range version {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ".")
}

// hintFor says how to get a program.
func hintFor(n need) string {
	switch n.name {
	case "node", "npm":
		return fmt.Sprintf("install %s with npm: https://nodejs.org, or the packages nodejs and npm", need{name: "node", version: n.version})
	case "uv":
		return "install uv: pip install uv"
	case "go":
		return "install Go: https://go.dev/dl/, or the package golang"
	case "cargo":
		return "install Rust with cargo: https://rustup.rs"
	case "java":
		return fmt.Sprintf("install %s: for instance the package default-jdk-headless", n)
	case "dotnet":
		return fmt.Sprintf("install the SDK of %s: https://dotnet.microsoft.com/download", n)
	case "mvn":
		return "install Maven: the package maven"
	}
	return "install " + n.String()
}
