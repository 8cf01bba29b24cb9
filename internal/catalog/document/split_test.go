package document

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzSplit compares the splitter with the decoder of encoding/json, on whatever Check passes.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, ` [ 1 , "a" , {"b":[]} , null,true ] `, `{"a":1,"b":{"c":"}"},"a":[",","]"]}`, "{\"a\"\t:\r\n-1.5e+3 }",
		`{"\"":"\\","\\\"":"\\\\\"","é\u00e9":"\ud83d\ude00"}`, `"a"`, `12`, `[[[]],[{}]]`, `{"":""}`, `["\\",","]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, fault := Check(data)
		if fault != nil {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		first, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		var values []json.RawMessage
		for decoder.More() && (first == json.Delim('{') || first == json.Delim('[')) {
			if first == json.Delim('{') {
				name, err := decoder.Token()
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, name.(string))
			}
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		members, isObject := Object(raw)
		elements, isList := List(raw)
		if isObject != (first == json.Delim('{')) || isList != (first == json.Delim('[')) {
			t.Fatalf("%s: object %t, list %t", raw, isObject, isList)
		}
		for _, member := range members {
			elements = append(elements, member.Value)
		}
		if diff := cmp.Diff(values, append([]json.RawMessage(nil), elements...)); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
		for i, member := range members {
			if member.Name != names[i] {
				t.Errorf("%s: member %d is %q, want %q", raw, i, member.Name, names[i])
			}
		}
	})
}

// TestSplit_OfATextThatEndsTooEarly: nothing beyond the text is read, and no part passes as the whole.
func TestSplit_OfATextThatEndsTooEarly(t *testing.T) {
	object := `{"a\"b": [1, {"c": "d]"}], "e": -1.5, "f": null}`
	list := `[1, {"c": "d]"}, "\\", []]`
	for end := range len(object) {
		if _, ok := Object(json.RawMessage(object[:end])); ok {
			t.Errorf("passed as an object: %s", object[:end])
		}
	}
	for end := range len(list) {
		if _, ok := List(json.RawMessage(list[:end])); ok {
			t.Errorf("passed as a list: %s", list[:end])
		}
	}
}
