// Command mcp-gateway starts MCP servers and serves them all as one MCP endpoint.
package main

import (
	"context"
	"os"

	"mcp-gateway/internal/cli"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cli.Main(context.Background(), os.Args[1:], streams, os.Environ()))
}
