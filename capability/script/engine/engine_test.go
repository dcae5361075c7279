package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"kernos/capability/script/engine"
	"kernos/internal/testkit"
)

// newEngine returns an engine that shares the compiled QuickJS with the other tests.
func newEngine(t testing.TB, opts engine.Options) *engine.Engine {
	t.Helper()
	opts.Cache = testkit.Engine()
	e := engine.New(&opts)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func compile(t testing.TB, e *engine.Engine, code string) *engine.Program {
	t.Helper()
	p, err := e.Compile(context.Background(), engine.Source{Name: "Test.Code", Code: code})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAHandlerIsCompiledAndRun(t *testing.T) {
	e := newEngine(t, engine.Options{})
	p := compile(t, e, `
interface In { a: number; b: number }
let calls = 0;
export const InputSchema = { type: "object" };
export const handler = async (input: In) => ({ sum: input.a + input.b, calls: ++calls });`)
	if !p.Handler || p.Stream || string(p.InputSchema) != `{"type":"object"}` || p.OutputSchema != nil {
		t.Errorf("the exports were read as %+v", p)
	}
	for _, p := range []*engine.Program{p, p, e.Load(p.Source)} { // each call begins anew
		out, err := e.Run(context.Background(), p, json.RawMessage(`{"a":1,"b":2}`), nil, engine.Limits{})
		if err != nil || string(out) != `{"sum":3,"calls":1}` {
			t.Errorf("got %s, %v", out, err)
		}
	}
}

func TestErrorsNameTheLineOfTheSource(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ name, code, want string }{
		{"syntax", "type A = 1\nexport const x: number = ;", `Test.Code:2:26: Unexpected ";", in: export const x: number = ;`},
		{"at the end", "export const handler = (\n", `Test.Code:2:1: Unexpected end of file`},
		{"while it loads", "type A = 1\n\nthrow new Error('x')", `Test.Code:3:11: Error: x, in: throw new Error('x')`},
		{"import", "import fs from 'node:fs'\nexport const handler = () => fs", `Test.Code:1:16: "node:fs" can't be imported: code may import kernos:schema and nothing else, in: import fs from 'node:fs'`},
		{"in the handler", "interface A {\n a: 1 }\nexport function handler(input: A) {\n  return (input as any).b.c\n}", `Test.Code:4:11: TypeError: cannot read property 'c' of undefined, in: return (input as any).b.c`},
		{"after a wait", "interface A {\n a: 1 }\nexport async function handler(input: A) {\n  await 1;\n  const x: any = null; x.y = 1;\n}", `Test.Code:5:24: TypeError: cannot set property 'y' of null, in: const x: any = null; x.y = 1;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := e.Compile(context.Background(), engine.Source{Name: "Test.Code", Code: c.code})
			if err == nil {
				_, err = e.Run(context.Background(), p, json.RawMessage(`{}`), nil, engine.Limits{})
			}
			if _, ok := errors.AsType[*engine.CodeError](err); !ok || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
