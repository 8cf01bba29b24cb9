package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is a list for people: columns with a header on a terminal, and in a pipe one line a row with
// tabs between, for cut and awk.
type table struct {
	header []string
	rows   [][]string
	whole  bool // never cut the last column: what it says is needed to the end
}

const columnGap = 2

// add appends a row; each cell becomes one line.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = cleanLine(cell)
	}
	t.rows = append(t.rows, row)
}

// write writes the table for a terminal of that width, or for a pipe when width is 0. The last column
// takes what is left of the line.
func (t *table) write(w io.Writer, width int) error {
	if width <= 0 {
		for _, row := range t.rows {
			if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	if len(t.rows) == 0 {
		return nil
	}
	widths := t.widths()
	for _, row := range append([][]string{t.header}, t.rows...) {
		if _, err := fmt.Fprintln(w, t.format(row, widths, width)); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) widths() []int {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func (t *table) format(row []string, widths []int, width int) string {
	const leastLast = 20
	var b strings.Builder
	used := 0
	for i, cell := range row {
		if i == len(row)-1 {
			if !t.whole {
				cell = clipRunes(cell, max(width-used, leastLast))
			}
			b.WriteString(cell)
			break
		}
		b.WriteString(cell)
		pad := widths[i] - utf8.RuneCountInString(cell) + columnGap
		b.WriteString(strings.Repeat(" ", pad))
		used += widths[i] + columnGap
	}
	return strings.TrimRight(b.String(), " ")
}
