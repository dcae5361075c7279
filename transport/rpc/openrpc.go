package rpc

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// openRPCVersion is the version of OpenRPC that the document follows.
const openRPCVersion = "1.3.2"

// openRPC is an OpenRPC document.
type openRPC struct {
	Version string `json:"openrpc"`
	Info    struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
	} `json:"info"`
	Methods    []any `json:"methods"`
	Components struct {
		Schemas json.RawMessage `json:"schemas"`
	} `json:"components"`
}

// openRPCMethod is a method in an OpenRPC document.
type openRPCMethod struct {
	Name           string          `json:"name"`
	Tags           []openRPCTag    `json:"tags"`
	Summary        string          `json:"summary"`
	Params         []openRPCParam  `json:"params"`
	ParamStructure string          `json:"paramStructure"`
	Result         json.RawMessage `json:"result"`
	Input          json.RawMessage `json:"x-input,omitempty"` // present if the schema refers to itself
	Stream         openRPCStream   `json:"x-stream"`
	Type           message.Type    `json:"x-type"` // the type of the messages
	Kind           message.Kind    `json:"x-kind"`
	Title          string          `json:"x-title,omitempty"`
	Words          string          `json:"x-words,omitempty"` // what people call it
	Asks           bool            `json:"x-asks,omitempty"`  // a person should confirm the call: its change can't be taken back
}

type openRPCTag struct {
	Name string `json:"name"`
}

type openRPCParam struct {
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description,omitempty"`
	Required    bool            `json:"required"`
	Schema      json.RawMessage `json:"schema"`
}

// openRPCStream describes what the items of a method carry.
type openRPCStream struct {
	Notification string          `json:"notification"`
	ContentType  string          `json:"content_type"`
	Data         json.RawMessage `json:"data"`
}

// OpenRPC returns the OpenRPC document of what a caller may call, as rpc.discover does, and its
// hash. The document must not be changed. A method's result is the id of its stream, as it is on the wire; what the
// stream carries is in x-stream.
func (s *Service) OpenRPC(caller *principal.Principal) (document json.RawMessage, hash string) {
	v := s.view(caller)
	return s.document(v, "OpenRPC", func() json.RawMessage {
		doc := openRPC{Version: openRPCVersion}
		doc.Info.Title, doc.Info.Version = "Kernos", v.Hash()
		doc.Info.Description = "Every call is a stream: its result is the id of a subscription, and its items come as notifications of " + notification + "."
		shared := newDefinitions("#/components/schemas/")
		for _, n := range v.Namespaces() {
			for _, r := range n.Methods {
				doc.Methods = append(doc.Methods, describeMethod(r, shared, len(doc.Methods)))
			}
		}
		for _, own := range ownMethods {
			doc.Methods = append(doc.Methods, json.RawMessage(own))
		}
		doc.Components.Schemas = shared.shared.Text()
		return marshal(doc)
	}), v.Hash()
}

// streamResult is the result of every method that is a stream.
const streamResult = `{"name":"subscription","description":"The id of the stream.","schema":{"type":"string"}}`

// ownMethods are the methods of the service itself.
var ownMethods = []string{
	`{"name":"service_schema","summary":"List the modules and their methods.","params":[],"result":` + streamResult + `}`,
	`{"name":"service_module_schema","summary":"Give the JSON Schema of a module's methods.","params":[{"name":"namespace","required":true,"schema":{"type":"string"}}],"result":` + streamResult + `}`,
	`{"name":"service_hash","summary":"Give the hash of all modules and methods.","params":[],"result":` + streamResult + `}`,
	`{"name":"service_unsubscribe","summary":"End a stream and forget it.","params":[{"name":"subscription","required":true,"schema":{"type":"string"}}],"result":{"name":"ended","schema":{"type":"boolean"}}}`,
	`{"name":"service_resume","summary":"Resume a stream, from another connection too.","params":[{"name":"subscription","required":true,"schema":{"type":"string"}},{"name":"after","description":"The seq of the last item that came, 0 if none did.","required":true,"schema":{"type":"integer","minimum":0}}],"result":` + streamResult + `}`,
}

// describeMethod describes a method, which stands at a place in the document.
func describeMethod(r *kernel.Route, shared *definitions, at int) openRPCMethod {
	here := "#/methods/" + strconv.Itoa(at)
	input := shared.take(r.Syscall.Input.JSON(), here+"/x-input")
	in := members(input)
	required := texts(in.Get("required"))
	m := openRPCMethod{
		Name: r.Name(), Tags: []openRPCTag{{r.Namespace}}, Summary: r.Syscall.Summary,
		Params: []openRPCParam{}, ParamStructure: "by-name", Result: json.RawMessage(streamResult),
		Stream: openRPCStream{notification, r.Namespace + "." + r.Method, shared.take(r.Syscall.Output.JSON(), here+"/x-stream/data")},
		Type:   r.Syscall.Type, Kind: r.Syscall.Kind, Title: r.Syscall.Title, Words: r.Syscall.Words,
		Asks: r.Syscall.Kind == message.KindCommand && (r.Syscall.Destroys || r.Syscall.Effect == kernel.External),
	}
	for _, p := range members(in.Get("properties")) {
		description := members(p.Value).Get("description")
		m.Params = append(m.Params, openRPCParam{p.Name, description, slices.Contains(required, p.Name), p.Value})
	}
	// OpenRPC wants the required ones first.
	slices.SortStableFunc(m.Params, func(a, b openRPCParam) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	if bytes.Contains(input, []byte(here+"/x-input")) {
		m.Input = input
	}
	return m
}
