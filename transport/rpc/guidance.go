package rpc

import (
	"encoding/json"
	"errors"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// ownNamespace is where the items come from that are the service's own.
const ownNamespace = "service"

// maxName is how much of an unknown name is repeated.
const maxName = 128

// guidance is what an item states about an error that the caller could have avoided. Package client, which doesn't import the
// server, reads it with a type of its own, and has a test that keeps the two equal.
type guidance struct {
	ErrorKind        string          `json:"error_kind"`
	Module           *string         `json:"module,omitempty"`
	Method           *string         `json:"method,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	AvailableMethods []string        `json:"available_methods,omitempty"`
	MethodSchema     json.RawMessage `json:"method_schema,omitempty"`
	Action           string          `json:"action"`
	Message          string          `json:"message,omitempty"`
	Namespace        string          `json:"namespace,omitempty"`
	SuggestedMethod  string          `json:"suggested_method,omitempty"`
	ExampleParams    json.RawMessage `json:"example_params,omitempty"`
	Problems         schema.Problems `json:"problems,omitempty"` // of invalid_params: each with what the schema has about its field
}

// The kinds of errors, and what is advised.
const (
	moduleNotFound = "module_not_found"
	methodNotFound = "method_not_found"
	invalidParams  = "invalid_params"

	tryMethod         = "try_method"
	callModuleSchema  = "call_module_schema"
	callServiceSchema = "call_service_schema"
	customAction      = "custom"
)

// suggest advises to call a method. Outside of its module its name has the module before it.
func (g *guidance) suggest(d *kernel.Definition, name string) {
	g.Action, g.SuggestedMethod, g.MethodSchema = tryMethod, name, d.Input.JSON()
	if example, ok := schema.ExampleOf(d.Input); ok && example[0] == '{' { // params are an object
		g.ExampleParams = example
	}
}

// append appends the members of the item.
func (g *guidance) append(dst []byte) []byte {
	text := marshal(g)
	return append(append(dst, ','), text[1:len(text)-1]...)
}

// nearNamespace returns the namespace that was probably meant by one that is not there, or "". It
// has to be near by both measures: a wrong module is worse than none.
func nearNamespace(name string, spaces []kernel.Namespace) string {
	names := make([]string, len(spaces))
	for i := range spaces {
		names[i] = spaces[i].Name
	}
	return nearest.Best(name, nearest.Names(name, names))
}

// only returns the method with a name, without its module, or nil if there is none or several
// modules have one.
func only(name string, spaces []kernel.Namespace) (only *kernel.Route) {
	for i := range spaces {
		for _, r := range spaces[i].Methods {
			if r.Method != name {
				continue
			}
			if only != nil {
				return nil
			}
			only = r
		}
	}
	return only
}

// describedField returns what the schema states about the field whose value is wrong; "" if it is
// missing, or unknown, or has no description.
func describedField(input []byte, err error) string {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		return ""
	}
	path, _, _ := strings.Cut(invalid.Problems[0].Path, "[")
	path, _, _ = strings.Cut(path, ".")
	if path == "" || invalid.Problems[0].Predicate == "" {
		return ""
	}
	return jsonscan.Unquote(jsonscan.Member(jsonscan.Member(jsonscan.Member(input, "properties"), path), "description"))
}

// Guide returns guidance about a call that was refused because its data doesn't fit, as the items of
// a stream have it; nil for errors of other kinds. The name is what the caller calls the syscall.
func Guide(d *kernel.Definition, name string, data json.RawMessage, e *message.Error) json.RawMessage {
	if e.Code != 422 {
		return nil
	}
	return marshal(adviseAbout(d, name, data, e))
}

// adviseAbout returns the guidance about data that a syscall has refused: it doesn't fit the schema, or is not what the
// handler wants beyond that.
func adviseAbout(d *kernel.Definition, name string, data []byte, e *message.Error) *guidance {
	if err := d.Wrong(data); err != nil {
		return advice(d, name, err)
	}
	g := &guidance{ErrorKind: invalidParams, Method: &name, Reason: message.Clip(e.Error(), message.MaxErrorText)}
	g.suggest(d, name)
	return g
}

// advice returns the guidance about data that doesn't fit the schema.
func advice(d *kernel.Definition, name string, err error) *guidance {
	g := &guidance{ErrorKind: invalidParams, Method: &name, Reason: message.Clip(err.Error(), message.MaxErrorText)}
	g.suggest(d, name)
	if invalid, ok := errors.AsType[*schema.Invalid](err); ok {
		g.Problems = invalid.Listed()
	}
	if custom := describedField(d.Input.JSON(), err); custom != "" { // the example is wanted beside the words
		g.Action, g.Message = customAction, message.Clip(custom, message.MaxErrorText)
	}
	return g
}
