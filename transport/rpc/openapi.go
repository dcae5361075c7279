package rpc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// openAPIVersion is the version of OpenAPI that the document follows. Its schemas are JSON Schema, as those of syscalls are.
const openAPIVersion = "3.1.1"

// OpenAPIError refers to the answer to a request that fails, in the document of [Service.OpenAPI].
const OpenAPIError = "#/components/responses/Error"

// openAPIError is that answer, and errorSchema its body.
const (
	openAPIError = `{"description":"What failed, and what to do.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/` + errorName + `"}}}}`
	errorName    = "Kernos.Error" // no name of a type in Go
	errorSchema  = `{"type":"object","properties":{` +
		`"code":{"type":"integer","minimum":400,"maximum":599,"description":"An HTTP status."},` +
		`"message":{"type":"string","description":"What happened, for a person to read."},` +
		`"name":{"type":"string","description":"The kind of the error, for programs, if it has a name."},` +
		`"cause":{"$ref":"#/components/schemas/` + errorName + `"},` +
		`"guidance":{"type":"object","description":"How to mend a call that is wrong."}},` +
		`"required":["code","message"]}`
)

// openAPI is an OpenAPI document.
type openAPI struct {
	Version string `json:"openapi"`
	Info    struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
	} `json:"info"`
	Servers    []map[string]string   `json:"servers"`
	Security   []map[string][]string `json:"security"`
	Tags       []openAPITag          `json:"tags"`
	Paths      json.RawMessage       `json:"paths"`
	Components struct {
		Schemas   json.RawMessage            `json:"schemas"`
		Responses map[string]json.RawMessage `json:"responses"`
		Security  map[string]json.RawMessage `json:"securitySchemes"`
	} `json:"components"`
}

type openAPITag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// openAPIOperation is a call in an OpenAPI document.
type openAPIOperation struct {
	ID          string                     `json:"operationId"`
	Summary     string                     `json:"summary"`
	Tags        []string                   `json:"tags"`
	Deprecated  bool                       `json:"deprecated,omitempty"`
	Parameters  []json.RawMessage          `json:"parameters"`
	RequestBody openAPIBody                `json:"requestBody"`
	Responses   map[string]json.RawMessage `json:"responses"`
	Type        message.Type               `json:"x-type"`
	Kind        message.Kind               `json:"x-kind"`
}

type openAPIBody struct {
	Required bool                    `json:"required,omitempty"`
	Content  map[string]openAPIMedia `json:"content"`
}

type openAPIMedia struct {
	Schema  json.RawMessage `json:"schema,omitempty"`
	Example json.RawMessage `json:"example,omitempty"`
}

// The headers that calls take.
var (
	anyCall = []json.RawMessage{
		json.RawMessage(`{"name":"X-Correlation-Id","in":"header","description":"The workflow that the call belongs to.","schema":{"type":"string"}}`),
		json.RawMessage(`{"name":"X-Causation-Id","in":"header","description":"The id of the message that caused the call.","schema":{"type":"string"}}`),
	}
	commands = append(anyCall[:len(anyCall):len(anyCall)],
		json.RawMessage(`{"name":"Idempotency-Key","in":"header","description":"A command with the same key and data is run once.","schema":{"type":"string"}}`))
)

// OpenAPI returns the OpenAPI document of what a caller may call, and its hash. The document must not be changed. The
// other paths are those of the server apart from calls; they are asked for once.
func (s *Service) OpenAPI(caller *principal.Principal, others func() jsonvalue.Object) (document json.RawMessage, hash string) {
	v := s.view(caller)
	return s.document(v, "OpenAPI", func() json.RawMessage {
		doc := openAPI{Version: openAPIVersion, Servers: []map[string]string{{"url": "/"}}, Security: []map[string][]string{{"token": {}}}}
		doc.Info.Title, doc.Info.Version = "Kernos", v.Hash()
		doc.Info.Description = "Each syscall that the caller may call is a POST below /v1/call. With Accept: text/event-stream the answer is the items of its stream."
		shared := newDefinitions("#/components/schemas/")
		paths := jsonvalue.Object{}
		for _, n := range v.Namespaces() {
			doc.Tags = append(doc.Tags, openAPITag{n.Name, n.Summary})
			for _, r := range n.Methods {
				path := "/v1/call/" + r.Namespace + "/" + r.Method
				call := describeCall(r, shared, "#/paths/"+escapePointer(path)+"/post")
				paths = append(paths, jsonvalue.Member{Name: path, Value: jsonvalue.Object{{Name: "post", Value: call}}.Text()})
			}
		}
		doc.Tags = append(doc.Tags, openAPITag{"routes", "The routes apart from calls."})
		doc.Paths = append(paths, others()...).Text()
		doc.Components.Schemas = shared.shared.Set(errorName, json.RawMessage(errorSchema)).Text()
		doc.Components.Responses = map[string]json.RawMessage{"Error": json.RawMessage(openAPIError)}
		doc.Components.Security = map[string]json.RawMessage{"token": json.RawMessage(`{"type":"http","scheme":"bearer","description":"A token of the daemon; kernos token prints one."}`)}
		return marshal(doc)
	}), v.Hash()
}

// describeCall describes the call of a syscall, which stands at a place in the document.
func describeCall(r *kernel.Route, shared *definitions, here string) json.RawMessage {
	s := r.Syscall
	input := shared.take(s.Input.JSON(), here+"/requestBody/content/application~1json/schema")
	output := shared.take(s.Reply(), here+"/responses/200/content/application~1json/schema")
	call := openAPIOperation{
		ID: r.Name(), Summary: s.Summary, Tags: []string{r.Namespace}, Deprecated: s.Replaced != "", Type: s.Type, Kind: s.Kind, Parameters: anyCall,
		RequestBody: openAPIBody{Required: len(texts(members(input).Get("required"))) > 0},
		Responses:   map[string]json.RawMessage{"default": json.RawMessage(`{"$ref":"` + OpenAPIError + `"}`)},
	}
	if s.Kind == message.KindCommand {
		call.Parameters = commands
	}
	example, _ := schema.ExampleOf(s.Input)
	call.RequestBody.Content = map[string]openAPIMedia{"application/json": {input, example}}
	call.Responses["200"] = marshal(map[string]any{"description": "The reply.", "content": map[string]openAPIMedia{
		"application/json": {Schema: output}, "text/event-stream": {Schema: json.RawMessage(`{"type":"string"}`)},
	}})
	reasons := make(map[string][]string)
	for _, e := range s.Errors {
		code := strconv.Itoa(e.Code)
		if http.StatusText(e.Code) != "" { // other codes are in the default answer
			reasons[code] = append(reasons[code], e.When)
		}
	}
	for code, when := range reasons {
		answer := members(json.RawMessage(openAPIError)).Set("description", jsonString(strings.Join(when, "; ")))
		call.Responses[code] = answer.Text()
	}
	return marshal(call)
}
