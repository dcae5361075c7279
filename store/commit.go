package store

import (
	"context"
	"sync"
)

// A Commit is a batch that is becoming durable. Engines make and resolve it.
type Commit struct {
	Revision Revision

	mu       sync.Mutex
	resolved bool
	err      error
	callback func(error)   // called when the commit is decided
	more     *callbacks    // called after callback; most commits have none
	done     chan struct{} // made by Done
}

// callbacks are functions in the order in which they are called.
type callbacks []func(error)

// NewCommit returns a commit that is not durable yet.
func NewCommit(r Revision) *Commit { return &Commit{Revision: r} }

// Committed returns a commit that is durable. That of revision 0 is always the same one: a barrier when nothing is pending.
func Committed(r Revision) *Commit {
	if r == 0 {
		return nothing
	}
	return &Commit{Revision: r, resolved: true}
}

var nothing = &Commit{resolved: true}

// Resolve notifies all waiting callers that the batch is durable, or why it is not known
// to be. Only the first call counts.
func (c *Commit) Resolve(err error) {
	if c.decide(err) {
		c.runCallback()
	}
}

// ResolveAll is Resolve for commits that are decided together: the callback of one of
// them finds the others decided too. The slice is overwritten.
func ResolveAll(commits []*Commit, err error) {
	for i, c := range commits {
		if !c.decide(err) {
			commits[i] = nil
		}
	}
	for _, c := range commits {
		if c != nil {
			c.runCallback()
		}
	}
}

// decide decides a commit, and reports whether it was not before.
func (c *Commit) decide(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resolved {
		return false
	}
	c.resolved, c.err = true, err
	if c.done != nil {
		close(c.done)
	}
	return true
}

// runCallback calls the callback of a decided commit. The commit no longer changes.
func (c *Commit) runCallback() {
	if c.callback != nil {
		c.callback(c.err)
		c.callback = nil
	}
	if c.more != nil {
		for _, f := range *c.more {
			f(c.err)
		}
		c.more = nil
	}
}

// Resolved reports whether the commit is decided, and how.
func (c *Commit) Resolved() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resolved, c.err
}

// Then calls f when the commit is decided: at once if it is, otherwise on a goroutine of
// the engine, where f must not wait for anything.
func (c *Commit) Then(f func(error)) {
	c.mu.Lock()
	if !c.resolved {
		switch {
		case c.callback == nil:
			c.callback = f
		case c.more == nil:
			c.more = &callbacks{f}
		default:
			*c.more = append(*c.more, f)
		}
		c.mu.Unlock()
		return
	}
	err := c.err
	c.mu.Unlock()
	f(err)
}

// Done returns a channel that is closed when the commit is decided.
func (c *Commit) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.resolved {
			close(c.done)
		}
	}
	return c.done
}

// Wait returns when the batch is durable. An error means that it is not known to be: it
// may be part of the state after a restart, or not.
func (c *Commit) Wait(ctx context.Context) error {
	if resolved, err := c.Resolved(); resolved {
		return err
	}
	select {
	case <-c.Done():
		_, err := c.Resolved()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
