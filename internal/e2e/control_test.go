package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
)

// The model's TypeScript pattern, as a program on plain fetch, against a gateway that is still being
// started when it comes: read, wait for ready or failed, take the URL, add a server, authorize, poll.
func TestModel_TypeScriptPattern(t *testing.T) {
	node := filepath.Join(mcptest.Root(t), ".cache", "npm", "node_modules", "node", "bin", "node")
	mcptest.Need(t, node)
	as := mcptest.StartAuthorizationServer(t, nil)
	mail := mcptest.StartProtectedTypeScript(t, as)
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil}), "--wait=false", "--sandbox-id", "sb-1")
	base := strings.TrimSuffix(g.url, "/mcp")

	c := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "clients", "control", "model.mts"),
		base, testToken, "sb-1", "mail", fmt.Sprintf(`{"mail":{"url":%q}}`, mail))
	c.Env = append(os.Environ(), "NODE_NO_WARNINGS=1")
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var step map[string]map[string]any
		_ = json.Unmarshal(lines.Bytes(), &step) // "status" of begun is a number
		for name := range step {
			if name != "status" {
				steps = append(steps, name)
			}
		}
		switch {
		case step["ready"] != nil:
			if step["ready"]["name"] != "sandboxes/sb-1/mcp-gateway" || step["ready"]["url"] != g.url {
				t.Errorf("ready: %s", lines.Text())
			}
		case step["added"] != nil:
			if step["added"]["name"] != "mail" || step["added"]["type"] != "remote" {
				t.Errorf("added: %s", lines.Text())
			}
		case step["begun"] != nil:
			if step["begun"]["status"] != "pending" || !strings.Contains(lines.Text(), `"status":202}`) {
				t.Errorf("begun: %s", lines.Text())
			}
			browser := mcptest.NewBrowser(t)
			browser.Open(browser.Agree(fmt.Sprint(step["begun"]["authorizationUrl"])))
		case step["ended"] != nil:
			if step["ended"]["authorizationUrl"] != nil {
				t.Errorf("ended: %s", lines.Text())
			}
		}
	}
	if err := c.Wait(); err != nil || strings.Join(steps, " ") != "read ready added begun ended" {
		t.Fatalf("%v after %v: %s", err, steps, &complaints)
	}
}

// Answers of the real gateway are as described, whatever is asked: no 5xx, no field that is not there.
func TestControl_AnswersAreAsDescribed(t *testing.T) {
	mail := mcptest.StartProtectedGo(t, mcptest.StartAuthorizationServer(t, nil))
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"time": nil}))
	g.addMail(t, mail)
	mcptest.CheckAPI(t, strings.TrimSuffix(g.url, "/mcp"), testToken, "stopProgram")
	if s := g.status(t); s.Pid == 0 {
		t.Errorf("after it: %+v", s)
	}
}

// addMail adds a protected server by the command line.
func (g *running) addMail(t *testing.T, url string) {
	t.Helper()
	exit, stdout, stderr := g.command(t, "servers", "add", "mail", "--config", fmt.Sprintf(`{"mail":{"url":%q}}`, url))
	if exit != 0 || stdout != "" || stderr != "server \"mail\" waits for a sign-in: mcp-gateway servers signin mail\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

// A user signs in with the address that the command prints; the command ends when that is done, and the
// server's tools are there.
func TestF4_SignInFromTheCommandLine(t *testing.T) {
	mail := mcptest.StartProtectedGo(t, mcptest.StartAuthorizationServer(t, nil))
	g := newPlace(t).start(t, "{}")
	g.addMail(t, mail)
	if _, stdout, _ := g.command(t, "servers", "ls"); !strings.HasPrefix(stdout, "mail\tremote\tsign_in_required\t") {
		t.Errorf("before it: %s", stdout)
	}
	if exit, stdout, stderr := g.command(t, "servers", "signin", "mail"); exit != 1 || stdout != "" || !strings.Contains(stderr, "--public-url") {
		t.Errorf("before anybody has called the gateway: exit %d, %s, %s", exit, stdout, stderr)
	}
	g.connect(t) // where browsers reach the gateway is learned from its clients
	c := exec.CommandContext(t.Context(), mcptest.Gateway(t), "--root", g.root, "servers", "signin", "mail", "--wait")
	c.Env = g.env
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	browser := mcptest.NewBrowser(t)
	page := browser.Open(browser.Agree(strings.TrimSpace(address)))
	if err := c.Wait(); err != nil || !strings.HasPrefix(page, "200 ") {
		t.Fatalf("%v, page %s", err, page)
	}
	if exit, stdout, stderr := g.command(t, "servers", "signin", "mail", "--json"); exit != 0 || !strings.Contains(stdout, `"status":"authorized","authorization_url":""`) {
		t.Errorf("again: exit %d, %s, %s", exit, stdout, stderr)
	}
	for began, tools := time.Now(), ""; !strings.Contains(tools, "read\tmail\tread\t"); _, tools, _ = g.command(t, "tools", "ls") {
		if time.Since(began) > clientLimit {
			t.Fatalf("the server's tools do not come: %s", tools)
		}
	}
}

// The Python and TypeScript clients are told when a server is added and when it is removed ("announce
// tools/list_changed on success"), and see its tools come and go.
func TestControl_ClientsAreToldOfServers(t *testing.T) {
	for _, c := range clients() {
		if c.program || strings.HasPrefix(c.name, "go") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil}))
			servers := fmt.Sprintf("%s --root %s servers", mcptest.Gateway(t), g.root)
			add := fmt.Sprintf("told=%s add extra --config '%s'", servers, mcptest.Config(t, map[string][]string{"extra": {"-prefix=extra."}}))
			remove := fmt.Sprintf("told=%s rm extra", servers)
			got := passed(t, c, c.run(t, g.url, testToken, []string{add, remove}), []string{add, remove})
			if !strings.Contains(got[add], `"extra.echo"`) || strings.Contains(got[remove], `"extra.echo"`) || !strings.Contains(got[remove], `"echo"`) {
				t.Errorf("added: %s\nremoved: %s", got[add], got[remove])
			}
		})
	}
}
