package pipe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"kernos/message"
)

// A Definition is what Syscall.Register takes, and what a file of --definition has.
type Definition struct {
	Name         string          `json:"name"`
	Kind         string          `json:"kind"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Emits        json.RawMessage `json:"emits,omitempty"`
	Exclusive    bool            `json:"exclusive,omitzero"`
	Timeout      int64           `json:"timeout"`
	Handler      string          `json:"handler"`
}

// Flags describe a syscall.
type Flags struct {
	File, Kind, Summary string
	Input, Output       string // JSON Schema, or @FILE
	Timeout             time.Duration
}

// Define returns the definition of a type that a program serves: what the file has, and the flags, of which those
// that were given are stronger.
func (f *Flags) Define(name, program string, given func(flag string) bool) (def Definition, err error) {
	if def, err = readDefinition(f.File); err != nil {
		return def, err
	}
	if def.Name != "" && def.Name != name {
		return def, fmt.Errorf("--definition %s is for %s, not for %s", f.File, def.Name, name)
	}
	def.Name = name
	if given("kind") || def.Kind == "" {
		def.Kind = f.Kind
	}
	if given("summary") || def.Description == "" {
		def.Description = cmp.Or(f.Summary, "Served by "+program+".")
	}
	if given("timeout") || def.Timeout == 0 {
		def.Timeout = f.Timeout.Milliseconds()
	}
	if def.InputSchema, err = readSchema("--input", f.Input, def.InputSchema); err != nil {
		return def, err
	}
	def.OutputSchema, err = readSchema("--output", f.Output, def.OutputSchema)
	return def, err
}

// readDefinition reads the file of --definition.
func readDefinition(file string) (def Definition, err error) {
	def.Handler = "connection"
	if file == "" {
		return def, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return def, fmt.Errorf("--definition: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&def); err != nil {
		return def, fmt.Errorf("--definition %s doesn't have what Syscall.Register takes (kernos describe Syscall.Register): %w", file, err)
	}
	return def, nil
}

// readSchema returns the schema of a flag: JSON, or @FILE. A flag that wasn't given leaves
// the schema of the definition, and without that every value is allowed.
func readSchema(flag, text string, defined json.RawMessage) (json.RawMessage, error) {
	if text == "" {
		if defined == nil {
			return json.RawMessage("{}"), nil
		}
		return defined, nil
	}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		read, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		text = string(read)
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%s: expected JSON Schema, or @FILE, got %q", flag, message.Clip(text, 60))
	}
	return json.RawMessage(text), nil
}
