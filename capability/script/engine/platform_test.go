package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/capability/script/engine"
	"kernos/message"
)

// A host answers nested calls with a function, and keeps everything else.
type host struct {
	call func(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error)

	mu    sync.Mutex
	lines []string
}

func (h *host) Call(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error) {
	return h.call(ctx, typ, data)
}

func (h *host) keep(parts ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, strings.Join(parts, " "))
}

func (h *host) Emit(_ context.Context, typ string, data json.RawMessage) error {
	h.keep("emit", typ, string(data))
	return nil
}

func (h *host) Progress(_ context.Context, note string, fraction float64) error {
	text, _ := json.Marshal(fraction)
	h.keep("progress", note, string(text))
	return nil
}

func (h *host) Log(level, text string) { h.keep(level, text) }

func TestThePlatformIsAsOnTheWeb(t *testing.T) {
	code, err := os.ReadFile("testdata/platform.js")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, engine.Options{})
	out, err := e.Run(context.Background(), compile(t, e, string(code)), json.RawMessage(`{}`), &host{}, engine.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Count    int
		Failures []string
	}
	if err := json.Unmarshal(out, &result); err != nil || result.Count < 30 {
		t.Fatalf("got %s", out)
	}
	for _, f := range result.Failures {
		t.Error(f)
	}
}

func TestWhatAHandlerReaches(t *testing.T) {
	e := newEngine(t, engine.Options{})
	echo := func(_ context.Context, typ string, data json.RawMessage) (json.RawMessage, error) {
		switch typ {
		case "Echo":
			return data, nil
		case "Http.Fetch":
			if strings.Contains(string(data), "large") {
				return json.RawMessage(`{"status":200,"headers":{},"bodyRef":{"scheme":"file","path":"/b"}}`), nil
			}
			return json.RawMessage(`{"status":404,"headers":{"Content-Type":"text/plain"},"body":` + string(data) + `}`), nil
		case "Blob.Read":
			if strings.Contains(string(data), `"offset":0`) {
				return json.RawMessage(`{"text":"he","offset":0,"size":4,"next":2}`), nil
			}
			return json.RawMessage(`{"base64":"eQo=","offset":2,"size":4}`), nil
		}
		return nil, message.Errorf(404, "No handler for %s: %w", typ, message.Errorf(503, "the reason"))
	}
	for _, c := range []struct {
		name, code, want string
		lines            []string
	}{
		{"a value", `export const handler = (x) => x`, `{"in":1}`, nil},
		{"nothing", `export const handler = () => {}`, `null`, nil},
		{"a value with then", `export const handler = () => ({ then(f) { f(1) } })`, `1`, nil},
		{"a call", `export const handler = async () => kernos.call("Echo", { a: 1 })`, `{"a":1}`, nil},
		{"a call that fails", `export const handler = () => kernos.call("No.Where").catch((e) => [e instanceof kernos.Error, e.code, e.message, e.cause.code])`, `[true,404,"No handler for No.Where",503]`, nil},
		{"fetch", `export const handler = async () => { const r = await fetch(new URL("https://a.example/"), { method: "post", headers: { A: "b" }, body: "x" }); return [r.ok, r.status, r.headers.get("content-type"), await r.text()] }`,
			`[false,404,"text/plain",{"url":"https://a.example/","method":"POST","headers":{"a":"b"},"body":"x"}]`, nil},
		{"fetch of much", `export const handler = async () => (await fetch("https://a.example/large")).text()`, `"hey\n"`, nil},
		{"events", `export async function* handler() { kernos.emit("A.B", { x: 1 }); yield 1; await null; yield { two: 2 }; return "end" }`, `"end"`, []string{`emit A.B {"x":1}`, `emit  1`, `emit  {"two":2}`}},
		{"a generator that doesn't wait", `export function* handler() { yield 1; return 2 }`, `2`, []string{`emit  1`}},
		{"progress", `export const handler = () => { kernos.progress("half", 0.5); kernos.progress("so far") }`, `null`, []string{`progress half 0.5`, `progress so far -1`}},
		{"console", `export const handler = () => { console.log("a", 1, { b: [2n > 1n] }, null, undefined); console.error(new TypeError("x").message); console.assert(false, "y") }`, `null`,
			[]string{`info a 1 {"b":[true]} null undefined`, `error x`, `error Assertion failed: y`}},
		{"a schema", `import { z } from "kernos:schema"; export const handler = () => z.object({ a: z.string().min(1).describe("A"), b: z.integer().optional(), c: z.enum(["x", "y"]).default("x"), d: z.array(z.number().nullable()) })`,
			`{"type":"object","properties":{"a":{"type":"string","minLength":1,"description":"A"},"b":{"type":"integer"},"c":{"enum":["x","y"],"default":"x"},"d":{"type":"array","items":{"type":["number","null"]}}},"required":["a","d"]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{call: echo}
			p := compile(t, e, c.code)
			if p.Stream != strings.Contains(c.code, "function*") {
				t.Errorf("Stream is %v", p.Stream)
			}
			out, err := e.Run(context.Background(), p, json.RawMessage(`{"in":1}`), h, engine.Limits{})
			if err != nil || string(out) != c.want {
				t.Errorf("got  %s, %v\nwant %s", out, err, c.want)
			}
			if !slices.Equal(h.lines, c.lines) {
				t.Errorf("got  %q\nwant %q", h.lines, c.lines)
			}
		})
	}
}

func TestErrorsWithACodeAreThoseOfTheCall(t *testing.T) {
	e := newEngine(t, engine.Options{})
	p := compile(t, e, `export const handler = () => { throw new kernos.Error(422, "no such city", { cause: new kernos.Error(404, "not found") }) }`)
	_, err := e.Run(context.Background(), p, json.RawMessage(`{}`), &host{}, engine.Limits{})
	if m, ok := errors.AsType[*message.Error](err); !ok || m.Code != 422 || m.Message != "no such city" || m.Cause == nil || m.Cause.Code != 404 {
		t.Errorf("got %#v", err)
	}
}

// TestNestedCallsRunSideBySide: each call waits until all of them have begun.
func TestNestedCallsRunSideBySide(t *testing.T) {
	e := newEngine(t, engine.Options{})
	p := compile(t, e, `export const handler = async () => (await Promise.all([1, 2, 3].map((n) => kernos.call("Wait", n)))).join()`)
	var all sync.WaitGroup
	all.Add(3)
	h := &host{call: func(_ context.Context, _ string, data json.RawMessage) (json.RawMessage, error) {
		all.Done()
		all.Wait()
		return data, nil
	}}
	if out, err := e.Run(context.Background(), p, json.RawMessage(`{}`), h, engine.Limits{}); err != nil || string(out) != `"1,2,3"` {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestAnAbortedCallIsCancelled: the context of a nested call ends when its signal aborts.
func TestAnAbortedCallIsCancelled(t *testing.T) {
	e := newEngine(t, engine.Options{})
	p := compile(t, e, `export const handler = async () => {
		const c = new AbortController();
		setTimeout(() => c.abort(), 1);
		return kernos.call("Wait", {}, { signal: c.signal }).catch((e) => e.name);
	}`)
	ended := make(chan struct{})
	h := &host{call: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}
	if out, err := e.Run(context.Background(), p, json.RawMessage(`{}`), h, engine.Limits{}); err != nil || string(out) != `"AbortError"` {
		t.Errorf("got %s, %v", out, err)
	}
	<-ended
}
