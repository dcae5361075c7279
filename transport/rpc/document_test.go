package rpc

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// document reads JSON as the library for JSON Schema wants it.
func document(t *testing.T, text []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return doc
}

// metaSchema is that of OpenRPC.
func metaSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	for url, file := range map[string]string{"https://meta.open-rpc.org/": "openrpc-meta.json", "https://meta.json-schema.tools/": "json-schema-tools-meta.json"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		// A schema can't be its own meta schema here.
		text = bytes.ReplaceAll(text, []byte(`"$schema": "https://meta.json-schema.tools/"`), []byte(`"$schema": "http://json-schema.org/draft-07/schema#"`))
		doc := document(t, text)
		for _, u := range []string{url, strings.TrimSuffix(url, "/")} {
			if err := c.AddResource(u, doc); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := c.Compile("https://meta.open-rpc.org/")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// odd is a module whose schemas are as odd as schemas may be.
func odd(t *testing.T) kernel.Module {
	t.Helper()
	m := kernel.Module{Name: "odd", Version: "0.1.0", Summary: "Odd schemas."}
	for name, input := range map[message.Type]string{
		"Odd.Any":       `{}`,
		"Odd.Method":    `{"type":"object","properties":{"method":{"type":"string"},"url":{"type":"string","format":"uri"}},"required":["url","method"],"additionalProperties":false}`,
		"Odd.Shared":    `{"type":"object","properties":{"at":{"$ref":"#/$defs/Place"}},"required":["at"],"$defs":{"Place":{"type":"object","properties":{"inner":{"$ref":"#/$defs/Place"},"id":{"$ref":"#/$defs/ID"}},"required":["id"]},"ID":{"type":"string","format":"uuid"}}}`,
		"Odd.SharedToo": `{"type":"object","properties":{"at":{"$ref":"#/$defs/ID"}},"required":["at"],"$defs":{"ID":{"type":"string","format":"uuid"}}}`,
		"Odd.Other":     `{"type":"object","properties":{"at":{"$ref":"#/definitions/ID"}},"required":["at"],"definitions":{"ID":{"type":"integer","minimum":3}}}`,
		"Odd.Recursive": `{"type":"object","properties":{"next":{"$ref":"#"},"n":{"type":"integer","multipleOf":5,"exclusiveMinimum":5}},"required":["n"]}`,
		"Odd.Formats":   `{"type":"object","properties":{"a":{"type":"string","format":"email"},"b":{"type":"string","format":"date-time"},"c":{"type":["null","string"],"minLength":9,"maxLength":12},"d":{"enum":["x","y"]},"e":{"type":"array","items":{"type":"boolean"},"minItems":2},"f":{"type":"string","pattern":"^ab[0-9a-z]+$"}},"required":["a","b","c","d","e","f"]}`,
		"Odd.Choice":    `{"type":"object","properties":{"of":{"oneOf":[{"type":"string","maxLength":3},{"type":"integer"}]}},"required":["of"]}`,
	} {
		parsed, err := schema.Parse([]byte(input))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := raw(name, message.KindQuery, newGate().handle)
		s.Input = parsed
		m.Syscalls = append(m.Syscalls, s)
	}
	return m
}

func oddService(t *testing.T) *Service {
	t.Helper()
	s := newService(t, nil)
	if err := s.k.Registry().Add(odd(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpenRPCDocumentIsValid(t *testing.T) {
	s := oddService(t)
	doc := document(t, discovered(s))
	if err := metaSchema(t).Validate(doc); err != nil {
		t.Errorf("%#v\n%s", err, discovered(s))
	}
	if err := metaSchema(t).Validate(document(t, []byte(`{"openrpc":"1.3.2","info":{"title":"x"},"methods":[]}`))); err == nil {
		t.Error("the meta schema accepts anything")
	}
	c := dial(t, s)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`)
	if r := c.read(); !bytes.Equal(r.Result, discovered(s)) {
		t.Errorf("rpc.discover gives %.200s", r.Result)
	}
}

// The schema of a module is valid, has its variants in the order of service_schema, and
// accepts what the methods accept, examples first of all.
func TestModuleSchemas(t *testing.T) {
	s := oddService(t)
	var list struct {
		Modules []struct {
			Namespace, Version, Description string
			Methods                         []string
		}
		Total int `json:"total_methods"`
	}
	if err := json.Unmarshal(s.schema(whole(s)), &list); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range list.Modules {
		text, ok := s.moduleSchema(whole(s), m.Namespace)
		if !ok {
			t.Fatalf("%s has no schema", m.Namespace)
		}
		whole, err := schema.Parse(text)
		if err != nil {
			t.Errorf("%s: %v\n%s", m.Namespace, err, text)
			continue
		}
		var variants struct {
			OneOf []struct {
				Properties struct{ Method struct{ Const string } }
			}
		}
		if err := json.Unmarshal(text, &variants); err != nil {
			t.Fatal(err)
		}
		if len(variants.OneOf) != len(m.Methods) {
			t.Fatalf("%s has %d methods and %d variants", m.Namespace, len(m.Methods), len(variants.OneOf))
		}
		for i, method := range m.Methods {
			total++
			if got := variants.OneOf[i].Properties.Method.Const; got != method {
				t.Errorf("variant %d of %s is of %s, not %s", i, m.Namespace, got, method)
			}
			route, _ := s.k.Registry().LookupMethod(m.Namespace + "_" + method)
			example, ok := schema.ExampleOf(route.Syscall.Input)
			if !ok {
				t.Errorf("%s has no example", route.Name())
				continue
			}
			if example[0] != '{' {
				continue
			}
			example = bytes.Replace(example, []byte(`"method":`), []byte(`"method_":`), 1)
			example = append([]byte(`{"method":"`+method+`",`), example[1:]...)
			example = bytes.Replace(example, []byte(",}"), []byte("}"), 1)
			if err := whole.Validate(example); err != nil {
				t.Errorf("%s does not accept %s: %v", route.Name(), example, err)
			}
		}
	}
	if total != list.Total {
		t.Errorf("%d methods are listed, and there are said to be %d", total, list.Total)
	}
	text, _ := s.moduleSchema(whole(s), "odd")
	for name, want := range map[string]int{`"ID":`: 1, `"ID2":`: 1, `"Place":`: 1} {
		if n := bytes.Count(text, []byte(name)); n != want {
			t.Errorf("%s stands %d times in %s", name, n, text)
		}
	}
}

// The hash, and with it every document, is the same whatever the order of modules and
// syscalls, and another one when something is another.
//
// Clauses: RPC-9.1-2 RPC-8.3-1
func TestDocumentsDoNotDependOnOrder(t *testing.T) {
	modules := []kernel.Module{odd(t), {Name: "more", Version: "1.0.0", Summary: "More.", Syscalls: []kernel.Syscall{
		raw("More.One", message.KindQuery, newGate().handle), raw("More.Two", message.KindQuery, newGate().handle), raw("Odd.Extra", message.KindQuery, newGate().handle),
	}}}
	made := func(modules []kernel.Module) *Service { return New(kerneltest.Of(t, nil, modules...), nil) }
	texts := func(s *Service) string {
		one, _ := s.moduleSchema(whole(s), "odd")
		two, _ := s.moduleSchema(whole(s), "more")
		return strings.Join([]string{s.view(principal.TheOwner()).Hash(), string(s.schema(whole(s))), string(one), string(two), string(discovered(s))}, "\n")
	}
	first := made(modules)
	want := texts(first)
	random := rand.New(rand.NewSource(1))
	for range 20 {
		shuffled := slices.Clone(modules)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range shuffled {
			shuffled[i].Syscalls = slices.Clone(shuffled[i].Syscalls)
			random.Shuffle(len(shuffled[i].Syscalls), func(a, b int) {
				list := shuffled[i].Syscalls
				list[a], list[b] = list[b], list[a]
			})
		}
		if got := texts(made(shuffled)); got != want {
			t.Fatal("another order gives other documents")
		}
	}
	hash := first.view(principal.TheOwner()).Hash()
	changed := slices.Clone(modules)
	changed[1].Version = "1.0.1"
	if made(changed).view(principal.TheOwner()).Hash() == hash {
		t.Error("another version has the same hash")
	}
	if err := first.k.Registry().AddSyscall(modules[1], raw("More.Three", message.KindQuery, newGate().handle)); err != nil {
		t.Fatal(err)
	}
	if first.view(principal.TheOwner()).Hash() == hash || !bytes.Contains(first.schema(whole(first)), []byte(`"three"`)) {
		t.Error("a new method changes nothing")
	}
	first.k.Registry().RemoveSyscall("More.Three")
	if first.view(principal.TheOwner()).Hash() != hash {
		t.Error("a method that is gone is still in the hash")
	}
}
