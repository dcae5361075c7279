package kernel

import (
	"context"
	"time"
)

// A Call is the context of its handler.

func (c *Call) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *Call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.parent.Value(key)
}

func (c *Call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.settled.Load() && c.err == nil {
			c.err = context.Canceled
		}
		if c.err != nil {
			close(c.done)
			return c.done
		}
		// The deadline needs no timer: Expire is called then.
		c.release = context.AfterFunc(c.parent, func() { c.Cancel(c.parent.Err()) })
	}
	return c.done
}

func (c *Call) Err() error {
	if err := c.parent.Err(); err != nil {
		c.Cancel(err)
	} else if !time.Now().Before(c.deadline) {
		c.Cancel(context.DeadlineExceeded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Cancel ends the context of the handler, which is to give up.
func (c *Call) Cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(err)
}

// close is called with mu held.
func (c *Call) close(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
		c.release()
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// AfterFunc is what package context looks for in a parent that is not its own: without it,
// each context that is derived from a call would cost a goroutine.
func (c *Call) AfterFunc(f func()) (stop func() bool) {
	c.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[*func()]struct{})
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[&f]
		delete(c.after, &f)
		return waits
	}
}
