package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// How much a word counts by where it is found.
const (
	isName       = 100
	beginsName   = 60
	inName       = 40
	inTitle      = 30
	isInText     = 20 // a whole word of the description
	inText       = 8
	namesSetting = 5
)

// Search returns the entries in which every word is found, upper and lower case counting as equal: in
// the name, the title, the description or the name of a property, those where they count most first.
// An entry that can be run comes before one that cannot.
func (c *Catalog) Search(words ...string) []*Entry {
	type hit struct {
		entry *Entry
		score int
	}
	var wanted []string
	for _, word := range words {
		wanted = append(wanted, strings.Fields(strings.ToLower(word))...)
	}
	var hits []hit
	for _, entry := range c.Entries() {
		if score := entry.score(wanted); score > 0 {
			hits = append(hits, hit{entry, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(compareBool(a.entry.Runs == None, b.entry.Runs == None), cmp.Compare(b.score, a.score))
	})
	found := []*Entry{}
	for _, h := range hits {
		found = append(found, h.entry)
	}
	return found
}

// score says how well an entry answers to all words together; 0 is not at all.
func (e *Entry) score(words []string) int {
	name, title := strings.ToLower(e.Name), strings.ToLower(e.Title)
	text := strings.ToLower(e.Description)
	textWords := strings.FieldsFunc(text, func(r rune) bool { return !isWordRune(r) })
	total := 0
	for _, word := range words {
		score := 0
		switch {
		case name == word:
			score = isName
		case strings.HasPrefix(name, word):
			score = beginsName
		case strings.Contains(name, word):
			score = inName
		}
		if strings.Contains(title, word) {
			score += inTitle
		}
		switch {
		case slices.Contains(textWords, word):
			score += isInText
		case strings.Contains(text, word):
			score += inText
		}
		for property := range e.Properties {
			if strings.Contains(strings.ToLower(property), word) {
				score += namesSetting
				break
			}
		}
		if score == 0 {
			return 0
		}
		total += score
	}
	return total
}

func isWordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
