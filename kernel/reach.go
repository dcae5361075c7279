package kernel

import (
	"context"
	"slices"

	"kernos/message"
)

// A Reach is a kind of thing outside of the kernel's own state, or beyond what belongs to the
// caller, that a call may touch.
type Reach string

const (
	ToNetwork  Reach = "network"  // an address
	ToFile     Reach = "file"     // a file of this machine
	ToProgram  Reach = "program"  // a program that is started, serves a syscall, or is a mounted server
	ToCode     Reach = "code"     // code that the kernel keeps and runs
	ToOthers   Reach = "others"   // what belongs to another principal
	ToSettings Reach = "settings" // settings of the kernel, of its models, and its vault
	ToTokens   Reach = "tokens"   // who may call what
)

// Reaches are all kinds.
var Reaches = []Reach{ToNetwork, ToFile, ToProgram, ToCode, ToOthers, ToSettings, ToTokens}

// Reached is what one call reaches.
type Reached struct {
	Reach  Reach  `json:"reach"`
	Target string `json:"target,omitzero"` // what exactly: https://example.com, /etc/hosts
}

func (r Reached) String() string {
	if r.Target == "" {
		return string(r.Reach)
	}
	return string(r.Reach) + " " + r.Target
}

// Reaching is called before a handler reaches something, whichever syscall or parameter has led
// there, and decides whether it may: the error is to be returned, and nothing may have been done by
// then that a second run of the handler would repeat. What the definition declares was decided when
// the call was admitted. The rights of principals are decided elsewhere: Reaching asks the rules of
// the sessions that have caused the call.
//
// In a cluster, Reaching returns when nothing can be lost that the call has read: see fence.go.
//
// A context without a call reaches nothing, unless it is one of [OnItsOwn].
func Reaching(ctx context.Context, r Reach, target string) error {
	if ctx.Value(insideKey{}) != nil {
		return message.Errorf(403, "%s can't be reached here: what was stored or answered may point to blobs only, and to data", Reached{r, message.Clip(target, 200)})
	}
	c, ok := CallOf(ctx)
	if !ok {
		if ctx.Value(ownKey{}) != nil {
			return nil
		}
		return message.Errorf(403, "%s can't be reached here: only a call reaches things outside of the kernel", Reached{r, message.Clip(target, 200)})
	}
	if outside(r) { // what a call does there can't be taken back
		if err := c.k.AwaitFence(ctx); err != nil {
			return err
		}
	}
	rules := c.k.opts.Rules
	if rules == nil || c.sender.Scope() == "" || slices.Contains(c.syscall.Reaches, r) && ctx.Value(besidesKey{}) == nil {
		return nil
	}
	for _, session := range c.sender.Sessions() {
		if err := rules.Reach(session, c, Reached{r, target}); err != nil {
			return err
		}
	}
	return nil
}

type besidesKey struct{}

// Besides returns a context in which what a definition declares covers nothing: a pointer that leads to
// a file isn't what VFS.Write is there for, although it reaches files.
func Besides(ctx context.Context) context.Context { return context.WithValue(ctx, besidesKey{}, true) }

type insideKey struct{}

// Inside returns a context in which nothing outside of the kernel is reached, whatever the rights and the rules
// are: for pointers that the call doesn't name itself, since they stand in what was stored or answered.
func Inside(ctx context.Context) context.Context { return context.WithValue(ctx, insideKey{}, true) }

type ownKey struct{}

// OnItsOwn returns a context without a call that reaches what the owner has set up: a mount, a
// server, a model.
func OnItsOwn(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }
