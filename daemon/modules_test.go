package daemon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/rpc"
)

// TestDefinitionsAreThoseOfTheKernel: what help and completion list is what a kernel serves.
func TestDefinitionsAreThoseOfTheKernel(t *testing.T) {
	described, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir(), Unrecorded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if served := d.Kernel().Registry(); served.All().Hash() != described.All().Hash() || !slices.Equal(served.All().Types(), described.All().Types()) {
		t.Errorf("a kernel serves %v, and is described as %v", served.All().Types(), described.All().Types())
	}
}

// TestProgramsCantRegisterInDomainsOfModules: the domains are those that names of Kernos have, now and
// in earlier versions, in any case; Service is kept free.
func TestProgramsCantRegisterInDomainsOfModules(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.All().Modules() {
		for _, s := range m.Syscalls {
			for _, name := range append([]message.Type{s.Type}, s.Aliases...) {
				if !r.BuiltIn(name) {
					t.Errorf("programs can register in the domain of %s: the module %s doesn't have it in Domains", name, m.Name)
				}
			}
		}
	}
	for _, domain := range strings.Fields(`Agent Blob Content Crypto Event FileSystem Http Job Kernel Mcp Memory Message
		Model Network Service Session Sys Syscall Token VFS Vector`) {
		for _, name := range []string{domain, strings.ToUpper(domain)} {
			if !r.BuiltIn(message.Type(name + ".Other")) {
				t.Errorf("programs can register in the domain %s", name)
			}
		}
	}
	if r.BuiltIn("Text.Shout") {
		t.Error("programs can't register in a domain of their own")
	}
}

// TestEverySyscallDescribesItself holds the definitions against what a caller who
// knows nothing needs: section 4.8 of the specification.
//
// Clauses: M24-4.8-1 M24-4.8-2 M24-4.8-3 M24-4.8-4 M24-4.8-5 M24-4.8-6
func TestEverySyscallDescribesItself(t *testing.T) {
	d, err := daemontest.Open(&daemon.Options{Home: t.TempDir(), Unrecorded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, m := range d.Kernel().Registry().All().Modules() {
		for _, s := range m.Syscalls {
			for _, name := range s.Volatile {
				if first, _, _ := strings.Cut(name, "."); first != "*" && !strings.Contains(string(s.Output.JSON()), `"`+first+`":`) {
					t.Errorf("%s: %s is volatile, and the output doesn't have it", s.Type, name)
				}
			}
			reply, _ := d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Syscall.Describe", Data: fmt.Appendf(nil, `{"name":%q}`, s.Type)}, nil)
			var described struct {
				Name          message.Type
				Kind          message.Kind
				Input, Output json.RawMessage
			}
			if err := json.Unmarshal(reply.Data, &described); err != nil || described.Name != s.Type || described.Kind != s.Kind {
				t.Fatalf("%s: %v, %s", s.Type, err, reply.Data)
			}
			for part, text := range map[string]json.RawMessage{"input": described.Input, "output": described.Output} {
				if _, err := schema.Parse(text); err != nil {
					t.Errorf("%s: %s: %v", s.Type, part, err)
				}
			}
			for _, problem := range undescribed(t, s.Type, described.Input, described.Output) {
				t.Errorf("%s: %s", s.Type, problem)
			}
		}
	}
}

// TestSchemasOfModules holds the documents of the real modules against sections 3.1, 3.2 and
// 6.3 of the protocol: every module is listed with its methods, its schema has a variant for each of them, in their
// order, what stands in several places is defined once, every reference leads somewhere, and formats are told.
//
// Clauses: RPC-3.1-1 RPC-3.1-2 RPC-3.1-3 RPC-3.1-4 RPC-3.1-5 RPC-3.1-6 RPC-3.2-1 RPC-3.2-2 RPC-3.2-3 RPC-3.2-4 RPC-3.2-5 RPC-3.2-6
func TestSchemasOfModules(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	service := rpc.New(kernel.New(r, nil), nil)
	defer service.Close()
	call := func(method, params string) json.RawMessage {
		answer, err := service.Call(t.Context(), rpc.Call{Method: method, Params: json.RawMessage(params)}, nil)
		if err != nil || answer.Err != nil {
			t.Fatal(method, params, err, answer.Err)
		}
		return answer.Data
	}
	var listed struct {
		Modules []struct {
			Namespace, Version, Description string
			Methods                         []string
		}
		Total int `json:"total_methods"`
	}
	if err := json.Unmarshal(call("service_schema", `[]`), &listed); err != nil {
		t.Fatal(err)
	}
	var all seen
	semantic := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for i, n := range r.All().Namespaces() {
		m := listed.Modules[i]
		if m.Namespace != n.Name || !semantic.MatchString(m.Version) || m.Description == "" || len(m.Methods) == 0 {
			t.Errorf("%s is listed as %+v", n.Name, m)
		}
		text := call("service_module_schema", `["`+n.Name+`"]`)
		if _, err := schema.Parse(text); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		var variants struct {
			OneOf []struct {
				Properties struct{ Method struct{ Const string } }
				Required   []string
			}
		}
		if err := json.Unmarshal(text, &variants); err != nil {
			t.Fatal(err)
		}
		var methods []string
		for _, v := range variants.OneOf {
			methods = append(methods, v.Properties.Method.Const)
			if !slices.Contains(v.Required, "method") {
				t.Errorf("%s: a variant for %s doesn't require its name", n.Name, v.Properties.Method.Const)
			}
		}
		if !slices.Equal(methods, m.Methods) {
			t.Errorf("%s: the variants are those of %q, and the methods %q", n.Name, methods, m.Methods)
		}
		listed.Total -= len(methods)
		all.look(t, n.Name, text)
	}
	if len(listed.Modules) != len(r.All().Namespaces()) || listed.Total != 0 {
		t.Errorf("%d modules are listed, and %d methods more than there are", len(listed.Modules), listed.Total)
	}
	if all.refs == 0 || all.definitions == 0 || all.formats == 0 {
		t.Errorf("the schemas of the modules have %+v", all)
	}
	var whole seen
	document, _ := service.OpenRPC(principal.TheOwner())
	whole.look(t, "OpenRPC", document)
	if whole.refs == 0 || whole.formats == 0 {
		t.Errorf("the OpenRPC document has %+v", whole)
	}
	var doc struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(doc.Components.Schemas))
	if want := []string{"BlobPointer", "Gap", "Job", "Message", "Outcome", "Record"}; !slices.Equal(names, want) {
		t.Errorf("the components are %q, want %q", names, want)
	}
	for _, name := range []string{"BlobPointer", "Gap"} {
		if n := strings.Count(string(document), string(doc.Components.Schemas[name])); n != 1 {
			t.Errorf("%s stands %d times in the OpenRPC document", name, n)
		}
	}
}

// seen counts what is in the schemas of a document.
type seen struct{ refs, definitions, formats int }

func (s *seen) look(t *testing.T, name string, text json.RawMessage) {
	t.Helper()
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	var visit func(any)
	visit = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if members, ok := v["properties"].(map[string]any); ok {
				for member, of := range members {
					if text, _ := of.(map[string]any)["description"].(string); member != "method" && text == "" {
						t.Errorf("%s: %s has no description", name, member)
					}
				}
			}
			if ref, ok := v["$ref"].(string); ok {
				s.refs++
				if _, ok := referred(root, ref).(map[string]any); !ok {
					t.Errorf("%s: %s leads nowhere", name, ref)
				}
			}
			if _, ok := v["$defs"].(map[string]any); ok {
				s.definitions++
			}
			if _, ok := v["format"].(string); ok {
				s.formats++
			}
			for word, member := range v {
				if word != "examples" && word != "default" {
					visit(member)
				}
			}
		case []any:
			for _, element := range v {
				visit(element)
			}
		}
	}
	visit(root)
}

// referred returns what a reference names in a document, or nil.
func referred(at any, ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for step := range strings.SplitSeq(path, "/") {
		object, _ := at.(map[string]any)
		at = object[step]
	}
	return at
}

// TestEventsHaveHappened: section 4.2.3 wants events named in the past tense.
//
// Clauses: M24-4.2.3-1
func TestEventsHaveHappened(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	events := []message.Type{kernel.Progressed}
	for _, m := range r.All().Modules() {
		for _, s := range m.Syscalls {
			for _, e := range s.Emits {
				events = append(events, e.Type)
			}
		}
	}
	for _, e := range events {
		// Verbs of two words, and irregular ones, are added here when one is needed.
		if !strings.HasSuffix(e.Action(), "ed") && e != "Kernel.BackedUp" && e != "Notify.Sent" {
			t.Errorf("%s does not sound as if it had happened", e)
		}
	}
}

// TestWhatAReplayLeavesAlone: the syscalls of the framework that change something are those
// that concern a connection, or the life of the kernel, except those of registered code, which is
// kept in the store; and Mcp.Ask, which asks the client of its caller.
func TestWhatAReplayLeavesAlone(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	ofCode := []message.Type{"Syscall.Register", "Syscall.Unregister", "Syscall.Rollback", "Syscall.Adopt", "Syscall.Test"}
	for _, m := range r.All().Modules() {
		for _, s := range m.Syscalls {
			want := kernel.Reserved(s.Type) && s.Kind == message.KindCommand && !slices.Contains(ofCode, s.Type) || s.Type == "Mcp.Ask"
			if (s.Effect == kernel.Transient) != want {
				t.Errorf("%s: unrepeatable is %v, want %v", s.Type, (s.Effect == kernel.Transient), want)
			}
		}
	}
}

// schemaWords are the words that draft 7 of JSON Schema has for schemas, and $defs, of draft 2019-09, which section 3.2 of
// the protocol asks for.
var schemaWords = strings.Fields(`$defs $ref additionalProperties anyOf contentEncoding default description enum examples format items
	maxItems maxLength maximum minItems minLength minimum oneOf pattern patternProperties properties required title type writeOnly`)

// open are the objects that may have members that their schema doesn't name: messages of models, whose types can be
// registered; tools, as clients of providers write them; and a pointer, as the specification shows it.
var open = []string{"Model.Generate: input.messages", "Session.Create: input.tools", "Http.Fetch: output.bodyRef"}

// undescribed returns what the schemas of a syscall lack. Every member of its input and of its output has a description,
// and every object lists what is required, and has no other members than it names, however deep they lie.
func undescribed(t *testing.T, name message.Type, in, out json.RawMessage) (problems []string) {
	t.Helper()
	var input struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(in, &input); err != nil {
		t.Fatal(err)
	}
	if input.Type != "object" {
		problems = append(problems, "the input is not an object")
	}
	for _, part := range []struct {
		name   string
		schema json.RawMessage
	}{{"input", in}, {"output", out}} {
		var root any
		if err := json.Unmarshal(part.schema, &root); err != nil {
			t.Fatal(err)
		}
		visitSchemas(root, part.name, func(path string, node map[string]any) {
			for word := range node {
				if !slices.Contains(schemaWords, word) {
					problems = append(problems, path+" has "+word+", which not every reader knows")
				}
			}
			members, ok := node["properties"].(map[string]any)
			if !ok {
				return
			}
			for _, name := range slices.Sorted(maps.Keys(members)) {
				if text, _ := members[name].(map[string]any)["description"].(string); strings.TrimSpace(text) == "" {
					problems = append(problems, path+"."+name+" has no description")
				}
			}
			if node["required"] == nil {
				problems = append(problems, path+" has no list of required members")
			}
			if node["additionalProperties"] != false && !slices.Contains(open, string(name)+": "+path) {
				problems = append(problems, path+" takes members that it does not name")
			}
		})
	}
	return problems
}

// visitSchemas calls visit for a schema and every schema in it, at any depth.
func visitSchemas(schema any, path string, visit func(path string, node map[string]any)) {
	switch s := schema.(type) {
	case []any:
		for _, e := range s {
			visitSchemas(e, path, visit)
		}
	case map[string]any:
		visit(path, s)
		for _, word := range slices.Sorted(maps.Keys(s)) {
			switch word {
			case "examples", "default":
			case "properties", "patternProperties", "$defs":
				named, _ := s[word].(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(named)) {
					visitSchemas(named[name], path+"."+name, visit)
				}
			default:
				visitSchemas(s[word], path, visit)
			}
		}
	}
}

func TestASyscallThatDoesNotDescribeItselfIsFound(t *testing.T) {
	bad := json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","if":true}}}`)
	deep := json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","description":"All.","items":{"properties":{"x":{"type":"string"}}}}}}`)
	// Two have no description; three objects have no list, and are open; a word isn't known.
	if got := undescribed(t, "Test.Bad", bad, deep); len(got) != 9 {
		t.Errorf("found %q, want nine problems", got)
	}
}
