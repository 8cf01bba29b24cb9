package catalog

import (
	"testing"

	mcpgateway "mcp-gateway"
)

// BenchmarkOpen is what a start of the program costs: the embedded file, and a few of its entries.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		c, err := Open(mcpgateway.Catalog)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"duckduckgo", "arxiv", "fetch", "time", "filesystem"} {
			if _, ok := c.Lookup(name); !ok {
				b.Fatalf("no entry %q", name)
			}
		}
	}
}

// BenchmarkParse is the whole file with every check, as "catalog validate" and the tests read it.
func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(mcpgateway.Catalog); err != nil {
			b.Fatal(err)
		}
	}
}
