package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/schema"
)

// storage is the module of the specification's examples, and then some.
const storage = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"StorageMethods","oneOf":[
{"type":"object","description":"Create a new tree","properties":{"method":{"const":"tree_create"},
 "name":{"type":"string","description":"Name for the new tree","minLength":3},
 "depth":{"type":"integer","minimum":2,"default":4},
 "kind":{"enum":["oak","elm"]},
 "tags":{"type":"array","items":{"type":"string"}},
 "secret":{"type":"string","writeOnly":true},
 "owner":{"$ref":"#/$defs/Owner","description":"Whose it is"}},
 "required":["method","name","owner"],"additionalProperties":false},
{"type":"object","description":"Retrieve a tree","properties":{"method":{"const":"tree_get"},"tree":{"$ref":"#/$defs/TreeIdentifier"}},"required":["method","tree"]},
{"type":"object","description":"Walk","properties":{"method":{"const":"walk"},"node":{"$ref":"#/$defs/Node"}},"required":["method"]}],
"$defs":{"TreeIdentifier":{"oneOf":[{"type":"object","properties":{"id":{"type":"string","format":"uuid"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}]},
"Owner":{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"mail":{"type":["string","null"],"format":"email"}},"required":["id"]},
"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"},"label":{"type":"string"}}}}}`

// storageServer offers the module above, and more of it when its hash changes.
func storageServer(t testing.TB, hash *atomic.Value) *fakeServer {
	return newServer(t, func(s *session, c call) {
		h := hash.Load().(string)
		value := "null"
		switch c.Method {
		case methodHash:
			if h == "" {
				s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"out of order"}}`, c.ID)
				return
			}
			value = `{"hash":"` + h + `"}`
		case methodSchema:
			value = `{"modules":[{"namespace":"storage","version":"1.0.0","description":"Trees","methods":["tree_create","tree_get","walk"]},
				{"namespace":"../../up","version":"1","description":"","methods":["walk"]}],"total_methods":4}`
		case methodModuleSchema:
			value = storage
		}
		s.ack(c.ID, "1")
		s.item("1", `{"service_hash":"`+h+`","type":"data","provenance":[],"content_type":"x","data":`+value+`}`)
		s.item("1", `{"service_hash":"`+h+`","type":"done","provenance":[]}`)
	})
}

func hashOf(text string) *atomic.Value {
	v := new(atomic.Value)
	v.Store(text)
	return v
}

func discovered(t *testing.T, s *fakeServer, cache *Cache) *Catalog {
	t.Helper()
	c, err := Discover(testContext(t), s.dial(), cache)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiscoverAsksOnlyForWhatItDoesNotKnow(t *testing.T) {
	hash := hashOf("h1")
	s := storageServer(t, hash)
	cache := OpenCache(t.TempDir())
	for range 2 {
		if _, err := discovered(t, s, cache).Method(testContext(t), "storage", "walk"); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "calls", s.asked(), []string{methodHash, methodSchema, methodModuleSchema, methodHash})

	hash.Store("h2")
	discovered(t, s, cache)
	equal(t, "calls", s.asked()[4:], []string{methodHash, methodSchema})
	hash.Store("h1") // as it was
	discovered(t, s, cache)
	equal(t, "calls", s.asked()[6:], []string{methodHash})
	if latest, err := cache.Latest(s.target); err != nil || latest.Hash != "h1" {
		t.Errorf("the latest is %+v, %v", latest, err)
	}
}

// Clauses: RPC-4.1-1
func TestLiveInvalidation(t *testing.T) {
	hash := hashOf("h1")
	s := storageServer(t, hash)
	c := s.dial()
	catalog, err := Discover(testContext(t), c, OpenCache(t.TempDir()))
	if err != nil || catalog.outdated() {
		t.Fatal(catalog, err)
	}
	hash.Store("h2")
	if _, err := c.Call(testContext(t), "storage_walk"); err != nil {
		t.Fatal(err)
	}
	if !catalog.outdated() {
		t.Error("the catalog does not know that it is out of date")
	}
}

// What a catalog lacks is added from another one, which describes it.
func TestCatalogIsAddedToAnother(t *testing.T) {
	cache := OpenCache(t.TempDir())
	s := storageServer(t, hashOf("a"))
	old := discovered(t, s, cache)
	if _, err := old.Method(t.Context(), "storage", "walk"); err != nil {
		t.Fatal(err)
	}
	known, err := cache.Latest(s.dial().target)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ service, schemas, modules string }{
		{`{"modules":[{"namespace":"clock","version":"2.0.0","methods":["now"]}]}`, "", "../../up[walk] clock[now] storage[tree_create tree_get walk]"},
		{`{"modules":[{"namespace":"storage","version":"2.0.0","methods":["tree_get"]}]}`, storage, "../../up[walk] storage[tree_create tree_get walk]"},
	} {
		catalog, err := readCatalog("b", []byte(c.service))
		if err != nil {
			t.Fatal(err)
		}
		if c.schemas != "" {
			catalog.schemas["storage"] = []byte(c.schemas)
		}
		catalog.Add(known)
		var modules []string
		for _, m := range catalog.Modules {
			modules = append(modules, m.Namespace+fmt.Sprint(m.Methods))
		}
		if got := strings.Join(modules, " "); got != c.modules {
			t.Errorf("it lists %s", got)
		}
		for name, want := range map[string]string{"walk": "Walk", "tree_get": "Retrieve a tree"} {
			if m, err := catalog.Method(t.Context(), "storage", name); err != nil || m.Description != want {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		}
		if _, unknown := errors.AsType[*Unknown](func() error { _, err := catalog.Method(t.Context(), "storage", "fell"); return err }()); !unknown {
			t.Error("a method that neither lists is known")
		}
	}
}

// Clauses: RPC-4.3-1
func TestStaleCatalogSaysSo(t *testing.T) {
	hash := hashOf("")
	s := storageServer(t, hash)
	cache := OpenCache(t.TempDir())
	if _, err := Discover(testContext(t), s.dial(), cache); err == nil {
		t.Fatal("a catalog out of nothing")
	}
	hash.Store("h1")
	if catalog := discovered(t, s, cache); catalog.Stale != nil {
		t.Fatal(catalog.Stale)
	}
	hash.Store("")
	catalog := discovered(t, s, cache)
	if catalog.Stale == nil || catalog.Hash != "h1" || catalog.Module("storage") == nil {
		t.Errorf("got %+v", catalog)
	}
}

func TestCacheWithoutConnection(t *testing.T) {
	s := storageServer(t, hashOf("h1"))
	cache := OpenCache(t.TempDir())
	if _, err := discovered(t, s, cache).Method(testContext(t), "storage", "tree_get"); err != nil {
		t.Fatal(err)
	}
	catalog, err := cache.Latest(s.target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Method(testContext(t), "storage", "tree_get"); err != nil {
		t.Error(err)
	}
	if _, err := catalog.Method(testContext(t), "../../up", "walk"); err == nil {
		t.Error("a schema out of nothing")
	}
	other := s.target
	other.URL += "other"
	if _, err := cache.Latest(other); err == nil {
		t.Error("another server has the same cache")
	}
}

func TestCacheStaysInItsDirectory(t *testing.T) {
	root := t.TempDir()
	cache := OpenCache(filepath.Join(root, "a", "b", "cache"))
	s := storageServer(t, hashOf("../../../../evil"))
	catalog := discovered(t, s, cache)
	if _, err := catalog.Method(testContext(t), "../../up", "walk"); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(root)
	if len(entries) != 1 {
		t.Errorf("there are %v", entries)
	}
	found, _ := filepath.Glob(filepath.Join(root, "a", "b", "cache", "*", "*"))
	if len(found) != 1 {
		t.Errorf("the schema is in %v", found)
	}
}

func TestCacheIsShared(t *testing.T) {
	s := storageServer(t, hashOf("h1"))
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		c := s.dial()
		all.Go(func() {
			for range 5 {
				catalog, err := Discover(testContext(t), c, OpenCache(dir))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := catalog.Method(testContext(t), "storage", "tree_create"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if kept, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(kept) != 1 {
		t.Errorf("left over: %v", kept)
	}
}

func TestCacheKeepsFewStates(t *testing.T) {
	hash := hashOf("")
	s := storageServer(t, hash)
	cache := OpenCache(t.TempDir())
	for _, h := range []string{"a", "b", "c", "d", "e"} {
		hash.Store(h)
		discovered(t, s, cache)
	}
	if states := cache.read(s.target); len(states) != keptHashes || states[0].Hash != "e" {
		t.Errorf("kept are %v", states)
	}
}

func TestBrokenCacheIsNotBelieved(t *testing.T) {
	s := storageServer(t, hashOf("h1"))
	cache := OpenCache(t.TempDir())
	if _, err := discovered(t, s, cache).Method(testContext(t), "storage", "walk"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"[", `[{"Hash":"h1","Service":1}]`, `[{"Hash":"h1"}]`} {
		if err := os.WriteFile(filepath.Join(cache.directory(s.target), "catalog.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := discovered(t, s, cache).Method(testContext(t), "storage", "walk"); err != nil {
			t.Fatal(err)
		}
	}
}

func storageMethod(t testing.TB, name string) *Method {
	t.Helper()
	module := &Module{Namespace: "storage", Methods: []string{"tree_create", "tree_get", "walk"}}
	m, err := readMethod(module, name, json.RawMessage(storage))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMethodFields(t *testing.T) {
	m := storageMethod(t, "tree_create")
	if m.Call() != "storage_tree_create" || m.Description != "Create a new tree" {
		t.Errorf("got %q, %q", m.Call(), m.Description)
	}
	var names []string
	for _, f := range m.Fields {
		names = append(names, f.Name)
	}
	equal(t, "fields", names, []string{"name", "depth", "kind", "tags", "secret", "owner"})
	owner := m.Find("owner")
	if owner.Description != "Whose it is" || !owner.Required || owner.Scalar() != "object" {
		t.Errorf("the owner is %+v", owner)
	}
	if mail := m.Find("owner.mail"); mail == nil || mail.Format != "email" || mail.Scalar() != "string" || mail.Required {
		t.Errorf("the mail is %+v", mail)
	}
	if kind := m.Find("kind"); len(kind.Enum) != 2 {
		t.Errorf("the kind is %+v", kind)
	}
	if !m.Find("secret").Sensitive || m.Find("tags").Items.Scalar() != "string" || string(m.Find("depth").Default) != "4" {
		t.Error("a field is wrong")
	}
	if tree := storageMethod(t, "tree_get").Find("tree"); len(tree.Forms) != 2 || tree.Scalar() != "object" {
		t.Errorf("the tree is %+v", tree)
	}
	if label := storageMethod(t, "walk").Find("node.next"); label == nil {
		t.Error("a schema that contains itself has no fields")
	}
}

// Clauses: RPC-3.4-1
func TestMethodOutOfPlaceIsFoundByName(t *testing.T) {
	module := &Module{Namespace: "storage", Methods: []string{"walk", "tree_create"}}
	m, err := readMethod(module, "walk", json.RawMessage(storage))
	if err != nil || m.Description != "Walk" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := readMethod(module, "fly", json.RawMessage(storage)); err == nil {
		t.Error("a method out of nothing")
	}
}

func TestValidateBeforeSending(t *testing.T) {
	m := storageMethod(t, "tree_create")
	const owner = `"owner":{"id":"123e4567-e89b-12d3-a456-426614174000"}`
	if err := m.Validate(json.RawMessage(`{"name":"notes",` + owner + `}`)); err != nil {
		t.Error(err)
	}
	for params, want := range map[string]string{
		`{"name":"notes"}`:                                      "missing required field: owner",
		`{"name":"notes","owner":{"id":"x"}}`:                   "uuid",
		`{"name":"notes",` + owner + `,"nam":1}`:                "unknown field: nam",
		`{"method":"tree_create","name":"notes",` + owner + `}`: "unknown field: method",
		`{`: "not JSON",
	} {
		err := m.Validate(json.RawMessage(params))
		if _, ok := errors.AsType[*schema.Invalid](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
	}
}

func TestSchemaThatCannotBeUsedChecksNothing(t *testing.T) {
	module := &Module{Namespace: "m", Methods: []string{"x"}}
	m, err := readMethod(module, "x", json.RawMessage(`{"oneOf":[{"properties":{"method":{"const":"x"},"a":{"$ref":"https://example.org/a"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(json.RawMessage(`{"a":1}`)); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestExamplesAreValid(t *testing.T) {
	for name, want := range map[string]string{
		"tree_create": `{"name":"name","owner":{"id":"123e4567-e89b-12d3-a456-426614174000"}}`,
		"tree_get":    `{"tree":{"id":"123e4567-e89b-12d3-a456-426614174000"}}`,
		"walk":        `{}`,
	} {
		if got := storageMethod(t, name).Example(); string(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A schema may want one of several fields.
func TestExamplesOfForms(t *testing.T) {
	document := json.RawMessage(`{"oneOf":[{"type":"object","properties":{"method":{"const":"put"},"key":{"type":"string"},"value":{},"ref":{"type":"string"}},
		"required":["method","key"],"oneOf":[{"required":["value"]},{"required":["ref"]}]}]}`)
	m, err := readMethod(&Module{Namespace: "storage", Methods: []string{"put"}}, "put", document)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Example(); string(got) != `{"key":"key","value":"value"}` {
		t.Errorf("got %s", got)
	}
	if len(m.Forms) != 2 || len(m.Forms[1].Needs) != 1 || m.Forms[1].Needs[0] != "ref" {
		t.Errorf("the forms are %+v", m.Forms)
	}
}

func TestFindByAnyName(t *testing.T) {
	catalog := &Catalog{Modules: []Module{{Namespace: "storage", Methods: []string{"tree_create", "walk"}}, {Namespace: "kernel", Methods: []string{"ping", "walk"}}}}
	for _, name := range []string{"storage_tree_create", "Storage.TreeCreate", "storage.tree_create", "storage.tree-create"} {
		if module, method, ok := catalog.Find(name); !ok || module != "storage" || method != "tree_create" {
			t.Errorf("%s: %s, %s, %v", name, module, method, ok)
		}
	}
	// A method's own name isn't enough: another module may get one of that name.
	for _, name := range []string{"walk", "TreeCreate", "ping", "", "storage", "storage_"} {
		if module, method, ok := catalog.Find(name); ok {
			t.Errorf("%q is %s, %s", name, module, method)
		}
	}
}

func TestUnknownNamesHaveGuidance(t *testing.T) {
	catalog := &Catalog{Modules: []Module{{Namespace: "storage", Methods: []string{"tree_create", "tree_delete"}}}}
	for _, test := range []struct{ module, method, kind, action, suggested string }{
		{"storage", "tree_destory", MethodNotFound, CallModuleSchema, ""},
		{"storage", "tree_delet", MethodNotFound, TryMethod, "tree_delete"},
		{"storag", "tree_delete", ModuleNotFound, TryMethod, "storage.tree_delete"},
		{"storag", "x", ModuleNotFound, CallModuleSchema, ""},
		{"weather", "x", ModuleNotFound, CallServiceSchema, ""},
	} {
		_, err := catalog.Method(t.Context(), test.module, test.method)
		u, ok := errors.AsType[*Unknown](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		g := u.Guidance
		if g.ErrorKind != test.kind || (g.Action != test.action && !slices.Contains([]string{TryMethod}, g.Action)) || test.suggested != "" && g.SuggestedMethod != test.suggested {
			t.Errorf("%s %s: %+v", test.module, test.method, g)
		}
	}
}

// FuzzMethod shows that no schema of a server does harm, and that an example of a method is
// one that it takes.
func FuzzMethod(f *testing.F) {
	f.Add([]byte(storage), "tree_create")
	f.Add([]byte(`{"oneOf":[{"$ref":"#/oneOf/0"}]}`), "x")
	f.Add([]byte(`{"oneOf":[{"properties":{"method":{"const":"x"},"a":{"$ref":"#"}},"required":["a"]}]}`), "x")
	f.Add([]byte(`{"oneOf":[{"properties":{"method":{"const":"x"},"a":{"allOf":[{"$ref":"#/$defs/A"}]}}}],"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"array","minItems":2000000}]}}}`), "x")
	f.Fuzz(func(t *testing.T, document []byte, name string) {
		m, err := readMethod(&Module{Namespace: "m", Methods: []string{name}}, name, document)
		if err != nil {
			return
		}
		if text := m.Example(); text != nil && m.Validate(text) != nil {
			t.Fatalf("the example %s is not valid", text)
		}
		m.Find("a.b.c")
	})
}

// The schema of a module is read once: a module may have thousands of methods, and each is asked for.
func TestMethodsOfAModuleAreFoundInOneReadingOfItsSchema(t *testing.T) {
	const n = 2000
	module := Module{Namespace: "crowd"}
	text := []byte(`{"oneOf":[`)
	for i := range n {
		name := fmt.Sprintf("member%d", i)
		module.Methods = append(module.Methods, name)
		text = fmt.Appendf(text, `{"type":"object","properties":{"method":{"const":%q},"n":{"type":"number"}}},`, name)
	}
	text = append(bytes.TrimSuffix(text, []byte(",")), "]}"...)
	catalog := &Catalog{Modules: []Module{module}, schemas: map[string]json.RawMessage{"crowd": text}, documents: map[string]*document{}, methods: map[string]*Method{}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, name := range module.Methods {
		if m, err := catalog.Method(t.Context(), "crowd", name); err != nil || m.Find("n") == nil {
			t.Fatal(name, m, err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > uint64(len(text))/2 {
		t.Errorf("a method takes %d bytes, of a schema of %d", each, len(text))
	}
}

func readMethod(module *Module, name string, schema json.RawMessage) (*Method, error) {
	d, err := readDocument(module, schema)
	if err != nil {
		return nil, err
	}
	return d.method(name)
}
