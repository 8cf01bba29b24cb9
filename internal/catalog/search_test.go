package catalog

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSearch(t *testing.T) {
	c, err := Parse([]byte(`{
		"alpha": {"runs": "npm", "package": "p", "title": "Web Alpha", "description": "Reads mail."},
		"mail": {"runs": "npm", "package": "p", "description": "Sends letters."},
		"mailroom": {"runs": "npm", "package": "p", "title": "Room", "description": "Sorts emails."},
		"gmail": {"runs": "none", "reason": "it is only an image", "title": "GMail", "description": "Reads mail."},
		"omega": {"runs": "npm", "package": "p", "description": "Does more.", "properties": {"mailHost": {"type": "string"}}},
		"zeta": {"runs": "npm", "package": "p", "title": "Élan", "description": "Reads web pages."}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		words, want []string
	}{
		{[]string{"mail"}, []string{"mail", "mailroom", "alpha", "omega", "gmail"}},
		{[]string{"MAIL"}, []string{"mail", "mailroom", "alpha", "omega", "gmail"}},
		{[]string{"reads", "mail"}, []string{"alpha", "gmail"}},
		{[]string{"web reads"}, []string{"alpha", "zeta"}},
		{[]string{"élan"}, []string{"zeta"}},
		{[]string{"mail", "nowhere"}, []string{}},
		{[]string{" "}, []string{}},
		{nil, []string{}},
	} {
		names := []string{}
		for _, entry := range c.Search(test.words...) {
			names = append(names, entry.Name)
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%q: %s", test.words, diff)
		}
	}
	if found := (*Catalog)(nil).Search("x"); found == nil || len(found) > 0 {
		t.Errorf("in no catalogue: %v", found)
	}
}

// TestSearch_InTheEmbeddedCatalogue asks what people ask.
func TestSearch_InTheEmbeddedCatalogue(t *testing.T) {
	c := embedded(t)
	for _, test := range []struct {
		words []string
		among int
		want  string
	}{
		{[]string{"github"}, 3, "githubOfficial"},
		{[]string{"web", "search"}, 5, "duckduckgo"},
		{[]string{"browser"}, 5, "playwright"},
		{[]string{"kubernetes"}, 1, "kubernetes"},
		{[]string{"aws", "cost"}, 2, "awslabsCostExplorer"},
		{[]string{"papers"}, 3, "arxiv"},
	} {
		found := c.Search(test.words...)
		at := slices.IndexFunc(found, func(e *Entry) bool { return e.Name == test.want })
		if at < 0 || at >= test.among {
			var names []string
			for _, entry := range found {
				names = append(names, entry.Name)
			}
			t.Errorf("%q: %s is not among the first %d of %q", test.words, test.want, test.among, names)
		}
	}
}
