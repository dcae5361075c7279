package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kernos/capability/script/engine"
	"kernos/message"
)

// TestCallsDoNotSeeEachOther runs a handler that spoils everything it finds beside one that looks.
//
// Clauses: E24-10.7-2
func TestCallsDoNotSeeEachOther(t *testing.T) {
	e := newEngine(t, engine.Options{Idle: 2})
	spoils := compile(t, e, `export const handler = async (input) => {
		Object.prototype.polluted = 1; globalThis.left = "here"; Array.prototype.push = () => 0;
		const parse = JSON.parse; JSON.parse = () => ({ a: "spoiled" }); Promise.prototype.then = undefined; Math.random = () => 4;
		kernos.call = console.log = undefined; delete globalThis.URL; Symbol.prototype.x = new Array(1000).fill("secret");
		return input;
	}`)
	looks := compile(t, e, `let n = 0; export const handler = async (input) => { n++;
		const seen = [({}).polluted, globalThis.left, [].push(1), Math.random() < 1, typeof URL, typeof kernos.call, n];
		return { a: (await input).a, seen };
	}`)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			in := fmt.Sprintf(`{"a":%d}`, i)
			_, _ = e.Run(context.Background(), spoils, json.RawMessage(in), &host{}, engine.Limits{})
			out, err := e.Run(context.Background(), looks, json.RawMessage(in), &host{}, engine.Limits{Time: time.Minute})
			if want := fmt.Sprintf(`{"a":%d,"seen":[null,null,1,true,"function","function",1]}`, i); err != nil || string(out) != want {
				t.Errorf("got %s, %v; want %s", out, err, want)
			}
		})
	}
	all.Wait()
}

// nesting answers every call with a call of the same program.
type nesting struct {
	host
	e *engine.Engine
	p *engine.Program
}

func (n *nesting) Call(ctx context.Context, _ string, data json.RawMessage) (json.RawMessage, error) {
	return n.e.Run(ctx, n.p, data, n, engine.Limits{Time: time.Minute})
}

const nested = `export const handler = async (n) => (n === 0 ? 0 : 1 + (await kernos.call("Self", n - 1)))`

func TestProgramsCallEachOther(t *testing.T) {
	e := newEngine(t, engine.Options{Idle: 1})
	p := compile(t, e, nested)
	out, err := e.Run(context.Background(), p, json.RawMessage(`20`), &nesting{e: e, p: p}, engine.Limits{Time: time.Minute})
	if err != nil || string(out) != "20" {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestACallThatFindsNoPlaceEndsWithItsCaller: with room for two, the third call of a chain waits in vain.
func TestACallThatFindsNoPlaceEndsWithItsCaller(t *testing.T) {
	e := newEngine(t, engine.Options{Engines: 2})
	p := compile(t, e, nested)
	_, err := e.Run(context.Background(), p, json.RawMessage(`2`), &nesting{e: e, p: p}, engine.Limits{Time: 50 * time.Millisecond})
	if _, ok := errors.AsType[*engine.OvertimeError](err); !ok {
		t.Errorf("got %v", err)
	}
	if out, err := e.Run(context.Background(), p, json.RawMessage(`1`), &nesting{e: e, p: p}, engine.Limits{Time: time.Minute}); err != nil || string(out) != "1" {
		t.Errorf("afterwards: %s, %v", out, err)
	}
}

func TestAllCallsTogetherHaveSoMuchMemory(t *testing.T) {
	e := newEngine(t, engine.Options{Memory: 8 << 20})
	p := compile(t, e, `export const handler = () => { const a = []; for (;;) a.push(new Uint8Array(1 << 16)) }`)
	_, err := e.Run(context.Background(), p, json.RawMessage(`{}`), &host{}, engine.Limits{Time: time.Minute})
	if m, ok := errors.AsType[*message.Error](err); !ok || m.Code != 503 {
		t.Errorf("got %v", err)
	}
	if out, err := e.Run(context.Background(), compile(t, e, pure), json.RawMessage(`{"a":1}`), &host{}, engine.Limits{}); err != nil {
		t.Errorf("afterwards: %s, %v", out, err)
	}
}

func TestACancelledCallEnds(t *testing.T) {
	e := newEngine(t, engine.Options{})
	p := compile(t, e, `export const handler = () => kernos.call("Wait")`)
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{call: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := e.Run(ctx, p, json.RawMessage(`{}`), h, engine.Limits{Time: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestAnEngineThatIsNotUsedCostsNothing: neither memory nor a directory.
func TestAnEngineThatIsNotUsedCostsNothing(t *testing.T) {
	dir := t.TempDir() + "/cache"
	made := testing.AllocsPerRun(10, func() {
		e := engine.New(&engine.Options{Cache: dir})
		for range 1000 {
			e.Load(engine.Source{Name: "Test.Code", Code: pure})
		}
		_ = e.Close()
	})
	if made > 4000 {
		t.Errorf("1,000 programs that don't run make %v allocations", made)
	}
}
