package client

import (
	"encoding/json"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/schema"
)

// A Method is the description of a method by its server.
type Method struct {
	Module      string
	Name        string // the method's name without its module
	Description string
	Field       // the parameters, as one object
	Schema      json.RawMessage
	Presentation

	parse  sync.Once
	schema *schema.Schema
}

// A Presentation is how people see a method. All of it is empty if the server doesn't tell.
type Presentation struct {
	Title     string   // what it does, as a heading of a few words
	Words     string   // what people call it or look for, separated by commas
	Arguments []string // the parameters that people give without names, in this order
	Stdin     string   // the parameter that has what comes over standard input, if it isn't given
	Columns   []string // of a table of what it returns: a heading in one word, and a pattern as in [kernos/internal/phrase]
	Result    string   // such a pattern: what a call did, in one line; request stands for the parameters
	Failure   string   // such a pattern: why what was asked for has failed, though the call was answered
}

// Call returns the name that the method is called by.
func (m *Method) Call() string { return m.Module + "_" + m.Name }

// Validate checks parameters, which are one JSON object. The error is a *schema.Invalid. A
// schema that can't be compiled checks nothing: the server does.
func (m *Method) Validate(params json.RawMessage) error {
	if m.parsed() == nil {
		return nil
	}
	var scan jsonscan.Scanner
	if err := scan.Text(params); err != nil {
		return &schema.Invalid{Problems: []schema.Problem{{Text: "the parameters are not JSON: " + err.Error()}}}
	}
	_, _, invalid := m.schema.Meant(params)
	return invalid
}

// Example returns parameters that the method takes: what is required, and a value for each
// that its schema allows. It returns nil if it finds none.
func (m *Method) Example() json.RawMessage {
	if m.parsed() == nil {
		return nil
	}
	example, _ := schema.ExampleOf(m.schema)
	return example
}

// parsed returns the schema of the parameters, nil if it can't be compiled.
func (m *Method) parsed() *schema.Schema {
	m.parse.Do(func() { m.schema, _ = schema.Parse(m.Schema) })
	return m.schema
}
