package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/phrase"
	"kernos/message"
)

// Presentation is how people see a syscall: data for command lines, forms, tables and lists of tools. Nothing
// of it changes what a call does.
type Presentation struct {
	Title string // what it does, as a heading of a few words: Get a value
	Words string // what people call it or look for, separated by commas: remind, alarm, every day

	// Arguments are the parameters that people give without names, in this order: kernos memory set KEY VALUE. A list takes all
	// words that are left. None means the only parameter that is required.
	Arguments []string

	Stdin   string   // the parameter that has what comes over standard input, if it isn't given
	Columns []string // of a table of the reply: each a heading in one word and a [phrase.Phrase] of an element of the list, or of the whole reply
	Result  string   // a [phrase.Phrase] of the reply that reports in one line what a call did; request has the request: Set {request.key}
	Failure string   // such a phrase of a reply that means that what was asked for has failed: commands then end with the status 1

	Replaced   message.Type      // the syscall that takes the place of this one, which is deprecated; "" for none
	Aliases    []message.Type    // older names; answered, flagged as deprecated, and listed nowhere
	Errors     []ErrorDefinition // errors of this syscall, in addition to the errors that every syscall may give
	Visibility Visibility        // Listed or Hidden
}

// maxTitle is how many bytes a title may have. Lists of tools are sent to models whole.
const maxTitle = 40

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
