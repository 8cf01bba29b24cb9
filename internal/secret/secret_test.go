package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestValue_B75_PrintsAsStars(t *testing.T) {
	v := Value("s3cr3t-123")
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", v)
	encoded, err := json.Marshal(map[string]any{"v": v, "list": []Value{v}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%v %s %q %#v %+v", v, v, v, v, struct{ V Value }{v}), log.String(), string(encoded)} {
		if strings.Contains(text, "s3cr3t") || !strings.Contains(text, mask) {
			t.Errorf("got %s", text)
		}
	}
	if v.Reveal() != "s3cr3t-123" {
		t.Errorf("Reveal gives %q", v.Reveal())
	}
}

func TestScrubber_B75(t *testing.T) {
	s := NewScrubber([]Value{"password", "password-longer", `a"quoted\one`, "short", "1"})
	for in, want := range map[string]string{
		"the password-longer and password": "the *** and ***",
		`{"k":"a\"quoted\\one"}`:           `{"k":"***"}`,
		`raw a"quoted\one`:                 "raw ***",
		"short 1":                          "short 1",
	} {
		if got := s.Scrub(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	var none *Scrubber
	if none.Scrub("x") != "x" || NewScrubber(nil).Scrub("x") != "x" {
		t.Error("a scrubber without values changes text")
	}
}

// A server that is added later brings secrets of its own.
func TestScrubber_B75_TakesFurtherValues(t *testing.T) {
	s := NewScrubber([]Value{"password"})
	s.Add("password-longer", "brief", `with "quotes"`)
	s.Add()
	for in, want := range map[string]string{
		"password-longer, password": "***, ***",
		`{"k":"with \"quotes\""}`:   `{"k":"***"}`,
		"brief":                     "brief",
	} {
		if got := s.Scrub(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	var none Scrubber
	none.Add("a-secret")
	if got := none.Scrub("a-secret"); got != mask {
		t.Errorf("got %s", got)
	}
}
