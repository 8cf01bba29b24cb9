package document

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck_TellsThePlaceAndNotTheText(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "not valid JSON at line 1, column 1: it is empty, expected an object"},
		{"blank", " \n ", "not valid JSON at line 1, column 1: it is empty, expected an object"},
		{"cut off", "{\"a\": {\n", "not valid JSON at line 2, column 1: it ends too early"},
		{"cut off in a string", `{"a": "hunter2`, "not valid JSON at line 1, column 15: it ends too early"},
		{"single quotes", `{'a': {}}`, "not valid JSON at line 1, column 2: expected a name in double quotes (JSON takes double quotes, not single ones)"},
		{"bare word", `{"a": hunter2}`, "not valid JSON at line 1, column 7: expected a value"},
		{"trailing comma", `{"a": {},}`, "not valid JSON at line 1, column 10: expected a name in double quotes"},
		{"missing comma", "{\"a\": {}\n \"b\": {}}", `not valid JSON at line 2, column 2: expected "," or "}" after a value`},
		{"missing colon", `{"a" {}}`, `not valid JSON at line 1, column 6: expected ":" after a name`},
		{"missing comma in a list", `{"a": [1 2]}`, `not valid JSON at line 1, column 10: expected "," or "]" after a list's element`},
		{"two values", `{} {}`, "not valid JSON at line 1, column 4: expected nothing more after the end"},
		{"line break in a string", "{\"a\": \"x\ny\"}", "not valid JSON at line 1, column 9: expected an escape such as \\n for a control character in a string"},
		{"bad escape", `{"a": "\d"}`, "not valid JSON at line 1, column 9: expected a known escape after a backslash in a string"},
		{"bad unicode escape", `{"a": "\u12g4"}`, "not valid JSON at line 1, column 12: expected four hex digits after \\u"},
		{"bad number", `{"a": -x}`, "not valid JSON at line 1, column 8: expected digits in a number"},
		{"bad literal", `{"a": tru}`, "not valid JSON at line 1, column 10: expected true, false or null"},
		{"not UTF-8", "{\"a\": \"\xff\"}", "not valid JSON at line 1, column 8: expected UTF-8 text"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, fault := Check([]byte(test.text))
			if fault == nil {
				t.Fatalf("Check(%q) passed", test.text)
			}
			if diff := cmp.Diff(test.want, fault.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, fault := Check([]byte("\ufeff{}")); fault != nil {
		t.Errorf("a byte order mark: %v", fault)
	}
}

func TestObject_KeepsOrderSpellingAndRepeats(t *testing.T) {
	members, ok := Object([]byte(` {"b": 12345678901234567890, "a": {"x": [1.0]}, "\u0062": null} `))
	if !ok {
		t.Fatal("not an object")
	}
	want := []Member{
		{Name: "b", Value: []byte("12345678901234567890")},
		{Name: "a", Value: []byte(`{"x": [1.0]}`)},
		{Name: "b", Value: []byte("null"), Repeated: true},
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Error(diff)
	}
	if _, ok := Object([]byte("[]")); ok {
		t.Error("a list passed as an object")
	}
}

func TestScalars(t *testing.T) {
	if text, ok := String([]byte(`"a\"$b"`)); !ok || text != `a"$b` {
		t.Errorf("String = %q, %t", text, ok)
	}
	if _, ok := String([]byte("1")); ok {
		t.Error("a number passed as a string")
	}
	if text, ok := Number([]byte(" 1.50e+400 ")); !ok || text != "1.50e+400" {
		t.Errorf("Number = %q, %t", text, ok)
	}
	if value, ok := Bool([]byte("false")); value || !ok {
		t.Errorf("Bool = %t, %t", value, ok)
	}
	if _, ok := Bool([]byte(`"true"`)); ok {
		t.Error("a string passed as a boolean")
	}
	if elements, ok := List([]byte(`[1, "a"]`)); !ok || len(elements) != 2 {
		t.Errorf("List = %q, %t", elements, ok)
	}
	for text, want := range map[string]string{
		"{}": "an object", "[]": "a list", `""`: "a string", "true": "a boolean", "-1": "a number", "null": "null", "": "null",
	} {
		if got := Kind([]byte(text)); got != want {
			t.Errorf("Kind(%s) = %q, want %q", text, got, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, test := range []struct{ parent, name, want string }{
		{"env", "TOKEN", "env.TOKEN"},
		{"", "args", "args"},
		{"env", "", `env.""`},
		{"env", "a b\n", `env."a b\n"`},
		{"env", "TOKEN=hunter2", `env."TOKEN=..."`},
	} {
		if got := Field(test.parent, test.name); got != test.want {
			t.Errorf("Field(%q, %q) = %s, want %s", test.parent, test.name, got, test.want)
		}
	}
	if got, want := Cut("aéé", 5), "aéé"; got != want {
		t.Errorf("Cut = %q, want %q", got, want)
	}
	if got, want := Cut("aéééé", 5), "a..."; got != want {
		t.Errorf("Cut = %q, want %q", got, want)
	}
}
