// Package quantity reads and writes durations, sizes, counts and rates as people write them:
// 30d, 500MB, 64, 1000. Flags and the files under /sys take the same texts. All types here
// implement pflag.Value.
package quantity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Duration is a time span that may be given in days.
type Duration time.Duration

// Set parses text.
func (d *Duration) Set(text string) error {
	v, err := ParseDuration(text)
	if err == nil {
		*d = Duration(v)
	}
	return err
}

// ParseDuration reads a time span that isn't negative: numbers with the units of
// [time.ParseDuration], d for days and w for weeks, such as 90s, 1h30m, 7d or 1.5d, or with units in
// words, such as 2 days or 1 hour 30 minutes. Everything that takes a time span as text takes these.
func ParseDuration(text string) (time.Duration, error) {
	refused := fmt.Errorf("expected a time such as 90m, 720h or 30d, got %q", text)
	var sum time.Duration
	rest := withoutWords(text)
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0) || strings.ContainsAny(number, "eExX_pPnN+-") {
			return 0, refused
		}
		if v := n * float64(unit.length); v < float64(math.MaxInt64-int64(sum)) {
			sum += time.Duration(v)
		} else {
			sum = math.MaxInt64
		}
		rest = after
	}
	if rest == "" && text != "" {
		return sum, nil
	}
	v, err := time.ParseDuration(rest)
	if err != nil || v < 0 {
		return 0, refused
	}
	if v > math.MaxInt64-sum {
		return math.MaxInt64, nil
	}
	return sum + v, nil
}

// unitWords are the units in words, without an s at the end.
var unitWords = map[string]string{
	"millisecond": "ms", "second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "hr": "h", "day": "d", "week": "w",
}

// numberWords are the numbers in words that stand before a unit.
var numberWords = map[string]string{
	"a": "1", "an": "1", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
}

// halves writes half of a unit as a number: half an hour is 0.5 hour, an hour and a half is 1.5 hour.
func halves(words []string) []string {
	n := len(words)
	switch last := n - 1; {
	case n == 3 && words[0] == "half" && (words[1] == "a" || words[1] == "an"):
		return []string{"0.5", words[2]}
	case n == 5 && slices.Equal(words[2:], []string{"and", "a", "half"}):
		return []string{cmp.Or(numberWords[words[0]], words[0]) + ".5", words[1]}
	case n == 5 && slices.Equal(words[1:last], []string{"and", "a", "half"}):
		return []string{cmp.Or(numberWords[words[0]], words[0]) + ".5", words[last]}
	}
	return words
}

// withoutWords writes numbers and units in words as digits and letters: an hour and 30 minutes is 1h30m. What isn't a number with
// a unit stays as it is.
func withoutWords(text string) string {
	if !strings.Contains(text, " ") || strings.TrimSpace(text) != text {
		return text
	}
	short := ""
	words := halves(strings.Fields(strings.ToLower(text)))
	for i, word := range words {
		unit := func(i int) string { return unitWords[strings.TrimSuffix(words[i], "s")] }
		digit := func(b byte) bool { return b >= '0' && b <= '9' || b == '.' }
		if number := numberWords[word]; number != "" && i+1 < len(words) && unit(i+1) != "" {
			word = number
		}
		switch {
		case word == "and" && short != "":
		case short != "" && digit(short[len(short)-1]) && digit(word[0]):
			return text // two numbers are not one
		default:
			short += cmp.Or(unit(i), word)
		}
	}
	return short
}

// ParseMilliseconds is [ParseDuration] for places where a number without a unit is milliseconds.
func ParseMilliseconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseUint(text, 10, 43); err == nil { // 43 bits are 278 years
		return time.Duration(n) * time.Millisecond, nil
	}
	return ParseDuration(text)
}

func (d *Duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type names the value in help texts.
func (d *Duration) Type() string { return "TIME" }

// A PositiveDuration is a Duration above 0.
type PositiveDuration Duration

// Set parses text.
func (d *PositiveDuration) Set(text string) error {
	err := (*Duration)(d).Set(text)
	if err == nil && *d == 0 {
		err = errors.New("must be more than 0")
	}
	return err
}

func (d *PositiveDuration) String() string { return (*Duration)(d).String() }

// Type names the value in help texts.
func (d *PositiveDuration) Type() string { return "TIME" }

// Bytes is a number of bytes.
type Bytes int64

// units are the units of Bytes, each 1,024 times the one before.
var units = []string{"B", "KB", "MB", "GB", "TB"}

// Set parses text.
func (b *Bytes) Set(text string) error {
	number := strings.TrimRight(text, "BKMGTbkmgt")
	unit := strings.ToUpper(text[len(number):])
	factor := int64(1)
	for _, u := range units {
		if unit == "" || unit == u || unit+"B" == u {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/factor {
				break
			}
			*b = Bytes(n * factor)
			return nil
		}
		factor *= 1024
	}
	return fmt.Errorf("expected a number of bytes such as 500MB or 4GB, got %q", text)
}

func (b *Bytes) String() string {
	n, unit := int64(*b), 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// Type names the value in help texts.
func (b *Bytes) Type() string { return "BYTES" }

// A Count is a number of things, at least 1.
type Count int

// Set parses text.
func (c *Count) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < 1 {
		return fmt.Errorf("expected a whole number, at least 1, got %q", text)
	}
	*c = Count(v)
	return nil
}

func (c *Count) String() string { return strconv.Itoa(int(*c)) }

// Type names the value in help texts.
func (c *Count) Type() string { return "N" }

// A Rate is a number of messages per second; 0 means no limit.
type Rate float64

// Set parses text.
func (r *Rate) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1e9) { // NaN is refused too
		return fmt.Errorf("expected messages per second such as 1000, or 0 for no limit, got %q", text)
	}
	*r = Rate(v)
	return nil
}

func (r *Rate) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }

// Type names the value in help texts.
func (r *Rate) Type() string { return "N" }
