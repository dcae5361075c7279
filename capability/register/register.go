// Package register adds syscalls while the kernel runs, and decides which principal owns each name.
//
//	Syscall.Register    serve a syscall on this connection, or have the kernel run code
//	Syscall.Unregister  serve it no more
//
// With code, a registration is durable: package script keeps the code and runs it. Without, a
// connection serves the syscall.
//
// A program that has registered a type gets the requests of that type as messages on its
// connection, and answers each with any number of events and one reply or error whose
// metadata.causation is the id of the request. To callers it is a syscall like any other:
// the kernel validates what goes in and what comes out, keeps the deadline, and lists and
// describes it.
//
// Several connections may serve one type, if they agree on what it is; each request goes
// to the one with the fewest requests to answer. A registration ends with its connection; the
// name stays with its principal.
package register

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/script"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// Options are the settings of the module. The zero value is usable.
type Options struct {
	// PerConnection is how many types one connection may serve, and InAll how many types
	// all of them. 0 means 1,000 and 10,000.
	PerConnection, InAll int

	// SchemaBytes is how many bytes the schemas of all types may take when they are compiled, and
	// SchemaBytesEach those that one token has registered. 0 means 256 MB and 32 MB.
	SchemaBytes, SchemaBytesEach int64

	// Scripts keeps and runs code. Nil means that code is refused.
	Scripts *script.Scripts

	// Store keeps the owners of names. Nil keeps them while the process runs.
	Store store.Store

	// Find returns the principal of an id as it is now, or nil if it has ended. Nil means that none
	// ends.
	Find func(principal.ID) (*principal.Principal, error)
}

// The events about registrations.
const (
	Registered   message.Type = "Syscall.Registered"
	Unregistered message.Type = "Syscall.Unregistered"
)

// Module returns the module, which adds to the registry what connections serve. Nil
// options mean defaults.
func Module(r *kernel.Registry, opts *Options) kernel.Module {
	d := &directory{registry: r, begun: time.Now(), services: make(map[message.Type]*service), connections: make(map[uint64]*provider),
		claims: claims{of: make(map[message.Type]principal.Claim)}}
	if opts != nil {
		d.opts = *opts
	}
	d.claims.store, d.claims.find = d.opts.Store, d.opts.Find
	d.opts.PerConnection = cmp.Or(d.opts.PerConnection, 1_000)
	d.opts.InAll = cmp.Or(d.opts.InAll, 10_000)
	if d.opts.Scripts != nil {
		d.schemas = d.opts.Scripts.Schemas() // programs and scripts share one budget
	} else {
		d.schemas = kernel.NewBudget("registered schemas", cmp.Or(d.opts.SchemaBytes, 256<<20), cmp.Or(d.opts.SchemaBytesEach, 32<<20))
	}
	return kernel.Module{
		Name:     "register",
		Version:  "1.0.0",
		Summary:  "Syscalls that are added while the kernel runs: programs on connections serve them, or the kernel runs their code.",
		Domains:  []string{"Syscall", "Sys", "Service"},
		Syscalls: []kernel.Syscall{register.Bind(d.register), unregister.Bind(d.unregister)},
	}
}

// directory knows which connections serve which types. The registry has the same types.
type directory struct {
	registry *kernel.Registry
	opts     Options
	begun    time.Time
	schemas  *kernel.Budget

	mu          sync.Mutex // serialises changes
	services    map[message.Type]*service
	connections map[uint64]*provider // providers by the id of their peer
	claims      claims
}

var register = kernel.DefineCommand[registerInput, registerOutput](kernel.Definition{
	Type:    "Syscall.Register",
	Summary: "Make a new tool: add a syscall. With code in TypeScript or JavaScript, the kernel runs it and keeps it; without, this connection serves it until it ends: requests of that type arrive as messages, and replies name them in metadata.causation.",
	Input:   schema.Input[registerInput]().Example(`{"name":"Text.Count","kind":"query","description":"Count the words of a text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"outputSchema":{"type":"object","properties":{"words":{"type":"integer"}}},"code":"export const handler = ({text}) => ({words: text.split(/\\s+/).filter(Boolean).length});"}`),
	Emits: []kernel.EventDefinition{
		{Type: Registered, Summary: "A syscall was registered: {name, version} of code; {name, connections} if a connection serves it, where connections is how many serve it now."},
		script.AdoptedEvent,
	},
	Presentation: kernel.Presentation{
		Title: "Make a new tool",
		Words: "script, code, typescript, javascript, js, function, lambda, define a syscall, plugin, write a tool, own tool, custom tool, make a tool, " +
			"create a syscall, add a function, build my own tool, teach it something new, deploy code, publish a function, upload a script, " +
			"add my own command, run my own code, extend the kernel",
		Stdin: "code", Result: "Registered {name}",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the name is reserved or built in; or the caller may only register code, or only serve"},
			{Code: 409, When: "the name belongs to another caller, the definition differs from the one that is served, or the version has other code"},
			{Code: 422, When: "the code has an error, the wire carries no requests to its caller, or a schema can't be used"},
			{Code: 429, When: "the connection serves too many types, or the caller registers code too often"},
			{Code: 503, When: "connections serve too many types"},
		},
		Aliases: []message.Type{olderRegister},
	},
	Behavior: kernel.Behavior{
		Reaches: []kernel.Reach{kernel.ToCode},
		Timeout: 5 * time.Minute, // the first code in a home waits until the engine is compiled
	},
	Access: principal.ForHandlers,
})

// olderRegister is the name in the older dialect, whose reply has an introspection.
const olderRegister message.Type = "Sys.Register"

type registerOutput struct {
	Registered    bool           `json:"registered" jsonschema_description:"True: it can be called from now on. A failure is an error message."`
	Name          string         `json:"name" jsonschema_description:"The type."`
	Introspection *introspection `json:"introspection,omitzero" jsonschema_description:"In the older dialect: what the syscall is."`
}

// An introspection describes a syscall in the older dialect.
type introspection struct {
	Name   string         `json:"name" jsonschema_description:"The type."`
	Type   message.Kind   `json:"type" jsonschema_description:"command or query."`
	Input  jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the payload."`
	Output jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the response's payload."`
}

// registered returns the reply to a registration.
func (d *directory) registered(ctx context.Context, t message.Type) registerOutput {
	out := registerOutput{Registered: true, Name: string(t)}
	if s, ok := d.registry.Lookup(t); ok && kernel.RequestOf(ctx).Type == olderRegister {
		out.Introspection = &introspection{out.Name, s.Kind, jsontext.Value(s.Input.JSON()), jsontext.Value(s.Output.JSON())}
	}
	return out
}

func (d *directory) register(ctx context.Context, in registerInput) (registerOutput, error) {
	if in.Code != "" || in.CodeRef != nil {
		return d.registerCode(ctx, &in)
	}
	request := kernel.RequestOf(ctx)
	if request.Metadata.IdempotencyKey != "" {
		return registerOutput{}, message.Invalid("metadata.idempotencyKey", "a registration ends with its connection, and must not be answered from memory; send it without an idempotencyKey")
	}
	def, err := in.read(d.registry)
	if err != nil {
		return registerOutput{}, err
	}
	if err := kernel.PrincipalOf(ctx).Serves(def.Type); err != nil {
		return registerOutput{}, err
	}
	peer, ok := connection.PeerOf(ctx)
	if !ok {
		return registerOutput{}, message.Errorf(422, "%s can't be served: requests are sent over the connection that registers, and this call came over none that carries them; register over the unix socket, with kernos pipe or kernos handle, or over POST /v1/messages", def.Type)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.claims.load(); err != nil {
		return registerOutput{}, err
	}
	c, known := d.connections[peer.ID()]
	if !known {
		c = &provider{peer: peer, types: make(map[message.Type]message.Metadata)}
	}
	s := d.services[def.Type]
	caller := kernel.PrincipalOf(ctx)
	if err := d.checkHolder(caller, s, def); err != nil {
		return registerOutput{}, err
	}
	if err := d.admit(caller, c, s, def); err != nil {
		return registerOutput{}, err
	}
	if err := d.claims.set(def.Type, caller.Claim()); err != nil {
		return registerOutput{}, err
	}
	if !known && !peer.WhenGone(func() { d.leave(c) }) {
		return registerOutput{}, message.Errorf(422, "%s can't be served: the connection that registers it has ended", def.Type)
	}
	d.connections[peer.ID()] = c
	if s == nil {
		s = newService(def, d.begun)
		s.holder = caller
		if err := d.schemas.Take(caller, def.compiledSize()); err != nil {
			return registerOutput{}, err
		}
		s.join(c) // before it can be called
		if err := d.registry.AddSyscall(module(def), kernel.Syscall{Definition: def.Definition, Handler: s.handle, Provenance: kernel.Provenance{Provider: kernel.Program}}); err != nil {
			s.leave(c)
			d.schemas.Give(caller, def.compiledSize())
			return registerOutput{}, message.Errorf(409, "%s can't be registered: %v", def.Type, err)
		}
		d.services[def.Type] = s
	} else {
		s.join(c)
	}
	c.types[def.Type] = request.Metadata // the cause of the event at the end of the connection
	err = kernel.Publish(ctx, Registered, announcement(def.Type, s))
	return d.registered(ctx, def.Type), err
}

// Served reports whether a request registers a syscall that its connection serves.
func Served(m *message.Message) bool {
	o := jsonvalue.Members(m.Data)
	return (m.Type == register.Type || m.Type == olderRegister) && !o.Has("code") && !o.Has("codeRef")
}

// checkHolder returns why a principal may not serve a type: the type belongs to another principal, or one of the
// connections that serve it, or the new one, wants to be the only one. The owner takes over what no
// connection serves.
func (d *directory) checkHolder(caller *principal.Principal, s *service, def *definition) error {
	holder, held, err := d.claims.holder(def.Type)
	switch {
	case err != nil:
		return err
	case s == nil && (!held || caller.IsOwner()):
		return nil
	case holder.ID != caller.ID():
		return taken(def.Type, holder)
	case s != nil && (s.exclusive || def.exclusive):
		return message.Errorf(409, "%s is served by another connection of yours, and one of the two wants to be the only one (exclusive); end the other, or register both without exclusive", def.Type)
	}
	return nil
}

// admit returns why a connection may not serve a type; s is its current service, or nil.
func (d *directory) admit(caller *principal.Principal, c *provider, s *service, def *definition) error {
	if s == nil {
		if err := d.free(def.Type, def.Emits); err != nil {
			return err
		}
	} else if err := s.agrees(def); err != nil {
		return err
	}
	switch {
	case s != nil && s.servedBy(c):
		return message.Errorf(409, "%s is registered already on this connection; Syscall.Unregister takes it back", def.Type)
	case len(c.types) >= d.opts.PerConnection:
		return message.Errorf(429, "This connection serves %d types, and no more are allowed; use another connection", len(c.types))
	}
	if s != nil {
		return nil
	}
	if len(d.services) >= d.opts.InAll {
		return d.full()
	}
	return d.ensureSpace(caller, def.Type)
}

// ensureSpace makes sure that a caller can claim a name, or returns why it can't.
func (d *directory) ensureSpace(caller *principal.Principal, t message.Type) error {
	if _, claimed := d.claims.of[t]; claimed || len(d.claims.of) < d.opts.InAll {
		return nil
	}
	made, err := d.claims.evict(caller.ID(), d.served)
	if err == nil && !made {
		err = d.full()
	}
	return err
}

func (d *directory) full() error {
	return message.Errorf(503, "%d names are taken, and no more are; try again when some have gone", len(d.claims.of))
}

// served reports whether a type is registered.
func (d *directory) served(t message.Type) bool {
	if d.services[t] != nil {
		return true
	}
	s, ok := d.registry.Lookup(t)
	return ok && s.Provider == kernel.Code
}

// free returns why a type that isn't served can't be registered, with its events: built-in
// syscalls and their events can't be replaced.
func (d *directory) free(name message.Type, events []kernel.EventDefinition) error {
	if s, ok := d.registry.Lookup(name); ok {
		what := "built in"
		switch {
		case s.Provider == kernel.Code:
			return message.Errorf(409, "%s is code that the kernel runs; remove that first with Syscall.Unregister", name)
		case s.Provider == kernel.Program:
			return message.Errorf(409, "%s is served by a connection; that has to give it back first with Syscall.Unregister, or end", name)
		case s.Provider == kernel.Mounted:
			return message.Errorf(409, "%s is a tool of an MCP server; choose another name", name)
		case s.Type != name:
			what = fmt.Sprintf("another name for %s, which is built in", s.Type)
		}
		return message.Errorf(403, "%s is %s and can't be replaced; choose another name", name, what)
	}
	if t, ok := d.registry.LookupFold(string(name)); ok {
		return message.Errorf(409, "%s differs from %s in upper and lower case only, and some callers can't tell; choose another name", name, t)
	}
	return d.freeEvents(name, events)
}

// freeEvents returns why a type, or the events that it emits, can't be registered: they are events
// of what is built in.
func (d *directory) freeEvents(name message.Type, events []kernel.EventDefinition) error {
	if by, ok := d.registry.EmitterOf(name); ok {
		return message.Errorf(403, "%s is an event of %s, which is built in; choose another name", name, by)
	}
	for _, e := range events {
		if by, ok := d.registry.EmitterOf(e.Type); ok {
			return message.Errorf(403, "%s is an event of %s, which is built in; choose another name for yours", e.Type, by)
		}
	}
	return nil
}

// module returns what a type is listed under.
func module(d *definition) kernel.Module {
	t := d.Type
	return kernel.Module{Name: strings.ToLower(t.Domain()), Version: d.version, Summary: fmt.Sprintf("%s.*, served by connections.", t.Domain())}
}

// leave takes out everything that a connection served, when it ends.
func (d *directory) leave(c *provider) {
	for _, event := range d.forget(c) {
		c.peer.Publish(event)
	}
}

func (d *directory) forget(c *provider) (events []message.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	types := slices.Sorted(maps.Keys(c.types))
	for _, t := range types {
		cause := message.Message{Metadata: c.types[t]}
		s := d.services[t]
		s.leave(c)
		events = append(events, cause.Event(Unregistered, announcement(t, s)))
	}
	d.remove(c, types...)
	delete(d.connections, c.peer.ID())
	return events
}

// remove takes types away from a connection, and out of the registry if no other has them.
func (d *directory) remove(c *provider, types ...message.Type) {
	var last []message.Type
	for _, t := range types {
		delete(c.types, t)
		if s := d.services[t]; s.leave(c) == 0 {
			delete(d.services, t)
			d.schemas.Give(s.holder, s.compiledSize())
			last = append(last, t)
		}
	}
	d.registry.RemoveSyscall(last...)
}

// announcement returns the data of the events about registrations.
func announcement(t message.Type, s *service) []byte {
	text, _ := json.Marshal(struct { // never fails
		Name        message.Type `json:"name"`
		Connections int          `json:"connections"`
	}{t, len(s.all())})
	return text
}
