package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-gateway/internal/mcptest"
)

// e2bTemplate is what E2B is sent to build a template.
type e2bTemplate struct {
	FromImage    string
	FromTemplate string
	Steps        []struct {
		Type      string
		Args      []string
		FilesHash string
	}
}

// e2bBuilt are the two templates of template/e2b.
type e2bBuilt struct{ Gateway, Servers e2bTemplate }

// templateOutput runs a program of the tests' own and returns what it prints.
func templateOutput(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	need(t, program)
	var errOut bytes.Buffer
	c := exec.Command(program, args...)
	c.Dir, c.Stderr = dir, &errOut
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return len(v) > 4 && v[:4] == "E2B_" })
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, errOut.Bytes())
	}
	return out
}

// e2bBinary makes the file that the builders upload, where "make build" has not.
func e2bBinary(t *testing.T) {
	t.Helper()
	path := filepath.Join(mcptest.Root(t), "bin", "mcp-gateway")
	if _, err := os.Stat(path); err == nil {
		return
	}
	data, err := os.ReadFile(mcptest.Gateway(t))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// e2bTemplates has E2B's Python SDK build templates with these servers, up to sending them.
func e2bTemplates(t *testing.T, servers []string) e2bBuilt {
	t.Helper()
	e2bBinary(t)
	root := mcptest.Root(t)
	const print = `import sys
sys.path.insert(0, "template/e2b")
from e2b import Template
from mcp_gateway import gateway, with_servers
servers = sys.argv[1:]
print('{"gateway": %s, "servers": %s}' % (Template.to_json(gateway(servers)), Template.to_json(with_servers(servers))))`
	out := templateOutput(t, root, filepath.Join(root, ".cache/template/bin/python"), append([]string{"-B", "-c", print}, servers...)...)
	var built e2bBuilt
	if err := json.Unmarshal(out, &built); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return built
}

// TestE1_E2BTemplates builds the templates with both SDKs of E2B, as far as that goes without E2B: both
// must come to the same.
func TestE1_E2BTemplates(t *testing.T) {
	root := mcptest.Root(t)
	servers := []string{"duckduckgo", "time"}
	python := e2bTemplates(t, servers)

	if got := python.Gateway; got.FromImage == "" || len(got.Steps) != 3 || got.Steps[0].FilesHash == "" {
		t.Errorf("the gateway's template: %+v", got)
	}
	if got, want := python.Gateway.Steps[2].Args, []string{"/opt/mcp-gateway-parts/install.sh duckduckgo time && rm -r /opt/mcp-gateway-parts/", "root"}; !slices.Equal(got, want) {
		t.Errorf("it runs %q, want %q", got, want)
	}
	if got := python.Servers; got.FromTemplate != "mcp-gateway" || len(got.Steps) != 1 || !slices.Equal(got.Steps[0].Args, []string{"mcp-gateway pull duckduckgo time", "root"}) {
		t.Errorf("the servers' template: %+v", got)
	}

	// The TypeScript stands where its packages are; two folders up is the repository from there too.
	folder := filepath.Join(root, ".cache/e2b")
	source, err := os.ReadFile(filepath.Join(root, "template/e2b/mcp-gateway.ts"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "mcp-gateway.ts"), source, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	templateOutput(t, folder, filepath.Join(folder, "node_modules/.bin/tsc"), "--noEmit", "--strict", "--target", "es2023",
		"--module", "nodenext", "--types", "node", "--erasableSyntaxOnly", "mcp-gateway.ts")
	const print = `import { Template } from 'e2b'
import { gateway, withServers } from './mcp-gateway.ts'
const servers = process.argv.slice(1)
console.log('{"gateway": ' + await Template.toJSON(gateway(servers)) + ', "servers": ' + await Template.toJSON(withServers(servers)) + '}')`
	node := filepath.Join(root, ".cache/npm/node_modules/node/bin/node")
	out := templateOutput(t, folder, node, append([]string{"--input-type=module", "-e", print}, servers...)...)
	var typeScript e2bBuilt
	if err := json.Unmarshal(out, &typeScript); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	typeScript.Gateway.Steps[2].Args[0] = unquoted(typeScript.Gateway.Steps[2].Args[0])
	if diff := cmp.Diff(python, typeScript); diff != "" {
		t.Errorf("Python and TypeScript differ:\n%s", diff)
	}
}

// unquoted takes away the quotes that one of the two writes around every word.
func unquoted(line string) string { return string(bytes.ReplaceAll([]byte(line), []byte("'"), nil)) }

// TestE1_KubernetesManifests validates the manifests against the API's schemas, strictly: at the newest
// version that the validator brings, and at the first one that has sidecars.
func TestE1_KubernetesManifests(t *testing.T) {
	root := mcptest.Root(t)
	python := filepath.Join(root, ".cache/template/bin/python")
	manifests, err := filepath.Glob(filepath.Join(root, "template/kubernetes/*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("%q, %v", manifests, err)
	}
	for _, version := range [][]string{nil, {"-k", "1.29"}} {
		args := slices.Concat([]string{"-m", "kubernetes_validate", "--strict"}, version, manifests)
		templateOutput(t, root, python, args...)
	}

	var pod struct {
		Spec struct{ InitContainers, Containers []podContainer }
	}
	out := templateOutput(t, root, python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", filepath.Join(root, "template/kubernetes/pod.yaml"))
	if err := json.Unmarshal(out, &pod); err != nil {
		t.Fatal(err)
	}
	gateway, agent := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	for name, p := range map[string]podProbe{"startup": gateway.StartupProbe, "readiness": gateway.ReadinessProbe, "liveness": gateway.LivenessProbe} {
		if p.HTTPGet.Path != "/health" || p.HTTPGet.Port != gateway.Ports[0].Name || gateway.Ports[0].ContainerPort != 50005 {
			t.Errorf("%s probe: %+v, port %+v", name, p, gateway.Ports)
		}
	}
	if limit := gateway.StartupProbe.PeriodSeconds * gateway.StartupProbe.FailureThreshold; limit < 55 {
		t.Errorf("the gateway is given %d s to start, and takes up to 55", limit)
	}
	for name, c := range map[string]podContainer{"GATEWAY_ACCESS_TOKEN": gateway, "MCP_TOKEN": agent} {
		if !slices.ContainsFunc(c.Env, func(v podVariable) bool { return v.Name == name && v.ValueFrom.SecretKeyRef.Key == "token" }) {
			t.Errorf("%s does not come from the secret: %+v", name, c.Env)
		}
	}
}

type podContainer struct {
	Env   []podVariable
	Ports []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe, ReadinessProbe, LivenessProbe podProbe
}

type podVariable struct {
	Name      string
	ValueFrom struct{ SecretKeyRef struct{ Key string } }
}

type podProbe struct {
	HTTPGet                         struct{ Path, Port string }
	PeriodSeconds, FailureThreshold int
}
