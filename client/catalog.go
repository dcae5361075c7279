package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"kernos/internal/nearest"
)

// A Catalog is what a server offers, as far as it is known: the list of its methods, and
// their schemas as soon as a caller asks for one. It is safe for concurrent use.
type Catalog struct {
	Hash    string
	Modules []Module

	// Stale reports why the catalog could not be compared with the server, and may be out of
	// date; nil if it was. A program that shows the catalog shows this too.
	Stale error

	client *Client // nil if there is no connection
	cache  *Cache
	target Target

	service json.RawMessage     // the answer to service_schema
	added   map[string]*Catalog // where the methods are described that Add has added, by their full names

	mu        sync.Mutex
	schemas   map[string]json.RawMessage // by namespace
	documents map[string]*document       // the same, taken apart
	methods   map[string]*Method
}

func readCatalog(hash string, data json.RawMessage) (*Catalog, error) {
	var service struct {
		Modules []Module `json:"modules"`
	}
	if err := json.Unmarshal(data, &service); err != nil {
		return nil, &Broken{fmt.Sprintf("%s can't be read: %v", methodSchema, err)}
	}
	return &Catalog{Hash: hash, Modules: service.Modules, service: data,
		schemas: make(map[string]json.RawMessage), documents: make(map[string]*document), methods: make(map[string]*Method)}, nil
}

// cached returns what is kept of the catalog.
func (c *Catalog) cached() cached { return cached{c.Hash, c.service, c.schemas} }

// Add adds the methods of another catalog that this one doesn't list. It is called before the catalog is used.
func (c *Catalog) Add(other *Catalog) {
	c.added = make(map[string]*Catalog)
	for _, theirs := range other.Modules {
		mine := c.Module(theirs.Namespace)
		if mine == nil {
			c.Modules = append(c.Modules, Module{theirs.Namespace, theirs.Version, theirs.Description, nil})
			mine = &c.Modules[len(c.Modules)-1]
		}
		for _, method := range theirs.Methods {
			if !slices.Contains(mine.Methods, method) {
				mine.Methods = append(mine.Methods, method)
				c.added[theirs.Namespace+"_"+method] = other
			}
		}
		slices.Sort(mine.Methods)
	}
	slices.SortFunc(c.Modules, func(a, b Module) int { return strings.Compare(a.Namespace, b.Namespace) })
}

// outdated reports whether the server has meanwhile announced another hash of what it offers.
func (c *Catalog) outdated() bool {
	if c.client == nil {
		return false
	}
	now := c.client.Hash()
	return now != "" && now != c.Hash
}

// Module finds a module, or returns nil.
func (c *Catalog) Module(namespace string) *Module {
	for i := range c.Modules {
		if c.Modules[i].Namespace == namespace {
			return &c.Modules[i]
		}
	}
	return nil
}

// Method returns what is known about a method. It asks the server for the schema of the
// module, once, if the cache does not have it. The error is an *Unknown if the catalog
// doesn't list the method: a server may have it all the same, and not show it.
func (c *Catalog) Method(ctx context.Context, namespace, name string) (*Method, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := namespace + "_" + name
	if other := c.added[full]; other != nil {
		return other.Method(ctx, namespace, name)
	}
	if m := c.methods[full]; m != nil {
		return m, nil
	}
	document, err := c.document(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if _, listed := document.at[name]; !listed {
		return nil, c.unknown(namespace, name)
	}
	m, err := document.method(name)
	if err != nil {
		return nil, err
	}
	c.methods[full] = m
	return m, nil
}

// document returns the schema of a module. It fails with an *Unknown if the module doesn't exist, or if its schema can't
// be read and it doesn't list the method. The caller holds the lock.
func (c *Catalog) document(ctx context.Context, namespace, method string) (*document, error) {
	if known := c.documents[namespace]; known != nil {
		return known, nil
	}
	module := c.Module(namespace)
	if module == nil {
		return nil, c.unknown(namespace, method)
	}
	text, err := c.schema(ctx, namespace)
	if err != nil && !slices.Contains(module.Methods, method) {
		return nil, c.unknown(namespace, method)
	}
	if err != nil {
		return nil, err
	}
	d, err := readDocument(module, text)
	if err == nil {
		c.documents[namespace] = d
	}
	return d, err
}

// schema returns the schema of a module. The caller holds the lock.
func (c *Catalog) schema(ctx context.Context, namespace string) (json.RawMessage, error) {
	if known := c.schemas[namespace]; known != nil {
		return known, nil
	}
	if c.client == nil {
		return nil, fmt.Errorf("the schema of %s is not in the cache, and there is no connection to ask for it", namespace)
	}
	document, err := c.client.Call(ctx, methodModuleSchema, namespace)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s can't be had: %w", namespace, err)
	}
	c.schemas[namespace] = document
	if c.cache != nil && !c.outdated() {
		c.cache.keep(c.target, c.cached())
	}
	return document, nil
}

// Find splits a name into a module and a method, as the catalog has them. A name may be
// written in any of the ways that are in use: storage_tree_get, storage.tree_get,
// Storage.TreeGet. The name of a method alone means nothing: another module may get one of that name.
func (c *Catalog) Find(name string) (namespace, method string, ok bool) {
	wanted := Fold(name)
	for _, m := range c.Modules {
		for _, one := range m.Methods {
			if wanted == Fold(m.Namespace+one) {
				return m.Namespace, one, true
			}
		}
	}
	return "", "", false
}

// Fold makes all ways to write a name the same.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// An Unknown is the error of a name that the catalog does not list.
type Unknown struct {
	Module, Method string
	Guidance       *Guidance // the same that a server would give
}

func (e *Unknown) Error() string {
	if e.Guidance.ErrorKind == ModuleNotFound {
		return "Module not found: " + e.Module
	}
	return "Method not found: " + e.Method
}

func (c *Catalog) unknown(namespace, name string) *Unknown {
	g := &Guidance{ErrorKind: ModuleNotFound, Module: namespace, Action: CallServiceSchema}
	if m := c.Module(namespace); m != nil {
		g.ErrorKind, g.Method, g.AvailableMethods = MethodNotFound, name, m.Methods
		g.Action, g.Namespace = CallModuleSchema, namespace
		near := nearest.Names(name, m.Methods)
		if d := c.documents[namespace]; d != nil {
			near = append(d.called(name), near...)
		}
		if len(near) > 0 {
			g.Action, g.SuggestedMethod, g.Namespace = TryMethod, near[0], ""
		}
		return &Unknown{namespace, name, g}
	}
	names := make([]string, len(c.Modules))
	for i := range c.Modules {
		names[i] = c.Modules[i].Namespace
	}
	if near := nearest.Names(namespace, names); len(near) > 0 {
		m := c.Module(near[0])
		g.AvailableMethods = m.Methods
		g.Action, g.Namespace = CallModuleSchema, near[0]
		if slices.Contains(m.Methods, name) {
			g.Action, g.SuggestedMethod, g.Namespace = TryMethod, near[0]+"."+name, ""
		}
	}
	return &Unknown{namespace, name, g}
}
