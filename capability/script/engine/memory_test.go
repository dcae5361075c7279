package engine

import (
	"context"
	"encoding/base64"
	"sync/atomic"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// TestAPlaceIsGivenBackWhenMemoryIsGone: calls that find no memory end with an error each, and none of them takes a
// place of the engine along.
func TestAPlaceIsGivenBackWhenMemoryIsGone(t *testing.T) {
	const places = 4
	e := New(&Options{Cache: testkit.Engine(), Engines: places, Idle: 1})
	acquire := func() (v *vm, err error) {
		defer func() {
			if p := recover(); p != nil { // as the kernel does for a handler
				t.Errorf("a panic: %v", p)
			}
		}()
		return e.acquire(t.Context(), nil)
	}
	var running []*vm
	for range 2 { // the engine keeps an instance since its start
		v, err := acquire()
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, v)
	}
	left := e.budget.Swap(1 << 20) // less than an instance takes
	for range places - len(running) {
		if _, err := acquire(); err == nil {
			t.Fatal("an instance was made without memory")
		} else if f, ok := message.ErrorOf(err); !ok || f.Code != 503 {
			t.Errorf("got %v", err)
		}
	}
	if n := len(e.active); n != len(running) {
		t.Fatalf("%d calls run, and %d places of %d are taken", len(running), n, places)
	}
	if n := e.budget.Swap(left); n != 1<<20 {
		t.Errorf("calls that got no memory have changed the budget by %d bytes", n-1<<20)
	}
	for range places - len(running) {
		v, err := acquire()
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, v)
	}
	for _, v := range running {
		e.release(v)
	}
	if err := e.Close(); err != nil { // waits for every place
		t.Error(err)
	}
	if n := e.budget.Load(); n != e.options.Memory {
		t.Errorf("%d bytes of the budget weren't given back", e.options.Memory-n)
	}
}

// TestAModuleThatNeverStartsGivesItsMemoryBack: neither a module that wants more to begin with than there is, nor one
// that fails before it is an instance, keeps a part of the budget.
func TestAModuleThatNeverStartsGivesItsMemoryBack(t *testing.T) {
	e := New(&Options{Cache: testkit.Engine()})
	t.Cleanup(func() { _ = e.Close() })
	for name, module := range map[string]string{
		"it traps while it is loaded": "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x10" + "\x07\x0a\x01\x06_start\x00\x00" + "\x08\x01\x00" + "\x0a\x05\x01\x03\x00\x00\x0b",
		"it wants 200 MB":             "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x04\x01\x00\x80\x19" + "\x07\x0a\x01\x06_start\x00\x00" + "\x0a\x04\x01\x02\x00\x0b",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := e.Compile(t.Context(), Source{Name: "Test.Wasm", Language: wasm, Code: base64.StdEncoding.EncodeToString([]byte(module))})
			if err != nil {
				t.Fatal(err)
			}
			before := e.budget.Load()
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("a panic: %v", p)
				}
				if n := e.budget.Load(); n != before || len(e.modular) != 0 {
					t.Errorf("%d bytes and %d places weren't given back", before-n, len(e.modular))
				}
			}()
			out, err := e.Run(context.Background(), p, nil, nothing{}, Limits{Memory: 16 << 20})
			if err == nil {
				t.Errorf("it has answered %s", out)
			}
		})
	}
}

// TestTheBudgetIsChargedForWhatIsHeld: memory that grows gets room to grow again, which is memory too.
func TestTheBudgetIsChargedForWhatIsHeld(t *testing.T) {
	const page = 1 << 16
	var budget atomic.Int64
	budget.Store(100 * page)
	l := &linear{budget: &budget, max: 64 * page}
	for _, pages := range []uint64{1, 2, 5, 6, 20, 21, 40, 64} {
		if l.Reallocate(pages*page) == nil {
			t.Fatalf("no memory for %d pages", pages)
		}
		if charged := 100*page - budget.Load(); charged != int64(cap(l.buffer)) {
			t.Errorf("%d pages: %d bytes are held, and %d charged", pages, cap(l.buffer), charged)
		}
	}
	other := &linear{budget: &budget, max: 64 * page}
	if other.Reallocate(20*page) == nil || other.Reallocate(30*page) == nil || cap(other.buffer) != 30*page {
		t.Errorf("what is left isn't given out: %d bytes are held", cap(other.buffer))
	}
	if other.Reallocate(40*page) != nil || !other.exhausted {
		t.Error("more was given out than there is")
	}
	l.Free()
	l.Free()
	other.Free()
	if budget.Load() != 100*page {
		t.Errorf("the budget has %d bytes", budget.Load())
	}
}
