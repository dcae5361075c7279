package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"kernos/client"
)

// positions are the parameters that take values without a name, in the order in which the
// help lists them: what is required comes first. Those with one possible value need none.
func positions(m *client.Method) []*client.Field {
	var required, optional []*client.Field
	for _, f := range m.Fields {
		switch {
		case len(f.Enum) == 1:
		case f.Required:
			required = append(required, f)
		default:
			optional = append(optional, f)
		}
	}
	return slices.Concat(required, optional)
}

// place gives the values behind -- to the parameters that have none. They are taken as they
// are, so that a script can pass on whatever it was given: none is a flag, or names another
// parameter. A list takes all that are left.
func (p *paramReader) place() error {
	if len(p.values) == 0 {
		return nil
	}
	if p.method == nil {
		return fmt.Errorf("the server does not say what the method takes, so nobody knows what %q behind -- is; write NAME=VALUE before it", p.values[0])
	}
	rest := p.values
	for _, f := range positions(p.method) {
		if _, given := p.root[f.Name]; given {
			continue
		}
		for len(rest) > 0 {
			if err := p.placeOne(f, rest[0]); err != nil {
				return err
			}
			rest = rest[1:]
			if f.Scalar() != "array" {
				break
			}
		}
	}
	if len(rest) > 0 {
		return &invalidParams{fmt.Sprintf("no parameter is left for %q", rest[0])}
	}
	return nil
}

// placeOne gives a parameter a value, or one more element.
func (p *paramReader) placeOne(f *client.Field, value string) error {
	if f.Scalar() != "array" {
		return p.convert([]string{f.Name}, f, f.Name, value)
	}
	element, err := convertValue(elementOf(f), value)
	if err != nil {
		return &invalidParams{f.Name + ": " + err.Error()}
	}
	return p.add([]string{f.Name}, []json.RawMessage{element})
}

// stray is the error of a word that stands where a parameter should.
func (p *paramReader) stray(word string) error {
	hint := ""
	if p.method != nil {
		if all := positions(p.method); len(all) > 0 {
			hint = fmt.Sprintf("did you mean --%s %s? ", all[0].Name, shellQuote(word))
		}
	}
	return fmt.Errorf("%q is no parameter; %sthey are written --NAME VALUE, NAME=VALUE, NAME:=JSON or NAME=@FILE, and behind -- without names", word, hint)
}
