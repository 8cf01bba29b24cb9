package main

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"mcp-gateway/internal/catalog"
)

// madeUpConfig is a configuration with a value for each property that must be given, or for all
// without a default. The values look like what servers check before they list their tools; none is
// anybody's.
func madeUpConfig(e *catalog.Entry, dir string, all bool) []byte {
	properties := map[string]any{}
	for name, p := range e.Properties {
		if (p.Required || all) && len(p.Default) == 0 {
			properties[name] = madeUp(name, p, dir)
			if value := forms[e.Name+"."+name]; value != "" {
				properties[name] = value
			}
		}
	}
	text, _ := json.Marshal(map[string]any{e.Name: properties}) // made of plain values
	return text
}

const key = "0123456789abcdef0123456789abcdef"

// fileName is of a file among the made-up data.
const fileName = "file.json"

// fileText is JSON, and the configuration of a cluster for those that look for one.
const fileText = `{"apiVersion": "v1", "kind": "Config", "current-context": "none",
  "clusters": [{"name": "none", "cluster": {"server": "https://example.com:6443"}}],
  "users": [{"name": "none", "user": {"token": "` + key + `"}}],
  "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}]}
`

// forms are values of whose form a server wants more, before it lists its tools, than their names and
// descriptions tell.
var forms = map[string]string{
	"dynatrace.url":                  "https://abc12345.apps.dynatrace.com",
	"mongodb.mdbMcpConnectionString": "mongodb://example.com:27017",
	"neo4j.uri":                      "bolt://example.com:7687",
	"neo4jCypher.url":                "bolt://example.com:7687",
	"neo4jMemory.url":                "bolt://example.com:7687",
	"okta.oktaLogLevel":              "INFO",
	"okta.oktaOrgUrl":                "https://example.okta.com",
	"redis.certReqs":                 "required",
	"resend.replyTo":                 "someone@example.com",
	"resend.sender":                  "someone@example.com",
	"stripe.secretKey":               "sk_test_" + key,
	"zscaler.zscalerCloud":           "production",
}

func madeUp(name string, p catalog.Property, dir string) any {
	switch p.Type {
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []string{madeUpText(name, p, dir)}
	}
	return madeUpText(name, p, dir)
}

func madeUpText(name string, p catalog.Property, dir string) string {
	if len(p.Enum) > 0 {
		return p.Enum[0]
	}
	lower := strings.ToLower(name + " " + p.Description)
	name = strings.ToLower(name)
	has := func(text string, words ...string) bool {
		for _, word := range words {
			if strings.Contains(text, word) {
				return true
			}
		}
		return false
	}
	switch {
	case has(name, "path", "config", "file") && has(lower, " file") && !has(lower, "director", "folder"):
		return filepath.Join(dir, fileName)
	case has(name, "url", "uri", "endpoint") || has(lower, "base url", "url of"):
		return "https://example.com"
	case has(name, "path", "dir", "folder", "file", "paths") && !has(name, "profile"):
		return dir
	case has(name, "transport"):
		return "stdio"
	case has(name, "port"):
		return "8080"
	case has(name, "host", "domain", "site", "server"):
		return "example.com"
	case has(name, "email", "user"):
		return "someone@example.com"
	case has(name, "region"):
		return "us-east-1"
	case has(name, "timezone"):
		return "Europe/Berlin"
	}
	return key
}
