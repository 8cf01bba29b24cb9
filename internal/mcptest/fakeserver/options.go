package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// options are the flags: what this server is, and in which ways it misbehaves.
type options struct {
	id, prefix, instructions, version, only string
	tools, toolJSON                         texts
	toolsFile                               string
	duplicate, oddSchemas, cursorLoop       bool
	page, prompts, resources, templates     int
	modern, modernOnly, tasks               bool
	taskIDs                                 string

	print, stderrLines            texts
	banner, ignoreEOF, ignoreTerm bool
	startDelay, stderrEvery       time.Duration
	startGate, pidFile, record    string
	stderrFlood, exitAfter        int
	exitCode, exitBeforeReady     int
	fork                          int
	spawn, closeStdout            bool

	silent, serial                                  bool
	exitOnSecondInitialize                          bool
	exitOnUnknownNotification, exitOnUnknownRequest bool
	answer                                          texts
	oddNotifications                                time.Duration
	askAtStart                                      bool
	askIn, hangIn                                   texts

	crlf, blankLines, bom, bytewise, endlessLine bool
	byteDelay                                    time.Duration
	stringIDs, double, stray, batch, noVersion   bool
	answerCancelled                              bool
}

// texts is a flag that may be given several times.
type texts []string

// String shows the values for --help.
func (t *texts) String() string { return strings.Join(*t, ",") }

// Set adds one value.
func (t *texts) Set(v string) error { *t = append(*t, v); return nil }

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("fakeserver", flag.ContinueOnError)
	o.contentFlags(f)
	o.lifeFlags(f)
	o.protocolFlags(f)
	o.framingFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(os.Stderr, err)
		return nil, err
	}
	for _, a := range o.answer {
		if !strings.Contains(a, "=") {
			return nil, errors.New("-answer wants METHOD=LINE")
		}
	}
	return o, nil
}

func (o *options) contentFlags(f *flag.FlagSet) {
	f.StringVar(&o.id, "id", "fake", "what the server calls itself; tool whoami returns it")
	f.StringVar(&o.prefix, "prefix", "", "put before each tool's and prompt's name")
	f.Var(&o.tools, "tool", "serve a tool of this name that says which server and tool it is, instead of the normal ones; may be repeated (B28, B29)")
	f.Var(&o.toolJSON, "tool-json", "serve this raw tool definition too; may be repeated (B36 to B44)")
	f.StringVar(&o.toolsFile, "tools-file", "", "serve the tools in this file instead, read at each tools/list: a JSON array of names and raw definitions (B35)")
	f.BoolVar(&o.duplicate, "duplicate", false, "list two different tools named ping (B36)")
	f.BoolVar(&o.oddSchemas, "odd-schemas", false, "list the tools of payload.OddTools too (B37 to B44)")
	f.IntVar(&o.page, "page", 0, "entries on a page of every list; 0: all (B30)")
	f.BoolVar(&o.cursorLoop, "cursor-loop", false, "the last page of a list names itself as the next")
	f.IntVar(&o.prompts, "prompts", 2, "how many prompts")
	f.IntVar(&o.resources, "resources", 2, "how many text resources")
	f.IntVar(&o.templates, "templates", 1, "how many resource templates")
	f.StringVar(&o.instructions, "instructions", "", "the instructions text (B31)")
	f.StringVar(&o.version, "protocol-version", "", "answer initialize with this revision whatever was asked")
	f.StringVar(&o.only, "only", "", "advertise and serve these alone, comma-separated: tools,prompts,resources,completions,logging (B34)")
	f.BoolVar(&o.modern, "modern", false, "speak 2026-07-28 too: server/discover, and input_required instead of requests")
	f.BoolVar(&o.tasks, "tasks", false, "serve tasks, and the tool work that can be one")
	f.StringVar(&o.taskIDs, "task-ids", "", "number tasks, with this before each number, instead of random ids")
	f.BoolVar(&o.modernOnly, "modern-only", false, "speak 2026-07-28 only")
}

func (o *options) lifeFlags(f *flag.FlagSet) {
	f.Var(&o.print, "print", "write this line to stdout at start; may be repeated (B01, B02)")
	f.BoolVar(&o.banner, "banner", false, "write a banner and a coloured log line to stdout at start (B01)")
	f.Var(&o.stderrLines, "stderr", "write this line to stderr at start; may be repeated")
	f.IntVar(&o.exitBeforeReady, "exit-before-ready", -1, "exit with this code before reading anything")
	f.IntVar(&o.stderrFlood, "stderr-flood", 0, "write this many bytes to stderr before answering initialize and each call (B08)")
	f.DurationVar(&o.stderrEvery, "stderr-every", 0, "write the line x to stderr at this interval (B09)")
	f.DurationVar(&o.startDelay, "start-delay", 0, "wait this long before reading stdin (B22)")
	f.StringVar(&o.startGate, "start-gate", "", "read stdin only once this file exists (B22)")
	f.StringVar(&o.pidFile, "pid-file", "", "append a line with the own process id to this file, and one for each process of -spawn")
	f.BoolVar(&o.spawn, "spawn", false, "start a grandchild in a session of its own at start")
	f.IntVar(&o.fork, "fork", 0, "at start leave this many orphans behind that end at once (B15)")
	f.IntVar(&o.exitAfter, "exit-after", 0, "exit after this many answers, initialize included (B10)")
	f.IntVar(&o.exitCode, "exit-code", 0, "the code for -exit-after")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "stay alive when stdin ends (B12)")
	f.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM (B12)")
	f.BoolVar(&o.closeStdout, "close-stdout", false, "with -exit-after: close stdout instead of exiting")
	f.StringVar(&o.record, "record", "", "append each line received to this file")
}

func (o *options) protocolFlags(f *flag.FlagSet) {
	f.BoolVar(&o.silent, "silent", false, "never answer anything")
	f.BoolVar(&o.serial, "serial", false, "handle one request at a time (B55)")
	f.BoolVar(&o.exitOnSecondInitialize, "exit-on-second-initialize", false, "exit at a second initialize, which is otherwise an error (B51)")
	f.BoolVar(&o.exitOnUnknownNotification, "exit-on-unknown-notification", false, "exit at any notification but initialized (B52)")
	f.BoolVar(&o.exitOnUnknownRequest, "exit-on-unknown-request", false, "exit at a request of an unknown method, server/discover among them (B34)")
	f.Var(&o.answer, "answer", "METHOD=LINE: answer this method with this raw line, $ID standing for the id; may be repeated")
	f.DurationVar(&o.oddNotifications, "odd-notifications", 0, "send notifications of unknown methods at this interval (B53)")
	f.BoolVar(&o.askAtStart, "ask-at-start", false, "ask for the client's roots right after initialized (B49)")
	f.Var(&o.askIn, "ask-in", "ask for the client's roots before answering this method; may be repeated")
	f.Var(&o.hangIn, "hang-in", "answer this method only once it is cancelled; may be repeated")
	f.BoolVar(&o.answerCancelled, "answer-cancelled", false, "answer a cancelled call all the same, late (B46)")
}

func (o *options) framingFlags(f *flag.FlagSet) {
	f.BoolVar(&o.crlf, "crlf", false, "end lines in CR LF (B04)")
	f.BoolVar(&o.blankLines, "blank-lines", false, "write a blank line before each line (B04)")
	f.BoolVar(&o.bom, "bom", false, "put a byte order mark before the first line")
	f.BoolVar(&o.endlessLine, "endless-line", false, "write x without a newline for ever, from the start (B06)")
	f.BoolVar(&o.bytewise, "bytewise", false, "write each byte of a character outside ASCII on its own (B07)")
	f.DurationVar(&o.byteDelay, "byte-delay", 20*time.Millisecond, "the pause after each byte of -bytewise")
	f.BoolVar(&o.stringIDs, "string-ids", false, "answer the id 7 as \"7\"")
	f.BoolVar(&o.double, "double", false, "send each answer twice")
	f.BoolVar(&o.stray, "stray", false, "before each answer send one that nobody asked for and one with id null")
	f.BoolVar(&o.batch, "batch", false, "put each line into an array")
	f.BoolVar(&o.noVersion, "no-jsonrpc", false, "leave out \"jsonrpc\"")
}

// serves says whether a part of the protocol is on.
func (o *options) serves(part string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), part)
}
