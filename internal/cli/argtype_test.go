package cli

import (
	"errors"
	"testing"
)

// An argument's text becomes JSON only where the schema lets it; numbers keep their spelling.
func TestBuildArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"text":{"type":"string"}, "count":{"type":"integer"}, "ratio":{"type":"number"}, "on":{"type":"boolean"},
		"list":{"type":"array"}, "object":{"type":"object"}, "either":{"type":["string","number"]},
		"maybe":{"anyOf":[{"type":"string"},{"type":"null"}]}, "choice":{"enum":["1","2"]}, "three":{"const":3},
		"ref":{"$ref":"#/$defs/Point~1x"}, "loop":{"$ref":"#/$defs/loop"}, "free":{}, "any":{"anyOf":[{"type":"string"},{}]},
		"all":{"allOf":[{"description":"x"},{"type":"string"}]}},
		"$defs":{"Point/x":{"type":"object"},"loop":{"$ref":"#/$defs/loop"}}}`
	for _, test := range []struct{ pair, want string }{
		{"text=hello", `{"text":"hello"}`},
		{"text=12", `{"text":"12"}`},
		{`text="quoted"`, `{"text":"\"quoted\""}`},
		{"text=", `{"text":""}`},
		{"text=a=b,c<d", `{"text":"a=b,c<d"}`},
		{"count=12345678901234567890", `{"count":12345678901234567890}`},
		{"count=1.50", `{"count":"1.50"}`},
		{"count=2.0", `{"count":2.0}`},
		{"count=many", `{"count":"many"}`},
		{"ratio=1.50e3", `{"ratio":1.50e3}`},
		{"on=true", `{"on":true}`},
		{"on=yes", `{"on":"yes"}`},
		{"list=[1, 2]", `{"list":[1, 2]}`},
		{"list=/tmp", `{"list":"/tmp"}`},
		{`object={"b":1,"a":2}`, `{"object":{"b":1,"a":2}}`},
		{"either=5", `{"either":5}`},
		{"either=five", `{"either":"five"}`},
		{`either="five"`, `{"either":"\"five\""}`},
		{"maybe=null", `{"maybe":null}`},
		{"maybe=1", `{"maybe":"1"}`},
		{"choice=1", `{"choice":"1"}`},
		{"three=3", `{"three":3}`},
		{`ref={"x":1}`, `{"ref":{"x":1}}`},
		{"ref=1", `{"ref":"1"}`},
		{"loop=1", `{"loop":1}`},
		{"free=1", `{"free":1}`},
		{`free="x"`, `{"free":"x"}`},
		{"any=1", `{"any":1}`},
		{"all=1", `{"all":"1"}`},
		{"unknown=01", `{"unknown":"01"}`},
	} {
		got, err := buildArguments(nil, []string{test.pair}, []byte(schema))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.pair, got, err, test.want)
		}
	}
}

func TestBuildArgumentsFromObject(t *testing.T) {
	const object = `{"z": 12345678901234567890,  "a":1.0}`
	for _, test := range []struct {
		given string
		pairs []string
		want  string
	}{
		{object, nil, object},
		{"", nil, "{}"},
		{object, []string{"a=2", "new=x"}, `{"z":12345678901234567890,"a":2,"new":"x"}`},
	} {
		var given []byte
		if test.given != "" {
			given = []byte(test.given)
		}
		got, err := buildArguments(given, test.pairs, nil)
		if err != nil || string(got) != test.want {
			t.Errorf("got %s, %v, want %s", got, err, test.want)
		}
	}
	for _, pairs := range [][]string{{"novalue"}, {"=x"}, {"a=1", "a=2"}} {
		var stated *statedError
		if _, err := buildArguments(nil, pairs, nil); !errors.As(err, &stated) || stated.exit != exitUsage {
			t.Errorf("%v: error is %v", pairs, err)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"a":1} x`, "nope"} {
		if _, err := splitObject([]byte(text)); err == nil {
			t.Errorf("%q is taken as an object", text)
		}
	}
}
