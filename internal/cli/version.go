package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// protocolVersions are the revisions of MCP that clients can speak to the gateway, the newest first.
var protocolVersions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// versionInfo says which program this is.
type versionInfo struct {
	Version          string   `json:"version"`
	Commit           string   `json:"commit"`
	Date             string   `json:"date"`
	Go               string   `json:"go"`
	ProtocolVersions []string `json:"protocol_versions"`
}

// readVersion takes everything from what the Go toolchain wrote into the binary.
func readVersion() versionInfo {
	info := versionInfo{Version: "unknown", Go: runtime.Version(), ProtocolVersions: protocolVersions}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = strings.Trim(build.Main.Version, "()")
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.time":
			info.Date = setting.Value
		}
	}
	return info
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of the program and of the protocol",
		Args:  none,
		RunE:  func(*cobra.Command, []string) error { return runVersion(a) },
	}
}

// runVersion shows what a bug report needs.
func runVersion(a *app) error {
	info := readVersion()
	if a.global.json {
		return writeJSON(a.Out, info)
	}
	_, err := fmt.Fprintf(a.Out, "mcp-gateway %s\ncommit %s\ndate %s\n%s\nMCP %s\n", info.Version,
		orNone(info.Commit), orNone(info.Date), info.Go, strings.Join(info.ProtocolVersions, ", "))
	return err
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
