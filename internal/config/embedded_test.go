package config

import (
	"encoding/json"
	"testing"

	"mcp-gateway/internal/catalog"
)

// TestC1_EveryServerOfTheCatalogue passes a value of the right type for each property of each server,
// as SDKs do, and a wrong one for each.
func TestC1_EveryServerOfTheCatalogue(t *testing.T) {
	cat := known(t)
	right := map[string]string{"string": `"some text"`, "integer": `7`, "number": `0.5`, "boolean": `true`, "array": `["/a", "/b"]`}
	wrong := map[string]string{"string": `7`, "integer": `"7"`, "number": `"0.5"`, "boolean": `"true"`, "array": `"/a"`}
	for _, entry := range cat.Entries() {
		if entry.Runs == catalog.None || entry.Name == "owner" {
			continue
		}
		props := map[string]json.RawMessage{}
		for name, p := range entry.Properties {
			props[name] = json.RawMessage(right[p.Type])
			if len(p.Enum) > 0 {
				props[name], _ = json.Marshal(p.Enum[0])
			}
		}
		checked, err := Parse(whole(t, entry.Name, props), cat)
		if err != nil {
			t.Errorf("%s: %v", entry.Name, err)
			continue
		}
		if len(checked.Servers) != 1 || checked.Servers[0].Launch.Kind != entry.Runs || len(checked.Warnings) > 0 {
			t.Errorf("%s: %d servers, warnings %q", entry.Name, len(checked.Servers), checked.Warnings)
		}
		for name, p := range entry.Properties {
			before := props[name]
			props[name] = json.RawMessage(wrong[p.Type])
			if _, err := Parse(whole(t, entry.Name, props), cat); err == nil {
				t.Errorf("%s: %s took %s, and is of type %s", entry.Name, name, props[name], p.Type)
			}
			props[name] = before
		}
	}
}

func whole(t *testing.T, server string, props map[string]json.RawMessage) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]map[string]json.RawMessage{server: props})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
