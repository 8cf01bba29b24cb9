package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func env(context.Context, *server, *call) (string, string) {
	vars := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return jsonText(vars)
}

func process(context.Context, *server, *call) (string, string) {
	dir, _ := os.Getwd()
	session, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	return jsonText(map[string]any{
		"pid": os.Getpid(), "ppid": os.Getppid(), "pgid": syscall.Getpgrp(), "sid": session,
		"uid": os.Getuid(), "cwd": dir, "args": os.Args,
	})
}

func jsonText(v any) (string, string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", rpcError(-32603, err.Error())
	}
	return textResult(strings.TrimSpace(b.String())), ""
}

func boom(_ context.Context, _ *server, c *call) (string, string) {
	a := struct{ Code int }{Code: 1}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	fmt.Fprintln(os.Stderr, "boom: about to end")
	os.Exit(a.Code)
	return "", ""
}

func spawnTool(_ context.Context, _ *server, c *call) (string, string) {
	var a struct{ Hold, Stubborn bool }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	pid, err := spawnSession(a.Hold, a.Stubborn)
	if err != nil {
		return "", rpcError(-32603, err.Error())
	}
	return textResult(fmt.Sprint(pid)), ""
}

func orphans(_ context.Context, _ *server, c *call) (string, string) {
	a := struct{ N int }{N: 50}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	leaveOrphans(a.N)
	return textResult(fmt.Sprint(a.N)), ""
}

// eatsInput says whether the request must be handled by the reading goroutine, so that nothing
// but its child reads stdin meanwhile.
func (s *server) eatsInput(m *message) bool {
	var p struct {
		Name string `json:"name"`
	}
	return m.Method == "tools/call" && json.Unmarshal(m.Params, &p) == nil && p.Name == s.o.prefix+"steal_stdin"
}

// stealStdin runs a child that inherits stdin, as a tool does that forgets to close it. The child
// reads byte by byte, so it takes no more than its lines. Lines that this server's own buffer has
// read ahead count as eaten too.
func stealStdin(_ context.Context, s *server, c *call) (string, string) {
	var a struct{ Lines int }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	script := "exec cat"
	left := a.Lines
	for s.in.Buffered() > 0 && (left > 0 || a.Lines == 0) {
		_, _ = s.in.ReadString('\n')
		left--
	}
	if a.Lines > 0 {
		script = fmt.Sprintf("for i in $(seq %d); do read -r line; done", left)
	}
	child := exec.Command("/bin/sh", "-c", script)
	child.Stdin, child.Stdout = os.Stdin, os.Stderr
	if err := child.Run(); err != nil {
		return "", rpcError(-32603, err.Error())
	}
	return textResult("the child has read its lines"), ""
}
