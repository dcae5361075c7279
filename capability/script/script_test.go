package script_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/capability/introspect"
	"kernos/capability/memory"
	"kernos/capability/register"
	"kernos/capability/script"
	"kernos/capability/script/engine"
	"kernos/internal/testkit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

// shared is one engine for all tests.
var shared = engine.New(&engine.Options{Cache: testkit.Engine()})

// A world is a kernel that runs code, with some principals.
type world struct {
	t       testing.TB
	k       *kernel.Kernel
	store   store.Store
	scripts *script.Scripts
	tokens  map[string]*principal.Principal
	journal *journal.Journal
}

// newWorld returns a kernel on a store; nil means a new one.
func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	return newWorldOf(t, s, shared)
}

func newWorldOf(t testing.TB, s store.Store, e *engine.Engine) *world {
	t.Helper()
	if s == nil {
		s = storetest.NewMemory()
	}
	dir, err := blobs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, tokens: map[string]*principal.Principal{"": principal.TheOwner()}, journal: journal.New(s, nil)}
	w.k = kerneltest.Around(t, &kernel.Options{Store: s, Recorder: w.journal}, introspect.Module)
	find := func(id principal.ID) (*principal.Principal, error) {
		for _, p := range w.tokens {
			if p.ID() == id {
				return p, nil
			}
		}
		return nil, nil
	}
	w.scripts = script.New(w.k.Registry(), &script.Options{Store: s, Find: find, Engine: e, Names: 12})
	for _, m := range []kernel.Module{
		memory.New(s, dir, nil).Module(), w.scripts.Module(),
		register.Module(w.k.Registry(), &register.Options{Scripts: w.scripts, Store: s, Find: find}),
	} {
		if err := w.k.Registry().Add(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.scripts.Load(); err != nil {
		t.Fatal(err)
	}
	return w
}

// restart returns a kernel on the store of one that has ended.
func (w *world) restart(e *engine.Engine) *world {
	w.t.Helper()
	if err := w.journal.Close(); err != nil {
		w.t.Fatal(err)
	}
	return newWorldOf(w.t, w.store, e)
}

func (w *world) token(name string, g principal.Grant) {
	w.t.Helper()
	p := kerneltest.Principal(w.t, principal.ID(name), name, g)
	w.tokens[name] = p
}

// send sends a message for a token, or the owner, and returns the events and the outcome.
func (w *world) send(who string, m message.Message) (events []string, outcome message.Message) {
	w.t.Helper()
	var mu sync.Mutex
	w.k.Handle(kernel.ActFor(context.Background(), kernel.From(w.tokens[who], "unix")), m, func(m message.Message) {
		mu.Lock()
		defer mu.Unlock()
		if m.Kind.Answers() {
			outcome = m.Clone()
		} else {
			events = append(events, string(m.Type)+" "+string(m.Data))
		}
	})
	return events, outcome
}

// call is send for a syscall; it returns the data of the reply, or the code and text of the error.
func (w *world) call(who string, t message.Type, data string) string {
	w.t.Helper()
	m := kerneltest.Command("", t, data)
	w.k.Stamp(&m)
	_, outcome := w.send(who, m)
	if outcome.Kind == message.KindError {
		code, text := kerneltest.ReadError(w.t, outcome)
		return fmt.Sprintf("%d %s", code, text)
	}
	return string(outcome.Data)
}

// want is call for what must have an outcome, of which … stands for anything.
func (w *world) want(who string, t message.Type, data, want string) {
	w.t.Helper()
	if got := w.call(who, t, data); !fits(got, want) {
		w.t.Errorf("%s %s\ngot  %s\nwant %s", t, data, got, want)
	}
}

func fits(got, want string) bool {
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return got == want
	}
	if !strings.HasPrefix(got, parts[0]) || !strings.HasSuffix(got, parts[len(parts)-1]) {
		return false
	}
	for _, p := range parts {
		i := strings.Index(got, p)
		if i < 0 {
			return false
		}
		got = got[i+len(p):]
	}
	return true
}

// code is the data of a registration.
func code(name, kind, text string, more ...string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"name":%q,"kind":%q,"inputSchema":{},"outputSchema":{},"code":%s%s}`, name, kind, quoted, strings.Join(more, ""))
}

func TestCodeIsRegisteredAndCalled(t *testing.T) {
	w := newWorld(t, nil)
	hash := w.k.Registry().All().Hash()
	w.want("", "Syscall.Register", `{"name":"Text.Count","kind":"query","description":"Count words.","code":"export const InputSchema = {type: 'object', properties: {text: {type: 'string'}}, required: ['text']} as const;\nexport const OutputSchema = {type: 'object', properties: {words: {type: 'integer'}}};\nexport const handler = async ({text}: {text: string}) => ({words: text === 'none' ? 'none' : text.split(/\\s+/).length});"}`, `{"registered":true,"name":"Text.Count"}`)
	w.want("", "Text.Count", `{"text":"one two three"}`, `{"words":3}`)
	w.want("", "Text.Count", `{}`, `422 Schema validation failed: missing required field: text`)
	w.want("", "Text.Count", `{"text":"none"}`, `502 The code of Text.Count returned what its outputSchema doesn't allow: words: …`)
	w.want("", "Syscall.Describe", `{"name":"Text.Count"}`, `{"name":"Text.Count","kind":"query",…"summary":"Count words."…`)
	if w.k.Registry().All().Hash() == hash {
		t.Error("the hash is the same as before")
	}
	told, _, err := w.journal.List(t.Context(), journal.Query{Filter: journal.Filter{Type: string(register.Registered)}})
	if err != nil || len(told) != 1 || string(told[0].Message.Data) != `{"name":"Text.Count","version":"1.0.0"}` {
		t.Errorf("the event is %v (%v)", told, err)
	}
	w.want("", "Syscall.Unregister", `{"name":"Text.Count"}`, `{"unregistered":true}`)
	w.want("", "Text.Count", `{}`, `404 No handler for Text.Count…`)
	if w.k.Registry().All().Hash() != hash {
		t.Error("the hash isn't that of before the registration")
	}
}

func TestWhatIsRegisteredStaysAsItIsWritten(t *testing.T) {
	w := newWorld(t, nil)
	// A schema is described as it was written; in another order it is the same one.
	ordered := `{"name":"Text.Order","kind":"query","inputSchema":{"type":"object","properties":{%s}},"outputSchema":{},"code":"export const handler = () => 1"}`
	for _, properties := range []string{`"z":{"minimum":1}, "a":{}`, `"a":{},"z":{"minimum":1.0}`} {
		w.want("", "Syscall.Register", fmt.Sprintf(ordered, properties), `{…}`)
		w.want("", "Syscall.Describe", `{"name":"Text.Order"}`, `{…"input":{"type":"object","properties":{"z":{"minimum":1},"a":{}}},…`)
	}
	w.want("", "Syscall.Versions", `{"name":"Text.Order"}`, `{…"versions":[{"version":"1.0.0",…}]}`)

	// The bytes of a module are counted without base64.
	for size, want := range map[int]string{4 << 20: "422 …", 4<<20 + 1: "413 The code of Text.Module has 4194305 bytes, and may have 4194304"} {
		w.want("", "Syscall.Register", fmt.Sprintf(`{"name":"Text.Module","kind":"query","language":"wasm","inputSchema":{},"outputSchema":{},"code":%q}`, base64.StdEncoding.EncodeToString(make([]byte, size))), want)
	}
}

func TestCodeThatIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ data, want string }{
		{code("Text.One", "query", "export const handler = 1"), "422 …it doesn't export handler…"},
		{code("Text.One", "query", "const a: number = 1;\nexport const handler = (x: ) => 1;"), "422 Text.One:2:…, in: export const handler = (x: ) => 1;"},
		{code("Text.One", "query", "\n\nthrow new TypeError('at once');\nexport const handler = () => 1"), "422 Text.One:3:…TypeError: at once, in: throw new TypeError('at once');"},
		{code("Memory.One", "query", "export const handler = () => 1"), "403 name: Memory.One is reserved…"},
		{code("Text.One", "query", "export const handler = () => 1", `,"handler":"connection"`), "422 …handler and exclusive are those of a connection…"},
		{code("Text.One", "query", "export const handler = () => 1", `,"version":"one"`), "422 …version…"},
		{code("Text.One", "query", "export const handler = () => 1", `,"weights":{"9.0.0":1}`), `422 …Text.One has no version "9.0.0"; it has 1.0.0`},
		{`{"name":"Text.One","code":"export const handler = () => 1","inputSchema":{},"outputSchema":{}}`, "422 …missing required field: kind; give it, or export it…"},
		{`{"name":"Text.One","kind":"query","code":"export const handler = () => 1","inputSchema":{}}`, "422 …missing required field: outputSchema; give it, or export it from the code: export const OutputSchema = { type: \"object\" };"},
		{`{"name":"Text.One","code":"export const handler = () => 1"}`, "422 …missing required fields: kind, inputSchema, outputSchema; give them, or export them from the code: export const kind = \"query\"; export const InputSchema = …"},
		{`{"name":"Text.One","kind":"query","code":"export const InputSchema = {type: 'string'}; export const handler = () => 1","inputSchema":{},"outputSchema":{}}`, "422 …inputSchema differs from the InputSchema that the code exports; leave one of them out"},
		{code("Text.One", "query", "export const handler = () => 1", `,"emits":[{"type":"Syscall.Registered"}]`), "403 …"},
	} {
		w.want("", "Syscall.Register", c.data, c.want)
	}
	w.want("", "Text.One", `{}`, "404 No handler for Text.One…")
}

func TestExceptionsNameTheirPlace(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Syscall.Register", code("Text.Fail", "command", `interface In { how: string }
export const handler = async (input: In): Promise<unknown> => {
  if (input.how === "mapped") throw new kernos.Error(404, "nothing of that name");
  if (input.how === "nested") return kernos.call("Memory.Get", {key: "none/here"});
  const none: any = undefined;
  return none.such;
};`), `{"registered":true,"name":"Text.Fail"}`)
	w.want("", "Text.Fail", `{"how":"thrown"}`, "500 Text.Fail:6:…TypeError: …, in: return none.such;")
	w.want("", "Text.Fail", `{"how":"mapped"}`, "404 nothing of that name")
	w.want("", "Text.Fail", `{"how":"nested"}`, "404 …none/here…")
}

// The causes of an exception are those of the error; one without a code is a 500.
func TestCausesOfExceptions(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Syscall.Register", code("Text.Fail", "command", `export const handler = ({ how }: { how: string }) => {
  if (how === "mapped") throw new kernos.Error(404, "no city", { cause: new RangeError("too far") });
  if (how === "text") throw new Error("no", { cause: "the tide" });
  if (how === "none") throw new Error("no", { cause: null });
  throw new Error("no", { cause: new kernos.Error(422, "too late", { cause: new TypeError("not a time") }) });
};`), `{"registered":true,"name":"Text.Fail"}`)
	for how, want := range map[string]string{
		"mapped": `{"code":404,"message":"no city","cause":{"code":500,"message":"RangeError: too far"}}`,
		"text":   `{"code":500,"message":"…Error: no…","cause":{"code":500,"message":"the tide"}}`,
		"none":   `{"code":500,"message":"…Error: no…none…"}`,
		"chain":  `{"code":500,"message":"…Error: no…","cause":{"code":422,"message":"too late","cause":{"code":500,"message":"TypeError: not a time"}}}`,
	} {
		m := kerneltest.Command("", "Text.Fail", `{"how":"`+how+`"}`)
		w.k.Stamp(&m)
		if _, outcome := w.send("", m); !fits(string(outcome.Data), want) {
			t.Errorf("%s: %s", how, outcome.Data)
		}
	}
}

// The engine stops code that takes too long, and answers with its line, before the kernel's own deadline.
func TestCodeIsStoppedBeforeItsCallEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Syscall.Register", code("Test.Loop", "query", "export const handler = () => { for (;;) {} }", `,"limits":{"time":50}`), `{"registered":true…`)
	d, ok := w.k.Registry().Lookup("Test.Loop")
	if !ok || d.Timeout < time.Second {
		t.Errorf("the call may take %v", d.Timeout)
	}
	w.want("", "Test.Loop", `{}`, "504 Test.Loop took longer than its 50ms; it was in line 1: … (limits.time of the code sets it; without that, a job takes its own timeout)")
}

func TestEventsProgressAndLogs(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Syscall.Register", code("Text.Lines", "command", `export async function* handler({n}: {n: number}) {
  console.log("lines:", n);
  for (let i = 1; i <= n; i++) {
    kernos.progress("line " + i, i / n);
    yield {line: i};
  }
  kernos.emit("Text.Ended", {lines: n});
  try { kernos.emit("Memory.Changed", {}); } catch (e) { return (e as Error).message; }
}`), `{"registered":true,"name":"Text.Lines"}`)
	m := kerneltest.Command("lines", "Text.Lines", `{"n":2}`)
	events, outcome := w.send("", m)
	want := []string{
		`Syscall.Progressed {"message":"line 1","percentage":0.5}`, `Text.Lines {"line":1}`,
		`Syscall.Progressed {"message":"line 2","percentage":1}`, `Text.Lines {"line":2}`, `Text.Ended {"lines":2}`,
	}
	if strings.Join(events, "\n") != strings.Join(want, "\n") || !bytes.Contains(outcome.Data, []byte("built in")) {
		t.Errorf("got %s\n%s", strings.Join(events, "\n"), outcome.Data)
	}
	logged := 0
	entries, _, err := w.journal.List(t.Context(), journal.Query{Filter: journal.Filter{Causation: "lines"}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Message.Type == kernel.Logged && string(e.Message.Data) == `{"level":"info","text":"lines: 2"}` {
			logged++
		}
	}
	if logged != 1 {
		t.Errorf("the line of the console is recorded %d times", logged)
	}
}

func TestAQueryCallsQueriesOnly(t *testing.T) {
	w := newWorld(t, nil)
	for _, kind := range []string{"query", "command"} {
		w.want("", "Syscall.Register", code("Note."+map[string]string{"query": "Look", "command": "Keep"}[kind], kind, `export const handler = async () => {
  await kernos.call("Memory.Set", {key: "a", value: 1});
  return kernos.call("Memory.Get", {key: "a"});
}`), "{…}")
	}
	w.want("", "Note.Look", `{}`, "403 Note.Look is a query and may not call the command Memory.Set")
	w.want("", "Note.Keep", `{}`, "1")
}

func TestCodeActsForItsCallerAndItsAuthor(t *testing.T) {
	w := newWorld(t, nil)
	w.token("reader", principal.Grant{Preset: principal.Agent, Deny: []string{"Memory.Set"}})
	w.token("writer", principal.Grant{Preset: principal.Agent, Memory: []string{"own"}})
	const get = `export const handler = ({key}: any) => kernos.call("Memory.Get", {key});`
	const set = `export const handler = ({key}: any) => kernos.call("Memory.Set", {key, value: 1});`
	for who, name := range map[string]string{"": "Owner", "reader": "Reader", "writer": "Writer"} {
		w.want(who, "Syscall.Register", code(name+".Get", "query", get), "{…}")
		w.want(who, "Syscall.Register", code(name+".Set", "command", set), "{…}")
	}
	w.want("", "Memory.Set", `{"key":"own/a","value":1}`, "{…}")
	w.want("", "Memory.Set", `{"key":"other/a","value":1}`, "{…}")
	for _, c := range []struct{ who, call, key, want string }{
		{"", "Owner.Set", "other/b", "{…}"},
		{"", "Reader.Set", "other/b", `403 The token "reader" may not call Memory.Set…`},
		{"", "Writer.Set", "other/b", `403 The token "writer" reaches no key…`},
		{"", "Writer.Set", "own/b", "{…}"},
		{"reader", "Owner.Set", "own/b", `403 The token "reader" may not call Memory.Set…`},
		{"reader", "Owner.Get", "other/a", "1"},
		{"reader", "Writer.Get", "other/a", `403 The token "writer" reaches no key…`},
		{"reader", "Writer.Get", "own/a", "1"},
		{"reader", "Writer.Set", "own/b", `403 The token "reader" may not call Memory.Set…`},
		{"writer", "Reader.Get", "other/a", `403 The token "writer" reaches no key…`},
	} {
		w.want(c.who, message.Type(c.call), fmt.Sprintf(`{"key":%q}`, c.key), c.want)
	}

	w.want("reader", "Syscall.Register", `{"name":"Reader.Serve","kind":"query","inputSchema":{},"outputSchema":{}}`, `403 The token "reader" may not serve Reader.Serve over its connection…`)

	// The name is its author's, and revoking the author ends its code.
	w.want("writer", "Syscall.Register", code("Reader.Get", "query", get), `409 Reader.Get belongs to the token "reader"…`)
	w.want("", "Syscall.Register", code("Reader.Get", "query", get), `409 Reader.Get belongs to the token "reader"…`)
	w.want("writer", "Syscall.Unregister", `{"name":"Reader.Get"}`, `403 Reader.Get belongs to the token "reader"…`)
	w.want("writer", "Syscall.Rollback", `{"name":"Reader.Get"}`, `403 Reader.Get belongs to the token "reader"…`)
	w.want("writer", "Syscall.Versions", `{"name":"Reader.Get"}`, `403 Reader.Get belongs to the token "reader"…`)
	w.tokens["reader"].End(principal.ErrRevoked)
	w.want("", "Reader.Get", `{"key":"own/a"}`, `403 Reader.Get is code of the token "reader", which was revoked or has expired…`)
	w.want("writer", "Syscall.Register", code("Reader.Get", "query", `export const handler = () => "mine"`), "{…}")
	w.want("", "Reader.Get", `{}`, `"mine"`)
}

func TestVersions(t *testing.T) {
	w := newWorld(t, nil)
	version := func(n int) string { return fmt.Sprintf("export const handler = () => %d", n) }
	w.want("", "Syscall.Register", code("Text.N", "query", version(1)), "{…}")
	w.want("", "Syscall.Register", code("Text.N", "query", version(2)), "{…}")
	w.want("", "Syscall.Register", code("Text.N", "query", version(2)), "{…}") // which is the same version
	w.want("", "Text.N", `{}`, "2")
	w.want("", "Syscall.Register", code("Text.N", "query", version(3), `,"version":"1.0.1"`), "409 Version 1.0.1 of Text.N has other code…")
	w.want("", "Syscall.Versions", `{"name":"Text.N"}`, `{"name":"Text.N","author":"owner","versions":[{"version":"1.0.1","weight":1,…"calls":1,"failures":0,…},{"version":"1.0.0",…"calls":0,…}]}`)
	w.want("", "Syscall.Versions", `{"name":"Text.N","version":"1.0.0"}`, `{…"code":"export const handler = () => 1"}]}`)
	w.want("", "Syscall.Rollback", `{"name":"Text.N"}`, `{"name":"Text.N","version":"1.0.0"}`)
	w.want("", "Text.N", `{}`, "1")
	w.want("", "Syscall.Rollback", `{"name":"Text.N"}`, "409 Text.N has no version before 1.0.0")
	w.want("", "Syscall.Rollback", `{"name":"Text.N","version":"2.0.0"}`, "404 Text.N has no version 2.0.0; it has 1.0.0, 1.0.1")
	w.want("", "Syscall.Register", code("Text.N", "query", version(3), `,"version":"2.0.0","weights":{"1.0.0":3,"2.0.0":1}`), "{…}")
	counts := map[string]int{}
	for range 400 {
		counts[w.call("", "Text.N", `{}`)]++
	}
	if counts["1"] < 290 || counts["1"] > 310 || counts["1"]+counts["3"] != 400 {
		t.Errorf("of 400 calls, 300 were for version 1.0.0: %v", counts)
	}
	w.want("", "Syscall.Register", code("Text.N", "command", version(4), `,"weights":{"1.0.0":1,"2.0.1":1}`), "422 …differ in kind, inputSchema or outputSchema…")
	for _, wrong := range []string{"2.1", "v2.1.0", "2.1.x", "02.1.0", "2.1.0.4", "2.1.0-"} {
		w.want("", "Syscall.Register", code("Text.Next", "query", version(1), `,"version":"`+wrong+`"`), "422 …version: expected …")
	}
	w.want("", "Syscall.Register", code("Text.Next", "query", version(1), `,"version":"1.9.0-rc.1"`), "{…}")
	w.want("", "Syscall.Register", code("Text.Next", "query", version(2)), "{…}")
	w.want("", "Syscall.Register", code("Text.Next", "query", version(3), `,"version":"1.10.9+b"`), "{…}")
	w.want("", "Syscall.Register", code("Text.Next", "query", version(4)), "{…}")
	w.want("", "Syscall.Versions", `{"name":"Text.Next"}`, `{…{"version":"1.10.10",…},{"version":"1.10.9+b",…},{"version":"1.9.0",…},{"version":"1.9.0-rc.1",…}]}`)
	w.want("", "Syscall.Unregister", `{"name":"Text.Next"}`, `{"unregistered":true}`)

	// All of it is there after a restart, and none of it after the end.
	w = w.restart(shared)
	w.want("", "Syscall.Versions", `{"name":"Text.N"}`, `{…{"version":"2.0.0","weight":1,…},…{"version":"1.0.0","weight":3,…}]}`)
	w.want("", "Text.N", `{}`, "…")
	w.want("", "Syscall.Unregister", `{"name":"Text.N"}`, `{"unregistered":true}`)
	for e, err := range w.store.Scan(store.Prefix([]byte{store.SpaceScripts})) {
		t.Errorf("%q is left (%v)", e.Key, err)
	}
	w.restart(shared).want("", "Text.N", `{}`, "404 …")
}

// A restart needs no engine: code is compiled when it is called.
func TestARestartStartsNoEngine(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Syscall.Register", code("Text.N", "query", "export const handler = () => 1"), "{…}")
	none := engine.New(nil)
	if err := none.Close(); err != nil {
		t.Fatal(err)
	}
	w = w.restart(none)
	w.want("", "Syscall.Describe", `{"name":"Text.N"}`, `{"name":"Text.N",…}`)
	w.want("", "Text.N", `{}`, "503 …")
}

// A registration ends with two writes, of the script and of the claim to its name. If the kernel
// ends between them, the name is still its author's.
func TestANameIsItsAuthorsWithoutAClaim(t *testing.T) {
	w := newWorld(t, nil)
	w.token("one", principal.Grant{Preset: principal.Agent})
	w.token("two", principal.Grant{Preset: principal.Agent})
	w.want("one", "Syscall.Register", code("Text.N", "query", "export const handler = () => 1"), "{…}")
	var b store.Batch
	b.DeleteRange([]byte{store.SpaceClaims}, []byte{store.SpaceClaims + 1})
	if _, err := w.store.Apply(&b); err != nil {
		t.Fatal(err)
	}
	again := w.restart(shared)
	again.tokens = w.tokens
	for _, who := range []string{"two", ""} {
		again.want(who, "Syscall.Register", code("Text.N", "query", "export const handler = () => 2"), `409 Text.N belongs to the token "one"…`)
	}
	again.want("one", "Syscall.Register", code("Text.N", "query", "export const handler = () => 3"), "{…}")
}

// A call that has begun is finished by the version that it began with.
func TestACallIsFinishedByItsVersion(t *testing.T) {
	w := newWorld(t, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	gate := kerneltest.Raw("Test.Gate", func(_ context.Context, m message.Message, emit kernel.Emit) {
		close(begun)
		<-release
		emit(m.Reply(m.Data))
	})
	if err := w.k.Registry().Add(kerneltest.Module("gate", gate)); err != nil {
		t.Fatal(err)
	}
	w.want("", "Syscall.Register", code("Text.Old", "query", `export const handler = async () => { await kernos.call("Test.Gate", {}); return "old"; }`), "{…}")
	got := make(chan string)
	go func() { got <- w.call("", "Text.Old", `{}`) }()
	<-begun
	w.want("", "Syscall.Register", code("Text.Old", "query", `export const handler = () => "new"`), "{…}")
	w.want("", "Text.Old", `{}`, `"new"`)
	close(release)
	if outcome := <-got; outcome != `"old"` {
		t.Errorf("the call that had begun got %s", outcome)
	}
}

// Clauses: M24-8.5-2 M24-10.5-4
func TestRegistrationsAreLimited(t *testing.T) {
	w := newWorld(t, nil)
	w.token("one", principal.Grant{Preset: principal.Agent})
	taken := 0
	for i := range 40 {
		// Code that is refused at once counts too, and takes no time in which the limit would be refilled.
		if got := w.call("one", "Syscall.Register", code(fmt.Sprintf("Flood.N%d", i), "query", " ")); strings.HasPrefix(got, "422 ") {
			taken++
		} else if !strings.HasPrefix(got, "429 ") {
			t.Fatal(got)
		}
	}
	if taken < 16 || taken == 40 {
		t.Errorf("%d of 40 were taken at once", taken)
	}
	w.want("", "Syscall.Register", code("Other.One", "query", "export const handler = () => 1"), "{…}")

	// Files count neither for the names nor for the rate.
	for i := range 30 {
		w.fromFile(fmt.Sprintf("Many.N%d", i))
	}
	for i := range 11 {
		w.want("", "Syscall.Register", code(fmt.Sprintf("Other.N%d", i), "query", "export const handler = () => 1"), "{…}")
	}
	w.want("", "Syscall.Register", code("Other.Last", "query", "export const handler = () => 1"), "429 the owner has registered 12 scripts…")
}

// fromFile registers code as the daemon does that finds it in a file.
func (w *world) fromFile(name string) {
	ctx := script.FromFile(kernel.ActFor(w.t.Context(), kernel.Sender{}), script.File{URI: "os://syscalls/" + name + ".ts", Folder: "/os"})
	m := kerneltest.Command("", "Syscall.Register", code(name, "query", "export const handler = () => 1"))
	w.k.Stamp(&m)
	w.k.Handle(ctx, m, func(m message.Message) {
		if m.Kind == message.KindError {
			w.t.Fatalf("%s: %s", name, m.Data)
		}
	})
}

func TestTestRunsCodeWithoutRegisteringIt(t *testing.T) {
	w := newWorld(t, nil)
	w.want("", "Memory.Set", `{"key":"a","value":"there"}`, "{…}")
	quoted, _ := json.Marshal(`export const handler = async (input: any) => {
  console.warn("with", input);
  const a = await kernos.call("Memory.Get", {key: "a"});
  const set = await kernos.call("Memory.Set", {key: "a", value: "changed"});
  const given = await kernos.call("Memory.Delete", {key: "a"});
  try { await kernos.call("Memory.Get", {}) } catch (e: any) { kernos.emit("Text.Failed", {code: e.code}) }
  return {a, set, given};
}`)
	w.want("", "Syscall.Test", fmt.Sprintf(`{"code":%s,"data":{"n":1},"replies":{"Memory.Delete":"stand-in"}}`, quoted),
		`{"output":{"a":"there","set":{"success":true},"given":"stand-in"},"events":[{"type":"Text.Failed","data":{"code":422}}],"logs":[{"level":"warn","text":"with {\"n\":1}"}],"calls":[{"type":"Memory.Get","data":{"key":"a"},"run":true,"reply":"there"},{"type":"Memory.Set","data":{"key":"a","value":"changed"},"run":false,"reply":{"success":true}},{"type":"Memory.Delete",…"reply":"stand-in"},{"type":"Memory.Get",…"error":{"code":422,…}}],"ms":…}`)
	w.want("", "Memory.Get", `{"key":"a"}`, `"there"`)
	w.want("", "Syscall.Test", `{"code":"export const handler = () => { throw new Error('no') }"}`, `{"error":{"code":500,"message":"Test.Run:1:…Error: no, in: …"},"ms":…}`)
	w.want("", "Syscall.Test", `{"code":"export const handler = () => 1","kind":"query","inputSchema":{"type":"object","required":["a"]}}`, `422 …data: missing required field: a`)
	w.want("", "Test.Run", `{}`, "404 …")
}

// What a schema of code marks as a secret isn't recorded when the code is tested, wherever the code puts it.
func TestTestRecordsNoSecrets(t *testing.T) {
	const secret = "hunter2-or-longer"
	handler := `export const handler = async (input: any) => {
  console.log("got", input.pw);
  await kernos.call("Memory.Set", {key: "a", value: "the pw " + input.pw});
  return {again: input.pw};
};`
	marked := `{"type":"object","properties":{"pw":{"type":"string","writeOnly":true}}}`
	for _, c := range []struct{ code, more string }{
		{handler + "export const InputSchema = " + marked + ";", ""},
		{handler, `,"inputSchema":` + marked},
		{handler, `,"inputSchema":` + strings.Replace(marked, "writeOnly", `\u0077riteOnly`, 1)},
		{handler + "export const InputSchema = " + strings.Replace(marked, `"writeOnly":true`, `"format":"password"`, 1) + ";", ""},
	} {
		for _, field := range []string{"pw", "pww"} {
			w := newWorld(t, nil)
			quoted, _ := json.Marshal(c.code)
			w.want("", "Syscall.Test", fmt.Sprintf(`{"code":%s,"data":{%q:%q}%s}`, quoted, field, secret, c.more), "{…}")
			if err := w.journal.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			entries, _, err := w.journal.List(t.Context(), journal.Query{Limit: 100})
			if err != nil || len(entries) < 2 {
				t.Fatalf("%d messages are recorded, %v", len(entries), err)
			}
			for _, e := range entries {
				if bytes.Contains(e.Message.Data, []byte(secret)) {
					t.Errorf("recorded: %s", e.Message.Data)
				}
			}
		}
	}

	// The reply shows calls as they may be recorded.
	w := newWorld(t, nil)
	quoted, _ := json.Marshal(`export const handler = () => kernos.call("Memory.Set", {key: "vault/a", value: "` + secret + `"})`)
	if got := w.call("", "Syscall.Test", fmt.Sprintf(`{"code":%s}`, quoted)); strings.Contains(got, secret) {
		t.Errorf("the reply is %s", got)
	}
}

// A registration that fails at a write leaves what was there: the old version, or none.
func TestAFailedWriteLeavesTheOldVersion(t *testing.T) {
	for _, before := range []bool{false, true} {
		for at := 1; ; at++ {
			failing := &failingStore{Store: storetest.NewMemory()}
			w := newWorld(t, failing)
			old := "404 …"
			if before {
				w.want("", "Syscall.Register", code("Text.N", "query", "export const handler = () => 1"), "{…}")
				old = "1"
			}
			failing.fail(at)
			got := w.call("", "Syscall.Register", code("Text.N", "query", "export const handler = () => 2"))
			failed := failing.fail(0)
			if strings.HasPrefix(got, "{") {
				w.want("", "Text.N", `{}`, "2")
				if !failed {
					break // all writes have failed once
				}
				continue
			}
			now := w.call("", "Text.N", `{}`)
			if !fits(now, old) && now != "2" {
				t.Errorf("the write %d failed, and Text.N is %s", at, now)
			}
			if after := newWorld(t, failing.Store).call("", "Text.N", `{}`); after != now && !(fits(after, "404 …") && fits(now, "404 …")) {
				t.Errorf("the write %d failed, and Text.N is %s; after a restart it is %s", at, now, after)
			}
		}
	}
}

// A failingStore fails one write.
type failingStore struct {
	store.Store
	mu   sync.Mutex
	left int
	hit  bool
}

// fail makes the write of this number fail, counted from now on, and reports whether the last
// one has failed.
func (f *failingStore) fail(at int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit := f.hit
	f.left, f.hit = at, false
	return hit
}

func (f *failingStore) Apply(b *store.Batch) (*store.Commit, error) {
	f.mu.Lock()
	f.left--
	hit := f.left == 0
	f.hit = f.hit || hit
	f.mu.Unlock()
	if hit {
		return nil, store.Errorf(507, errors.New("injected"), "The disk is full")
	}
	return f.Store.Apply(b)
}

// BenchmarkRestart is a start with 1,000 scripts.
func BenchmarkRestart(b *testing.B) {
	w := newWorld(b, nil)
	for i := range 1000 {
		w.fromFile(fmt.Sprintf("Many.N%d", i))
	}
	for b.Loop() {
		newWorld(b, w.store)
	}
}
