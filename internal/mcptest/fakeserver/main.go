// Command fakeserver is an MCP server over stdio for tests. Without flags it is a correct server
// of revision 2025-11-25 with tools, prompts, resources, completion, subscriptions and logging;
// each flag makes it misbehave in one way that was met in the field. It reads and writes raw JSON
// lines and is not built on an SDK, because no SDK lets a server misbehave.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) int {
	if len(args) > 0 && args[0] == sleeperArg {
		return sleeper()
	}
	o, err := parse(args)
	if err != nil {
		return 2
	}
	s := newServer(o)
	return s.run()
}
