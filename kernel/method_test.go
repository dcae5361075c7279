package kernel_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// Clauses: RPC-1.3-1
func TestMethodNamesOfTypes(t *testing.T) {
	for typ, want := range map[message.Type]string{
		"Content.Hydrate": "content hydrate", "Job.TreeCreate": "job tree_create", "VFS.Read": "vfs read",
		"Ping": "kernel ping", "Echo": "kernel echo", "Kernel.Status": "kernel status",
		"Web.GetURL": "web get_url", "Web.URLOf": "web url_of", "Module.Method1": "module method1", "Hash.Sha256Sum": "hash sha256_sum",
		"FileSystem.A": "filesystem a",
	} {
		namespace, method := kernel.Method(typ)
		if got := namespace + " " + method; got != want {
			t.Errorf("%s: got %s, want %s", typ, got, want)
		}
	}
}

// Clauses: RPC-1.3-1
func TestTwoTypesOfOneMethodAreRefused(t *testing.T) {
	r, err := kernel.NewRegistry(kerneltest.Module("web", kerneltest.Echo("Web.GetURL")))
	if err != nil {
		t.Fatal(err)
	}
	alias := kerneltest.Echo("Web.Other")
	alias.Aliases = []message.Type{"WEB.GetUrl"}
	for name, syscalls := range map[string][]kernel.Syscall{"of another module": {kerneltest.Echo("Web.GetUrl")}, "of one module": {kerneltest.Echo("Net.GetURL"), kerneltest.Echo("Net.GetUrl")}, "by an alias": {alias}} {
		err := r.Add(kerneltest.Module("more", syscalls...))
		if err == nil || !strings.Contains(err.Error(), "would both be called") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMethodsAreFoundAndListed(t *testing.T) {
	hidden, aliased := kerneltest.Echo("Store.Wipe"), kerneltest.Echo("Store.TreeGet")
	hidden.Visibility = kernel.Hidden
	aliased.Aliases = []message.Type{"Tree.Get"}
	r, err := kernel.NewRegistry(
		kernel.Module{Name: "zoo", Version: "2.0.0", Summary: "A zoo.", Syscalls: []kernel.Syscall{kerneltest.Echo("Store.Visit"), kerneltest.Echo("Zoo.Visit")}},
		kernel.Module{Name: "store", Version: "1.0.0", Summary: "A store.", Syscalls: []kernel.Syscall{hidden, aliased, kerneltest.Echo("Store.Add")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]message.Type{"store_wipe": "Store.Wipe", "store_tree_get": "Store.TreeGet", "tree_get": "Tree.Get", "zoo_visit": "Zoo.Visit"} {
		route, ok := r.LookupMethod(name)
		if !ok || route.Type != want || route.Name() != name {
			t.Errorf("%s: got %+v", name, route)
		}
	}
	if route, _ := r.LookupMethod("tree_get"); route.Syscall.Type != "Store.TreeGet" {
		t.Errorf("an alias leads to %s", route.Syscall.Type)
	}
	if _, ok := r.LookupMethod("store_treeget"); ok {
		t.Error("an invalid name was found")
	}
	var lines []string
	for _, n := range r.All().Namespaces() {
		line := n.Name + " " + n.Version + ":"
		for _, m := range n.Methods {
			line += " " + m.Method
		}
		lines = append(lines, line)
	}
	if want := []string{"store 1.0.0: add tree_get visit", "zoo 2.0.0: visit"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if _, ok := r.All().LookupNamespace("tree"); ok {
		t.Error("a namespace of aliases is listed")
	}
	r.RemoveSyscall("Zoo.Visit")
	if _, ok := r.LookupMethod("zoo_visit"); ok {
		t.Error("a method that is gone was found")
	}
}

// An event says which nested calls it came through.
func TestEventsKnowWhatTheyCameThrough(t *testing.T) {
	nested := func(typ, next message.Type) kernel.Syscall {
		return kerneltest.Raw(typ, func(ctx context.Context, m message.Message, emit kernel.Emit) {
			kernel.NewStream(&m, emit).Progress(string(typ), 0)
			if next != "" {
				if _, err := kernel.Invoke(ctx, next, nil); err != nil {
					kernel.Fail(ctx, m, emit, err)
					return
				}
			}
			emit(m.Reply(nil))
		})
	}
	k := kerneltest.New(t, nil, nested("A.One", "B.Two"), nested("B.Two", "C.Three"), nested("C.Three", ""))
	m := message.Message{Kind: message.KindQuery, Type: "A.One", Metadata: message.Metadata{ID: "a", Timestamp: 1}}
	var via [][]message.Type
	k.Handle(t.Context(), m, func(m message.Message) {
		var types []message.Type
		for v := m.Via; v != nil; v = v.Within {
			types = append(types, v.Type)
		}
		via = append(via, types)
	})
	want := [][]message.Type{nil, {"B.Two"}, {"B.Two", "C.Three"}, nil}
	if !slices.EqualFunc(via, want, func(a, b []message.Type) bool { return slices.Equal(a, b) }) {
		t.Errorf("got %v, want %v", via, want)
	}
}
