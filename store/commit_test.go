package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/store"
)

var errDisk = errors.New("the disk")

func TestCommitThen(t *testing.T) {
	for _, err := range []error{nil, errDisk} {
		c := store.NewCommit(7)
		var told []string
		tell := func(name string) func(error) {
			return func(got error) {
				if got != err {
					t.Errorf("%s was told %v, want %v", name, got, err)
				}
				told = append(told, name)
			}
		}
		c.Then(tell("first"))
		c.Then(tell("second"))
		if done, _ := c.Resolved(); done || len(told) != 0 {
			t.Fatalf("decided too early: %v", told)
		}
		c.Resolve(err)
		c.Resolve(errors.New("only the first call counts"))
		c.Then(tell("late")) // at once
		if len(told) != 3 || told[0] != "first" || told[1] != "second" || told[2] != "late" {
			t.Errorf("told %v", told)
		}
		if done, got := c.Resolved(); !done || got != err {
			t.Errorf("resolved %t, %v", done, got)
		}
		if got := c.Wait(context.Background()); got != err {
			t.Errorf("Wait: %v, want %v", got, err)
		}
	}
}

func TestCommitted(t *testing.T) {
	c := store.Committed(9)
	if done, err := c.Resolved(); !done || err != nil || c.Revision != 9 {
		t.Errorf("resolved %t, %v at revision %d", done, err, c.Revision)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Wait(cancelled); err != nil {
		t.Errorf("it is durable for one that asks again: %v", err)
	}
	c.Resolve(errDisk)
	if _, err := c.Resolved(); err != nil {
		t.Errorf("a durable commit was undone: %v", err)
	}
}

// Then may be called from Then, and Resolve must not hold the lock while it tells.
func TestCommitThenWithinThen(t *testing.T) {
	c := store.NewCommit(1)
	inner := false
	c.Then(func(error) { c.Then(func(error) { inner = true }) })
	c.Resolve(nil)
	if !inner {
		t.Error("what was asked for while telling was not told")
	}
}

func TestCommitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := store.NewCommit(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait with a deadline: %v", err)
		}
		var waiting sync.WaitGroup
		var told atomic.Int32
		for range 10 {
			waiting.Go(func() {
				if err := c.Wait(t.Context()); err != errDisk {
					t.Errorf("Wait: %v", err)
				}
				told.Add(1)
			})
		}
		synctest.Wait()
		if n := told.Load(); n != 0 {
			t.Errorf("%d did not wait", n)
		}
		c.Resolve(errDisk)
		waiting.Wait()
	})
}

func TestCommitConcurrent(t *testing.T) {
	for range 200 {
		c := store.NewCommit(1)
		var told atomic.Int32
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				c.Then(func(err error) {
					told.Add(1)
					if _, want := c.Resolved(); err != want {
						t.Errorf("told %v, and it is %v", err, want)
					}
				})
			})
			group.Go(func() {
				if i%2 == 0 {
					c.Resolve(nil)
				} else {
					c.Resolve(errDisk)
				}
			})
			group.Go(func() {
				err := c.Wait(context.Background())
				if _, want := c.Resolved(); err != want {
					t.Errorf("waited for %v, and it is %v", err, want)
				}
			})
		}
		group.Wait()
		if n := told.Load(); n != 8 {
			t.Fatalf("%d of 8 were told", n)
		}
	}
}
