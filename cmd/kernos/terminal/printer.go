package terminal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/itchyny/gojq"

	"kernos/client"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// Modes are the forms in which data is shown.
var Modes = []string{"pretty", "json", "ndjson", "raw", "table"}

// An Output describes what to print. Empty fields are not given.
type Output struct {
	Mode      string // one of Modes; by default pretty on a terminal, and ndjson elsewhere
	Filter    string // a jq filter
	Template  string // a Go template, or the name of a file with one
	Templates string // the directory of the user's templates for content types
	People    bool   // data is pretty by default, also where no person reads it

	Method *client.Method  // whose replies are shown as it presents them; nil for none
	Params json.RawMessage // of the call
	More   More            // what to say of a list that has more pages; nil for their cursor
}

// A Printer shows the data of a call.
type Printer struct {
	screen    *Screen
	mode      string
	filter    *gojq.Code         // nil if all of the data is shown
	template  *template.Template // nil if the content type or the mode decides
	templates string
	bare      bool // strings that a filter yields are shown without quotes
	method    *client.Method
	params    json.RawMessage
	more      More
}

// NewPrinter returns a printer, or an error that names the flag whose value is wrong.
func NewPrinter(s *Screen, o Output) (*Printer, error) {
	p := &Printer{screen: s, mode: o.Mode, templates: o.Templates, method: o.Method, params: o.Params, more: o.More, bare: o.Mode == "" || o.Mode == "raw"}
	if p.mode == "" {
		p.mode = "ndjson"
		if s.IsTerminal() || o.People && o.Filter == "" && o.Template == "" {
			p.mode = "pretty"
		}
	}
	if o.Filter != "" {
		query, err := gojq.Parse(o.Filter)
		if err == nil {
			p.filter, err = gojq.Compile(query)
		}
		if err != nil {
			return nil, fmt.Errorf("--jq %s isn't a filter of jq, such as .name or .items[0]: %w", o.Filter, err)
		}
	}
	if o.Template != "" {
		var err error
		if p.template, err = givenTemplate(o.Template); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Check reports a filter that can't be read.
func (o Output) Check() error {
	_, err := NewPrinter(new(Screen), o)
	return err
}

// Writer returns what writes JSON as the flags of [Options.AddTo] and [Options.AddFilter] choose it, or nil if the form
// for people is wanted. With lines, each of several values is one line, as it is. The filter was checked.
func (o Output) Writer(ctx context.Context, s *Screen, lines bool) func(json.RawMessage) error {
	switch {
	case o.Filter != "":
		if o.Mode != "json" {
			o.Mode = "" // texts are written without quotes
		}
		p, err := NewPrinter(s, o)
		if err != nil {
			return func(json.RawMessage) error { return err }
		}
		return func(data json.RawMessage) error { return p.Print(ctx, &client.Item{Data: data}) }
	case o.Mode != "json":
		return nil
	case lines:
		return func(data json.RawMessage) error { return s.Line(string(data)) }
	}
	return func(data json.RawMessage) error { return s.JSON(data) }
}

// Print shows the data of an item.
func (p *Printer) Print(ctx context.Context, item *client.Item) error {
	data := item.Data
	if p.filter != nil {
		return p.filtered(ctx, data)
	}
	t := p.template
	if t == nil && p.mode == "pretty" {
		var err error
		if t, err = p.findTemplate(item.ContentType); err != nil {
			p.screen.Note("%v; the data is shown without it", err)
		}
	}
	switch {
	case t != nil:
		return p.executed(t, data)
	case p.mode == "pretty" || p.mode == "table":
		return p.Present(item)
	}
	return p.value(data)
}

// Present shows the data of an item as the definition of the method presents it, or else as Print does.
func (p *Printer) Present(item *client.Item) error {
	if m := p.method; m != nil && item.ContentType == m.Module+"."+m.Name {
		if done, err := p.screen.Present(&m.Presentation, p.params, item.Data, p.more); done || err != nil {
			return err
		}
	}
	return p.value(item.Data)
}

// Streams reports whether data is written as it comes: nothing of it has to be looked at first.
func (p *Printer) Streams() bool {
	return p.filter == nil && p.template == nil && !p.screen.IsTerminal() && (p.mode == "ndjson" || p.mode == "raw")
}

// Stream writes one value as it comes, in its most compact form.
func (p *Printer) Stream(data io.Reader) error {
	in := bufio.NewReader(data)
	if first, _ := in.Peek(1); p.mode == "raw" && string(first) == `"` {
		_, err := io.Copy(p.screen.Out, jsonvalue.Unquote(in))
		return exit.Wrap(err)
	}
	if _, err := io.Copy(p.screen.Out, in); err != nil {
		return exit.Wrap(err)
	}
	return p.screen.Line("")
}

// filtered shows what the filter makes of the data. A filter may run for ever.
func (p *Printer) filtered(ctx context.Context, data json.RawMessage) error {
	input, err := jsonvalue.Decode(data)
	if err != nil {
		return exit.Wrap(err)
	}
	results := p.filter.RunWithContext(ctx, input)
	for {
		v, ok := results.Next()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
				return nil
			}
			return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("--jq: %w", err)}
		}
		text, err := gojq.Marshal(v)
		if err != nil {
			return exit.Wrap(err)
		}
		if s, ok := v.(string); ok && p.bare {
			if p.screen.IsTerminal() && p.mode != "raw" {
				s = visible.Lines(s)
			}
			err = p.screen.Line(s)
		} else {
			err = p.value(text)
		}
		if err != nil {
			return err
		}
	}
}

// executed shows the data with a template.
func (p *Printer) executed(t *template.Template, data json.RawMessage) error {
	input, err := jsonvalue.Decode(data)
	if err != nil {
		return exit.Wrap(err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, input); err != nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the template can't show this: %w", err)}
	}
	text := b.String()
	if p.screen.IsTerminal() {
		text = visible.Lines(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return p.screen.Write(text)
}

// value shows a value in the form that is wanted.
func (p *Printer) value(data json.RawMessage) error {
	switch p.mode {
	case "json":
		return p.screen.JSON(data)
	case "raw":
		if text, ok := jsonvalue.String(data); ok {
			if p.screen.IsTerminal() && !strings.HasSuffix(text, "\n") {
				text += "\n" // the prompt follows
			}
			return p.screen.Write(text)
		}
	case "table":
		return printTable(p.screen, data, p.more)
	case "pretty":
		if text, ok := jsonvalue.String(data); ok {
			return p.screen.Line(visible.Lines(text))
		}
		return p.screen.Line(p.screen.Pretty(data))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return exit.Wrap(err)
	}
	return p.screen.Line(b.String())
}
