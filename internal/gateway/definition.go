package gateway

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

const masked = "***"

// define tells how a server was asked for, without any secret. The folder is that of the servers' files.
func define(server config.Server, folder string) control.Definition {
	plan := server.Launch.WithState(filepath.Join(folder, "state", server.Name))
	return control.Definition{
		Kind: string(plan.Kind), Runs: LaunchText(plan),
		Envs:    append([]string{}, slices.Sorted(maps.Keys(plan.Env))...),
		Headers: append([]string{}, slices.Sorted(maps.Keys(plan.Headers))...),
	}
}

// LaunchText shows what a plan runs as a line that a person could type, without any secret.
func LaunchText(l catalog.Launch) string {
	secrets := slices.Clone(l.Secrets)
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		secrets = append(secrets, l.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		secrets = append(secrets, l.Headers[name])
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(l.Env)) {
		words = append(words, name+"="+masked)
	}
	if program := programText(l, secrets); program != "" {
		words = append(words, program)
	}
	return secret.NewScrubber(secrets).Scrub(strings.Join(words, " "))
}

func programText(l catalog.Launch, secrets []secret.Value) string {
	line := func(words ...string) string {
		words = slices.Concat(words, l.Args)
		for i, word := range words {
			// The scrubber leaves short values alone; an argument that is one whole is still masked.
			if word != "" && slices.Contains(secrets, secret.Value(word)) {
				words[i] = masked
			}
		}
		return shellLine(words...)
	}
	switch l.Kind {
	case catalog.NPM:
		if l.Bin != "" {
			return line("npx", "-y", "-p", catalog.Pinned(l.Package, l.Version), l.Bin)
		}
		return line("npx", "-y", catalog.Pinned(l.Package, l.Version))
	case catalog.PyPI:
		words := []string{"uvx"}
		for _, requirement := range l.With {
			words = append(words, "--with", requirement)
		}
		if l.Bin != "" {
			words = append(words, "--from", catalog.Pinned(l.Package, l.Version), l.Bin)
		} else {
			words = append(words, catalog.Pinned(l.Package, l.Version))
		}
		return line(words...)
	case catalog.Go:
		return line("go", "run", catalog.Pinned(l.Package, l.Version))
	case catalog.Crate:
		return line("crate", catalog.Pinned(l.Package, l.Version))
	case catalog.Git:
		words := []string{"git", catalog.Pinned(l.Repository, l.Commit)}
		words = append(words, l.Program...)
		if l.Bin != "" {
			words = append(words, l.Bin)
		}
		return line(words...)
	case catalog.Command:
		return line(l.Command)
	case catalog.Shell:
		return l.Run
	case catalog.GitHub:
		if l.Install != "" {
			return "github/" + l.Owner + "/" + l.Repo + ": " + l.Install + "; " + l.Run
		}
		return "github/" + l.Owner + "/" + l.Repo + ": " + l.Run
	case catalog.Remote:
		text := l.URL
		for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
			text += " " + shellLine(name+": "+masked)
		}
		return text
	}
	return string(l.Kind)
}

// shellLine writes words as a person would type them, stars as they are.
func shellLine(words ...string) string {
	line := process.Spec{Argv: words}.CommandLine()
	return strings.ReplaceAll(line, "'"+masked+"'", masked)
}
