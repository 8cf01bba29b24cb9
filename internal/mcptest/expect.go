package mcptest

import (
	"strings"
	"testing"
	"time"
)

// Eventually waits for a state that nothing announces.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it did not come to that", what)
		}
	}
}

// Contains wants a text to hold each of the parts.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %.2000q", part, text)
		}
	}
}

// Equal wants one text to be another one.
func Equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n is   %s\n want %s", what, got, want)
	}
}
