package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// checkClean compares the whole memory of an instance that was rewound with its image.
func checkClean(t *testing.T, v *vm) {
	t.Helper()
	now, _ := v.memory.Read(0, v.image.size)
	want := append(make([]byte, stackEnd), v.image.data...)
	if bytes.Equal(now, want) {
		return
	}
	for i := range now {
		if now[i] != want[i] {
			t.Errorf("address %#x has %#x, want %#x (the stack ends at %#x, the marks begin at %#x)", i, now[i], want[i], stackEnd, v.marks)
			return
		}
	}
}

// TestMarksMissNothing runs all that the other tests run, and compares the memory afterwards.
func TestMarksMissNothing(t *testing.T) {
	e := New(&Options{Cache: testkit.Engine()})
	t.Cleanup(func() { _ = e.Close() })
	n := 0
	for _, file := range []string{"attacks.txt", "escapes.txt", "platform.js"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range strings.Split("\n"+string(text), "\n-- ") {
			if head, code, ok := strings.Cut(b, "\n"); ok && strings.Contains(head, "--") {
				b = code
			}
			p := e.Load(Source{Name: "Test.Code", Code: b})
			_, _ = e.Run(context.Background(), p, json.RawMessage(`{"a":[1,"two"]}`), nothing{}, Limits{Time: 50 * time.Millisecond, Memory: 16 << 20})
			if v, err := e.acquire(context.Background(), nil); err != nil {
				t.Fatal(err)
			} else {
				checkClean(t, v)
				e.release(v)
			}
			if n++; t.Failed() {
				t.Fatalf("after this code: %s", b)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d pieces of code were run", n)
	}
}

type nothing struct{}

func (nothing) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}
func (nothing) Emit(context.Context, string, json.RawMessage) error { return nil }
func (nothing) Progress(context.Context, string, float64) error     { return nil }
func (nothing) Log(string, string)                                  {}

// TestMemoryErrors: QuickJS writes a number to an address where it never would.
func TestMemoryErrors(t *testing.T) {
	e := New(&Options{Cache: testkit.Engine()})
	t.Cleanup(func() { _ = e.Close() })
	v, err := e.acquire(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	marks := v.marks
	own := marks + marks/blockSize // the marks of the marks
	e.release(v)
	for _, c := range []struct {
		name   string
		at     []uint32
		thrown bool
	}{
		{"the stack, deep", []uint32{4096}, false},
		{"constants", []uint32{stackEnd + 1024}, false},
		{"the heap", []uint32{marks + marksSize + 4096}, false},
		{"between two blocks", []uint32{stackEnd + 1023}, false},
		{"the end", []uint32{e.clean.size - 4}, false},
		{"the marks", []uint32{marks + 100}, true},
		{"into the marks", []uint32{marks - 2}, true},
		{"the marks, and their own", []uint32{stackEnd + 1024, marks + (stackEnd+1024)/blockSize, own, own + own/blockSize%blockSize}, true},
		{"all marks", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := e.acquire(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			text := v.string([]byte("a text"))
			for _, at := range c.at {
				p := v.getString.call(uint64(text), uint64(at)) // writes the length there
				if n, _ := v.memory.ReadUint32Le(at); p == 0 || n == 0 {
					t.Fatalf("nothing was written: %v", v.err)
				}
			}
			for at := marks; c.at == nil && at < marks+marksSize; at += 4 {
				v.getString.call(uint64(text), uint64(at))
			}
			e.release(v)
			again, err := e.acquire(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.release(again)
			if (again != v) != c.thrown {
				t.Errorf("the instance is thrown away: %v, want %v", again != v, c.thrown)
			}
			checkClean(t, again)
		})
	}
}
