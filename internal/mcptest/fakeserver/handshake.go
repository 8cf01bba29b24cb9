package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

// handshake answers initialize, server/discover and ping.
func (s *server) handshake(_ context.Context, m *message) (result, failure string, known bool) {
	switch m.Method {
	case "initialize":
		result, failure = s.initialize(m)
		return result, failure, true
	case "server/discover":
		if !s.o.modern && !s.o.modernOnly {
			return "", "", false
		}
		return fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":%s%s,"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":%s}}`,
			modernVersion, s.capabilities(), s.instructions(), s.info()), "", true
	case "ping":
		return "{}", "", true
	}
	return "", "", false
}

func (s *server) initialize(m *message) (result, failure string) {
	if s.o.modernOnly {
		return "", rpcError(-32601, "method not found: initialize")
	}
	s.mu.Lock()
	again := s.initialized
	s.initialized = true
	s.mu.Unlock()
	if again && s.o.exitOnSecondInitialize {
		fmt.Fprintln(os.Stderr, "initialized twice")
		os.Exit(3)
	}
	if again {
		return "", rpcError(-32600, "already initialized")
	}
	version := s.o.version
	if version == "" {
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(m.Params, &p)
		version = legacyVersion
		if p.ProtocolVersion != "" && p.ProtocolVersion < legacyVersion {
			version = p.ProtocolVersion
		}
	}
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s%s}`,
		version, s.capabilities(), s.info(), s.instructions()), ""
}

func (s *server) info() string {
	return fmt.Sprintf(`{"name":%s,"title":"A server for tests","version":"1.0.0"}`, quote(s.o.id))
}

func (s *server) instructions() string {
	if s.o.instructions == "" {
		return ""
	}
	return `,"instructions":` + quote(s.o.instructions)
}

func (s *server) capabilities() string {
	var parts []string
	for _, c := range []struct{ part, text string }{
		{"tools", `"tools":{"listChanged":true}`},
		{"prompts", `"prompts":{"listChanged":true}`},
		{"resources", `"resources":{"subscribe":true,"listChanged":true}`},
		{"completions", `"completions":{}`},
		{"logging", `"logging":{}`},
	} {
		if s.o.serves(c.part) {
			parts = append(parts, c.text)
		}
	}
	switch {
	case !s.o.tasks:
	case s.o.modernOnly:
		parts = append(parts, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	default:
		parts = append(parts, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// isModern says whether a request follows 2026-07-28, which it states in its _meta.
func (s *server) isModern(params json.RawMessage) bool {
	if !s.o.modern && !s.o.modernOnly {
		return false
	}
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p)
	return p.Meta.Version >= modernVersion
}
