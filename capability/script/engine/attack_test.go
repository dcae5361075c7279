package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"kernos/capability/script/engine"
	"kernos/message"
)

// blocks reads a file of "-- name -- what" lines, each followed by code.
func blocks(t *testing.T, file string, each func(name, what, code string)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		head, code, _ := strings.Cut(b, "\n")
		name, what, ok := strings.Cut(head+" ", " --")
		if !ok {
			t.Fatalf("%s: no name in %q", file, head)
		}
		n++
		each(name, strings.TrimSpace(what), code)
	}
	if n < 10 {
		t.Fatalf("%s has %d blocks", file, n)
	}
}

// never answers no call of Never, and all others at once.
func never(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error) {
	if typ == "Never" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if typ == "Echo" {
		return data, nil
	}
	return nil, message.Errorf(404, "No handler for %s", typ)
}

const pure = `export const handler = (input: { a: number }) => ({ a: input.a, polluted: ({} as any).polluted, random: Math.random() < 1 })`

// TestAttacksEndTheirCallAlone runs each attack beside calls of a harmless handler, which must go on.
func TestAttacksEndTheirCallAlone(t *testing.T) {
	e := newEngine(t, engine.Options{Memory: 512 << 20})
	harmless := compile(t, e, pure)
	blocks(t, "testdata/attacks.txt", func(name, want, code string) {
		t.Run(name, func(t *testing.T) {
			p := e.Load(engine.Source{Name: "Test.Code", Code: code})
			limits := engine.Limits{Time: time.Minute, Memory: 16 << 20}
			if want == "took longer" {
				limits.Time, limits.Memory = 20*time.Millisecond, 0
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := e.Run(context.Background(), p, json.RawMessage(`{}`), &host{call: never}, limits)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %.200s, %v; want an error with %q", out, err, want)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 400 {
				t.Errorf("the attack cost %d MB", n)
			}
			out, err = e.Run(context.Background(), harmless, json.RawMessage(`{"a":1}`), &host{call: never}, engine.Limits{})
			if err != nil || string(out) != `{"a":1,"random":true}` {
				t.Errorf("afterwards a harmless call gets %s, %v", out, err)
			}
		})
	})
}

// TestEscapesReachNothing runs tricks that broke out of other sandboxes, or out of QuickJS.
//
// Clauses: M24-8.5-1 E24-10.7-1 E24-10.7-2
func TestEscapesReachNothing(t *testing.T) {
	e := newEngine(t, engine.Options{})
	blocks(t, "testdata/escapes.txt", func(name, fault, code string) {
		t.Run(name, func(t *testing.T) {
			p := e.Load(engine.Source{Name: "Test.Code", Code: code})
			out, err := e.Run(context.Background(), p, json.RawMessage(`{}`), &host{call: never}, engine.Limits{})
			if fault != "" && err != nil && strings.Contains(err.Error(), fault) {
				return
			}
			if err != nil || string(out) != "null" {
				t.Errorf("got %.500s, %v", out, err)
			}
		})
	})
}
