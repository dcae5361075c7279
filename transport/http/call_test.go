package http

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

func TestCalls(t *testing.T) {
	failing := raw("Test.Fail", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Fail(message.Errorf(422, "Not this: %w", message.Errorf(404, "There is none"))))
	})
	panicking := raw("Test.Panic", message.KindCommand, func(context.Context, message.Message, kernel.Emit) { panic("it hurts") })
	large := raw("Test.Large", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply([]byte(`"` + strings.Repeat("x", 100_000) + `"`)))
	})
	s := open(t, siteOptions{Options: Options{MaxBody: 1000}, syscalls: []kernel.Syscall{failing, panicking, large}})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/call/kernel/ping", `{"payload":[1.50,"ä",null,{}]}`, 200, `{"payload":[1.50,"ä",null,{}]}`},
		{"POST", "/v1/call/kernel/echo", `{"message":"hi"}`, 200, `{"echo":"hi"}`},
		{"POST", "/v1/call/syscall/list", ``, 200, `{"syscalls":[`},
		{"POST", "/v1/call/syscall/list", " \n", 200, `{"syscalls":[`},
		{"POST", "/v1/call/syscall/ping", `{"payload":1}`, 200, `{"payload":1}`}, // an alias
		{"POST", "/v1/call/test/large", `1`, 200, `"xxx`},
		{"POST", "/v1/call/kernel/ping", `[{"payload":1}]`, 200, `{"payload":1}`},
		{"POST", "/v1/call/kernel/ping", ` [ "x" ] `, 200, `{"payload":"x"}`},
		{"POST", "/v1/call/kernel/ping", `null`, 200, `{"payload":null}`},
		{"POST", "/v1/call/kernel/ping", `{"method":"ping","payload":1}`, 200, `{"payload":1}`},
		{"POST", "/v1/call/syscall/list", `[]`, 200, `{"syscalls":[`},
		{"POST", "/v1/call/service/hash", ``, 200, `{"hash":"`},
		{"POST", "/v1/call/service/schema", `[]`, 200, `{"modules":[{"namespace":"kernel"`},
		{"POST", "/v1/call/service/module_schema", `["kernel"]`, 200, `{"$schema":`},
		{"POST", "/v1/call/service/module_schema", `{"namespace":"kernel"}`, 200, `{"$schema":`},
		{"POST", "/v1/call/service/module_schema", `"kernle"`, 404, `"message":"Module not found: kernle","name":"module_not_found","guidance":{"service_hash":`},
		{"POST", "/v1/call/service/module_schema", ``, 422, `"name":"invalid_params","guidance":{"service_hash":`},
		{"POST", "/v1/call/service/unsubscribe", `["x-1"]`, 200, `false`},
		{"POST", "/v1/call/service/resume", `["x-1",0]`, 406, `"name":"events_only"`},
		{"POST", "/v1/call/service/schemas", ``, 404, `"suggested_method":"schema"`},
		{"POST", "/v1/call/kernel/echo", `{"massage":"hi"}`, 422, `"message":"Schema validation failed: `},
		{"POST", "/v1/call/kernel/echo", `{"massage":"hi"}`, 422, `"name":"invalid_params","guidance":{"service_hash":`},
		{"POST", "/v1/call/kernel/echo", `{"massage":"hi"}`, 422, `"action":"try_method","suggested_method":"kernel.echo","example_params":{"message":"hello"}`},
		{"POST", "/v1/call/kernel/echo", `[1,2,3]`, 422, `"message":"Invalid params: 3 values came, and there are 1 fields: message","name":"invalid_params"`},
		{"POST", "/v1/call/test/fail", `1`, 422, `{"code":422,"message":"Not this","cause":{"code":404,"message":"There is none"},"name":"invalid_params","guidance":{`},
		{"POST", "/v1/call/test/panic", `1`, 500, `{"code":500,`},
		{"POST", "/v1/call/kernel/pign", `{}`, 404, `{"code":404,"message":"Method not found: pign","name":"method_not_found","guidance":{"service_hash":`},
		{"POST", "/v1/call/kernel/pign", `{}`, 404, `"available_methods":["echo","ping"],"method_schema":{"type":"object"`},
		{"POST", "/v1/call/kernel/pign", `{}`, 404, `"action":"try_method","suggested_method":"ping","example_params":{"payload":[1,"two"]}`},
		{"POST", "/v1/call/kernle/ping", `{}`, 404, `"name":"module_not_found"`},
		{"POST", "/v1/call/kernle/ping", `{}`, 404, `"suggested_method":"kernel.ping"`},
		{"POST", "/v1/call/xyzzy/ping", `{}`, 404, `"action":"call_service_schema"`},
		{"POST", "/v1/call/kernel/ping", `{"payload":`, 400, `"name":"body_not_json"`},
		{"POST", "/v1/call/kernel/ping", `{"payload":1,"payload":2}`, 400, `"name":"body_not_json"`},
		{"POST", "/v1/call/kernel/ping", `{"payload":"` + strings.Repeat("x", 1000) + `"}`, 413, `"name":"body_too_large"`},
		{"GET", "/v1/call/kernel/ping", ``, 405, `"name":"method_not_allowed","message":"/v1/call/kernel/ping takes POST, not GET"`},
		{"DELETE", "/v1/messages", ``, 405, `"name":"method_not_allowed"`},
		{"POST", "/metrics", ``, 405, `takes GET, HEAD, not POST`},
		{"GET", "/v2/anything", ``, 404, `"name":"not_found"`},
		{"GET", "/", ``, 404, `"name":"not_found"`},
		{"GET", "/openrpc.json", ``, 200, `{"openrpc":"1.`},
		{"HEAD", "/v1/streams/x-1", ``, 405, ``},
		{"PUT", "/v1/streams/x-1", ``, 405, `"message":"/v1/streams/x-1 takes DELETE, GET, not PUT"`},
	} {
		a := s.do(c.method, c.path, c.body)
		if a.status != c.status || !strings.Contains(a.body, c.want) || !json.Valid([]byte(a.body)) && c.method != "HEAD" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.40s: %d %.300s", c.method, c.path, c.body, a.status, a.body)
		}
		flags := [...]string{a.header.Get("Deprecation"), a.header.Get("Sunset"), a.header.Get("Kernos-Deprecated")}
		if alias := c.path == "/v1/call/syscall/ping"; alias != (flags == [...]string{"@1767312000", "Fri, 31 Dec 2027 00:00:00 GMT", "the name Syscall.Ping; use Ping"}) || !alias && flags != [3]string{} {
			t.Errorf("%s has the flags %q", c.path, flags)
		}
		if called := a.header.Get("Kernos-Request") != ""; called != (c.method == "POST" && !strings.Contains(c.path, "/service/") && (c.status < 300 || c.status == 422 || c.status == 500) && !strings.Contains(c.want, "values came")) {
			t.Errorf("%s %s: it is a call: %t", c.method, c.path, called)
		}
	}
}

func TestACallHasItsMetadata(t *testing.T) {
	var got message.Metadata
	see := raw("Test.See", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		got = m.Metadata
		emit(m.Reply([]byte("1")))
	})
	s := open(t, siteOptions{syscalls: []kernel.Syscall{see}})
	a := s.do("POST", "/v1/call/test/see", "", "X-Correlation-Id", "flow-1", "X-Causation-Id", "cause-1")
	if a.status != 200 || got.Correlation != "flow-1" || got.Causation != "cause-1" || string(got.ID) != a.header.Get("Kernos-Request") || got.Timestamp == 0 {
		t.Errorf("%d: %+v", a.status, got)
	}
	s.do("POST", "/v1/call/test/see", "", "Traceparent", "00-1-2-01", "X-Forwarded-For", "::1")
	if got.Extra != `"traceparent":"00-1-2-01"` {
		t.Errorf("got %q", got.Extra)
	}
	s.do("POST", "/v1/call/test/see", "", "X-Meta-Tenant", "acme")
	if got.Extra != `"x-meta-tenant":"acme"` {
		t.Errorf("got %q", got.Extra)
	}
	if a := s.do("POST", "/v1/call/test/see", "", "X-Correlation-Id", strings.Repeat("x", 300)); a.status != 422 || a.name() != "invalid_request" {
		t.Errorf("too long a correlation: %d %s", a.status, a.body)
	}
	// A kernel without a store keeps no keys, and says so.
	if a := s.do("POST", "/v1/call/test/see", "", "Idempotency-Key", "k"); a.status != 200 {
		t.Errorf("a key of a query: %d %s", a.status, a.body)
	}
}

func TestWhoLeavesACall(t *testing.T) {
	query, asked, cancelled, _ := running("Test.Wait", message.KindQuery)
	command, begun, completed, release := running("Test.Change", message.KindCommand)
	s := open(t, siteOptions{syscalls: []kernel.Syscall{query, command}})
	for _, path := range []string{"/v1/call/test/wait", "/v1/call/test/change"} {
		ctx, leave := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader("1"))
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() {
			response, err := s.client.Do(r)
			if err == nil {
				_ = response.Body.Close()
			}
			over <- err
		}()
		if path == "/v1/call/test/wait" {
			soon(t, "the query begins", asked)
			leave()
			if soon(t, "the query ends", cancelled) == nil {
				t.Error("the query was not cancelled")
			}
		} else {
			soon(t, "the command begins", begun)
			leave()
			soon(t, "the client has left", over)
			release <- struct{}{}
			if err := soon(t, "the command ends", completed); err != nil {
				t.Errorf("the command was cancelled: %v", err)
			}
			continue
		}
		soon(t, "the client has left", over)
	}
}

// A call that goes on until it is cancelled ends with the server, with an answer.
func TestAnEndlessCallEndsWithTheServer(t *testing.T) {
	syscall, begun, _, _ := running("Test.Watch", message.KindQuery)
	syscall.Runs = kernel.Endless
	s := open(t, siteOptions{Options: Options{Grace: testkit.Patience}, syscalls: []kernel.Syscall{syscall}})
	answers := make(chan answer, 1)
	go func() { answers <- s.do("POST", "/v1/call/test/watch", "") }()
	soon(t, "it begins", begun)
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if a := soon(t, "it is answered", answers); a.status != 499 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestABodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, siteOptions{memory: true, Options: Options{BodyTime: time.Second}, guard: &Guard{Authenticate: authenticate, Hosts: []string{"localhost"}}})
		for authorization, want := range map[string]string{
			"Bearer " + secret: `"name":"body_too_slow"`,
			"none":             `"name":"token_required"`, // one that is refused doesn't hang either
		} {
			c := s.dial()
			if _, err := io.WriteString(c, "POST /v1/call/kernel/ping HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+authorization+"\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%v: %s", err, text)
			}
		}
	})
}

// A request is refused at once, also if its body is a stream whose sender waits for the answer before it sends anything.
func TestARefusalComesBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, siteOptions{memory: true, guard: &Guard{Authenticate: authenticate, Hosts: []string{"localhost"}}})
		for _, c := range []struct{ path, authorization, want string }{
			{"/v1/messages", "none", "401 Unauthorized"},
			{"/v1/message", "Bearer " + secret, "404 Not Found"},
		} {
			begun, conn := time.Now(), s.dial()
			if _, err := io.WriteString(conn, "POST "+c.path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+c.authorization+"\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.Contains(line, c.want) || time.Since(begun) != 0 { // no time passes while a goroutine can run
				t.Errorf("%s: %q after %v, %v", c.path, line, time.Since(begun), err)
			}
			_ = conn.Close()
		}
	})
}

// Those who call over the network may point to no file of this machine but blobs.
func TestPointersOfRemoteCallers(t *testing.T) {
	var resolver blobs.Resolver
	resolve := raw("Test.Resolve", message.KindQuery, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		p, err := message.ParseBlobPointer(m.Data)
		if err == nil {
			var data []byte
			if data, err = resolver.Resolve(ctx, p); err == nil {
				text, _ := json.Marshal(string(data))
				emit(m.Reply(text))
				return
			}
		}
		e, _ := message.ErrorOf(err)
		emit(m.Fail(e))
	})
	point := raw("Test.Point", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		b, err := resolver.Dir.Put([]byte("large data"))
		if err != nil {
			t.Error(err)
		}
		emit(m.Reply(append(b.Pointer().Append([]byte(`{"bodyRef":`)), '}')))
	})
	for about, s := range map[string]*site{
		"plain": open(t, siteOptions{syscalls: []kernel.Syscall{resolve, point}}),
		"TLS":   openTLS(t, siteOptions{syscalls: []kernel.Syscall{resolve, point}}),
	} {
		resolver = blobs.Resolver{Dir: s.blobs}
		if a := s.do("POST", "/v1/call/test/resolve", `{"scheme":"file","path":"/etc/hostname"}`); a.status != 403 {
			t.Errorf("%s, a file of the machine: %d %s", about, a.status, a.body)
		}
		var out struct{ BodyRef message.BlobPointer }
		if err := json.Unmarshal([]byte(s.do("POST", "/v1/call/test/point", "").body), &out); err != nil {
			t.Fatal(err)
		}
		pointer, _ := json.Marshal(out.BodyRef)
		path := blobs.PathPrefix + blobs.Sum([]byte("large data")).String()
		if about == "TLS" {
			if want := (message.BlobPointer{Scheme: "https", Authority: s.addr, Path: path}); out.BodyRef != want {
				t.Errorf("the pointer is %s", pointer)
			}
			// Over a stream it is the same, and what does not fit into a line can be fetched.
			a := s.do("POST", "/v1/messages", ask("p", "Test.Point", "1")+ask("q", "Ping", `{"payload":"`+strings.Repeat("x", 16280)+`"}`))
			if !strings.Contains(a.body, string(pointer)) || strings.Count(a.body, `"scheme":"https"`) != 2 || strings.Contains(a.body, `"file"`) {
				t.Errorf("over a stream: %s", a.body)
			}
		} else if out.BodyRef != s.blobs.Pointer(blobs.Sum([]byte("large data"))) {
			t.Errorf("the pointer is %s", pointer) // a BlobPointer has no plain http
		}
		if a := s.do("GET", path, ""); a.status != 200 || a.body != "large data" {
			t.Errorf("%s: it is fetched as %d %s", about, a.status, a.body)
		}
		if a := s.do("POST", "/v1/call/test/resolve", string(pointer)); a.body != `"large data"` {
			t.Errorf("%s, sent back: %d %s", about, a.status, a.body)
		}
	}
}

func FuzzCall(f *testing.F) {
	for _, body := range []string{`{"payload":1}`, ``, ` `, `{`, `[]`, `null`, `{"payload":{"a":[1e999]}}`, "\xff"} {
		f.Add([]byte(body))
	}
	s := open(f, siteOptions{})
	f.Fuzz(func(t *testing.T, body []byte) {
		one := *s
		one.t = t
		a := one.do("POST", "/v1/call/kernel/ping", string(body))
		if !json.Valid([]byte(a.body)) {
			t.Errorf("%q: %d %s", body, a.status, a.body)
		}
		if a.status == 200 && !json.Valid(body) {
			t.Errorf("%q was taken", body)
		}
	})
}
