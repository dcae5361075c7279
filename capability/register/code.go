package register

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"kernos/capability/script"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
)

// registerCode registers code. It is compiled before names are looked at: that takes a while, and
// other registrations don't wait for it.
func (d *directory) registerCode(ctx context.Context, in *registerInput) (out registerOutput, err error) {
	t := message.Type(in.Name)
	if err := checkName(d.registry, "name", t); err != nil {
		return out, err
	}
	author := kernel.PrincipalOf(ctx)
	if refusal := author.RegistersCode(t); refusal != nil {
		return out, refusal
	}
	events, err := in.events(d.registry)
	if err != nil {
		return out, err
	}
	switch {
	case d.opts.Scripts == nil:
		return out, message.Errorf(501, "This kernel runs no code: leave code out, register %s with \"handler\":\"connection\", and answer its requests on this connection", t)
	case in.Handler != "" || in.Exclusive:
		return out, message.Invalid("handler", "handler and exclusive are those of a connection that serves the syscall; leave them out, or code")
	}
	limits := in.Limits
	limits.Time = cmp.Or(limits.Time, in.Timeout)
	prepared, err := d.opts.Scripts.Prepare(ctx, author, script.Source{
		Name: t, Kind: in.kind(), Input: in.InputSchema, Output: in.outputSchema(), Description: in.Description, Version: in.Version,
		Code: in.Code, CodeRef: in.CodeRef, Language: in.Language, Emits: in.Emits, Limits: limits, SafeToRepeat: in.SafeToRepeat, Weights: in.Weights,
		Presentation: in.Presentation,
	})
	if err != nil {
		return out, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.claims.load(); err != nil {
		return out, err
	}
	if err := d.claimCode(author, t, events); err != nil {
		return out, err
	}
	r, err := d.opts.Scripts.Register(ctx, author, prepared)
	if err == nil {
		err = d.claims.set(t, author.Claim())
	}
	if err == nil {
		err = r.Commit.Wait(ctx)
	}
	if err == nil && r.Adopted {
		err = kernel.Publish(ctx, script.Adopted, script.Announcement(t, r.Version))
	}
	if err != nil {
		return out, err
	}
	return d.registered(ctx, t), kernel.Publish(ctx, Registered, script.Announcement(t, r.Version))
}

// claimCode returns why a principal may not register code under a name.
func (d *directory) claimCode(author *principal.Principal, t message.Type, events []kernel.EventDefinition) error {
	holder, held, err := d.claims.holder(t)
	if err != nil {
		return err
	}
	exists, err := d.opts.Scripts.Has(t)
	if err != nil {
		return err
	}
	switch {
	case held && holder.ID != author.ID() && (exists || !author.IsOwner()):
		return taken(t, holder)
	case exists:
		return d.freeEvents(t, events)
	}
	if err := d.free(t, events); err != nil {
		return err
	}
	return d.ensureSpace(author, t)
}

type unregisterInput struct {
	Name string `json:"name" jsonschema_description:"The type that this connection stops serving, or whose code is removed. Calls that have begun are finished."`
}

type unregisterOutput struct {
	Unregistered bool `json:"unregistered" jsonschema_description:"False if this connection did not serve it, and it isn't code."`
}

var unregister = kernel.DefineCommand[unregisterInput, unregisterOutput](kernel.Definition{
	Type:    "Syscall.Unregister",
	Summary: "Stop serving a syscall on this connection, or remove the code of one, with all its versions.",
	Emits:   []kernel.EventDefinition{{Type: Unregistered, Summary: "A connection has stopped serving a syscall: {name, connections}; connections is how many still serve it. Or its code was removed: {name}."}},
	Presentation: kernel.Presentation{
		Title: "Remove a syscall of your own",
		Words: "delete code, uninstall, stop serving, get rid of my tool, delete a tool, delete a function, remove a script, drop a custom tool, " +
			"take a tool down, don't need my tool any more, undeploy, remove my code",
		Result:  "Removed {request.name}{?unregistered}",
		Failure: "nothing was removed: no code is registered under this name; kernos ls lists the syscalls{!unregistered}",
		Errors:  []kernel.ErrorDefinition{{Code: 403, When: "the code belongs to another caller"}},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToCode}, Destroys: true, Repeat: kernel.Idempotent},
	Access:   principal.ForHandlers,
})

func (d *directory) unregister(ctx context.Context, in unregisterInput) (unregisterOutput, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := message.Type(in.Name)
	if s := d.services[t]; s != nil {
		return d.withdraw(ctx, t, s)
	}
	if d.opts.Scripts == nil {
		return unregisterOutput{}, nil
	}
	removed, commit, err := d.opts.Scripts.Unregister(kernel.PrincipalOf(ctx), t)
	if err != nil || !removed {
		return unregisterOutput{}, err
	}
	if err := d.claims.load(); err != nil {
		return unregisterOutput{}, err
	}
	if err := errors.Join(d.claims.drop(t), commit.Wait(ctx)); err != nil {
		return unregisterOutput{}, err
	}
	data, _ := json.Marshal(map[string]message.Type{"name": t}) // never fails
	return unregisterOutput{Unregistered: true}, kernel.Publish(ctx, Unregistered, data)
}

// withdraw takes a type away from the connection that the call came over.
func (d *directory) withdraw(ctx context.Context, t message.Type, s *service) (unregisterOutput, error) {
	peer, ok := connection.PeerOf(ctx)
	if !ok {
		return unregisterOutput{}, nil
	}
	c := d.connections[peer.ID()]
	if c == nil || !s.servedBy(c) {
		return unregisterOutput{}, nil
	}
	if len(s.all()) == 1 {
		if err := d.claims.drop(t); err != nil {
			return unregisterOutput{}, err
		}
	}
	d.remove(c, t)
	return unregisterOutput{Unregistered: true}, kernel.Publish(ctx, Unregistered, announcement(t, s))
}
