package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// The sentences of the model that are about the gateway itself, one test each; those about sign-ins are in
// signin_test.go.

func TestSeed2_OneEndpointPresentsSeveralServers(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}, "b": {Args: []string{"-tool=y"}}})
	if r := g.add("c", g.fake("c", "-tool=z")); r.status != 200 {
		t.Fatalf("add: %d %s", r.status, r.body)
	}
	url := g.gateway().URL
	c := mcptest.Connect(t, url, mcptest.ClientOptions{Token: token})
	if tools := c.Tools(); !slices.Equal(tools, []string{"x", "y", "z"}) {
		t.Errorf("tools at %s: %v", url, tools)
	}
	for tool, server := range map[string]string{"x": "a", "y": "b", "z": "c"} {
		contains(t, c.Call(tool, "{}").Text(), server)
	}
}

func TestSeed2_AnAuthenticatedClientIsNeeded(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	for _, c := range []struct{ method, path string }{
		{"GET", gatewayPath}, {"POST", gatewayPath + "/start"}, {"POST", gatewayPath + "/stop"}, {"POST", gatewayPath + "/servers"},
		{"GET", gatewayPath + "/servers"}, {"DELETE", gatewayPath + "/servers/a"}, {"POST", gatewayPath + "/servers/a/restart"},
		{"GET", gatewayPath + "/report"}, {"GET", "/v1/mcp-servers/a/authorization"}, {"POST", "/v1/mcp-servers/a/authorization/authorize"},
	} {
		for _, wrong := range []string{"", token + "x"} {
			r, err := g.ask(c.method, c.path, "{}", wrong)
			if err != nil {
				t.Fatal(err)
			}
			r.refusal(t, 401, control.Unauthenticated)
		}
	}
	equal(t, "the server", g.client("").Call("whoami", "{}").Text(), "a")
	if s := g.status(); s.State != control.StateReady { // over the socket, which needs none
		t.Errorf("status %+v", s)
	}
}

func TestSeed2_UseCatalogueIDsNotInventedNames(t *testing.T) {
	g := prepare(t, map[string]entry{"a": {}}).withCatalog().up()
	before := g.report()
	g.add("quik", "").refusal(t, 404, control.NotFound, `"quik"`, `did you mean "quick"?`)
	g.add("a display name", "").refusal(t, 404, control.NotFound, `"a display name"`)
	g.add("github/o/r", "").refusal(t, 404, control.NotFound, "registration", "runCmd")
	e := g.add("choosy", "").refusal(t, 400, control.InvalidArgument, "choosy", "name", "is missing")
	contains(t, string(e.Details[0]), control.TypeBadRequest, `"field":"registration.name"`)
	g.api("POST", "/v1/mcp-servers/quik/authorization/authorize", "{}").refusal(t, 404, control.NotFound, "quik")
	if after := g.report(); after.Generation != before.Generation || names(g.gateway().Servers) != "a:stdio" {
		t.Errorf("it has changed: %+v", after)
	}
	if r := g.add("quick", ""); r.status != 200 || !strings.Contains(r.body, `{"server":{"name":"quick","type":"stdio"}}`) {
		t.Errorf("a catalogue id: %d %s", r.status, r.body)
	}
}

func TestSeed2_ServerIDsGoIntoTheOptionsAtCreation(t *testing.T) {
	g := prepare(t, map[string]entry{"a": {Args: []string{"-tool=x"}}}).withCatalog().up()
	for _, wrong := range []string{`{"servers":["quick"],"gatewayUrl":"http://127.0.0.1:1/mcp"}`, `{"server":["quick"]}`, `{"servers":"quick"}`,
		`{"gatewayUrl":"not a url"}`, `{"servers":[""]}`, ``} {
		g.api("POST", gatewayPath+"/start", wrong).refusal(t, 400, control.InvalidArgument)
	}
	g.api("POST", gatewayPath+"/start", `{"servers":["nobody"]}`).refusal(t, 404, control.NotFound, "nobody")
	g.api("POST", gatewayPath+"/start", `{"servers":["choosy"]}`).refusal(t, 400, control.InvalidArgument, "is missing")
	g.stopGateway()
	r := g.api("POST", gatewayPath+"/start", `{"servers":["quick","a","quick"],"static":true,"gatewayUrl":null}`)
	var started control.Gateway
	r.into(t, &started)
	if r.status != 202 || started.State != control.GatewayProvisioning || started.URL != "" || started.Reused {
		t.Errorf("start: %d %s", r.status, r.body)
	}
	equal(t, "servers", names(g.until(control.GatewayReady).Servers), "quick:stdio a:stdio")
	if tools := g.client("").Tools(); !slices.Equal(tools, []string{"x", "quick_tool"}) {
		t.Errorf("tools %v", tools)
	}
}

func TestSeed2_TheConfigurationIsReadyWhenTheAgentStarts(t *testing.T) {
	gate := temporary(t, "gate")
	g := early(t, map[string]entry{"a": {}, "slow": {Args: []string{"-tool=y", "-start-gate=" + gate}}}).up()
	eventually(t, "one is up", func() bool { return g.status().Servers[0].State == "ready" })
	if s := g.gateway(); s.State != control.GatewayProvisioning || s.URL != "" {
		t.Errorf("while a server is not ready: %+v", s)
	}
	equal(t, "outcomes", outcomes(g.report()), "a=pending slow=pending")
	if g.report().Complete {
		t.Error("the report is complete")
	}
	if _, err := mcptest.Dial(g.ready.URL, mcptest.ClientOptions{Token: token}); err == nil {
		t.Error("MCP is served")
	}
	touch(t, gate)
	g.until(control.GatewayReady)
	if tools := g.client("").Tools(); !slices.Contains(tools, "y") {
		t.Errorf("tools %v", tools)
	}
	if r := g.report(); !r.Complete || outcomes(r) != "a=applied slow=applied" {
		t.Errorf("report %+v", r)
	}
}

func TestSeed2_ModelProviderSecretsAreAttachedSeparately(t *testing.T) {
	g := prepare(t, map[string]entry{"a": {Env: map[string]string{"OWN": "secret-of-a"}}})
	g.o.AttachToken = "secret-of-another-gateway"
	g.up()
	if r := g.add("b", `{"b":{"command":`+quoted(mcptest.Build(t))+`,"args":["-id=b","-prefix=b_"],"envs":{"OWN":"secret-of-b"}}}`); r.status != 200 {
		t.Fatalf("add: %d %s", r.status, r.body)
	}
	c := g.client("")
	for tool, own := range map[string]string{"env": "secret-of-a", "b_env": "secret-of-b"} {
		text := c.Call(tool, "{}").Text()
		contains(t, text, own)
		for _, foreign := range []string{"secret-of-a", "secret-of-b", "secret-of-another-gateway", token} {
			if foreign != own && strings.Contains(text, foreign+`"`) {
				t.Errorf("%s: the server has %s", tool, foreign)
			}
		}
	}
}

func TestSeed2_StartAndStopConverge(t *testing.T) {
	g := start(t, map[string]entry{"a": {}, "b": {Args: []string{"-tool=y"}}})
	first := g.gateway()
	started := g.started()
	for _, same := range []string{`{}`, `{"servers":["b","a"]}`, `{"servers":["a","b"],"static":false}`, `{"static":true}`} {
		r := g.api("POST", gatewayPath+"/start", same)
		var again control.Gateway
		r.into(t, &again)
		if r.status != 200 || !again.Reused || again.UID != first.UID || again.URL != first.URL || again.State != control.GatewayReady {
			t.Errorf("start %s: %d %s", same, r.status, r.body)
		}
	}
	for _, other := range []string{`{"servers":["a"]}`, `{"gatewayUrl":"http://127.0.0.1:1/mcp"}`} {
		g.api("POST", gatewayPath+"/start", other).refusal(t, 409, control.FailedPrecondition, "stop it first")
	}
	if g.started() != started || g.gateway().UID != first.UID {
		t.Error("a repeated start has started something")
	}
	for range 2 {
		if r := g.api("POST", gatewayPath+"/stop", ""); r.status != 200 || strings.TrimSpace(r.body) != "{}" {
			t.Errorf("stop: %d %s", r.status, r.body)
		}
	}
	g.api("GET", gatewayPath, "").refusal(t, 404, control.NotFound)
	g.api("POST", gatewayPath+"/start", `{}`)
	again := g.until(control.GatewayReady)
	equal(t, "servers after another start", names(again.Servers), names(first.Servers))
	if again.UID == first.UID || again.Reused {
		t.Errorf("another start: %+v", again)
	}
}

func TestSeed2_StaticHidesDiscoveryAndLeavesTheControlSideOpen(t *testing.T) {
	g := prepare(t, map[string]entry{"a": {Args: []string{"-tool=x"}}}).withCatalog()
	g.o.Dynamic = true
	g.up()
	equal(t, "mode", string(g.report().Mode), string(control.ModeDynamic))
	if tools := g.client("").Tools(); !slices.Equal(tools, []string{"mcp-find", "mcp-add", "mcp-remove", "x"}) {
		t.Errorf("tools of a dynamic gateway: %v", tools)
	}
	g.api("POST", gatewayPath+"/start", `{"servers":["a"],"static":true}`).refusal(t, 409, control.FailedPrecondition, "dynamic")
	g.stopGateway()
	g.api("POST", gatewayPath+"/start", `{"servers":["a"],"static":true}`)
	g.until(control.GatewayReady)
	equal(t, "mode", string(g.report().Mode), string(control.ModeStatic))
	c := g.client("")
	if tools := c.Tools(); !slices.Equal(tools, []string{"x"}) {
		t.Errorf("tools of a static gateway: %v", tools)
	}
	if r := g.add("quick", ""); r.status != 200 {
		t.Errorf("add: %d %s", r.status, r.body)
	}
	if tools := c.Tools(); !slices.Equal(tools, []string{"x", "quick_tool"}) {
		t.Errorf("tools after an addition: %v", tools)
	}
}

func TestSeed2_ReadItByItsName(t *testing.T) {
	g := prepare(t, map[string]entry{"a": {}})
	g.o.SandboxID = "i7x9"
	g.up()
	for _, id := range []string{"i7x9", "-"} {
		r := g.api("GET", "/v1/sandboxes/"+id+"/mcp-gateway", "")
		var out control.Gateway
		r.into(t, &out)
		if r.status != 200 || out.Name != "sandboxes/i7x9/mcp-gateway" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	g.api("GET", "/v1/sandboxes/another/mcp-gateway", "").refusal(t, 404, control.NotFound)
	equal(t, "name where the id is not known", start(t, map[string]entry{}).gateway().Name, "sandboxes/-/mcp-gateway")
}

func TestSeed2_WaitBoundedForReadyOrFailed(t *testing.T) {
	gate := temporary(t, "gate")
	g := early(t, map[string]entry{"slow": {Args: []string{"-start-gate=" + gate}}}).up()
	e := g.api("GET", gatewayPath+"?wait=0.01s", "").refusal(t, 504, control.DeadlineExceeded)
	equal(t, "outcomes", outcomes(details[control.ConfigurationReport](t, e, control.TypeConfigurationReport)), "slow=pending")
	waited := make(chan reply, 1)
	go func() {
		r, _ := g.ask("GET", gatewayPath+"?wait=30s", "", token)
		waited <- r
	}()
	for range 100 { // a plain read is cheap, and never waits
		if s := g.gateway().State; s != control.GatewayProvisioning {
			t.Fatalf("state %s", s)
		}
	}
	touch(t, gate)
	if r := <-waited; r.status != 200 || !strings.Contains(r.body, `"state":"ready"`) {
		t.Errorf("waited: %d %s", r.status, r.body)
	}
}

func TestSeed2_TheURLOnlyWhenReadyAndTheReasonWhenFailed(t *testing.T) {
	cause := temporary(t, "licence")
	line := "test -e " + cause + " || { echo no licence >&2; exit 3; }; exec " + mcptest.Build(t) + " -id=flawed"
	g := early(t, map[string]entry{
		"flawed": {Command: "/bin/sh", Args: []string{"-c", line}}, "good": {Args: []string{"-tool=y", "-spawn"}},
	}).up()
	failed := g.until(control.GatewayFailed)
	if failed.URL != "" || failed.Failure == nil || failed.Failure.Code != control.FailedPrecondition {
		t.Fatalf("failed: %+v", failed)
	}
	report := details[control.ConfigurationReport](t, *failed.Failure, control.TypeConfigurationReport)
	equal(t, "outcomes", outcomes(report), "flawed=failed good=failed")
	contains(t, report.Servers[0].Reason, "exit status 3", "no licence")
	contains(t, g.log(), "no licence", "gateway not started")
	s := g.status()
	if s.State != control.StateFailed || s.Servers[0].State != "failed" {
		t.Errorf("status %+v", s)
	}
	contains(t, s.Servers[0].LastError, "no licence")
	g.api("GET", gatewayPath+"?wait=30s", "").refusal(t, 409, control.FailedPrecondition, "flawed")
	if status, body := g.get("/health"); status != 503 || !strings.Contains(body, `"failed"`) {
		t.Errorf("health %d %s", status, body)
	}
	g.add("quick", "").refusal(t, 409, control.FailedPrecondition, "not ready")
	g.noProcessIsLeft()

	touch(t, cause) // its cause is gone
	if r := g.api("POST", gatewayPath+"/start", "{}"); r.status != 202 || strings.Contains(r.body, "reused") {
		t.Errorf("start again: %d %s", r.status, r.body)
	}
	if ready := g.until(control.GatewayReady); ready.URL == "" || ready.Failure != nil {
		t.Errorf("ready: %+v", ready)
	}
	equal(t, "the server", g.client("").Call("whoami", "{}").Text(), "flawed")
}

func TestSeed2_AReadyGatewayHasAURL(t *testing.T) {
	g := early(t, map[string]entry{"a": {}}).up()
	check := func(s control.Gateway) {
		t.Helper()
		if (s.State == control.GatewayReady) != (s.URL != "") {
			t.Errorf("state %s with URL %q", s.State, s.URL)
		}
	}
	for s := g.gateway(); s.State != control.GatewayReady; s = g.gateway() {
		check(s)
	}
	check(g.gateway())
	if _, err := mcptest.Dial(g.gateway().URL, mcptest.ClientOptions{Token: token}); err != nil {
		t.Errorf("MCP at that URL: %v", err)
	}
}

func TestSeed2_KeepGatewayCredentialsPrivate(t *testing.T) {
	const key, attach = "s3cr3t-of-the-server", "s3cr3t-of-the-shared-one"
	g := prepare(t, map[string]entry{"a": {}})
	g.o.AttachToken = attach
	g.up()
	var seen []string
	keep := func(r reply) {
		t.Helper()
		seen = append(seen, r.body)
	}
	env := `"envs":{"KEY":"` + key + `"}`
	keep(g.add("bad", `{"bad":{"command":"/bin/sh","args":["-c","echo the key is $KEY >&2; exit 1"],`+env+`}}`))
	keep(g.add("good", `{"good":{"command":`+quoted(mcptest.Build(t))+`,"args":["-id=good","-prefix=good_","-stderr=`+key+`"],`+env+`}}`))
	keep(g.add("far", `{"far":{"url":"http://127.0.0.1:1/`+key+`?key=`+key+`","headers":{"X-Key":"${KEY}"},`+env+`}}`))
	keep(g.add("good", `{"good":{"command":"other",`+env+`}}`))
	for _, path := range []string{"", "/report", "/servers", "/servers/bad", "/servers/good"} {
		keep(g.api("GET", gatewayPath+path, ""))
	}
	g.stopGateway()
	keep(g.api("POST", gatewayPath+"/start", `{"gatewayUrl":"http://127.0.0.1:1/`+key+`"}`))
	g.until(control.GatewayFailed)
	keep(g.api("GET", gatewayPath, ""))
	g.end()
	for _, text := range append(seen, g.log()) {
		for _, secret := range []string{token, key, attach} {
			if strings.Contains(text, secret) {
				t.Errorf("%q stands in %s", secret, text)
			}
		}
	}
	contains(t, seen[0], "the key is ***")
}

func TestSeed2_TheAddressIsItsOwn(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	equal(t, "URL", g.gateway().URL, g.ready.URL)
	if status, _ := g.get("/"); status != 404 {
		t.Errorf("/: %d", status)
	}
	public := prepare(t, map[string]entry{})
	public.o.PublicURL = "https://50005-i7x9.example.com/"
	equal(t, "public URL", public.up().gateway().URL, "https://50005-i7x9.example.com/mcp")
	// Without one it is learned from the first request that came by way of a proxy.
	req, err := http.NewRequest("GET", g.base()+gatewayPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, bearer := range []string{"wrong", token} {
		equal(t, "URL before", g.gateway().URL, g.ready.URL)
		req.Host = "50005-i7x9.example.org"
		req.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	equal(t, "URL after", g.gateway().URL, "https://50005-i7x9.example.org/mcp")
}

func TestSeed2_AddToAReadyWritableGateway(t *testing.T) {
	gate := temporary(t, "gate")
	g := early(t, map[string]entry{"slow": {Args: []string{"-tool=x", "-start-gate=" + gate}}}).withCatalog().up()
	g.add("quick", "").refusal(t, 409, control.FailedPrecondition, "not ready", "provisioning")
	equal(t, "servers", names(g.gateway().Servers), "slow:stdio")
	touch(t, gate)
	g.until(control.GatewayReady)
	c := g.client("")
	c.Listen()
	m := g.client(mcptest.Modern).Begin("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	m.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
	if r := g.add("quick", ""); r.status != 200 || strings.TrimSpace(r.body) != `{"server":{"name":"quick","type":"stdio"}}` {
		t.Errorf("add: %d %s", r.status, r.body)
	}
	c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	m.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	if tools := c.Tools(); !slices.Equal(tools, []string{"quick_tool", "x"}) {
		t.Errorf("tools %v", tools)
	}
	g.add("quick", `{"other":{"command":"x"}}`).refusal(t, 409, control.FailedPrecondition, `"quick"`)
	g.add("quick", g.fake("quick", "-tool=other")).refusal(t, 409, control.FailedPrecondition, "another definition")
	if tools := c.Tools(); !slices.Equal(tools, []string{"quick_tool", "x"}) {
		t.Errorf("tools after refused additions: %v", tools)
	}
	g.stopGateway()
	if r := g.add("quick", ""); r.status != 409 && r.status != 404 {
		t.Errorf("add to a stopped gateway: %d %s", r.status, r.body)
	}
}

func TestSeed2_AddingAPresentServerMakesNoSecondCopy(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}})
	if r := g.add("a", ""); r.status != 200 || g.started() != 1 {
		t.Errorf("%d %s, %d processes", r.status, r.body, g.started())
	}
	gate := temporary(t, "gate")
	registration := g.fake("b", "-tool=y", "-start-gate="+gate)
	c := g.client(mcptest.Modern)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			r, err := g.ask("POST", gatewayPath+"/servers", addBody("b", registration), token)
			if err != nil || r.status != 200 || strings.TrimSpace(r.body) != `{"server":{"name":"b","type":"stdio"}}` {
				t.Errorf("%d %s, %v", r.status, r.body, err)
			}
			// Who is answered finds the tool there.
			if r, err := c.Do("tools/call", mcptest.CallParams("y", "{}")); must(r, err) != nil {
				t.Error(must(r, err))
			}
		})
	}
	eventually(t, "it is being added", func() bool { return g.started() == 2 })
	touch(t, gate)
	wait.Wait()
	if n := g.started(); n != 2 {
		t.Errorf("%d processes were started for two servers", n)
	}
	equal(t, "servers", names(g.gateway().Servers), "a:stdio b:stdio")
}

func TestSeed2_ASharedGatewayCannotBeChangedHere(t *testing.T) {
	shared := start(t, map[string]entry{"far": {Args: []string{"-tool=x"}}})
	g := prepare(t, map[string]entry{"a": {}}).withCatalog()
	g.o.AttachToken = token
	g.o.Dynamic = true
	g.up()
	g.stopGateway()
	r := g.api("POST", gatewayPath+"/start", `{"gatewayUrl":`+quoted(shared.ready.URL)+`}`)
	if r.status != 202 {
		t.Fatalf("attach: %d %s", r.status, r.body)
	}
	g.until(control.GatewayReady)
	report := g.report()
	if report.Mode != control.ModeAttached || len(report.Servers) != 0 || names(report.DormantServers) != "a:stdio" || !report.Complete {
		t.Errorf("report %+v", report)
	}
	equal(t, "servers", names(g.gateway().Servers), "a:stdio")
	for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
		c := g.client(version)
		if tools := c.Tools(); !slices.Equal(tools, []string{"x"}) {
			t.Errorf("tools %v", tools)
		}
		contains(t, c.Call("x", "{}").Text(), "far")
	}
	g.add("quick", "").refusal(t, 409, control.FailedPrecondition, "read-only")
	g.add("a", "").refusal(t, 409, control.FailedPrecondition, "read-only")
	g.api("DELETE", gatewayPath+"/servers/a", "").refusal(t, 409, control.FailedPrecondition, "read-only")
	g.api("POST", gatewayPath+"/servers/attached/restart", "").refusal(t, 409, control.FailedPrecondition, "read-only")
	if tools := shared.client("").Tools(); !slices.Equal(tools, []string{"x"}) {
		t.Errorf("tools of the shared one: %v", tools)
	}
}

func TestSeed2_DeletingTheSandboxCleansUpItsGateway(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-spawn"}}})
	if r := g.add("b", g.fake("b", "-spawn", "-ignore-eof", "-ignore-term")); r.status != 200 {
		t.Fatalf("add: %d %s", r.status, r.body)
	}
	c := g.client("")
	x := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	x.Await(mcptest.IsMethod("notifications/progress"))
	g.stopGateway()
	g.noProcessIsLeft()
	if r, err := c.Do("tools/list", ""); err == nil && r.Error == nil {
		t.Error("its session is still served")
	}
	if status, body := g.get("/health"); status != 503 || !strings.Contains(body, `"stopped"`) {
		t.Errorf("health %d %s", status, body)
	}
	r, err := g.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, token)
	if err != nil || r.status != http.StatusServiceUnavailable {
		t.Errorf("MCP after the stop: %d %s, %v", r.status, r.body, err)
	}
	if s := g.status(); s.State != control.StateStopped {
		t.Errorf("status %+v", s)
	}
	g.end()
	g.nothingIsLeft()
}

func TestSeed2_ASharedGatewayStaysForItsOtherUsers(t *testing.T) {
	shared := start(t, map[string]entry{"far": {}})
	other := shared.client("")
	other.Listen()
	inFlight := other.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	inFlight.Await(mcptest.IsMethod("notifications/progress"))
	g := prepare(t, map[string]entry{})
	g.o.Attach, g.o.AttachToken = shared.ready.URL, token
	g.up()
	c := g.client("")
	equal(t, "through", c.Call("whoami", "{}").Text(), "far")
	pid := shared.status().Servers[0].PID
	g.stopGateway()
	g.api("GET", gatewayPath, "").refusal(t, 404, control.NotFound)
	g.api("POST", gatewayPath+"/start", "{}") // as before: attached
	g.until(control.GatewayReady)
	equal(t, "attached again", g.client("").Call("whoami", "{}").Text(), "far")
	g.end()
	if s := shared.status(); s.State != control.StateReady || s.Servers[0].PID != pid || s.Servers[0].Restarts != 0 {
		t.Errorf("the shared one: %+v", s)
	}
	equal(t, "its other user", other.Call("whoami", "{}").Text(), "far")
	if seen := other.Seen(); len(seen) != 0 {
		t.Errorf("its other user was told %v", seen)
	}
	inFlight.Cancel("enough")
}

// stopGateway stops the gateway and leaves the program.
func (g *testGateway) stopGateway() {
	g.t.Helper()
	if r := g.api("POST", gatewayPath+"/stop", ""); r.status != 200 {
		g.t.Fatalf("stop: %d %s", r.status, r.body)
	}
}
