package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMessagesMade(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{string(Request(7, "ping", nil)), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(Request(1, "a\"\u2028\x01", []byte(`{"n":1.0}`))), `{"jsonrpc":"2.0","id":1,"method":"a\"` + "\u2028" + `\u0001","params":{"n":1.0}}`},
		{string(Notification("x", nil)), `{"jsonrpc":"2.0","method":"x"}`},
		{string(Notification("x", []byte(`[]`))), `{"jsonrpc":"2.0","method":"x","params":[]}`},
		{string(Reply([]byte(`"a"`), []byte(`{}`))), `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{string(Reply(nil, []byte(`{}`))), `{"jsonrpc":"2.0","id":null,"result":{}}`},
		{string(ErrorReply([]byte("1"), (&Error{Code: -1, Message: `"m"`, Data: []byte(`{"d":1}`)}).Object())), `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"\"m\"","data":{"d":1}}}`},
		{string(ErrorReply(nil, (&Error{Code: 5}).Object())), `{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":""}}`},
	} {
		if test.got != test.want {
			t.Errorf("got  %s\nwant %s", test.got, test.want)
		}
		if !json.Valid([]byte(test.got)) {
			t.Errorf("%s is no JSON", test.got)
		}
	}
}

func TestAsError(t *testing.T) {
	own := &Error{Code: 7, Message: "m"}
	if got := AsError(fmt.Errorf("call: %w", own)); got != own {
		t.Errorf("got %+v", got)
	}
	if got := AsError(errors.New("x")); got.Code != CodeInternal || got.Error() != "x" {
		t.Errorf("got %+v", got)
	}
}

func TestKindsOfMessages(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`:              "request",
		`{"jsonrpc":"2.0","method":"a"}`:                     "notification",
		`{"jsonrpc":"2.0","id":1,"result":null}`:             "response",
		`{"jsonrpc":"2.0","id":1,"error":{}}`:                "response",
		`{"jsonrpc":"2.0","id":"1","method":"a","result":1}`: "request",
	} {
		m, err := Parse([]byte(in))
		kinds := map[string]bool{"request": m.IsRequest(), "notification": m.IsNotification(), "response": m.IsResponse()}
		for kind, is := range kinds {
			if err != nil || is != (kind == want) {
				t.Errorf("%s: %v, %v", in, kinds, err)
			}
		}
	}
}

// Trap 3: keys that routing depends on may stand in a message once, however they are written.
func TestTrap3_KeysOnce(t *testing.T) {
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{},"p\u0061rams":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"uri":"a","ur\u0069":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{},"_m\u0065ta":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{},"arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":null,"params":{}}`,
	} {
		m, err := Parse([]byte(in))
		if e := AsError(err); err == nil || e.Code != CodeInvalidRequest || string(m.ID) != "1" || !strings.Contains(e.Message, "twice") {
			t.Errorf("%s: %v", in, err)
		}
	}
	// What they hold below is the peers' business.
	m, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"a":1,"a":2},"x":1,"x":2},"y":1,"y":2}`))
	if err != nil || string(m.Arguments) != `{"a":1,"a":2}` {
		t.Errorf("got %s, %v", m.Arguments, err)
	}
}

// Servers are read more leniently than clients.
func TestParseServer(t *testing.T) {
	for _, in := range []string{
		`{"id":1,"result":{}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}",
		`{"jsonrpc":"1.0","id":1,"result":"\ud800"}`,
	} {
		if m, err := ParseServer([]byte(in)); err != nil || m.Result == nil {
			t.Errorf("%q: %v", in, err)
		}
		if _, err := Parse([]byte(in)); err == nil {
			t.Errorf("%q was taken from a client", in)
		}
	}
	for _, in := range []string{``, `x`, `{}`, `[]`, `{"id":1}`, `{"id":1,"result":{}`, `{"id":null,"error":{}}`, `{"id":1,"result":{}}x`} {
		if _, err := ParseServer([]byte(in)); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestParamsOfOtherKinds(t *testing.T) {
	for in, ok := range map[string]bool{`null`: true, `[1]`: true, `{}`: true, `1`: false, `"a"`: false, `true`: false} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":` + in + `}`))
		if (err == nil) != ok || string(m.Params) != in {
			t.Errorf("%s: %s, %v", in, m.Params, err)
		}
	}
}

func TestGet(t *testing.T) {
	object := []byte(` {"a":1,"\u0062" : {"c":[1, 2]},"a":2,"d":"x\u0079","e":null}`)
	for name, want := range map[string]string{"a": "1", "b": `{"c":[1, 2]}`, "d": `"x\u0079"`, "e": "null", "f": "", "": ""} {
		if got := string(Get(object, name)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if s, ok := GetString(object, "d"); s != "xy" || !ok {
		t.Errorf("got %q, %v", s, ok)
	}
	if s, ok := GetString(object, "a"); s != "" || ok {
		t.Errorf("got %q, %v", s, ok)
	}
	for _, no := range []string{``, `[]`, `1`, `null`, `{`, `{"b"`} {
		if got := Get([]byte(no), "a"); got != nil {
			t.Errorf("%s: got %s", no, got)
		}
	}
	var keys, values []string
	for key, value := range Members(object) {
		keys, values = append(keys, key), append(values, string(value))
		if len(keys) == 4 {
			break
		}
	}
	if !slices.Equal(keys, []string{"a", "b", "a", "d"}) || !slices.Equal(values, []string{"1", `{"c":[1, 2]}`, "2", `"x\u0079"`}) {
		t.Errorf("got %q %q", keys, values)
	}
}

func TestElementsAndValues(t *testing.T) {
	collect := func(seq func(func([]byte) bool)) (out []string) {
		for v := range seq {
			out = append(out, string(v))
		}
		return out
	}
	for in, want := range map[string][]string{
		`[1, {"a":[2]} ,"x",null]`: {"1", `{"a":[2]}`, `"x"`, "null"},
		`[]`:                       nil, `{}`: nil, ``: nil, `[1,`: {"1"}, `null`: nil,
	} {
		if got := collect(Elements([]byte(in))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", in, got)
		}
	}
	for in, want := range map[string][]string{
		`{"a":1}{"b":2} [3]`: {`{"a":1}`, `{"b":2}`, `[3]`},
		`{"a":1} noise {}`:   {`{"a":1}`},
		`noise`:              nil,
		``:                   nil,
	} {
		if got := collect(Values([]byte(in))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", in, got)
		}
	}
	for range Elements([]byte(`[1,2]`)) {
		break // and the scanner is given back
	}
}

func TestKind(t *testing.T) {
	for in, want := range map[string]byte{"": 0, " \r\n\t": 0, " {": '{', "[": '[', `"`: '"', "-1": '0', "7": '0', "true": 't', "false": 'f', "null": 'n'} {
		if got := Kind([]byte(in)); got != want {
			t.Errorf("%q: %c", in, got)
		}
	}
}

func TestAppendQuote(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b", `a\b`, "\x7f", "é", "\x1f", "bad\xff"} {
		if got := string(AppendQuote([]byte("x"), s)); got != "x"+string(Quote(s)) {
			t.Errorf("%q: %s", s, got)
		}
	}
}

// Whatever is edited in whatever object: the changes are there, all else is as it was.
func FuzzEdit(f *testing.F) {
	for _, object := range []string{`{}`, `{"a":1}`, ` { "a" : 1 , "b":[2] } `, `{"a":1,"\u0061":2}`, `{"b":{"a":1},"a":"}"}`, `null`, ``, `{"a":1,"b":2,"c":3}`} {
		f.Add([]byte(object), "a", "b", `7`)
	}
	f.Fuzz(func(t *testing.T, object []byte, set, drop, value string) {
		if !json.Valid([]byte(value)) || set == drop || len(object) > 0 && Kind(object) == '{' && !json.Valid(object) {
			return
		}
		set, drop = strings.ToValidUTF8(set, "?"), strings.ToValidUTF8(drop, "?")
		if set == drop {
			return
		}
		before := slices.Collect(pairs(object))
		edited := Edit(object, Change{set, []byte(value)}, Change{drop, nil})
		if !json.Valid(edited) {
			t.Fatalf("%q becomes %q", object, edited)
		}
		var want []pair
		found := false
		for _, p := range before {
			switch p.key {
			case drop:
			case set:
				found = true
				want = append(want, pair{set, strings.TrimSpace(value)})
			default:
				want = append(want, p)
			}
		}
		if !found {
			want = append(want, pair{set, strings.TrimSpace(value)})
		}
		if got := slices.Collect(pairs(edited)); !slices.Equal(got, want) {
			t.Fatalf("%q becomes %q: got %q, want %q", object, edited, got, want)
		}
	})
}

type pair struct{ key, value string }

func pairs(object []byte) func(func(pair) bool) {
	return func(yield func(pair) bool) {
		for key, value := range Members(object) {
			if !yield(pair{key, string(value)}) {
				return
			}
		}
	}
}
