package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"kernos/internal/jsonscan"
	"kernos/internal/phrase"
	"kernos/message"
)

// Presentation is how people see a syscall: data for command lines, forms, tables and lists of tools. Nothing
// of it changes what a call does.
type Presentation struct {
	Title string `json:"title,omitzero" jsonschema_description:"What it does, in a few words: Get a value."`
	Words string `json:"words,omitzero" jsonschema_description:"What people call it or look for, separated by commas: remind, alarm, every day."`

	// A list among the arguments takes all words that are left. None means the only parameter that is required.
	Arguments []string `json:"arguments,omitzero" jsonschema_description:"The parameters that people give without names, in this order."`

	Stdin string `json:"stdin,omitzero" jsonschema_description:"The parameter that has what comes over standard input, if it isn't given."`

	// A column shows an element of the list in the reply, or the whole reply; see [phrase.Phrase], as for what follows.
	Columns []string `json:"columns,omitzero" jsonschema_description:"Columns of a table of the reply, each a heading and a pattern: CITY {name}."`

	Result string `json:"result,omitzero" jsonschema_description:"One line that reports what a call did: Set {request.key}."`

	// Commands end with the status 1 where this has a text.
	Failure string `json:"failure,omitzero" jsonschema_description:"One line for a reply that means a failure: nothing found{!items}."`

	Replaced   message.Type      `json:"-"` // the syscall that takes the place of this one, which is deprecated; "" for none
	Aliases    []message.Type    `json:"-"` // older names; answered, flagged as deprecated, and listed nowhere
	Errors     []ErrorDefinition `json:"-"` // errors of this syscall, in addition to the errors that every syscall may give
	Visibility Visibility        `json:"-"` // Listed or Hidden
}

// How many bytes a title and any other text may have, and how many texts a list. Lists of tools are sent to models whole.
const (
	maxTitle = 40
	maxText  = 512
	maxTexts = 32
)

// Check reports a name that isn't a parameter of the input schema, and what can't be read or is too long. A
// registry doesn't check its syscalls, since schemas are made when they are first needed.
func (p *Presentation) Check(input []byte) error {
	properties := jsonscan.Member(input, "properties")
	for _, name := range append([]string{p.Stdin}, p.Arguments...) {
		if name != "" && jsonscan.Member(properties, name) == nil {
			return fmt.Errorf("the presentation names %s, which isn't a parameter", strconv.Quote(message.Clip(name, 64)))
		}
	}
	if len(p.Title) > maxTitle {
		return fmt.Errorf("the title has more than %d bytes", maxTitle)
	}
	if len(p.Arguments) > maxTexts || len(p.Columns) > maxTexts {
		return fmt.Errorf("there are more than %d arguments or columns", maxTexts)
	}
	for _, text := range slices.Concat([]string{p.Title, p.Words, p.Result, p.Failure}, p.Columns) {
		if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%s has control characters, or more than %d bytes", strconv.Quote(message.Clip(text, 64)), maxText)
		}
	}
	for _, text := range []string{p.Result, p.Failure} {
		if _, err := phrase.Parse(text); err != nil {
			return fmt.Errorf("the result: %w", err)
		}
	}
	for _, column := range p.Columns {
		heading, text, _ := strings.Cut(column, " ")
		if _, err := phrase.Parse(text); err != nil {
			return fmt.Errorf("the column %s: %w", heading, err)
		}
	}
	return nil
}

// digest returns the digest of what callers see.
func (p *Presentation) digest(name string) digest {
	words := []string{"presentation", name, p.Title, p.Words, p.Stdin, p.Result, p.Failure, strconv.Itoa(len(p.Arguments))}
	sum := newDigest(append(append(words, p.Arguments...), p.Columns...)...)
	for _, a := range p.Aliases {
		sum += newDigest("alias", name, string(a))
	}
	return sum
}
