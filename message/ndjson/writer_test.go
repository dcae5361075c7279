package ndjson_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message/ndjson"
)

const (
	highWater = 64 << 10
	maxDelay  = 2 * time.Millisecond
)

// recorder is a destination that keeps what was written to it.
type recorder struct {
	mu     sync.Mutex
	writes []string
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(b))
	return len(b), nil
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

func put(w *ndjson.Writer, line string) { w.End(append(w.Begin(), line...)) }

func TestConcurrentWritersNeverTearALineNorLoseOne(t *testing.T) {
	const writers, each = 8, 2000
	var dst recorder
	w := ndjson.NewWriter(&dst)
	var wg sync.WaitGroup
	for id := range writers {
		wg.Go(func() {
			for n := range each {
				put(w, fmt.Sprintf("%d %d %s\n", id, n, strings.Repeat("x", n%97)))
				if n%100 == id {
					_ = w.Flush()
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, write := range dst.all() {
		if !strings.HasSuffix(write, "\n") {
			t.Fatal("a write ends inside of a line")
		}
	}
	next := [writers]int{}
	for line := range strings.Lines(strings.Join(dst.all(), "")) {
		var id, n int
		if _, err := fmt.Sscanf(line, "%d %d", &id, &n); err != nil {
			t.Fatalf("a torn line: %q", line)
		}
		if want := fmt.Sprintf("%d %d %s\n", id, n, strings.Repeat("x", n%97)); line != want || n != next[id] {
			t.Fatalf("got %q as line %d of writer %d", line, next[id], id)
		}
		next[id]++
	}
	for id, n := range next {
		if n != each {
			t.Errorf("%d lines of writer %d arrived, want %d", n, id, each)
		}
	}
}

func TestLinesWaitForOthersUpToTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dst recorder
		w := ndjson.NewWriter(&dst)
		for round := range 3 { // the timer has to work more than once
			put(w, "a\n")
			time.Sleep(maxDelay / 2)
			put(w, "b\n") // does not put the delay off
			time.Sleep(maxDelay/2 - 1)
			synctest.Wait()
			if got := len(dst.all()); got != round {
				t.Fatalf("round %d: %d writes before the delay was over", round, got)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if got := dst.all(); len(got) != round+1 || got[round] != "a\nb\n" {
				t.Fatalf("round %d: after the delay there is %q", round, got)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushWritesAtOnceAndPutsOffTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dst recorder
		w := ndjson.NewWriter(&dst)
		if err := w.Flush(); err != nil || len(dst.all()) != 0 {
			t.Errorf("nothing waits, and Flush gives %v and %q", err, dst.all())
		}
		put(w, "a\n")
		time.Sleep(maxDelay - 1)
		if err := w.Flush(); err != nil || len(dst.all()) != 1 || dst.all()[0] != "a\n" {
			t.Fatalf("Flush gives %v and %q", err, dst.all())
		}
		put(w, "b\n")
		time.Sleep(maxDelay - 1) // the first timer would have run out
		synctest.Wait()
		if got := dst.all(); len(got) != 1 {
			t.Errorf("the second line waited for less than its delay: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := dst.all(); len(got) != 2 || got[1] != "b\n" {
			t.Errorf("the second line was not written in time: %q", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := dst.all(); len(got) != 2 {
			t.Errorf("writes without lines: %q", got)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHighWaterIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands still, so the timer has no part in this
		var dst recorder
		w := ndjson.NewWriter(&dst)
		line := strings.Repeat("x", 1023) + "\n"
		for range highWater/len(line) - 1 {
			put(w, line)
		}
		put(w, line[1:])
		if got := len(dst.all()); got != 0 {
			t.Fatalf("%d writes a byte below the mark", got)
		}
		put(w, "\n")
		if got := dst.all(); len(got) != 1 || len(got[0]) != highWater {
			t.Fatalf("%d writes at the mark", len(got))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// failing writes some and then fails for good.
type failing struct {
	good  int
	calls int
	err   error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.calls++; f.calls > f.good {
		return 0, f.err
	}
	return len(b), nil
}

func TestFirstWriteErrorIsTheLastWrite(t *testing.T) {
	broken := errors.New("broken pipe")
	dst := &failing{good: 1, err: broken}
	w := ndjson.NewWriter(dst)
	put(w, "a\n")
	if err := errors.Join(w.Flush(), w.Err()); err != nil {
		t.Fatal(err)
	}
	put(w, "b\n")
	if err := w.Flush(); err != broken {
		t.Fatalf("Flush returns %v", err)
	}
	dst.err = errors.New("another")
	for range 3 {
		put(w, strings.Repeat("x", 2*highWater))
		if n := len(w.Begin()); n != 0 {
			t.Errorf("%d bytes wait for a destination that is gone", n)
		}
		w.End(nil)
		if err := w.Flush(); err != broken {
			t.Errorf("Flush returns %v", err)
		}
	}
	if dst.calls != 2 {
		t.Errorf("the destination was called %d times, want 2", dst.calls)
	}
	if w.Err() != broken {
		t.Errorf("Err returns %v", w.Err())
	}
	if err := w.Close(); err != broken {
		t.Errorf("Close returns %v", err)
	}
}

// An error that the timer ran into must not be lost.
func TestErrorOfALateWriteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")
		w := ndjson.NewWriter(&failing{err: broken})
		put(w, "a\n")
		time.Sleep(maxDelay)
		synctest.Wait()
		if w.Err() != broken || w.Flush() != broken || w.Close() != broken {
			t.Errorf("Err %v, Flush %v, Close %v", w.Err(), w.Flush(), w.Close())
		}
	})
}

// gate is a destination that lets nothing through until it is opened.
type gate struct {
	entered chan struct{} // gets a value for each write that begins
	opened  chan struct{}
	written atomic.Int64
	mu      sync.Mutex
	got     bytes.Buffer
}

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 10_000), opened: make(chan struct{})}
}

func (g *gate) Write(b []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.opened
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got.Write(b)
	g.written.Add(int64(len(b)))
	return len(b), nil
}

// yield lets the other goroutines run for a while.
func yield() {
	for range 20_000 {
		runtime.Gosched()
	}
}

func TestWhatWaitsForABlockedDestinationIsBounded(t *testing.T) {
	const writers, each, size = 8, 2000, 1 << 10
	dst := newGate()
	w := ndjson.NewWriter(dst)
	line := strings.Repeat("x", size-1) + "\n"
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				buf := w.Begin()
				taken.Add(size)
				w.End(append(buf, line...))
			}
		})
	}
	<-dst.entered
	yield()
	// One load is being written, one waits, and each writer holds one line more.
	if got, most := taken.Load(), int64(2*highWater+2*writers*size); got > most {
		t.Errorf("%d bytes were taken while nothing could be written, want at most %d", got, most)
	}
	close(dst.opened)
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := dst.written.Load(); got != writers*each*size {
		t.Errorf("%d bytes arrived, want %d", got, writers*each*size)
	}
}

func TestCloseWaitsForAWriteUnderWay(t *testing.T) {
	dst := newGate()
	w := ndjson.NewWriter(dst)
	put(w, "a\n")
	flushed, closed := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- w.Flush() }()
	<-dst.entered
	go func() { closed <- w.Close() }()
	yield()
	select {
	case <-closed:
		t.Error("Close returned before the line was written")
		closed <- nil
	default:
	}
	close(dst.opened)
	if err := errors.Join(<-closed, <-flushed); err != nil {
		t.Error(err)
	}
	if dst.written.Load() != 2 {
		t.Error("the line is not there")
	}
}

// Somebody who reads what a peer writes must not wait for a write to that peer, which may
// wait for us to read.
func TestTryFlushDoesNotWaitForTheWriteOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := newGate()
		w := ndjson.NewWriter(dst)
		put(w, "a\n")
		flushed := make(chan error, 1)
		go func() { flushed <- w.Flush() }()
		<-dst.entered
		put(w, "b\n")
		w.TryFlush() // returns, or the test never ends
		begun := time.Now()
		close(dst.opened)
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if took := time.Since(begun); took != 0 || dst.written.Load() != 4 {
			t.Errorf("%d bytes were written after %v; what TryFlush left goes behind the other write at once", dst.written.Load(), took)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWritesWhatWaits(t *testing.T) {
	var dst recorder
	w := ndjson.NewWriter(&dst)
	put(w, "a\n")
	if err := w.Close(); err != nil || len(dst.all()) != 1 || dst.all()[0] != "a\n" {
		t.Errorf("Close gives %v and %q", err, dst.all())
	}
	if err := w.Close(); err != nil {
		t.Errorf("the second Close gives %v", err)
	}
}

// Lines of the older dialect may be long; what they needed is given back.
func TestLargeBuffersAreNotKept(t *testing.T) {
	w := ndjson.NewWriter(&recorder{})
	for range 3 {
		put(w, strings.Repeat("x", 1<<20)+"\n")
		buf := w.Begin()
		if cap(buf) > 4*highWater {
			t.Errorf("a buffer of %d bytes is kept", cap(buf))
		}
		w.End(buf)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// The timer must not pile up goroutines behind a destination that blocks.
func TestBlockedDestinationDoesNotCollectGoroutines(t *testing.T) {
	dst := newGate()
	w := ndjson.NewWriter(dst)
	before := runtime.NumGoroutine()
	for range 20 {
		put(w, "a\n")
		for start := time.Now(); time.Since(start) < 2*maxDelay; { // the timer is a real one here
			runtime.Gosched()
		}
	}
	if more := runtime.NumGoroutine() - before; more > 3 {
		t.Errorf("20 lines made %d goroutines wait", more)
	}
	close(dst.opened)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// trickle is a destination that takes a few bytes at a time from those who do not wait.
type trickle struct {
	recorder
	takes atomic.Int64
}

func (d *trickle) WritePromptly(b []byte) (int, error) {
	n := min(len(b), int(d.takes.Add(7)%23))
	_, _ = d.Write(b[:n])
	return n, nil
}

func TestPushedLinesKeepTheirOrder(t *testing.T) {
	const lines = 5000
	var dst trickle
	w := ndjson.NewWriter(&dst)
	var want strings.Builder
	for n := range lines {
		line := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", n%40))
		want.WriteString(line)
		for !w.Promptly(100, func() { put(w, line) }) { // what is left is on its way
			runtime.Gosched()
		}
		switch n % 5 {
		case 0, 1:
			w.Push()
		case 2:
			w.TryFlush()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(dst.all(), ""); got != want.String() {
		t.Errorf("%d bytes of %d came, or in another order", len(got), want.Len())
	}
}

type broken struct{ recorder }

func (*broken) WritePromptly([]byte) (int, error) { return 0, errors.New("it is broken") }

func TestAPushThatFailsEndsWriting(t *testing.T) {
	var dst broken
	w := ndjson.NewWriter(&dst)
	put(w, "a\n")
	w.Push()
	if err := w.Err(); err == nil || err.Error() != "it is broken" {
		t.Errorf("the error is %v", err)
	}
	put(w, "b\n")
	w.Push()
	if err := w.Close(); err == nil || len(dst.all()) > 0 {
		t.Errorf("closed with %v after %q", err, dst.all())
	}
}

func TestWhoCantWritePromptlyIsToldSo(t *testing.T) {
	var dst recorder
	w := ndjson.NewWriter(&dst)
	nothing := func() {}
	if w.Promptly(1, nothing) {
		t.Error("a destination that may wait is said not to")
	}
	var prompt trickle
	w = ndjson.NewWriter(&prompt)
	if !w.Promptly(1000, nothing) || w.Promptly(highWater, nothing) {
		t.Error("there is room for 1000 bytes, and not for more than may wait")
	}
}

// still is a destination that takes nothing.
type still struct {
	recorder
	gate chan struct{}
}

func (d *still) Write(b []byte) (int, error) {
	<-d.gate
	return d.recorder.Write(b)
}

func (d *still) WritePromptly([]byte) (int, error) { return 0, nil }

func TestWhoMustNotWaitDoesNot(t *testing.T) {
	dst := still{gate: make(chan struct{})}
	w := ndjson.NewWriter(&dst)
	line := strings.Repeat("x", 1000) + "\n"
	count := 0
	for w.Promptly(len(line), func() { put(w, line) }) {
		w.Push()
		count++
	}
	if count < 30 {
		t.Errorf("%d lines had room", count)
	}
	// There is less room than was said; the line is taken all the same.
	if !w.Promptly(0, func() { put(w, line+line+line) }) {
		t.Error("there is room for nothing")
	}
	close(dst.gate)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(strings.Join(dst.all(), "")); got != (count+3)*len(line) {
		t.Errorf("%d bytes came of %d", got, (count+3)*len(line))
	}
}

// gated lets one write through for each token.
type gated struct{ begun, tokens chan struct{} }

func (g *gated) Write(p []byte) (int, error) {
	g.begun <- struct{}{}
	<-g.tokens
	return len(p), nil
}

func TestFlushOnceWritesNothingOfOthers(t *testing.T) {
	dst := &gated{make(chan struct{}, 8), make(chan struct{}, 8)}
	w := ndjson.NewWriter(dst)
	w.EndNow(append(w.Begin(), "mine\n"...))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.FlushOnce()
	}()
	<-dst.begun
	w.EndNow(append(w.Begin(), "another\n"...))
	w.FlushOnce()            // does not wait
	dst.tokens <- struct{}{} // the first write ends, and no other
	<-done
	<-dst.begun // somebody writes the second line
	dst.tokens <- struct{}{}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
