package relay

import (
	"fmt"
	"strings"
	"testing"
)

func noAlias(int64) string { panic("no alias is needed") }

func TestTaskBookIsBounded(t *testing.T) {
	var b taskBook
	for n := range 2 * maxTasks {
		b.add(&mcpTask{requestor: "me", receiver: "it", space: "it", own: fmt.Sprint(n)}, noAlias)
		if len(b.held) > maxTasks || len(b.known) > maxTasks {
			t.Fatalf("%d tasks are remembered", len(b.held))
		}
	}
	if b.find("me", "0") != nil || b.find("me", fmt.Sprint(2*maxTasks-1)) == nil {
		t.Error("not the oldest were forgotten")
	}
	long := b.add(&mcpTask{requestor: "me", receiver: "it", space: "it", own: strings.Repeat("x", maxID+1)}, noAlias)
	if long.exposed != long.own || b.in("it", long.own) != nil {
		t.Error("an id that is too long is remembered, or is none of the requestor's")
	}
	b.forget("me")
	if len(b.known) != 0 {
		t.Errorf("%d tasks of one who has ended", len(b.known))
	}
	b.forget("it")
	if len(b.held) != 0 {
		t.Errorf("%d tasks at one who has ended", len(b.held))
	}
}

func TestTaskBookForgetsWhatHasEnded(t *testing.T) {
	var b taskBook
	add := func(own, state string) *mcpTask {
		return b.add(&mcpTask{requestor: "me", receiver: "it", space: "it", own: own, ends: taskEnds([]byte(state))}, noAlias)
	}
	for n := range 1000 {
		task := add(fmt.Sprint(n), `{"ttl":0}`)
		task.ends = task.ends.Add(-2 * taskMargin)
	}
	if len(b.held) > 200 {
		t.Errorf("%d tasks are remembered that have ended", len(b.held))
	}
	if b.find("me", "999") != nil || b.in("it", "999") != nil {
		t.Error("a task that has ended is found")
	}
	for _, state := range []string{`{"ttl":60000}`, `{"ttlMs":60000}`, `{"ttl":null}`, `{"ttl":1e300}`, `{"ttlMs":-1}`, `{}`} {
		add(state, state)
		if b.find("me", state) == nil {
			t.Errorf("%s is not found", state)
		}
	}
}

// A server that was started again may number its tasks anew.
func TestTaskBookReplacesATaskWithTheSameID(t *testing.T) {
	var b taskBook
	for _, who := range []string{"me", "you"} {
		b.add(&mcpTask{requestor: who, receiver: "it", space: "it", own: "1"}, noAlias)
	}
	if b.find("me", "1") != nil || b.find("you", "1") == nil {
		t.Error("an old task hides a new one")
	}
}
