package vfs

import (
	"context"

	"kernos/kernel"
	"kernos/message"
)

// landingKey is the key of what [Landing] returns in a context.
type landingKey struct{}

// Landing returns what decides about the names that links lead to, or nil if the caller of ctx reaches all of them. A
// driver that follows links, or is sent elsewhere, calls it with the name of what it has opened, if that isn't the name
// that it was asked for, and before it reads, lists or changes anything. The error is for the caller.
//
// The tree has decided about the name that was asked for. It can't decide about the other one: a link may lead
// elsewhere by the time that a file is opened.
func Landing(ctx context.Context) func(name string) error {
	admit, _ := ctx.Value(landingKey{}).(func(string) error)
	return admit
}

// follow returns the context with which a driver reads, or changes, what a URI means: see [Landing].
func (at *resolved) follow(ctx context.Context, write bool) context.Context {
	caller := kernel.PrincipalOf(ctx)
	if !caller.HasFiles() {
		return ctx
	}
	return context.WithValue(ctx, landingKey{}, func(name string) error {
		if caller.File(scheme+Join(at.mount.Path, name), write) == nil {
			return nil
		}
		return message.Errorf(403, "The token %q reaches %s, and a link in it leads to a place that the token doesn't reach; the owner can change that: kernos token update %s --files URI", caller.Name(), message.Clip(at.uri, 200), caller.Name())
	})
}
