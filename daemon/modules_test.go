package daemon_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"kernos/daemon"
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
func TestEverySyscallDescribesItself(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.All().Modules() {
		for _, s := range m.Syscalls {
			for part, sch := range map[string]*schema.Schema{"input": s.Input, "output": s.Output} {
				if _, err := schema.Parse(sch.JSON()); err != nil {
					t.Errorf("%s: %s: %v", s.Type, part, err)
				}
			}
			for _, name := range s.Volatile {
				if first, _, _ := strings.Cut(name, "."); first != "*" && !strings.Contains(string(s.Output.JSON()), `"`+first+`":`) {
					t.Errorf("%s: %s is volatile, and the output doesn't have it", s.Type, name)
				}
			}
			for _, problem := range undescribed(t, &s) {
				t.Errorf("%s: %s", s.Type, problem)
			}
		}
	}
}

// TestSchemasShareTheirTypes holds the documents of the real modules against sections 3.2 and
// 6.3 of the protocol: what stands in several places is defined once, every reference leads
// somewhere, and formats are told.
func TestSchemasShareTheirTypes(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	service := rpc.New(kernel.New(r, nil), nil)
	defer service.Close()
	var all seen
	for _, n := range r.All().Namespaces() {
		answer, err := service.Call(t.Context(), rpc.Call{Method: "service_module_schema", Params: json.RawMessage(`["` + n.Name + `"]`)}, nil)
		if err != nil || answer.Err != nil {
			t.Fatal(n.Name, err, answer.Err)
		}
		if _, err := schema.Parse(answer.Data); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		all.look(t, n.Name, answer.Data)
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
			for _, member := range v {
				visit(member)
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

// undescribed returns what the schemas of a syscall lack. Every member of its input and of its output has a description,
// however deep it lies.
func undescribed(t *testing.T, s *kernel.Syscall) (problems []string) {
	t.Helper()
	var input struct {
		Type       string   `json:"type"`
		Required   []string `json:"required"`
		Additional *bool    `json:"additionalProperties"`
	}
	if err := json.Unmarshal(s.Input.JSON(), &input); err != nil {
		t.Fatal(err)
	}
	if input.Type != "object" {
		problems = append(problems, "the input is not an object")
	}
	if input.Required == nil {
		problems = append(problems, "the input has no list of required fields")
	}
	if input.Additional == nil || *input.Additional {
		problems = append(problems, "the input takes fields that it does not name")
	}
	for _, part := range []struct {
		name   string
		schema *schema.Schema
	}{{"input", s.Input}, {"output", s.Output}} {
		var root any
		if err := json.Unmarshal(part.schema.JSON(), &root); err != nil {
			t.Fatal(err)
		}
		visitMembers(root, part.name, func(path string, member map[string]any) {
			if text, _ := member["description"].(string); strings.TrimSpace(text) == "" {
				problems = append(problems, path+" has no description")
			}
		})
	}
	return problems
}

// visitMembers calls visit for every member that a schema names, at any depth, and for those of its definitions.
func visitMembers(schema any, path string, visit func(path string, member map[string]any)) {
	switch s := schema.(type) {
	case []any:
		for _, e := range s {
			visitMembers(e, path, visit)
		}
	case map[string]any:
		for _, keyword := range slices.Sorted(maps.Keys(s)) {
			named, _ := s[keyword].(map[string]any)
			if keyword == "examples" || keyword == "default" {
				continue
			}
			if keyword != "properties" && keyword != "$defs" {
				visitMembers(s[keyword], path, visit)
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(named)) {
				member, _ := named[name].(map[string]any)
				if keyword == "properties" {
					visit(path+"."+name, member)
				}
				visitMembers(member, path+"."+name, visit)
			}
		}
	}
}

func TestASyscallThatDoesNotDescribeItselfIsFound(t *testing.T) {
	bad, err := schema.Parse(json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	deep, err := schema.Parse(json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","description":"All.","items":{"properties":{"x":{"type":"string"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := kernel.Syscall{Definition: kernel.Definition{Type: "Test.Bad", Input: bad, Output: deep}}
	if got := undescribed(t, &s); len(got) != 4 {
		t.Errorf("found %q, want four problems", got)
	}
}
