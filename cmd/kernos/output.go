package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/itchyny/gojq"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// outputModes are the forms in which data is shown.
var outputModes = []string{"pretty", "json", "ndjson", "raw", "table"}

// A printer shows the data of a call.
type printer struct {
	screen   *terminal.Screen
	mode     string
	filter   *gojq.Code         // nil if all of the data is shown
	template *template.Template // nil if the mode says how
	bare     bool               // texts that a filter yields are shown without quotes
}

// newPrinter reads the flags that say what to show, and refuses those that can't be.
func newPrinter(s *terminal.Screen, f *callFlags) (*printer, error) {
	p := &printer{screen: s, mode: f.output}
	if p.mode == "" {
		p.mode = "ndjson"
		if s.IsTerminal() {
			p.mode = "pretty"
		}
	}
	if f.given["jq"] {
		query, err := gojq.Parse(f.jq)
		if err == nil {
			p.filter, err = gojq.Compile(query)
		}
		if err != nil {
			return nil, fmt.Errorf("--jq %s: %w", f.jq, err)
		}
		p.bare = !f.given["output"]
	}
	if f.given["template"] {
		var err error
		if p.template, err = givenTemplate(f.template); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// print shows the data of an item.
func (p *printer) print(ctx context.Context, item *client.Item) error {
	data := item.Data
	if p.filter != nil {
		return p.filtered(ctx, data)
	}
	t := p.template
	if t == nil && p.mode == "pretty" {
		var err error
		if t, err = findTemplate(item.ContentType); err != nil {
			p.screen.Note("%v; the data is shown without it", err)
		}
	}
	if t != nil {
		return p.executed(t, data)
	}
	return p.value(data)
}

// filtered shows what the filter makes of the data. A filter may go on for ever.
func (p *printer) filtered(ctx context.Context, data json.RawMessage) error {
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
			if p.screen.IsTerminal() {
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
func (p *printer) executed(t *template.Template, data json.RawMessage) error {
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
	_, err = p.screen.Out.Write([]byte(text))
	return exit.Wrap(err)
}

// value shows a value in the form that is wanted.
func (p *printer) value(data json.RawMessage) error {
	switch p.mode {
	case "json":
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return exit.Wrap(err)
		}
		return p.screen.Line(b.String())
	case "raw":
		if text, ok := jsonvalue.String(data); ok {
			_, err := p.screen.Out.Write([]byte(text))
			return exit.Wrap(err)
		}
	case "table":
		return table(p.screen, data)
	case "pretty":
		if text, ok := jsonvalue.String(data); ok {
			return p.screen.Line(visible.Lines(text))
		}
		return p.screen.Line(string(p.screen.Pretty(data)))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return exit.Wrap(err)
	}
	return p.screen.Line(b.String())
}

// table shows a value as a table: a row for each element of a list, or else for each member
// of an object. If an object is a list with some facts about it, such as where the next page
// begins, the list is shown, and the facts beside it.
func table(s *terminal.Screen, data json.RawMessage) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		members := jsonvalue.Members(data)
		if members == nil {
			return s.Line(cell(data))
		}
		var rows, facts [][]string
		lists, objects := 0, 0
		for _, m := range members {
			row := []string{visible.Text(m.Name), cell(m.Value)}
			rows = append(rows, row)
			switch jsonvalue.Kind(string(m.Value)) {
			case "array":
				lists++
				list = jsonvalue.Elements(m.Value)
			case "object":
				objects++
			default:
				facts = append(facts, row)
			}
		}
		if lists != 1 || objects > 0 {
			return s.Table(nil, rows)
		}
		for _, f := range facts {
			s.Note("%s: %s", f[0], f[1])
		}
	}
	var columns []string
	for _, e := range list {
		for _, m := range jsonvalue.Members(e) {
			if !slices.Contains(columns, m.Name) {
				columns = append(columns, m.Name)
			}
		}
	}
	rows := make([][]string, len(list))
	for i, e := range list {
		members := jsonvalue.Members(e)
		if members == nil && len(columns) == 0 {
			rows[i] = []string{cell(e)}
			continue
		}
		rows[i] = make([]string, len(columns))
		for _, m := range members {
			rows[i][slices.Index(columns, m.Name)] = cell(m.Value)
		}
		if members == nil {
			rows[i][0] = cell(e)
		}
	}
	for i := range columns {
		columns[i] = visible.Text(columns[i])
	}
	return s.Table(columns, rows)
}

// cell is a value in a table, on one line.
func cell(value json.RawMessage) string {
	if text, ok := jsonvalue.String(value); ok {
		return visible.Text(text)
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return visible.Text(b.String())
}
