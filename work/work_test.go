package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/storetest"
	"kernos/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench is a queue whose workers say what they do.
type bench struct {
	*work.Queue
	t     *testing.T
	store store.Store
	stop  func()

	mu   sync.Mutex
	done []string
}

// start runs a queue over a store. Its worker ends a task, unless do says otherwise.
func start(t *testing.T, s store.Store, o work.Options, do func(context.Context, *bench, *work.Lease)) *bench {
	t.Helper()
	b := &bench{t: t, store: s}
	o.Store, o.Letter = s, 'x'
	o.Work = func(ctx context.Context, l *work.Lease) {
		if do != nil {
			do(ctx, b, l)
			return
		}
		b.end(l)
	}
	b.Queue = work.New(&o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Run(ctx); close(ended) }()
	b.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(b.stop)
	return b
}

func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, fmt.Sprintf(format, args...))
}

// end ends a lease, and notes that.
func (b *bench) end(l *work.Lease) {
	var batch store.Batch
	ended := l.Done(&batch)
	if _, err := b.store.Apply(&batch); err != nil {
		b.note("%s: %v", l.ID, err)
		return
	}
	ended()
	b.note("%s", l.ID)
}

func (b *bench) add(tasks ...work.Task) {
	b.t.Helper()
	for _, t := range tasks {
		var batch store.Batch
		if t.Due.IsZero() {
			t.Due = time.Now()
		}
		added := b.Add(&batch, t)
		commit, err := b.store.Apply(&batch)
		if err != nil {
			b.t.Fatal(err)
		}
		added(commit)
	}
}

// sort sorts what was done by workers side by side.
func (b *bench) sort() {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.done)
}

func (b *bench) wants(when, want string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := strings.Join(b.done, " "); got != want {
		b.t.Errorf("%s: done %q, want %q", when, got, want)
	}
	b.done = nil
}

func TestTasksRunWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, storetest.NewMemory(), work.Options{}, nil)
		now := time.Now()
		b.add(work.Task{ID: "now"}, work.Task{ID: "second", Due: now.Add(2 * time.Hour)}, work.Task{ID: "first", Due: now.Add(time.Hour)})
		b.wants("at once", "now")
		time.Sleep(time.Hour - time.Millisecond)
		b.wants("before the first timer", "")
		time.Sleep(time.Millisecond)
		b.wants("at the first timer", "first")
		b.add(work.Task{ID: "between", Due: time.Now().Add(time.Minute)})
		time.Sleep(time.Minute)
		b.wants("a timer that was added before the next one", "between")
		time.Sleep(time.Hour)
		b.wants("at the second timer", "second")
		if _, state, err := b.Find("second"); err != nil || state != work.Absent {
			t.Errorf("a task that is done is %v, %v", state, err)
		}
		b.stop()
	})
}

func TestPriorityAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		var batch store.Batch
		q := work.New(&work.Options{Store: s, Letter: 'x'})
		for i, p := range []int{5, 0, 9, 5, 9} {
			q.Add(&batch, work.Task{ID: fmt.Sprintf("%d-%d", p, i), Priority: p, Due: time.Now()})
		}
		if _, err := s.Apply(&batch); err != nil {
			t.Fatal(err)
		}
		b := start(t, s, work.Options{Slots: 1}, nil)
		b.wants("one after the other", "9-2 9-4 5-0 5-3 0-1")
		b.stop()
	})
}

func TestAGroupRunsSoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		b := start(t, s, work.Options{}, func(_ context.Context, b *bench, l *work.Lease) {
			time.Sleep(time.Second)
			b.end(l)
		})
		for i := range 5 {
			b.add(work.Task{ID: fmt.Sprint("g", i), Group: "g", Limit: 2})
		}
		b.add(work.Task{ID: "alone"})
		synctest.Wait()
		if n := b.Stats(); n != 3 {
			t.Errorf("%d tasks run", n)
		}
		var batch store.Batch
		paused := b.Pause(&batch, "g")
		if _, err := s.Apply(&batch); err != nil {
			t.Fatal(err)
		}
		paused()
		time.Sleep(time.Minute)
		b.sort()
		b.wants("paused", "alone g0 g1")
		b.stop()

		// Another process finds the group paused.
		b = start(t, s, work.Options{}, nil)
		time.Sleep(time.Minute)
		b.wants("paused, in another process", "")
		batch.Reset()
		unpaused := b.Unpause(&batch, "g")
		if _, err := s.Apply(&batch); err != nil {
			t.Fatal(err)
		}
		unpaused()
		b.sort()
		b.wants("no longer paused", "g2 g3 g4")
		b.stop()
	})
}

// Invariants: W1.
func TestATaskBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, storetest.NewMemory(), work.Options{}, func(_ context.Context, b *bench, l *work.Lease) {
			if l.Fence == 3 {
				b.end(l)
				return
			}
			var batch store.Batch
			ended := l.Again(&batch, time.Now().Add(time.Minute))
			if _, err := b.store.Apply(&batch); err != nil {
				b.t.Error(err)
			}
			ended()
			b.note("again%d", l.Fence)
		})
		b.add(work.Task{ID: "a"})
		b.wants("at once", "again1")
		time.Sleep(time.Minute)
		b.wants("after a minute", "again2")
		time.Sleep(time.Minute)
		b.wants("after two", "a")
		b.stop()
	})
}

// A worker that ends nothing, as when the store fails, is tried again.
func TestAWorkerThatEndsNothingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, storetest.NewMemory(), work.Options{}, func(_ context.Context, b *bench, l *work.Lease) {
			if l.Fence < 8 {
				b.note("left")
				return
			}
			if l.TakenOver || l.Attempt != 1 {
				b.t.Errorf("%d processes have begun it, and it is taken over: %v", l.Attempt, l.TakenOver)
			}
			b.end(l)
		})
		b.add(work.Task{ID: "a"})
		b.wants("at once", "left")
		time.Sleep(time.Minute)
		b.wants("later", "left left left left left left a")
		b.stop()
	})
}

// Invariants: W2.
func TestARemovedTaskStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("canceled")
		b := start(t, storetest.NewMemory(), work.Options{}, func(ctx context.Context, b *bench, l *work.Lease) {
			<-ctx.Done()
			if context.Cause(ctx) != gone || l.Held() != gone {
				b.t.Errorf("it ends with %v, and is lost because %v", context.Cause(ctx), l.Held())
			}
			b.end(l) // too late
		})
		b.add(work.Task{ID: "a"}, work.Task{ID: "later", Due: time.Now().Add(time.Hour)})
		synctest.Wait()
		for _, id := range []string{"a", "later"} {
			var batch store.Batch
			removed, err := b.Remove(&batch, id)
			if err != nil || removed == nil {
				t.Fatal(removed == nil, err)
			}
			if _, err := b.store.Apply(&batch); err != nil {
				t.Fatal(err)
			}
			removed(gone)
		}
		b.wants("a batch of an old lease", "a: "+store.ErrConflict.Error())
		if removed, err := b.Remove(new(store.Batch), "a"); removed != nil || err != nil {
			t.Errorf("it can be removed again: %v", err)
		}
		time.Sleep(2 * time.Hour)
		b.wants("the timer of a task that was removed", "")
		b.stop()
	})
}

// What ran when a process died is leased by the next one, or waits if the store is a backup.
func TestWhatRanIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		b := start(t, s, work.Options{}, func(ctx context.Context, _ *bench, _ *work.Lease) { <-ctx.Done() })
		b.add(work.Task{ID: "a", Group: "g", Limit: 1}, work.Task{ID: "b"}, work.Task{ID: "c", Group: "g", Limit: 1})
		synctest.Wait()
		b.stop()

		b = start(t, s, work.Options{}, func(_ context.Context, b *bench, l *work.Lease) {
			if l.TakenOver {
				b.note("over")
			}
			b.end(l)
		})
		b.sort()
		b.wants("another process", "a b c over over")
		b.stop()
	})
}

func TestHeldTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		b := start(t, s, work.Options{}, func(ctx context.Context, _ *bench, _ *work.Lease) { <-ctx.Done() })
		b.add(work.Task{ID: "begun"})
		synctest.Wait()
		b.stop()

		b = &bench{t: t, store: s}
		b.Queue = work.New(&work.Options{Store: s, Letter: 'x', Work: func(_ context.Context, l *work.Lease) { b.end(l) }})
		b.Hold()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		b.add(work.Task{ID: "new"})
		b.wants("while it is held", "new")
		if _, state, err := b.Find("begun"); err != nil || state != work.Held {
			t.Errorf("it is %v, %v", state, err)
		}
		var batch store.Batch
		n, resumed, err := b.Resume(&batch)
		if err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if _, err := s.Apply(&batch); err != nil {
			t.Fatal(err)
		}
		resumed()
		b.wants("after Resume", "begun")
		cancel()
		<-ended
	})
}

// A clock that is set forward or back makes timers early or late, and loses none.
func TestTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock testkit.Clock
		b := start(t, storetest.NewMemory(), work.Options{Now: clock.Now}, nil)
		b.add(work.Task{ID: "a", Due: clock.Now().Add(30 * time.Minute)}, work.Task{ID: "b", Due: clock.Now().Add(90 * time.Minute)})
		clock.Advance(time.Hour)
		time.Sleep(time.Minute)
		b.wants("an hour forward", "a")
		clock.Advance(-time.Hour)
		time.Sleep(88 * time.Minute)
		b.wants("and back", "")
		time.Sleep(time.Minute)
		b.wants("when its time has come", "b")
		b.stop()
	})
}

// A counting store counts the batches that it is given.
type counting struct {
	store.Store
	batches atomic.Int64
}

func (c *counting) Apply(b *store.Batch) (*store.Commit, error) {
	c.batches.Add(1)
	return c.Store.Apply(b)
}

// A task that needn't wait is leased in the batch that adds it, and gets what the caller hands over.
func TestATaskBeginsInTheBatchThatAddsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: storetest.NewMemory()}
		free := make(chan struct{})
		b := start(t, s, work.Options{Slots: 2}, func(_ context.Context, b *bench, l *work.Lease) {
			if l.TakenOver || l.Attempt != 1 {
				b.t.Errorf("%s: %d processes have begun it, and it is taken over: %v", l.ID, l.Attempt, l.TakenOver)
			}
			b.note("%v", l.Value)
			<-free
			b.end(l)
		})
		synctest.Wait()
		for i, id := range []string{"a", "b", "c"} {
			b.add(work.Task{ID: id, Value: i})
		}
		if n := s.batches.Load(); n != 3 {
			t.Errorf("%d batches add three tasks and lease two", n)
		}
		b.sort()
		b.wants("two have a place", "0 1")
		for id, want := range map[string]work.State{"a": work.Running, "b": work.Running, "c": work.Waiting} {
			if task, state, err := b.Find(id); task.ID != id || state != want || err != nil {
				t.Errorf("%s is %v, %+v, %v", id, state, task, err)
			}
		}
		close(free)
		b.sort()
		b.wants("the third has waited", "<nil> a b c")
		if n := s.batches.Load(); n != 3+3+1 {
			t.Errorf("%d batches", n)
		}
		b.stop()
	})
}

// A process may die after the batch that adds and leases a task, and before the task begins.
func TestATaskThatNeverBeganIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		b := start(t, s, work.Options{}, nil)
		synctest.Wait()
		var batch store.Batch
		b.Add(&batch, work.Task{ID: "a", Due: time.Now(), Priority: 7})
		if _, err := s.Apply(&batch); err != nil {
			t.Fatal(err)
		}
		b.stop()
		if some, err := work.Unfinished(s, 'x'); !some || err != nil {
			t.Errorf("the store has unfinished tasks: %v, %v", some, err)
		}
		b = start(t, s, work.Options{}, func(_ context.Context, b *bench, l *work.Lease) {
			b.note("%v %d %d", l.TakenOver, l.Attempt, l.Priority)
			b.end(l)
		})
		b.wants("another process", "true 2 7 a")
		if some, err := work.Unfinished(s, 'x'); some || err != nil {
			t.Errorf("the store has unfinished tasks: %v, %v", some, err)
		}
		b.stop()
	})
}

// Tasks that find no place when their batch has been applied wait for their turn, and each runs once.
func TestManyAreAddedAtOnce(t *testing.T) {
	const tasks = 500
	s := storetest.NewMemory()
	var left sync.WaitGroup
	left.Add(tasks)
	b := start(t, s, work.Options{Slots: 4}, func(_ context.Context, b *bench, l *work.Lease) {
		defer left.Done()
		b.end(l)
	})
	for c := range 10 {
		go func() {
			for i := range tasks / 10 {
				b.add(work.Task{ID: fmt.Sprintf("%d-%02d", c, i)})
			}
		}()
	}
	left.Wait()
	b.stop()
	slices.Sort(b.done)
	if n := len(slices.Compact(b.done)); n != tasks || slices.ContainsFunc(b.done, func(s string) bool { return strings.Contains(s, ":") }) {
		t.Errorf("%d tasks are done: %q", n, b.done)
	}
}

// A clock starts a task at each of its times, in the batch that sets it to the next one. It is not
// leased, and takes no place from tasks that run.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: storetest.NewMemory()}
		var b *bench
		ticks := 0
		b = start(t, s, work.Options{Slots: 1, Tick: func(batch *store.Batch, clock work.Task) (time.Time, func(*store.Commit), error) {
			ticks++
			switch ticks {
			case 2:
				return time.Time{}, nil, errors.New("the store can't be read")
			case 4:
				return time.Time{}, func(*store.Commit) { b.note("end") }, nil
			}
			return clock.Due.Add(time.Hour), b.Add(batch, work.Task{ID: fmt.Sprint("run", ticks), Due: time.Now()}), nil
		}}, nil)
		synctest.Wait()
		b.add(work.Task{ID: "clock", Due: time.Now(), Clock: true})
		b.wants("at once", "run1")
		if n := s.batches.Load(); n != 3 {
			t.Errorf("%d batches add a clock, start a task, and end it", n)
		}
		if task, state, err := b.Find("clock"); state != work.Waiting || !task.Clock || err != nil {
			t.Errorf("the clock is %+v, %v, %v", task, state, err)
		}
		time.Sleep(time.Hour)
		b.wants("when it fails", "")
		time.Sleep(time.Minute)
		b.wants("a moment later", "run3")
		time.Sleep(time.Hour)
		b.wants("the last time", "end")
		if _, state, err := b.Find("clock"); state != work.Absent || err != nil {
			t.Errorf("the clock is %v, %v", state, err)
		}
		b.stop()
	})
}

// moving is a store in which a task is moved whenever its place has been read.
type moving struct {
	store.Store
	move func()
}

func (m *moving) Get(key []byte) (store.Entry, error) {
	e, err := m.Store.Get(key)
	if move := m.move; move != nil && e.Revision > 0 {
		m.move = nil
		move()
		m.move = move
	}
	return e, err
}

func TestATaskThatMovesIsFound(t *testing.T) {
	s := &moving{Store: storetest.NewMemory()}
	q := work.New(&work.Options{Store: s, Letter: 'x'})
	due := time.Now().Add(time.Hour)
	apply := func(b *store.Batch) {
		if _, err := s.Apply(b); err != nil {
			t.Error(err)
		}
	}
	var b store.Batch
	q.Add(&b, work.Task{ID: "a", Due: due})
	apply(&b)
	s.move = func() {
		due = due.Add(time.Hour)
		var b store.Batch
		if _, err := q.Move(&b, "a", due); err != nil {
			t.Error(err)
		}
		apply(&b)
	}
	if task, state, err := q.Find("a"); err != nil || state != work.Waiting || task.ID != "a" {
		t.Errorf("got %v %v %v", task, state, err)
	}
}
