package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// maxCompared bounds the work on names that nobody typed.
const maxCompared = 64

// Nearest returns up to three of the names that name may have been meant for, the nearest first:
// those within a third of its length in edits (upper and lower case count as equal), then those
// that contain it or are contained in it.
func Nearest(name string, names []string) []string {
	if name == "" || len(name) > maxCompared {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	wanted := strings.ToLower(name)
	limit := max(1, min(len(wanted)/3, 4))
	for _, n := range names {
		if len(n) > maxCompared {
			continue
		}
		lower := strings.ToLower(n)
		distance := editDistance(wanted, lower)
		switch {
		case distance <= limit:
		case min(len(wanted), len(lower)) >= 4 && (strings.Contains(lower, wanted) || strings.Contains(wanted, lower)):
			distance += maxCompared
		default:
			continue
		}
		near = append(near, candidate{n, distance})
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var found []string
	for _, c := range near[:min(len(near), 3)] {
		found = append(found, c.name)
	}
	return found
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours that turn a into b.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
