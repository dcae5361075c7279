package kernel

import (
	"context"
	"slices"

	"kernos/message"
	"kernos/store"
)

// In a cluster, a change is visible before a majority of the servers has it, so what a call reads may still be lost.
// What leaves the kernel waits for [Options.Fence]:
//
//	O3  nothing leaves the kernel that shows what can still be lost
//
// These are the ways out:
//
//   - An outcome and an event, which an item of a watch is too: settle and post in answer.go. The outcome of a call that
//     has changed something waits for that commit alone, which is decided after everything that the call has read. The
//     answer to a call whose definition is [Behavior.Stateless] waits for nothing.
//   - A refusal: admit.go.
//   - What a call does outside of the kernel: [Reaching] waits; a call whose definition names such a reach waits before it
//     runs; and a request to a program that serves a syscall waits.
//   - What a wire reads without a call, such as a blob or a list of syscalls: it calls [Kernel.AwaitFence].
//
// A nested call, and a call that is a part of some work, answer within the kernel: what shows their answers waits. These
// wait for nothing, since they show no state: a notice that something may have changed, whose receiver asks; an error
// that a deadline has caused; health checks and metrics; and a refusal of a token, which changes when that is decided.

// fence returns the commit that an answer waits for which leaves the kernel now, given the commit that the answer waits
// for anyway, or nil.
func (k *Kernel) fence(commit *store.Commit) *store.Commit {
	if k.opts.Fence == nil {
		return commit
	}
	fence := k.opts.Fence()
	if fence == store.Committed(0) {
		return commit // nothing is pending
	}
	if commit == nil {
		return fence
	}
	switch decided, err := commit.Resolved(); {
	case err != nil:
		return commit
	case decided:
		return fence
	}
	both := store.NewCommit(max(commit.Revision, fence.Revision))
	commit.Then(func(err error) {
		if err != nil {
			both.Resolve(err)
			return
		}
		fence.Then(both.Resolve)
	})
	return both
}

// fence is [Kernel.fence] for an answer of the call.
func (c *Call) fence(commit *store.Commit) *store.Commit {
	if c.syscall.Stateless || c.inside() {
		return commit
	}
	return c.k.fence(commit)
}

// inside reports whether the call's answers stay within the kernel.
func (c *Call) inside() bool { return c.caller != nil || c.work != nil }

// AwaitFence returns when nothing that was read before it can be lost any more. The error is for the caller: 503 if that
// isn't known, or the error of ctx. Without [Options.Fence] it returns nil at once.
func (k *Kernel) AwaitFence(ctx context.Context) error {
	if k.opts.Fence == nil {
		return nil
	}
	return k.opts.Fence().Wait(ctx)
}

// post posts an event of the call, or of a call that it has made. An event that can't be shown ends the call with the
// reason, so that what comes after the event isn't shown without it. It is called with mu held.
func (c *Call) post(event message.Message) {
	commit := c.fence(c.nested)
	if c.k.opts.Fence != nil && commit != nil && !c.inside() {
		if _, err := commit.Resolved(); err != nil {
			c.outcome = c.failure(err)
			c.settle()
			return
		}
	}
	c.origin.Post(c.send, event, commit)
}

// outside reports whether what a call does there can't be taken back.
func outside(r Reach) bool { return r == ToNetwork || r == ToFile || r == ToProgram }

// awaitReaches is [Kernel.AwaitFence] for a call whose definition names what is outside.
func (c *Call) awaitReaches() error {
	if c.k.opts.Fence == nil || !slices.ContainsFunc(c.syscall.Reaches, outside) {
		return nil
	}
	return c.k.AwaitFence(c)
}
