package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/mcp"
)

// A peer is a client over lines.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

// connect opens a connection that acts for a principal; nil is the owner. It is closed with the test.
func connect(t *testing.T, d *daemon.Daemon, p *principal.Principal, tools string) *peer {
	t.Helper()
	return connectTo(t, d.MCP(), p, tools)
}

func connectTo(t *testing.T, s *mcp.Server, p *principal.Principal, tools string) *peer {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeLines(kernel.ActFor(context.Background(), kernel.From(p, "mcp")), inRead, outWrite, tools)
		_ = outWrite.Close()
	}()
	c := &peer{t: t, in: inWrite, out: bufio.NewScanner(outRead)}
	c.out.Buffer(nil, 8<<20)
	t.Cleanup(func() {
		_ = inWrite.Close()
		go func() { _, _ = io.Copy(io.Discard, outRead) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = outRead.Close()
	})
	return c
}

func (c *peer) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Error(err)
	}
}

// next returns the next message of the server.
func (c *peer) next() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the connection has ended: %v", c.out.Err())
	}
	return c.out.Text()
}

// ask sends a request and returns its response. Others that come before it are dropped.
func (c *peer) ask(id int, method, members string) string {
	c.t.Helper()
	c.send(request(id, method, members))
	for {
		if got := c.next(); strings.HasPrefix(got, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, id)) && !strings.HasPrefix(got, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":`, id)) {
			return got
		}
	}
}

func (c *peer) initialize(capabilities string) {
	c.t.Helper()
	if got := c.ask(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}`); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		c.t.Errorf("initialize: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// check looks for texts in a message, or for their absence. They are found in the text of a result, too.
func check(t *testing.T, about, got string, wants ...string) {
	t.Helper()
	all := got
	if strings.Contains(got, `"content":[`) {
		all += strings.ReplaceAll(got, `\"`, `"`)
	}
	for _, want := range wants {
		if absent, ok := strings.CutPrefix(want, "!"); ok == strings.Contains(all, absent) && ok || !ok && !strings.Contains(all, want) {
			t.Errorf("%s: want %s, got %.1500s", about, want, got)
		}
	}
	if !json.Valid([]byte(got)) {
		t.Errorf("%s: it isn't JSON: %s", about, got)
	}
}

// fixtures are syscalls of an embedding program.
func fixtures(o *daemon.Options) {
	raw := func(t message.Type, kind message.Kind, output *schema.Schema, f func(context.Context, message.Message, kernel.Emit) (string, error)) kernel.Syscall {
		return kernel.Definition{
			Type:     t,
			Kind:     kind,
			Summary:  "A fixture.",
			Input:    schema.Written(`{"type":"object"}`),
			Output:   output,
			Emits:    []kernel.EventDefinition{{Type: "Fixture.Happened", Summary: "Something."}},
			Behavior: kernel.Behavior{Runs: kernel.Slow},
		}.BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
			reply, err := f(ctx, m, emit)
			if err != nil {
				e, _ := message.ErrorOf(err)
				emit(m.Fail(e))
				return
			}
			emit(m.Reply(json.RawMessage(reply)))
		})
	}
	content := schema.Written(`{"type":"object","title":"MCP content"}`)
	name := `{"requests":{"name":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}}`
	asks := func(ctx context.Context, _ message.Message, _ kernel.Emit) (string, error) {
		reply, err := kernel.Invoke(ctx, "Mcp.Ask", json.RawMessage(name))
		return string(reply), err
	}
	o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
		raw("Fixture.Image", message.KindQuery, content, func(context.Context, message.Message, kernel.Emit) (string, error) {
			return `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, nil
		}),
		raw("Fixture.Tell", message.KindQuery, schema.Any, func(_ context.Context, m message.Message, emit kernel.Emit) (string, error) {
			emit(m.Event(kernel.Progressed, json.RawMessage(`{"message":"half","percentage":0.5}`)))
			emit(m.Event("Fixture.Happened", json.RawMessage(`"a line"`)))
			return `"told"`, nil
		}),
		raw("Fixture.Ask", message.KindQuery, schema.Any, asks),
		raw("Fixture.Who", message.KindQuery, schema.Any, func(ctx context.Context, _ message.Message, _ kernel.Emit) (string, error) {
			reply, err := kernel.Invoke(ctx, "Mcp.Client", json.RawMessage("{}"))
			return string(reply), err
		}),
		raw("Fixture.Both", message.KindQuery, schema.Any, func(ctx context.Context, _ message.Message, _ kernel.Emit) (string, error) {
			var both sync.WaitGroup
			var errs [2]error
			for i := range errs {
				both.Go(func() {
					_, errs[i] = kernel.Invoke(ctx, "Mcp.Ask", json.RawMessage(strings.Replace(name, `"name":`, fmt.Sprintf(`"name%d":`, i), 1)))
				})
			}
			both.Wait()
			return `"both"`, errors.Join(errs[:]...)
		}),
		raw("Fixture.Greet", message.KindQuery, schema.Any, func(_ context.Context, m message.Message, _ kernel.Emit) (string, error) {
			return fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, "Greet "+string(m.Data)), nil
		}),
		raw("Fixture.Page", message.KindQuery, schema.Any, func(_ context.Context, m message.Message, _ kernel.Emit) (string, error) { return string(m.Data), nil }),
		raw("Fixture.Wait", message.KindQuery, schema.Any, func(ctx context.Context, _ message.Message, _ kernel.Emit) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
		raw("Fixture.Fail", message.KindCommand, schema.Any, func(context.Context, message.Message, kernel.Emit) (string, error) {
			return "", message.Errorf(409, "Not now")
		}),
	}})
	o.Offers = []mcp.Offer{
		{Type: "Fixture.Greet", Prompt: "greet"}, {Type: "Fixture.Page", Resource: "page://{book}/{+path}", Name: "page", MimeType: "application/json"},
		{Type: "Fixture.Ask", Task: mcp.TaskOptional, Tool: "ask_me"}, {Type: "Fixture.Fail", Task: mcp.TaskRequired},
	}
}

// TestRequests sends requests of the stateful era, and looks at the responses.
func TestRequests(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	c.initialize(`{}`)
	for i, r := range []struct {
		method, members string
		wants           []string
	}{
		{"initialize", `"protocolVersion":"2025-11-25","capabilities":{}`, []string{`"icons":[{"src":"data:image/svg+xml;base64,`}},
		{"ping", ``, []string{`"result":{}`}},
		{"tools/call", `"name":"Memory_Set","arguments":{"key":"notes/a b","value":{"x":[1.50]}}`, []string{`"text":"{"success":true}"`, "!structuredContent", `"kernos/message":"`, "!isError"}},
		{"tools/call", `"name":"Memory.Get","arguments":{"key":"notes/a b"},"_meta":{"kernos/correlation":"flow-1"}`, []string{`"text":"{\"x\":[1.50]}"`, "!structuredContent", `"kernos/correlation":"flow-1"`}},
		{"tools/call", `"name":"memory_get","arguments":{"kye":"a"}`, []string{`"isError":true`, `"code":422`, `"guidance":{"error_kind":"invalid_params"`, `"suggested_method":"Memory_Get"`, "!structuredContent"}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"nowhere"}`, []string{`"isError":true`, `"code":404`}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"a"},"_meta":{"kernos/correlation":"` + strings.Repeat("x", 300) + `"}`, []string{`"code":-32602`}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"a"},"_meta":{"kernos/correlation":7}`, []string{`"code":-32602`, `_meta: kernos/correlation must be a text`}},
		{"tools/call", `"name":"Memory_Set","arguments":{"key":"a","value":1},"_meta":{"kernos/idempotencyKey":{}}`, []string{`"code":-32602`, `kernos/idempotencyKey must be a text`}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"a"},"_meta":{"traceparent":7}`, []string{`"code":-32602`, `traceparent must be a text`}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"a"},"_meta":{"traceparent":null,"tracestate":"a=1","x-tenant":"acme"}`, []string{`"tracestate":"a=1","x-tenant":"acme"`, "!traceparent"}},
		{"resources/read", `"uri":"os://proc/version","_meta":{"kernos/causation":[]}`, []string{`kernos/causation must be a text`}},
		{"tools/call", `"name":5`, []string{`"code":-32602`, `name must be a text`}},
		{"tools/call", `"name":"Syscall_Register","arguments":{"name":"A.B","description":"x","kind":"query","code":"1"}`, []string{`"code":422`, `export handler`, "!method_schema"}},
		{"resources/read", ``, []string{`"code":-32602`, `uri must be a text`}},
		{"resources/read", `"uri":5`, []string{`"code":-32602`, `uri must be a text`}},
		{"resources/subscribe", `"uri":5`, []string{`"code":-32602`, `uri must be a text`}},
		{"resources/subscribe", `"uri":"blob://nothing"`, []string{`"code":-32002`}},
		{"resources/subscribe", `"uri":"memory://not/yet"`, []string{`"result":{}`}},
		{"tools/call", `"name":"Memory_Gte"`, []string{`"code":-32602`, `did you mean Memory_Get`}},
		{"tools/call", `"name":"Echo","arguments":[]`, []string{`"code":-32602`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory.Set","data":{"key":"by/call","value":7}}`, []string{`"success":true`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory_Set","data":{"key":"by/name","value":"8"}}`, []string{`"success":true`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory.Set","data":" {\"key\":\"by/text\",\"value\":9} "}`, []string{`"success":true`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory.Get","data":"by/text"}`, []string{`"isError":true`, `"code":422`, `"method":"Memory.Get"`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory.Get","data":{"kye":"a"}}`, []string{`"guidance":{"error_kind":"invalid_params","method":"Memory.Get"`, `"withRevision":`}},
		{"tools/call", `"name":"Syscall_Call","arguments":{"type":"Memory.Get","key":"a"}`, []string{`"guidance":{"error_kind":"invalid_params","method":"Syscall_Call"`}},
		{"tools/call", `"name":"Fixture_Image"`, []string{`"result":{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]`}},
		{"tools/list", ``, []string{`"name":"Fixture_Image","title":"Fixture.Image"`, `"name":"ask_me","title":"Fixture.Ask"`, `"readOnlyHint":true`, "!Memory_History"}},
		{"tools/list", `"cursor":"?"`, []string{`"code":-32602`}},
		{"resources/list", ``, []string{`{"uri":"memory://notes/a%20b","name":"notes/a b"}`}},
		{"resources/read", `"uri":"memory://notes/a%20b"`, []string{`"mimeType":"application/json","text":"{\"x\":[1.50]}"`}},
		{"resources/read", `"uri":"memory://nowhere"`, []string{`"code":-32002`, `"data":{"uri":"memory://nowhere"}`}},
		{"resources/read", `"uri":"os://proc/version"`, []string{`"uri":"os://proc/version"`, `"text":"`}},
		{"resources/read", `"uri":"page://b/c/d"`, []string{`"text":"{\"book\":\"b\",\"path\":\"c/d\"}"`}},
		{"resources/read", `"uri":"blob://nothing"`, []string{`"code":-32002`}},
		{"resources/templates/list", ``, []string{`"uriTemplate":"memory://{+key}"`, `"uriTemplate":"page://{book}/{+path}"`}},
		{"prompts/list", ``, []string{`"name":"greet"`}},
		{"prompts/get", `"name":"greet","arguments":{"who":"Ann"}`, []string{`"text":"Greet {\"who\":\"Ann\"}"`}},
		{"tools/call", `"name":"VFS_Write","arguments":{"uri":"os://agents/tidy.md","content":"---\nname: tidy\ndescription: Tidies.\n---\nTidy up.\n"}`, []string{"!isError"}},
		{"prompts/list", ``, []string{`{"name":"tidy","title":"agent tidy","description":"Tidies.","arguments":[{"name":"request",`}},
		{"prompts/get", `"name":"tidy","arguments":{"request":"The attic, please."}`, []string{`Tidy up.`, `{"role":"user","content":{"type":"text","text":"The attic, please."}}`}},
		{"prompts/get", `"name":"tidy"`, []string{`Tidy up.`, "!The attic"}},
		{"prompts/get", `"name":"nothing"`, []string{`"code":-32602`}},
		{"completion/complete", `"ref":{"type":"ref/resource","uri":"memory://{+key}"},"argument":{"name":"key","value":"no"}`, []string{`"values":["notes/"],"total":1,"hasMore":false`}},
		{"skills/list", ``, []string{`"skills":[]`}},
		{"skills/get", `"uri":"skill://none/SKILL.md"`, []string{`"code":-32602`}},
		{"logging/setLevel", `"level":"loud"`, []string{`"code":-32602`}},
		{"tasks/get", `"taskId":"x"`, []string{`"code":-32601`}},
		{"no/such", ``, []string{`"code":-32601`}},
	} {
		check(t, r.method+" "+r.members, c.ask(100+i, r.method, r.members), r.wants...)
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for line, want := range map[string]string{
		`{`:                          `"id":null,"error":{"code":-32700`,
		`[{"jsonrpc":"2.0","id":1}]`: `"code":-32600`,
		`{"method":"ping","params":{"a":` + deep + `},"jsonrpc":"2.0","id":7}`:                                        `"id":7,"error":{"code":-32700`,
		`{"jsonrpc":"2.0","id":"a\"b","method":"ping","params":` + deep + `}`:                                         `"id":"a\"b","error":{"code":-32700`,
		`{"jsonrpc":"2.0","id":8,"result":` + deep + `}`:                                                              `"id":null,"error":{"code":-32700`,
		`{"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `","id":6},"jsonrpc":"2.0", "id" : -1.5e3}`: `"id":-1.5e3,"error":{"code":-32600`,
		`{"jsonrpc":"1.0","id":1}`:            `"code":-32600`,
		`{"jsonrpc":"2.0","id":{}}`:           `"code":-32600`,
		request(1, "tools/call", `"_meta":1`): `"code":-32602`,
	} {
		c.send(line)
		got := c.next()
		for strings.Contains(got, `"method":"notifications/`) { // of what was written above
			got = c.next()
		}
		check(t, message.Clip(line, 100), got, want)
	}
}

// TestStatelessRequests sends requests that stand for themselves.
func TestStatelessRequests(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "all")
	for i, r := range []struct {
		method, members string
		wants           []string
	}{
		{"server/discover", modernMeta, []string{`"resultType":"complete"`, `"supportedVersions":["2026-07-28","2025-11-25"`, `"ttlMs":`, `"io.modelcontextprotocol/serverInfo":{"name":"kernos"`, `"icons":[`}},
		{"server/discover", ``, []string{`"code":-32602`}},
		{"server/discover", strings.Replace(modernMeta, "2026-07-28", "1900-01-01", 1), []string{`"code":-32022`, `"requested":"1900-01-01"`}},
		{"tools/list", modernMeta, []string{`"cacheScope":"private"`, `"outputSchema":`, `"name":"Memory_History"`}},
		{"tools/call", `"name":"Memory_Set","arguments":{"key":"a","value":1},` + modernMeta, []string{`"resultType":"complete"`}},
		{"tools/call", `"name":"Memory_Get","arguments":{"key":"a"},` + modernMeta, []string{`"structuredContent":1`}},
		{"resources/read", `"uri":"test://none",` + modernMeta, []string{`"code":-32602`, `"data":{"uri":"test://none"}`}},
		{"ping", modernMeta, []string{`"code":-32601`}},
		{"initialize", modernMeta, []string{`"code":-32601`}},
	} {
		check(t, r.method+" "+r.members, c.ask(100+i, r.method, r.members), r.wants...)
	}
}

// The tools that a model is shown by default leave it most of its context.
func TestCoreToolsFitIntoNineThousandBytes(t *testing.T) {
	d, _ := serve(t, nil)
	for about, p := range map[string]*principal.Principal{"the owner": nil, "an agent": agent(t, principal.Grant{Preset: principal.Agent})} {
		for _, meta := range []string{"", modernMeta} {
			c := connect(t, d, p, "core")
			c.initialize(`{}`)
			list := c.ask(1, "tools/list", meta)
			check(t, about, list, `"name":"Syscall_Search"`, `"name":"Syscall_Describe"`, `"name":"Syscall_Call"`, `"name":"Memory_Set"`, `"name":"Memory_Get","title":"Get a value"`, "!outputSchema")
			if len(list) >= 9000 {
				t.Errorf("%s: tools/list has %d bytes", about, len(list))
			}
		}
	}
}

// Providers of models refuse a request with one tool whose name is too long, or whose schema isn't that of an
// object without choices.
func TestToolsAreTakenByProviders(t *testing.T) {
	const long = "Weather.ForecastForTheCityAndTheDayThatTheCallerNamesInTheRequest"
	d, _ := serve(t, func(o *daemon.Options) {
		definition := kernel.Definition{Type: long, Kind: message.KindQuery, Summary: "A fixture.", Output: schema.Any,
			Input: schema.Written(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}],"not":{"required":["a","b"]}}`)}
		o.Modules = append(o.Modules, kernel.Module{Name: "weather", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
			definition.BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) {
				emit(m.Reply(json.RawMessage(`"sunny"`)))
			})}})
	})
	c := connect(t, d, nil, "all")
	c.initialize(`{}`)
	for era, members := range map[string]string{"2025-11-25": "", "2026-07-28": modernMeta} {
		var list struct {
			Result struct {
				Tools []struct {
					Name, Title string
					InputSchema map[string]json.RawMessage
				}
			}
		}
		if err := json.Unmarshal([]byte(c.ask(1, "tools/list", members)), &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Result.Tools {
			if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,51}$`).MatchString(one.Name) {
				t.Errorf("%s: the name of %s is %s", era, one.Title, one.Name)
			}
			for _, keyword := range []string{"anyOf", "oneOf", "allOf", "not", "enum"} {
				asWritten := one.Title == long // it isn't the kernel's
				if _, has := one.InputSchema[keyword]; has && !asWritten || string(one.InputSchema["type"]) != `"object"` {
					t.Errorf("%s: %s: the schema has %s at its top: %s", era, one.Title, keyword, one.InputSchema)
				}
			}
			if one.Title == long {
				check(t, "a long name", c.ask(2, "tools/call", `"name":"`+one.Name+`","arguments":{"a":"x"}`), `"text":"sunny"`)
				check(t, "the choice", c.ask(3, "tools/call", `"name":"`+one.Name+`","arguments":{}`), `"code":422`)
			}
		}
	}
}

func agent(t *testing.T, g principal.Grant) *principal.Principal {
	t.Helper()
	return kerneltest.Principal(t, "01M7HXSARMHEAFY9FX857TCETY", "tester", g)
}

// A client lists and calls what its token may.
func TestRightsOfAToken(t *testing.T) {
	d, _ := serve(t, nil)
	c := connect(t, d, agent(t, principal.Grant{Allow: []string{"Memory.*"}, Memory: []string{"mine"}}), "all")
	c.initialize(`{}`)
	check(t, "tools", c.ask(1, "tools/list", ``), `"name":"Memory_Get"`, "!Http_Fetch", "!Token_Create")
	check(t, "another tool", c.ask(2, "tools/call", `"name":"Crypto_Open","arguments":{"ciphertext":"x"}`), `"isError":true`, `"code":403`, `kernos token update tester`)
	check(t, "another key", c.ask(3, "resources/read", `"uri":"memory://yours/a"`), `"error":{"code":-32002`)
	check(t, "its own", c.ask(4, "tools/call", `"name":"Memory_Set","arguments":{"key":"mine/a","value":"x"}`), `"success":true`)
	check(t, "resources", c.ask(5, "resources/list", ``), `memory://mine/a`)
	check(t, "files", c.ask(6, "resources/read", `"uri":"os://proc/version"`), `"error":`)
	check(t, "what a person may do", c.ask(7, "tools/call", `"name":"Syscall_Search","arguments":{"query":"create a token"}`), `"name":"Token.Create","kind":"command"`, `"for":"owner only"`)
	check(t, "and types", c.ask(8, "tools/call", `"name":"Syscall_Describe","arguments":{"name":"Token.Create"}`), `"command":"kernos token create --name NAME"`)
	check(t, "is refused", c.ask(9, "tools/call", `"name":"Token_Create","arguments":{"name":"x"}`), `"code":403`, `as its owner`)
}

// Progress goes to clients that have asked for it, and other events to those that want a log.
func TestEventsOfACall(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	c.initialize(`{}`)
	call := func(id int, meta string) (all []string) {
		c.send(request(id, "tools/call", `"name":"Fixture_Tell"`+meta))
		for {
			all = append(all, c.next())
			if strings.Contains(all[len(all)-1], `"result":`) {
				return all
			}
		}
	}
	if got := call(1, ""); len(got) != 1 {
		t.Errorf("a client that wants nothing gets %q", got)
	}
	c.ask(2, "logging/setLevel", `"level":"info"`)
	got := call(3, `,"_meta":{"progressToken":"p"}`)
	if len(got) != 3 {
		t.Fatalf("got %q", got)
	}
	check(t, "progress", got[0], `"method":"notifications/progress","params":{"progressToken":"p","progress":0.5,"total":1,"message":"half"}`)
	check(t, "log", got[1], `"method":"notifications/message","params":{"level":"info","logger":"Fixture.Happened","data":"a line"}`)
	c.ask(4, "logging/setLevel", `"level":"error"`)
	if got := call(5, ""); len(got) != 1 {
		t.Errorf("a client that wants errors gets %q", got)
	}
	if got := call(6, `,`+strings.Replace(modernMeta, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"debug",`, 1)); len(got) != 2 {
		t.Errorf("a request that wants a log gets %q", got)
	}
}

// A request that is cancelled has no response.
func TestCancellation(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	c.initialize(`{}`)
	c.send(request(7, "tools/call", `"name":"Fixture_Wait"`))
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	c.send(request(8, "ping", ``))
	check(t, "the next response", c.next(), `"id":8`)
}

// Over HTTP, its answer is a stream without an event: clients refuse an answer without a content type.
func TestCancellationOverHTTP(t *testing.T) {
	_, address := serve(t, fixtures)
	session := sendHTTP(t, address, "POST", request(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)).Header.Get("Mcp-Session-Id")
	answer := make(chan *http.Response, 1)
	go func() {
		answer <- sendHTTP(t, address, "POST", request(7, "tools/call", `"name":"Fixture_Wait"`), "Mcp-Session-Id", session)
	}()
	var got *http.Response
	testkit.Until(t, "the call has ended", func() bool { // what is cancelled may not have come yet
		_ = sendHTTP(t, address, "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", session).Body.Close()
		select {
		case got = <-answer:
			return true
		default:
			return false
		}
	})
	text, err := io.ReadAll(got.Body)
	if kind := got.Header.Get("Content-Type"); err != nil || !strings.HasPrefix(kind, "text/event-stream") || strings.Contains(string(text), "data:") {
		t.Errorf("%v: %q: %s", err, kind, text)
	}
}

// sendHTTP sends a request over HTTP, and returns the answer.
func sendHTTP(t *testing.T, address, method, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// stream sends a request over HTTP, and returns the headers of the answer and what reads its events.
func stream(t *testing.T, address, method, body string, headers ...string) (http.Header, func() string) {
	t.Helper()
	response := sendHTTP(t, address, method, body, headers...)
	lines := bufio.NewScanner(response.Body)
	return response.Header, func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		return "the end of the stream"
	}
}

// until reads messages until one has some text.
func until(t *testing.T, c *peer, text string) string {
	t.Helper()
	for {
		if got := c.next(); strings.Contains(got, text) {
			return got
		}
	}
}

// A call asks its client, in both eras, and goes on where it was.
func TestAsk(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	c.initialize(`{"elicitation":{}}`)
	c.send(request(1, "tools/call", `"name":"Fixture_Ask"`))
	asked := until(t, c, `"method":"elicitation/create"`)
	check(t, "the request", asked, `"params":{"message":"Who?"`)
	c.send(`{"jsonrpc":"2.0",` + regexp.MustCompile(`"id":\d+`).FindString(asked) + `,"result":{"action":"accept","content":{"name":"Ann"}}}`)
	check(t, "stateful", until(t, c, `"id":1,"result"`), `Ann`)

	first := c.ask(2, "tools/call", `"name":"Fixture_Ask",`+modernMeta)
	check(t, "stateless", first, `"resultType":"input_required"`, `"inputRequests":{"name":{"method":"elicitation/create"`)
	state := regexp.MustCompile(`"requestState":"[^"]+"`).FindString(first)
	check(t, "another tool", c.ask(3, "tools/call", `"name":"Fixture_Image",`+state+`,`+modernMeta), `"code":-32602`)
	check(t, "tampered", c.ask(4, "tools/call", `"name":"Fixture_Ask",`+state[:len(state)-1]+`x",`+modernMeta), `"code":-32602`)
	again := c.ask(5, "tools/call", `"name":"Fixture_Ask",`+state+`,"inputResponses":{"name":{"action":"accept","content":{"name":5}}},`+modernMeta)
	check(t, "an answer that doesn't fit", again, `"resultType":"input_required"`)
	state = regexp.MustCompile(`"requestState":"[^"]+"`).FindString(again)
	answer := `"inputResponses":{"name":{"action":"accept","content":{"name":"Bob"}}},`
	check(t, "an answer", c.ask(6, "tools/call", `"name":"Fixture_Ask",`+state+`,`+answer+modernMeta), `"resultType":"complete"`, `Bob`)
	check(t, "the same answer again", c.ask(7, "tools/call", `"name":"Fixture_Ask",`+state+`,`+answer+modernMeta), `"code":-32602`)
	check(t, "an answer in advance", c.ask(8, "tools/call", `"name":"Fixture_Ask",`+answer+modernMeta), `"resultType":"complete"`, `Bob`)
	check(t, "a client that can't", c.ask(9, "tools/call", `"name":"Fixture_Ask",`+strings.Replace(modernMeta, `"elicitation":{}`, ``, 1)), `"code":-32021`, `"requiredCapabilities":{"elicitation":{}}`)
}

// A call finds its client while others begin. The race detector looks at this.
func TestCallsAtOnceFindTheirClient(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	c.initialize(`{"roots":{}}`)
	const calls = 100
	go func() {
		for id := range calls {
			c.send(request(1+id, "tools/call", `"name":"Fixture_Who"`))
		}
	}()
	for answered := 0; answered < calls; {
		if got := c.next(); strings.Contains(got, `"result":`) {
			check(t, "the client", got, `"text":"{"version":"2025-11-25","capabilities":{"roots":{}}}"`)
			answered++
		}
	}
}

// A job is a task, which may ask.
func TestTasks(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, nil, "")
	follows := strings.Replace(modernMeta, `"elicitation":{}`, `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	check(t, "a client that can't follow", c.ask(1, "tools/call", `"name":"Fixture_Fail",`+modernMeta), `"code":-32021`, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	check(t, "nor look", c.ask(2, "tasks/get", `"taskId":"x",`+modernMeta), `"code":-32021`)
	begin := func(id int, name string) string {
		created := c.ask(id, "tools/call", `"name":"`+name+`",`+follows)
		check(t, name, created, `"resultType":"task"`, `"status":"working"`, `"pollIntervalMs":500`, "!requestState")
		return regexp.MustCompile(`"taskId":"[^"]+"`).FindString(created)
	}
	wait := func(task, status string) string {
		for id := 100; ; id++ {
			got := c.ask(id, "tasks/get", task+","+follows)
			if strings.Contains(got, `"status":"`+status+`"`) {
				return got
			}
			if !strings.Contains(got, `"status":"working"`) {
				t.Fatalf("the task is %s", got)
			}
		}
	}
	asking := begin(3, "ask_me")
	check(t, "it asks", wait(asking, "input_required"), `"inputRequests":{"name":{"method":"elicitation/create"`)
	check(t, "an answer that doesn't fit", c.ask(4, "tasks/update", asking+`,"inputResponses":{"name":7,"other":{}},`+follows), `"result":{"resultType":"complete"`)
	wait(asking, "input_required")
	c.ask(5, "tasks/update", asking+`,"inputResponses":{"name":{"action":"accept","content":{"name":"Cid"}}},`+follows)
	check(t, "it is done", wait(asking, "completed"), `"result":{"content":`, `Cid`)
	both := regexp.MustCompile(`"taskId":"[^"]+"`).FindString(c.ask(10, "tools/call", `"name":"Job_Start","arguments":{"name":"Fixture.Both"},`+follows))
	for !strings.Contains(wait(both, "input_required"), `"name0"`) || !strings.Contains(wait(both, "input_required"), `"name1"`) {
	}
	answer := `{"action":"accept","content":{"name":"Dan"}}`
	c.ask(11, "tasks/update", both+`,"inputResponses":{"name0":`+answer+`,"name1":`+answer+`},`+follows)
	check(t, "two questions at once", wait(both, "completed"), `both`)
	failing := begin(6, "Fixture_Fail")
	check(t, "a refusal", wait(failing, "completed"), `"isError":true`, `Not now`)
	job := c.ask(7, "tools/call", `"name":"Job_Start","arguments":{"name":"Fixture.Wait"},`+follows)
	check(t, "Job_Start", job, `"resultType":"task"`)
	waiting := regexp.MustCompile(`"taskId":"[^"]+"`).FindString(job)
	check(t, "cancelling", c.ask(8, "tasks/cancel", waiting+","+follows), `"result":{"resultType":"complete"`)
	wait(waiting, "cancelled")
	check(t, "unknown", c.ask(9, "tasks/get", `"taskId":"01M7HXSARMHEAFY9FX857TCETY",`+follows), `"code":-32602`)
}

// A session of HTTP has an id, can be resumed, and ends.
func TestSessionsOverHTTP(t *testing.T) {
	_, address := serve(t, fixtures)
	do := func(method, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		response := sendHTTP(t, address, method, body, headers...)
		defer func() { _ = response.Body.Close() }()
		var text bytes.Buffer
		if response.Header.Get("Content-Type") == "text/event-stream" && method == http.MethodPost && strings.Contains(body, "Fixture_Ask") {
			lines := bufio.NewScanner(response.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), "elicitation/create") {
				_, _ = fmt.Fprintln(&text, lines.Text())
			}
			_, _ = fmt.Fprintln(&text, lines.Text())
			return response, text.String() // the client leaves before the response
		}
		_, _ = io.Copy(&text, response.Body)
		return response, text.String()
	}
	defer http.DefaultClient.CloseIdleConnections()
	begun, _ := do("POST", request(1, "initialize", `"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}}`))
	id := begun.Header.Get("Mcp-Session-Id")
	session := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-06-18"}
	for _, c := range []struct {
		method, body string
		headers      []string
		status       int
		want         string
	}{
		{"POST", request(2, "ping", ``), session, 200, `"id":2,"result":{}`},
		{"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session, 202, ``},
		{"POST", request(3, "ping", ``), nil, 400, `Mcp-Session-Id`},
		{"POST", request(3, "ping", ``), []string{"Mcp-Session-Id", "another"}, 404, `send initialize again`},
		{"POST", request(3, "ping", ``), []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "1999-01-01"}, 400, `-32022`},
		{"POST", `{`, session, 400, `-32700`},
		{"PUT", ``, session, 405, `takes POST`},
		{"GET", ``, []string{"Mcp-Session-Id", id, "Last-Event-Id", "99-1"}, 404, `no longer kept`},
		{"POST", request(4, "tools/call", `"name":"Echo","arguments":{"message":"x"},`+modernMeta), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "Ping"}, 400, `-32020`},
		{"POST", request(4, "tools/call", `"name":"Echo","arguments":{"message":"x"},`+modernMeta), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?RWNobw==?="}, 200, `{\"echo\":\"x\"}`},
		{"POST", request(4, "no/such", modernMeta), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "no/such"}, 404, `-32601`},
		{"POST", request(4, "tools/list", ``), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, `-32602`},
		{"POST", request(4, "tools/list", modernMeta), []string{"Mcp-Protocol-Version", "2025-11-25"}, 400, `-32020`},
		{"GET", ``, []string{"Mcp-Protocol-Version", "2026-07-28"}, 405, ``},
		{"POST", request(5, "ping", ``), append([]string{"Origin", "http://evil.example"}, session...), 403, `origin_not_allowed`},
	} {
		if r, got := do(c.method, c.body, c.headers...); r.StatusCode != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %.80s: %d %s", c.method, c.body, r.StatusCode, got)
		}
	}
	_, events := do("POST", request(6, "tools/call", `"name":"Fixture_Ask"`), session...)
	last := regexp.MustCompile(`id: (\S+)`).FindStringSubmatch(events)
	asked := regexp.MustCompile(`"id":(\d+),"method":"elicitation/create"`).FindStringSubmatch(events)
	if last == nil || asked == nil {
		t.Fatalf("the stream is %s", events)
	}
	if r, _ := do("POST", `{"jsonrpc":"2.0","id":`+asked[1]+`,"result":{"action":"accept","content":{"name":"Dan"}}}`, session...); r.StatusCode != 202 {
		t.Errorf("the answer: %d", r.StatusCode)
	}
	if r, rest := do("GET", ``, append([]string{"Last-Event-Id", last[1]}, session...)...); r.StatusCode != 200 || !strings.Contains(rest, `"id":6,"result"`) || !strings.Contains(rest, "Dan") {
		t.Errorf("resumed: %d %s", r.StatusCode, rest)
	}
	if r, _ := do("DELETE", ``, session...); r.StatusCode != 204 {
		t.Errorf("DELETE: %d", r.StatusCode)
	}
	if r, _ := do("POST", request(7, "ping", ``), session...); r.StatusCode != 404 {
		t.Errorf("after DELETE: %d", r.StatusCode)
	}
}
