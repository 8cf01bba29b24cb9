package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
)

// startFailure is the error of a start or a pull, with what its text needs.
type startFailure struct {
	err      error
	warnings []string
	scrub    *secret.Scrubber
}

func (e *startFailure) Error() string {
	if failed := e.servers(); failed != nil {
		return firstLine(cleanFaults(failed.faults, e.scrub), failed.total, failed.deed)
	}
	return e.scrub.Scrub(e.err.Error())
}

func (e *startFailure) Unwrap() error { return e.err }

// servers is the part about servers, or nil when the failure was none of theirs.
func (e *startFailure) servers() *failedServers {
	var start *gateway.StartError
	var pull *pullError
	switch {
	case errors.As(e.err, &start) && len(start.Faults) > 0:
		return &failedServers{start.Faults, start.Total, notStarted}
	case errors.As(e.err, &pull):
		return &failedServers{pull.faults, pull.total, notInstalled}
	}
	return nil
}

// text is what a person reads: errors first, warnings after, under 4 KiB in all.
func (e *startFailure) text() string {
	if failed := e.servers(); failed != nil {
		return failureText(*failed, e.warnings, e.scrub)
	}
	var b strings.Builder
	fmt.Fprintln(&b, clip(cleanLine(e.Error()), maxFirstLine))
	var died *daemon.Died
	if errors.As(e.err, &died) {
		for _, line := range died.Lines {
			fmt.Fprintln(&b, "  "+clip(cleanLine(e.scrub.Scrub(line)), maxFieldBytes))
		}
	}
	if v := judge(e.err); v.hint != "" {
		fmt.Fprintln(&b, "hint: "+v.hint)
	}
	after := warningText(e.warnings, e.scrub)
	return clip(b.String(), maxFailureBytes-len(after)) + after
}

// faultDetail is one server's failure as scripts read it.
type faultDetail struct {
	Name         string   `json:"name"`
	Cause        string   `json:"cause"`
	Ran          string   `json:"ran"`
	Ended        string   `json:"ended"`
	AfterSeconds float64  `json:"after_seconds"`
	Message      string   `json:"message"`
	Stderr       []string `json:"stderr"`
	Hint         string   `json:"hint"`
}

// json is the same for scripts: warnings, then one object in the last line. It keeps the same bound: the
// servers' own lines go first, then all but names and causes, and in the end the last servers.
func (e *startFailure) json() string {
	before := warningText(e.warnings, e.scrub)
	return before + e.object(maxFailureBytes-len(before))
}

// object is the error as one line of at most limit bytes.
func (e *startFailure) object(limit int) string {
	v := judge(e.err)
	failed := e.servers()
	if failed == nil {
		var b bytes.Buffer
		writeErrorJSON(&b, v, errors.New(clip(e.Error(), maxFirstLine)))
		return b.String()
	}
	faults := cleanFaults(failed.faults, e.scrub)
	message := clip(firstLine(faults, failed.total, failed.deed), maxFirstLine)
	for _, lines := range []int{maxStderrLines, 5, 1, 0, namesOnly} {
		if text := encodeFaults(v, message, faults, lines); len(text) <= limit {
			return text
		}
	}
	for shown := len(faults) - 1; shown > 0; shown-- {
		if text := encodeFaults(v, message, faults[:shown], namesOnly); len(text) <= limit {
			return text
		}
	}
	return encodeFaults(v, message, nil, namesOnly)
}

// namesOnly stands for a number of lines: not even the other facts are shown.
const namesOnly = -1

// encodeFaults writes the object with so many of each server's own lines.
func encodeFaults(v verdict, message string, faults []fault.Fault, lines int) string {
	list := []faultDetail{}
	for _, f := range faults {
		list = append(list, detailOf(f, lines))
	}
	v.details = map[string]any{"servers": list}
	var b bytes.Buffer
	writeErrorJSON(&b, v, errors.New(message))
	return b.String()
}

func detailOf(f fault.Fault, lines int) faultDetail {
	detail := faultDetail{Name: f.Server, Cause: string(f.Cause), Stderr: []string{}}
	if lines == namesOnly {
		return detail
	}
	detail.Ran, detail.Ended = clip(f.Ran, maxFieldBytes), clip(f.Ended, maxFieldBytes)
	detail.Hint = clip(f.Hint, maxFieldBytes)
	detail.AfterSeconds = f.After.Round(time.Millisecond).Seconds()
	if f.Err != nil {
		detail.Message = clip(f.Err.Error(), maxFieldBytes)
	}
	for _, line := range f.Stderr[max(0, len(f.Stderr)-lines):] {
		detail.Stderr = append(detail.Stderr, clip(line, maxFieldBytes))
	}
	return detail
}

// report is the failure as the daemon hands it to its launcher.
func (e *startFailure) report(asJSON bool) daemon.Report {
	report := daemon.Report{Text: e.text(), Code: judge(e.err).exit}
	if asJSON {
		report.Text = e.json()
	}
	return report
}

// reportedFailure is a failed start whose text the daemon has written already.
type reportedFailure struct{ report daemon.Report }

func (e *reportedFailure) Error() string { return e.report.Text }

// statusJSON is a status as it goes into a report; a status can always be encoded.
func statusJSON(status any) json.RawMessage {
	data, _ := json.Marshal(status)
	return data
}

// signInText says of each server that waits for a sign-in how to do that.
func signInText(status control.Status) string {
	var b strings.Builder
	for _, server := range status.Servers {
		if server.State == control.ServerSignInRequired {
			fmt.Fprintf(&b, "server %q needs a sign-in: %s\n", server.Name, shellQuote("mcp-gateway", "servers", "signin", server.Name))
		}
	}
	return b.String()
}
