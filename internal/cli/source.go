package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	mcpgateway "mcp-gateway"
	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/daemon"
)

// maxConfigBytes bounds what is read as a configuration: far more than 64 servers need.
const maxConfigBytes = 64 << 20

const configFileVariable = "MCP_GATEWAY_CONFIG_FILE"

// tooLongHint is for everybody who cannot pass a configuration as one argument.
const tooLongHint = "a configuration over 128 KiB cannot be one argument: give it with --config-file FILE, or with - on standard input"

// configSource says where the configuration comes from.
type configSource struct {
	inline string
	file   string
}

func (s *configSource) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.inline, "config", "", "the configuration as `JSON`, up to 128 KiB; - reads standard input")
	cmd.Flags().StringVar(&s.file, "config-file", "", "read the configuration from `FILE`; - is standard input ($"+configFileVariable+")")
	cmd.MarkFlagFilename("config-file", "json")
}

// given says whether a configuration was named at all.
func (s *configSource) given(cmd *cobra.Command, args []string, env environment) bool {
	return len(args) > 0 || cmd.Flags().Changed("config") || cmd.Flags().Changed("config-file") || env.get(configFileVariable) != ""
}

// configArgs takes "-" for standard input.
func configArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		return nil
	}
	return fmt.Errorf("unexpected argument %q: only - (standard input) is taken", args[0])
}

// read returns the bytes of the configuration. What was written on the command line beats the
// environment.
func (s *configSource) read(cmd *cobra.Command, args []string, a *app) ([]byte, error) {
	inline, file := cmd.Flags().Changed("config"), cmd.Flags().Changed("config-file")
	ways := 0
	for _, way := range []bool{inline, file, len(args) > 0} {
		if way {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, usage(errors.New("several configurations given: use one of --config, --config-file and -"))
	case inline && s.inline != "-":
		return []byte(s.inline), nil
	case file && s.file != "-":
		return readConfigFile(s.file)
	case ways == 1:
		return readConfig(a.In, "standard input")
	case a.env.get(configFileVariable) != "":
		return readConfigFile(a.env.get(configFileVariable))
	}
	return nil, usage(errors.New("no configuration given: use --config JSON, --config-file FILE or -"))
}

func readConfigFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, badConfig(fmt.Errorf("read configuration: %w", err), "")
	}
	defer file.Close()
	return readConfig(file, fmt.Sprintf("%q", path))
}

func readConfig(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return nil, badConfig(fmt.Errorf("read configuration from %s: %w", name, err), "")
	}
	if len(data) > maxConfigBytes {
		return nil, badConfig(fmt.Errorf("read configuration from %s: larger than %d MiB", name, maxConfigBytes>>20), "")
	}
	return data, nil
}

// badConfig is an error that makes a configuration unusable before it could be checked.
func badConfig(err error, hint string) error {
	return &statedError{verdict: verdict{exit: exitUsage, code: "bad_config", hint: hint}, err: err}
}

// loadCatalog reads the embedded catalogue and what the machine's own file changes in it.
func loadCatalog(p daemon.Paths) (*catalog.Catalog, error) {
	embedded, err := catalog.Open(mcpgateway.Catalog)
	if err != nil {
		return nil, fmt.Errorf("read the embedded catalogue: %w", err)
	}
	data, err := os.ReadFile(p.Catalog())
	if errors.Is(err, fs.ErrNotExist) {
		return embedded, nil
	}
	if err != nil {
		return nil, badConfig(fmt.Errorf("read catalogue: %w", err), "")
	}
	own, err := catalog.Parse(data)
	if err != nil {
		return nil, badConfig(fmt.Errorf("read catalogue %q: %w", p.Catalog(), err),
			fmt.Sprintf("%q tells everything that is wrong with it; without that file the embedded catalogue serves",
				"mcp-gateway catalog validate "+p.Catalog()))
	}
	return embedded.Merge(own), nil
}

// checkConfig checks a configuration against the catalogue, which it returns too, and says how to pass it
// where its form shows that an argument was the wrong way.
func checkConfig(data []byte, p daemon.Paths) (*config.Config, *catalog.Catalog, error) {
	cat, err := loadCatalog(p)
	if err != nil {
		return nil, nil, err
	}
	checked, err := config.Parse(data, cat)
	var refused *config.Error
	if errors.As(err, &refused) {
		return nil, nil, withSourceHint(data, refused)
	}
	return checked, cat, err
}

// withSourceHint adds what can be done about bytes that are no JSON object at all.
func withSourceHint(data []byte, refused *config.Error) error {
	text := strings.TrimSpace(string(data))
	hint := ""
	switch {
	case len(text) > 100<<10 && !strings.HasSuffix(text, "}"):
		hint = tooLongHint
	case text != "" && len(text) < 4096 && !strings.HasPrefix(text, "{"):
		if _, err := os.Stat(text); err == nil {
			hint = fmt.Sprintf("%q is a file: give it with --config-file", text)
		}
	}
	if hint == "" || len(refused.Problems) != 1 || refused.Problems[0].Hint != "" {
		return refused
	}
	problem := refused.Problems[0]
	problem.Hint = hint
	return &config.Error{Problems: []config.Problem{problem}}
}
