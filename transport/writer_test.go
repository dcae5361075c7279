package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
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

func put(w *Writer, line string) {
	w.Writable(true)
	w.Add(func(dst []byte) []byte { return append(dst, line...) }, true)
}

func newWriter(dst io.Writer) *Writer { return NewWriter(OutputTo(dst), 0) }

func TestConcurrentWritersNeverTearALineNorLoseOne(t *testing.T) {
	const writers, each = 8, 2000
	var dst recorder
	w := newWriter(&dst)
	var wg sync.WaitGroup
	for id := range writers {
		wg.Go(func() {
			for n := range each {
				put(w, fmt.Sprintf("%d %d %s\n", id, n, strings.Repeat("x", n%97)))
				if n%100 == id {
					w.Flush()
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(nil); err != nil {
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
		w := newWriter(&dst)
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
		if err := w.Close(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushWritesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dst recorder
		w := newWriter(&dst)
		w.Flush()
		synctest.Wait()
		if len(dst.all()) != 0 {
			t.Errorf("nothing waits, and Flush writes %q", dst.all())
		}
		put(w, "a\n")
		w.Flush()
		synctest.Wait()
		if got := dst.all(); len(got) != 1 || got[0] != "a\n" {
			t.Fatalf("Flush writes %q", got)
		}
		w.Add(func(dst []byte) []byte { return append(dst, "b\n"...) }, false)
		synctest.Wait()
		if got := dst.all(); len(got) != 2 || got[1] != "b\n" {
			t.Errorf("a line after which nothing follows waits: %q", got)
		}
		put(w, "c\n")
		time.Sleep(maxDelay)
		synctest.Wait()
		if got := dst.all(); len(got) != 3 || got[2] != "c\n" {
			t.Errorf("the third line was not written in time: %q", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := dst.all(); len(got) != 3 {
			t.Errorf("writes without lines: %q", got)
		}
		if err := w.Close(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestHighWaterIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands still, so the timer has no part in this
		var dst recorder
		w := newWriter(&dst)
		line := strings.Repeat("x", 1023) + "\n"
		for range writeSize/len(line) - 1 {
			put(w, line)
		}
		put(w, line[1:])
		synctest.Wait()
		if got := len(dst.all()); got != 0 {
			t.Fatalf("%d writes a byte below the mark", got)
		}
		put(w, "\n")
		synctest.Wait()
		if got := dst.all(); len(got) != 1 || len(got[0]) != writeSize {
			t.Fatalf("%d writes at the mark", len(got))
		}
		if err := w.Close(nil); err != nil {
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
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")
		dst := &failing{good: 1, err: broken}
		w := newWriter(dst)
		put(w, "a\n")
		w.Flush()
		synctest.Wait()
		if err := w.Err(); err != nil {
			t.Fatal(err)
		}
		put(w, "b\n")
		w.Flush()
		synctest.Wait()
		if err := w.Err(); err != broken {
			t.Fatalf("Err returns %v", err)
		}
		dst.err = errors.New("another")
		for range 3 {
			w.Add(func([]byte) []byte {
				t.Error("a line is taken for a destination that is gone")
				return nil
			}, false)
		}
		if err := w.Close(nil); err != broken || dst.calls != 2 {
			t.Errorf("Close returns %v after %d writes", err, dst.calls)
		}
	})
}

// An error that the timer ran into must not be lost.
func TestErrorOfALateWriteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")
		w := newWriter(&failing{err: broken})
		put(w, "a\n")
		time.Sleep(maxDelay)
		synctest.Wait()
		if w.Err() != broken || w.Close(nil) != broken {
			t.Errorf("Err %v, Close %v", w.Err(), w.Close(nil))
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

func TestWhatWaitsForABlockedDestinationIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each, size = 8, 2000, 1 << 10
		dst := newGate()
		w := newWriter(dst)
		line := strings.Repeat("x", size-1) + "\n"
		var taken atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					put(w, line)
					taken.Add(size)
				}
			})
		}
		synctest.Wait()
		// 64 KB are being written, 64 KB wait, and each writer may have found the last room.
		if got, most := taken.Load(), int64(2*writeSize+writers*size); got > most {
			t.Errorf("%d bytes were taken while nothing could be written, want at most %d", got, most)
		}
		close(dst.opened)
		wg.Wait()
		if err := w.Close(nil); err != nil {
			t.Fatal(err)
		}
		if got := dst.written.Load(); got != writers*each*size {
			t.Errorf("%d bytes arrived, want %d", got, writers*each*size)
		}
	})
}

func TestCloseWaitsForAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := newGate()
		w := newWriter(dst)
		put(w, "a\n")
		w.Flush()
		<-dst.entered
		closed := make(chan error, 1)
		go func() { closed <- w.Close([]byte("end\n")) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned before the line was written")
			closed <- nil
		default:
		}
		put(w, "after the end\n")
		close(dst.opened)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if got := dst.got.String(); got != "a\nend\n" {
			t.Errorf("%q was written", got)
		}
	})
}

// A goroutine that reads from a peer must not wait for a write to that peer, which may wait
// for it to read.
func TestFlushDoesNotWaitForThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := newGate()
		w := newWriter(dst)
		put(w, "a\n")
		w.Flush() // returns, or the test never ends
		<-dst.entered
		put(w, "b\n")
		w.Flush()
		begun := time.Now()
		close(dst.opened)
		synctest.Wait()
		if took := time.Since(begun); took != 0 || dst.written.Load() != 4 {
			t.Errorf("%d bytes were written after %v", dst.written.Load(), took)
		}
		if err := w.Close(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWritesWhatWaits(t *testing.T) {
	var dst recorder
	w := newWriter(&dst)
	put(w, "a\n")
	if err := w.Close(nil); err != nil || len(dst.all()) != 1 || dst.all()[0] != "a\n" {
		t.Errorf("Close gives %v and %q", err, dst.all())
	}
	if err := w.Close(nil); err != nil {
		t.Errorf("the second Close gives %v", err)
	}
}

// Lines of the older dialect may be long; the memory that they needed is given back.
func TestLargeBuffersAreNotKept(t *testing.T) {
	w := newWriter(&recorder{})
	for range 3 {
		put(w, strings.Repeat("x", 1<<20)+"\n")
		w.Writable(true)
		w.Add(func(dst []byte) []byte {
			if cap(dst) > maxSpare {
				t.Errorf("a buffer of %d bytes is kept", cap(dst))
			}
			return dst
		}, true)
	}
	if err := w.Close(nil); err != nil {
		t.Error(err)
	}
}

// The timer must not collect goroutines that wait for a destination that blocks.
func TestBlockedDestinationDoesNotCollectGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := newGate()
		w := newWriter(dst)
		const ours = "transport.(*Writer)"
		before := testkit.Goroutines(ours)
		for range 20 {
			put(w, "a\n")
			time.Sleep(2 * maxDelay)
		}
		synctest.Wait()
		if now := testkit.Goroutines(ours); now < 1 || now > before+1 {
			t.Errorf("20 lines made %d goroutines wait, after %d", now, before)
		}
		close(dst.opened)
		if err := w.Close(nil); err != nil {
			t.Error(err)
		}
	})
}

// trickle is an output that takes a few bytes at a time from those who do not wait.
type trickle struct {
	recorder
	takes int
}

func (d *trickle) TryWrite(b []byte) (int, error) {
	d.takes += 7
	n := min(len(b), d.takes%23)
	_, _ = d.Write(b[:n])
	return n, nil
}

func (d *trickle) WriteAll(b []byte, sent int) error {
	_, err := d.Write(b[sent:])
	return err
}

func TestLinesKeepTheirOrder(t *testing.T) {
	const lines = 5000
	var dst trickle
	w := newWriter(&dst)
	var want strings.Builder
	for n := range lines {
		line := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", n%40))
		want.WriteString(line)
		put(w, line)
		if n%5 < 2 {
			w.Flush()
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(dst.all(), ""); got != want.String() {
		t.Errorf("%d bytes of %d came, or in another order", len(got), want.Len())
	}
}

type brokenOutput struct{ trickle }

func (*brokenOutput) TryWrite([]byte) (int, error) { return 0, errors.New("it is broken") }

func TestAnAttemptThatFailsEndsWriting(t *testing.T) {
	var dst brokenOutput
	w := newWriter(&dst)
	put(w, "a\n")
	w.Flush()
	if err := w.Err(); err == nil || err.Error() != "it is broken" {
		t.Errorf("the error is %v", err)
	}
	put(w, "b\n")
	if err := w.Close(nil); err == nil || len(dst.all()) > 0 {
		t.Errorf("closed with %v after %q", err, dst.all())
	}
}
