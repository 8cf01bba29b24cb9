package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// choice is a flag that takes one of a few words.
type choice string

type choiceValue struct {
	target  *choice
	allowed []string
}

// of makes the flag's value.
func (c *choice) of(allowed ...string) *choiceValue { return &choiceValue{target: c, allowed: allowed} }

func (v *choiceValue) String() string {
	if v.target == nil {
		return ""
	}
	return string(*v.target)
}

func (v *choiceValue) Set(s string) error {
	if !slices.Contains(v.allowed, s) {
		return fmt.Errorf("allowed are %s", strings.Join(v.allowed, ", "))
	}
	*v.target = choice(s)
	return nil
}

func (v *choiceValue) Type() string { return "string" }

// size is a flag for a number of bytes, with a unit or without.
type size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func (s *size) String() string {
	for _, unit := range sizeUnits {
		if n := int64(*s); n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

func (s *size) Set(text string) error {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*s = size(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("a number of bytes above 0 is needed, as in 64MiB")
}

func (s *size) Type() string { return "size" }
