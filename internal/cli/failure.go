package cli

import (
	"fmt"
	"strings"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
)

const (
	// maxFailureBytes bounds all that a failed start says: callers keep little, and show only that.
	maxFailureBytes = 4095
	maxFirstLine    = 1200 // the first line, with what is known about each server
	maxNamesLine    = 2400 // the first line, when only so all failed servers can be named
	maxWarningBytes = 512
	maxFieldBytes   = 300
	maxRawBytes     = 4096
	maxStderrLines  = 20
	maxStderrBytes  = 2048
)

// What servers have failed to do.
const (
	notStarted   = "did not start"
	notInstalled = "could not be installed"
)

// failureText tells why servers failed. The first line alone says everything; a block for each
// failed server follows, and the warnings of the configuration come last. The text stays under 4 KiB
// whatever comes in, and no value that scrub knows is in it.
func failureText(failed failedServers, warnings []string, scrub *secret.Scrubber) string {
	clean := cleanFaults(failed.faults, scrub)
	after := warningText(warnings, scrub)
	text := firstLine(clean, failed.total, failed.deed) + "\n"
	text += blocks(clean, maxFailureBytes-len(text)-len(after))
	return text + after
}

// failedServers are servers with what they have failed to do.
type failedServers struct {
	faults []*fault.Fault
	total  int
	deed   string
}

func cleanFaults(faults []*fault.Fault, scrub *secret.Scrubber) []fault.Fault {
	clean := make([]fault.Fault, len(faults))
	for i, f := range faults {
		clean[i] = cleanFault(f, scrub)
	}
	return clean
}

// cleanFault returns the fault as it may be shown: one line a field, bounded, without secrets.
func cleanFault(f *fault.Fault, scrub *secret.Scrubber) fault.Fault {
	// Cut before cleaning, which takes long on megabytes, and after scrubbing, which needs whole values.
	field := func(s string) string { return cleanLine(clip(scrub.Scrub(s), maxRawBytes)) }
	shown := *f
	shown.Ran, shown.Ended, shown.Hint = field(f.Ran), field(f.Ended), field(f.Hint)
	shown.Stderr = nil
	for _, line := range f.Stderr[max(0, len(f.Stderr)-maxStderrLines):] {
		line = strings.TrimRight(cleanText(clip(scrub.Scrub(line), maxRawBytes)), " \t\r\n")
		if line != "" {
			shown.Stderr = append(shown.Stderr, strings.ReplaceAll(line, "\n", " "))
		}
	}
	if f.Err != nil {
		shown.Err = reason(field(f.Err.Error()))
	}
	return shown
}

// reason is an error's text after cleaning.
type reason string

func (r reason) Error() string { return string(r) }

// firstLine names every failed server, with as much about each as fits.
func firstLine(faults []fault.Fault, total int, deed string) string {
	if len(faults) == 1 && total <= 1 {
		return clip(fmt.Sprintf("server %s", fullSummary(faults[0], maxFirstLine)), maxFirstLine)
	}
	head := fmt.Sprintf("%d of %d servers %s: ", len(faults), max(total, len(faults)), deed)
	each := maxFirstLine / max(len(faults), 1)
	levels := []struct {
		limit int
		show  func(fault.Fault) string
	}{
		{maxFirstLine, func(f fault.Fault) string { return fullSummary(f, max(each, 160)) }},
		{maxNamesLine, func(f fault.Fault) string { return fmt.Sprintf("%q [%s]", f.Server, f.Cause) }},
		{maxNamesLine, func(f fault.Fault) string { return fmt.Sprintf("%q", f.Server) }},
	}
	for _, level := range levels {
		if line := head + joinShown(faults, level.show); len(line) <= level.limit {
			return line
		}
	}
	return head + namesThatFit(faults, maxNamesLine-len(head))
}

func joinShown(faults []fault.Fault, show func(fault.Fault) string) string {
	shown := make([]string, len(faults))
	for i, f := range faults {
		shown[i] = show(f)
	}
	return strings.Join(shown, "; ")
}

func namesThatFit(faults []fault.Fault, limit int) string {
	var b strings.Builder
	for i, f := range faults {
		name := fmt.Sprintf("%q; ", f.Server)
		more := fmt.Sprintf("and %d more", len(faults)-i)
		if b.Len()+len(name)+len(more) > limit {
			return b.String() + more
		}
		b.WriteString(name)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// fullSummary is one server's failure within a line: name, cause, what ran, how it ended, and why.
func fullSummary(f fault.Fault, limit int) string {
	parts := []string{fmt.Sprintf("%q [%s]", f.Server, f.Cause)}
	if f.Ran != "" {
		parts = append(parts, clip(f.Ran, limit/3))
	}
	if ended := endedText(f); ended != "" {
		parts = append(parts, clip(ended, 80))
	}
	if f.Err != nil {
		parts = append(parts, clip(f.Err.Error(), limit/2))
	}
	if line := tellingLine(f.Stderr); line != "" {
		parts = append(parts, clip(cleanLine(line), limit/3))
	}
	return clip(strings.Join(parts, ": "), limit)
}

func endedText(f fault.Fault) string {
	switch {
	case f.Ended == "":
		return ""
	case f.After <= 0:
		return f.Ended
	}
	return fmt.Sprintf("%s after %.1f s", f.Ended, f.After.Seconds())
}

// tellingLine picks the line of a server's stderr that a reader would look for: the last one that
// speaks of an error, else the last. npm says what is wrong first and ends with advice; node ends with
// its version.
func tellingLine(lines []string) string {
	last, telling := "", ""
	for _, line := range lines {
		lower := strings.ToLower(line)
		switch {
		case strings.HasPrefix(lower, "node.js v"):
		case strings.HasPrefix(lower, "npm error"), strings.HasPrefix(lower, "npm err!"):
			if telling == "" || strings.HasPrefix(strings.ToLower(telling), "npm err") && strings.Contains(telling, " code ") {
				telling = line
			}
		default:
			last = line
			indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
			if !indented && containsAny(lower, "error", "exception", "panic", "fatal") {
				telling = line
			}
		}
	}
	if telling != "" {
		return telling
	}
	return last
}

func containsAny(s string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

// blocks gives each failed server its block. Where not all fit, the first ones are shown and the rest
// counted; what room is left after the facts is shared out among the servers' own lines.
func blocks(faults []fault.Fault, room int) string {
	facts := make([]string, len(faults))
	hints := make([]string, len(faults))
	shown, used := 0, 0
	for i, f := range faults {
		facts[i], hints[i] = blockFacts(f)
		size := len(facts[i]) + len(hints[i])
		left := len(moreLine(len(faults) - i - 1))
		if used+size+left > room {
			break
		}
		used += size
		shown++
	}
	rest := moreLine(len(faults) - shown)
	spare := room - used - len(rest)
	var b strings.Builder
	for i := range shown {
		lines := stderrText(faults[i].Stderr, min(spare/(shown-i), maxStderrBytes))
		spare -= len(lines)
		b.WriteString(facts[i] + lines + hints[i])
	}
	return b.String() + rest
}

func moreLine(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\nand %d more; start them alone to see why\n", n)
}

// blockFacts returns a block's lines before and after the server's own ones.
func blockFacts(f fault.Fault) (facts, hint string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s [%s]\n", f.Server, f.Cause)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-7s %s\n", name+":", clip(value, maxFieldBytes))
		}
	}
	field("ran", f.Ran)
	field("ended", f.Ended)
	if f.After > 0 {
		field("after", fmt.Sprintf("%.1f s", f.After.Seconds()))
	}
	if f.Err != nil {
		field("why", f.Err.Error())
	}
	if f.Hint != "" {
		hint = fmt.Sprintf("  %-7s %s\n", "hint:", clip(f.Hint, maxFieldBytes))
	}
	return b.String(), hint
}

// stderrText shows the last lines of a server that fit into limit bytes.
func stderrText(lines []string, limit int) string {
	shown := make([]string, 0, len(lines))
	used := len("  stderr: \n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := clip(lines[i], maxFieldBytes)
		if used+len("          \n")+len(line) > limit {
			break
		}
		used += len("          \n") + len(line)
		shown = append(shown, line)
	}
	var b strings.Builder
	for i := len(shown) - 1; i >= 0; i-- {
		name := ""
		if i == len(shown)-1 {
			name = "stderr:"
		}
		fmt.Fprintf(&b, "  %-7s %s\n", name, shown[i])
	}
	return b.String()
}

// warningText shows the warnings of a configuration, as far as they fit.
func warningText(warnings []string, scrub *secret.Scrubber) string {
	var b strings.Builder
	for i, warning := range warnings {
		line := clip("warning: "+cleanLine(clip(scrub.Scrub(warning), maxRawBytes)), maxFieldBytes) + "\n"
		more := fmt.Sprintf("and %d more warnings\n", len(warnings)-i)
		if b.Len()+len(line)+len(more) > maxWarningBytes {
			return b.String() + more
		}
		b.WriteString(line)
	}
	return b.String()
}
