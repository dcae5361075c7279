package kernel_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

func TestRegistryListsSyscallsSortedAndWithoutAliases(t *testing.T) {
	s := kerneltest.Echo("Zoo.Get")
	s.Aliases = []message.Type{"Animal.Get", "Beast.Get"}
	r, err := kernel.NewRegistry(kerneltest.Module("zoo", s, kerneltest.Echo("Zoo.Add")), kerneltest.Module("ant", kerneltest.Echo("Ant.Get")))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.All().Types(); !slices.Equal(got, []message.Type{"Ant.Get", "Zoo.Add", "Zoo.Get"}) {
		t.Errorf("got %v", got)
	}
	if got := r.All().Modules(); len(got) != 2 || got[0].Name != "ant" || got[1].Name != "zoo" {
		t.Errorf("got %v", got)
	}
	for _, name := range []message.Type{"Zoo.Get", "Animal.Get", "Beast.Get"} {
		if found, ok := r.Lookup(name); !ok || found.Type != "Zoo.Get" {
			t.Errorf("%s: got %v, %v", name, found, ok)
		}
	}
	if _, ok := r.Lookup("Zoo.Nothing"); ok {
		t.Error("Zoo.Nothing is there")
	}
	events, got := kerneltest.Exchange(kernel.New(r, nil), kerneltest.Query("1", "Animal.Get", `7`))
	if got.Type != "Animal.Get" || len(events) != 1 || events[0].Type != kernel.DeprecatedEvent {
		t.Errorf("an alias is answered as %s, after %v", got.Type, events)
	}
}

func TestRegistryRefusesWhatIsTaken(t *testing.T) {
	s := kerneltest.Echo("Zoo.Get")
	s.Aliases = []message.Type{"Animal.Get"}
	aliased := func(t message.Type, aliases ...message.Type) kernel.Syscall {
		s := kerneltest.Echo(t)
		s.Aliases = aliases
		return s
	}
	for _, c := range []struct {
		name   string
		module kernel.Module
		want   string
	}{
		{"the name of a module", kerneltest.Module("zoo", kerneltest.Echo("Other.Get")), `module "zoo": there is a module of this name`},
		{"a type", kerneltest.Module("other", kerneltest.Echo("Zoo.Get")), `module "other": Zoo.Get is registered already`},
		{"an alias as a type", kerneltest.Module("other", kerneltest.Echo("Animal.Get")), `module "other": Animal.Get is registered already`},
		{"a type as an alias", kerneltest.Module("other", aliased("Other.Get", "Zoo.Get")), `module "other": Zoo.Get is registered already`},
		{"an alias as an alias", kerneltest.Module("other", aliased("Other.Get", "Animal.Get")), `module "other": Animal.Get is registered already`},
		{"a type twice in one module", kerneltest.Module("other", kerneltest.Echo("Other.Get"), kerneltest.Echo("Other.Get")), `module "other": Other.Get is registered already`},
		{"its own type as an alias", kerneltest.Module("other", aliased("Other.Get", "Other.Get")), `module "other": Other.Get is registered already`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := kernel.NewRegistry(kerneltest.Module("zoo", s))
			if err != nil {
				t.Fatal(err)
			}
			before := r.All().Hash()
			if err := r.Add(c.module); err == nil || err.Error() != c.want {
				t.Errorf("got %v", err)
			}
			if r.All().Hash() != before || len(r.All().Types()) != 1 || len(r.All().Modules()) != 1 {
				t.Error("the registry has changed")
			}
			if _, ok := r.Lookup("Other.Get"); ok {
				t.Error("half of the module is there")
			}
		})
	}
}

type chain struct{ Next *chain }

func TestRegistryRefusesWhatIsNotComplete(t *testing.T) {
	change := func(f func(*kernel.Module)) kernel.Module {
		m := kerneltest.Module("zoo", kerneltest.Echo("Zoo.Get"))
		f(&m)
		return m
	}
	event := func(name message.Type) func(*kernel.Module) {
		return func(m *kernel.Module) { m.Syscalls[0].Emits = []kernel.EventDefinition{{Type: name}} }
	}
	for _, c := range []struct {
		name   string
		change func(*kernel.Module)
		want   string
	}{
		{"no name", func(m *kernel.Module) { m.Name = "" }, "lower case"},
		{"a name in upper case", func(m *kernel.Module) { m.Name = "Zoo" }, "lower case"},
		{"no version", func(m *kernel.Module) { m.Version = "" }, "needs a version"},
		{"no summary of the module", func(m *kernel.Module) { m.Summary = "" }, "and a summary"},
		{"no kind", func(m *kernel.Module) { m.Syscalls[0].Kind = "" }, "kind must be"},
		{"the kind event", func(m *kernel.Module) { m.Syscalls[0].Kind = message.KindEvent }, "kind must be"},
		{"no summary", func(m *kernel.Module) { m.Syscalls[0].Summary = "" }, "needs a summary"},
		{"no handler", func(m *kernel.Module) { m.Syscalls[0].Handler = nil }, "needs a handler"},
		{"no input", func(m *kernel.Module) { m.Syscalls[0].Input = nil }, "needs the schemas"},
		{"no output", func(m *kernel.Module) { m.Syscalls[0].Output = nil }, "needs the schemas"},
		{"an invalid type", func(m *kernel.Module) { m.Syscalls[0].Type = "zoo.get" }, "PascalCase"},
		{"an invalid alias", func(m *kernel.Module) { m.Syscalls[0].Aliases = []message.Type{"Zoo"} }, "PascalCase"},
		{"an event that is no type", event("zooOpened"), "PascalCase"},
		{"an input that contains itself", func(m *kernel.Module) { m.Syscalls[0].Input = schema.Input[chain]() }, "contains itself"},
		{"an output without a form in JSON", func(m *kernel.Module) { m.Syscalls[0].Output = schema.Output[time.Duration]() }, "milliseconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := kernel.NewRegistry(change(c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, name := range []message.Type{"Job.Completed", "Message.Sent", "File.Written", "Key.Lost", "Lock.Held"} {
		if _, err := kernel.NewRegistry(change(event(name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegistryRemovesModules(t *testing.T) {
	k := kerneltest.Of(t, nil, kerneltest.Module("ant", kerneltest.Echo("Ant.Get")), kerneltest.Module("zoo", kerneltest.Echo("Zoo.Get")))
	r := k.Registry()
	if r.RemoveSyscall("Bee.Get") != 0 {
		t.Error("what was not there is removed")
	}
	if r.RemoveSyscall("Zoo.Get") != 1 || r.RemoveSyscall("Zoo.Get") != 0 {
		t.Error("a module is removed once")
	}
	if code, _ := kerneltest.Failure(t, k, kerneltest.Query("1", "Zoo.Get", `1`)); code != 404 {
		t.Errorf("got %d", code)
	}
	if kerneltest.Answer(t, k, kerneltest.Query("2", "Ant.Get", `1`)).Kind != message.KindReply {
		t.Error("the other module is gone too")
	}
	if err := r.Add(kerneltest.Module("zoo", kerneltest.Echo("Zoo.Get"))); err != nil {
		t.Errorf("it can't come back: %v", err)
	}
}

func TestRegistryChangesWhileCallsRun(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	k := kerneltest.Of(t, nil,
		kerneltest.Module("ant", kerneltest.Echo("Ant.Get")),
		kerneltest.Module("zoo", kerneltest.Raw("Zoo.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
			close(started)
			<-release
			emit(m.Reply(m.Data))
		})),
	)
	r := k.Registry()
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := kerneltest.Ask(k, kerneltest.Query("1", "Zoo.Wait", `1`)); len(got) != 1 || got[0].Kind != message.KindReply {
			t.Errorf("a call that had begun got %s", kerneltest.Texts(got))
		}
	})
	<-started
	r.RemoveSyscall("Zoo.Wait")
	close(release)
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("extra%d", i)
			t2 := message.Type(fmt.Sprintf("Extra%d.Get", i))
			for range 50 {
				if err := r.Add(kerneltest.Module(name, kerneltest.Echo(t2))); err != nil {
					t.Error(err)
				}
				if got := kerneltest.Ask(k, kerneltest.Query("2", t2, `1`)); len(got) != 1 || got[0].Kind != message.KindReply {
					t.Errorf("got %s", kerneltest.Texts(got))
				}
				_, _ = r.All().Hash(), r.All().Types()
				if got := kerneltest.Ask(k, kerneltest.Query("3", "Ant.Get", `1`)); len(got) != 1 || got[0].Kind != message.KindReply {
					t.Errorf("got %s", kerneltest.Texts(got))
				}
				if r.RemoveSyscall(t2) != 1 {
					t.Error("it was not there")
				}
			}
		})
	}
	wg.Wait()
}

func TestHashIsTheSameForTheSameModules(t *testing.T) {
	build := func(order ...int) string {
		modules := []kernel.Module{
			kerneltest.Module("ant", kerneltest.Echo("Ant.Get"), kerneltest.Echo("Ant.Add")),
			kerneltest.Module("bee", kerneltest.Echo("Bee.Get")),
			kerneltest.Module("zoo", kerneltest.Echo("Zoo.Get")),
		}
		r, err := kernel.NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range order {
			if err := r.Add(modules[i]); err != nil {
				t.Fatal(err)
			}
		}
		return r.All().Hash()
	}
	first := build(0, 1, 2)
	if len(first) != 16 {
		t.Errorf("got %q", first)
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		if got := build(order...); got != first {
			t.Errorf("in the order %v it is %s, not %s", order, got, first)
		}
	}
	r, _ := kernel.NewRegistry(kerneltest.Module("zoo", kerneltest.Echo("Zoo.Get"), kerneltest.Echo("Zoo.Add")))
	s, _ := kernel.NewRegistry(kerneltest.Module("zoo", kerneltest.Echo("Zoo.Add"), kerneltest.Echo("Zoo.Get")))
	if r.All().Hash() != s.All().Hash() {
		t.Error("the order of syscalls counts")
	}
	before := r.All().Hash()
	if err := r.Add(kerneltest.Module("ant", kerneltest.Echo("Ant.Get"))); err != nil {
		t.Fatal(err)
	}
	if r.All().Hash() == before {
		t.Error("a module more makes no difference")
	}
	r.RemoveSyscall("Ant.Get")
	if r.All().Hash() != before {
		t.Error("a module that came and went makes a difference")
	}
}

func TestHashChangesWithWhatACallerCanSee(t *testing.T) {
	type in struct {
		A string `json:"a" jsonschema_description:"An a."`
	}
	type other struct {
		A string `json:"a" jsonschema_description:"The a."`
	}
	changes := map[string]func(*kernel.Module){
		"nothing":               func(*kernel.Module) {},
		"the name":              func(m *kernel.Module) { m.Name = "zoos" },
		"the version":           func(m *kernel.Module) { m.Version = "1.0.1" },
		"the summary":           func(m *kernel.Module) { m.Summary = "Other." },
		"a syscall more":        func(m *kernel.Module) { m.Syscalls = append(m.Syscalls, kerneltest.Echo("Zoo.More")) },
		"a syscall less":        func(m *kernel.Module) { m.Syscalls = m.Syscalls[:1] },
		"a syscall's name":      func(m *kernel.Module) { m.Syscalls[1].Type = "Zoo.Gets" },
		"a syscall's summary":   func(m *kernel.Module) { m.Syscalls[1].Summary = "Other." },
		"a syscall's kind":      func(m *kernel.Module) { m.Syscalls[1].Kind = message.KindCommand },
		"a field's description": func(m *kernel.Module) { m.Syscalls[1].Input = schema.Input[other]() },
		"an output":             func(m *kernel.Module) { m.Syscalls[1].Output = schema.Output[in]() },
		"an alias":              func(m *kernel.Module) { m.Syscalls[1].Aliases = []message.Type{"Beast.Get"} },
		"an event": func(m *kernel.Module) {
			m.Syscalls[1].Emits = []kernel.EventDefinition{{Type: "Zoo.Opened", Summary: "It opened."}}
		},
		"an event's summary": func(m *kernel.Module) {
			m.Syscalls[1].Emits = []kernel.EventDefinition{{Type: "Zoo.Opened", Summary: "It is open."}}
		},
		"text across two fields": func(m *kernel.Module) { m.Version, m.Summary = `1.0.0","A`, `module of a test.` },
	}
	seen := make(map[string]string)
	for name, change := range changes {
		m := kerneltest.Module("zoo", kerneltest.Echo("Zoo.Add"), kerneltest.Echo("Zoo.Get"))
		m.Syscalls[1].Input = schema.Input[in]()
		change(&m)
		r, err := kernel.NewRegistry(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if same, ok := seen[r.All().Hash()]; ok {
			t.Errorf("%s and %s have the same hash", name, same)
		}
		seen[r.All().Hash()] = name
	}
}

// Lists of different meaning must not run into each other.
func TestHashTellsEventsFromAliases(t *testing.T) {
	hash := func(s kernel.Syscall) string {
		r, err := kernel.NewRegistry(kerneltest.Module("a", s))
		if err != nil {
			t.Fatal(err)
		}
		return r.All().Hash()
	}
	emits, aliases, turned := kerneltest.Echo("A.B"), kerneltest.Echo("A.B"), kerneltest.Echo("A.B")
	emits.Emits = []kernel.EventDefinition{{Type: "A.Done", Summary: "B.Set"}}
	aliases.Aliases = []message.Type{"A.Done", "B.Set"}
	turned.Aliases = []message.Type{"B.Set", "A.Done"}
	if hash(emits) == hash(aliases) {
		t.Error("an event and its summary hash like two aliases")
	}
	if hash(aliases) != hash(turned) {
		t.Error("the order of aliases changes the hash")
	}
}

func TestHiddenSyscallsAreCalledAndNotListed(t *testing.T) {
	hidden := kerneltest.Echo("Test.Hidden")
	hidden.Visibility = kernel.Hidden
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), hidden)
	if got := k.Registry().All().Types(); !slices.Equal(got, []message.Type{"Test.Echo"}) {
		t.Errorf("listed are %v", got)
	}
	if a := kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Hidden", `1`)); string(a.Data) != "1" {
		t.Errorf("got %s", a.Data)
	}
	if k.Registry().All().Hash() != kerneltest.New(t, nil, kerneltest.Echo("Test.Echo")).Registry().All().Hash() {
		t.Error("what is hidden shows in the hash")
	}
}

// crowd returns a registry with n syscalls that were added to it.
func crowd(t testing.TB, n int) *kernel.Registry {
	r, err := kernel.NewRegistry(kerneltest.Module("ant", kerneltest.Echo("Ant.Get")))
	if err != nil {
		t.Fatal(err)
	}
	all := make([]kernel.Addition, n)
	for i := range all {
		all[i] = kernel.Addition{Module: kerneltest.Module("crowd"), Syscall: kerneltest.Echo(message.Type(fmt.Sprintf("Crowd.Member%d", i)))}
	}
	if _, err := r.Change(nil, all...); err != nil {
		t.Fatal(err)
	}
	return r
}

// One more syscall doesn't copy those that are there: that would be megabytes.
func TestRegistryWithManySyscallsTakesOneMore(t *testing.T) {
	r := crowd(t, 10_000)
	const rounds = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		if err := r.AddSyscall(kerneltest.Module("crowd"), kerneltest.Echo("Crowd.Other")); err != nil {
			t.Fatal(err)
		}
		if r.RemoveSyscall("Crowd.Other") != 1 {
			t.Fatal("it wasn't there")
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > 300_000 {
		t.Errorf("adding one of 10,000 syscalls and removing it takes %d bytes", n)
	}
	if n := len(r.All().Types()); n != 10_001 {
		t.Errorf("%d are left", n)
	}
}

func BenchmarkAddSyscall(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		r := crowd(b, n)
		b.Run(fmt.Sprintf("beside %d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := r.AddSyscall(kerneltest.Module("crowd"), kerneltest.Echo(message.Type(fmt.Sprintf("Crowd.Other%d", i)))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		r := crowd(b, n)
		b.Run(fmt.Sprintf("of %d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := r.Lookup("Crowd.Member7"); !ok {
					b.Fatal("it isn't there")
				}
			}
		})
	}
}
