// Package phrase makes texts for people of JSON values, by patterns that are data:
//
//	p, err := phrase.Parse("Set {request.key} (version {revision}) | Set {request.key}")
//	text := p.Fill(func(path, form string) string { … })
//
// {PATH} stands for a value, and {PATH:FORM} for one that is written in a form, such as {created:time}. A text with a
// value that is absent is left out: the whole pattern, or what stands in square brackets. Of several patterns,
// separated by " | ", the first counts whose values aren't absent. {?PATH} and {?PATH=WORD} write nothing; they are absent
// unless the value is there and isn't false, or is that word. {!PATH} and {!PATH=WORD} are absent where those aren't.
package phrase

import (
	"fmt"
	"slices"
	"strings"
)

// Forms are the forms in which a value can be written: a time, a time without its date if that is today's, how long ago
// a time is, the short form of an id, a fraction in percent, a state that has a colour.
var Forms = []string{"time", "clock", "age", "id", "percent", "state"}

// A Phrase is a pattern, or several.
type Phrase struct{ choices [][]part }

// A part is a text, a value, or parts that may be left out.
type part struct {
	text       string
	path, form string
	condition  bool   // the value isn't written
	negated    bool   // the condition must not hold
	word       string // what the value of a condition must be; "" for any
	optional   []part
}

// Parse reads a pattern.
func Parse(pattern string) (p Phrase, err error) {
	for choice := range strings.SplitSeq(pattern, " | ") {
		parts, rest, err := parse(choice, false)
		if err != nil {
			return p, fmt.Errorf("%q: %w", pattern, err)
		}
		if rest != "" {
			return p, fmt.Errorf("%q: a ] has no [", pattern)
		}
		p.choices = append(p.choices, parts)
	}
	return p, nil
}

func parse(text string, inside bool) (parts []part, rest string, err error) {
	for text != "" {
		i := strings.IndexAny(text, "{[]")
		if i < 0 {
			i = len(text)
		}
		if i > 0 {
			parts = append(parts, part{text: text[:i]})
			text = text[i:]
			continue
		}
		switch text[0] {
		case ']':
			if !inside {
				return nil, text, nil
			}
			return parts, text[1:], nil
		case '[':
			var one part
			if one.optional, text, err = parse(text[1:], true); err != nil {
				return nil, "", err
			}
			parts = append(parts, one)
		case '{':
			value, after, closed := strings.Cut(text[1:], "}")
			if !closed {
				return nil, "", fmt.Errorf("a { has no }")
			}
			one, err := parseValue(value)
			if err != nil {
				return nil, "", err
			}
			parts, text = append(parts, one), after
		}
	}
	if inside {
		return nil, "", fmt.Errorf("a [ has no ]")
	}
	return parts, "", nil
}

func parseValue(text string) (one part, err error) {
	if one.path, one.negated = strings.CutPrefix(text, "!"); one.negated {
		one.path = "?" + one.path
	}
	if one.path, one.condition = strings.CutPrefix(one.path, "?"); one.condition {
		one.path, one.word, _ = strings.Cut(one.path, "=")
	} else if one.path, one.form, _ = strings.Cut(text, ":"); one.form != "" && !slices.Contains(Forms, one.form) {
		return one, fmt.Errorf("{%s}: a form is one of %s", text, strings.Join(Forms, ", "))
	}
	if one.path == "" {
		return one, fmt.Errorf("{%s} names no value", text)
	}
	return one, nil
}

// Paths returns the paths of all values that the phrase may have.
func (p Phrase) Paths() (paths []string) {
	var collect func([]part)
	collect = func(parts []part) {
		for _, one := range parts {
			if one.path != "" && !slices.Contains(paths, one.path) {
				paths = append(paths, one.path)
			}
			collect(one.optional)
		}
	}
	for _, choice := range p.choices {
		collect(choice)
	}
	return paths
}

// Fill writes the phrase with values, which are "" if they are absent. It returns "" if no pattern has all of its values.
func (p Phrase) Fill(value func(path, form string) string) string {
	for _, choice := range p.choices {
		if text := strings.TrimSpace(fill(choice, value)); text != "" {
			return text
		}
	}
	return ""
}

func fill(parts []part, value func(path, form string) string) string {
	var all strings.Builder
	for _, one := range parts {
		text := one.text
		switch {
		case one.optional != nil:
			text = fill(one.optional, value)
		case one.path != "":
			text = value(one.path, one.form)
			holds := text != "" && !(one.condition && (text == "false" || one.word != "" && text != one.word))
			if holds == one.negated {
				return ""
			}
			if one.condition {
				text = ""
			}
		}
		all.WriteString(text)
	}
	return all.String()
}
