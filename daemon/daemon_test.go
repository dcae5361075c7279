package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

type shout struct {
	Text string `json:"text" jsonschema_description:"A text."`
}

// shouting is a module of the program that embeds Kernos.
var shouting = kernel.Module{Name: "text", Version: "1.0.0", Summary: "Texts.", Syscalls: []kernel.Syscall{kernel.Query(
	kernel.Definition{Type: "Text.Shout", Summary: "Shout."},
	func(_ context.Context, in shout) (shout, error) { return shout{strings.ToUpper(in.Text)}, nil },
)}}

func query(what message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: what, Data: []byte(data)}
}

// runtimeDir makes a directory for sockets, with a name that is short enough for them.
func runtimeDir(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", testkit.ShortDir(t))
}

// A program serves a syscall of its own over all servers, and calls it itself.
func TestAProgramServesItsOwnSyscalls(t *testing.T) {
	runtimeDir(t)
	home := t.TempDir()
	d := daemontest.Serve(t, &daemon.Options{
		Home: home, Modules: []kernel.Module{shouting}, Socket: &daemon.Socket{}, Web: &daemon.Web{Address: "127.0.0.1:0"},
	})
	const want = `{"text":"HELLO"}`

	answer, err := d.Call(t.Context(), query("Text.Shout", `{"text":"hello"}`), nil)
	if err != nil || string(answer.Data) != want {
		t.Errorf("in process: %s, %v", answer.Data, err)
	}
	urls := d.URLs()
	if len(urls) != 3 {
		t.Fatalf("it serves %q", urls)
	}
	conn, err := new(unix.Dialer).Dial(t.Context(), strings.TrimPrefix(urls[0], "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = conn.Ask(t.Context(), query("Text.Shout", `{"text":"hello"}`)); err != nil || string(answer.Data) != want {
		t.Errorf("over the socket: %s, %v", answer.Data, err)
	}
	token, err := os.ReadFile(filepath.Join(home, "token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), "POST", urls[2]+"/v1/call/text/shout", strings.NewReader(`{"text":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || strings.TrimSpace(string(body)) != want {
		t.Errorf("over HTTP: %s, %v", body, err)
	}
	if s := d.Status(); len(s.Listening) != 3 || s.Socket == "" || !s.Store.Open || s.Store.Messages != 6 {
		t.Errorf("the status is %+v", s)
	}
	d.Stop()
	if _, err := net.Dial("tcp", strings.TrimPrefix(urls[2], "http://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
}

// Code is registered and called over HTTP as over any other wire.
func TestCodeIsServedOverHTTP(t *testing.T) {
	home := t.TempDir()
	d := daemontest.Serve(t, &daemon.Options{Home: home, Web: &daemon.Web{Address: "127.0.0.1:0"}})
	if _, err := d.Call(t.Context(), query("Ping", `{}`), nil); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(home, "token"))
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/call/syscall/register", `{"name":"Text.Double","kind":"query","inputSchema":{"type":"object","required":["n"]},"outputSchema":{},"code":"export const handler = ({n}: {n: number}) => ({n: 2 * n});"}`, `"registered":true`},
		{"/v1/call/text/double", `{"n":21}`, `{"n":42}`},
		{"/v1/call/text/double", `{}`, `missing required field: n`},
		{"/v1/messages", `{"kind":"query","type":"Text.Double","data":{"n":4},"metadata":{"id":"a","timestamp":0}}`, `"data":{"n":8}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+d.Address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %s, %v", c.path, c.body, body, err)
		}
	}
}

// A kernel without a journal makes nothing on disk before a message needs it.
func TestAnUnrecordedKernelOpensItsStoreWhenItIsNeeded(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	opened := 0
	d, err := daemon.Open(&daemon.Options{Home: home, Unrecorded: true, StoreOpened: func() { opened++ }})
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := d.Call(t.Context(), query("Ping", `{"payload":1}`), nil); string(answer.Data) != `{"payload":1}` {
		t.Errorf("Ping: %s", answer.Data)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) || opened != 0 {
		t.Errorf("after Ping: %v, opened %d times", err, opened)
	}
	if answer, _ := d.Call(t.Context(), query("Memory.Get", `{"key":"k"}`), nil); answer.Err == nil || answer.Err.Code != 404 || opened != 1 {
		t.Errorf("Memory.Get: %s, opened %d times", answer.Data, opened)
	}
	if answer, _ := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Syscall.Shutdown", Data: []byte(`{}`)}, nil); answer.Err == nil || answer.Err.Code != 403 {
		t.Errorf("a kernel without servers is shut down: %s", answer.Data)
	}
	for range 2 { // closing it again does no harm
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// If Open fails, everything is as before: another daemon can be opened.
func TestOpenThatFailsFreesEverything(t *testing.T) {
	runtimeDir(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	go func() { // a server that is not Kernos
		for {
			c, err := taken.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	o := daemon.Options{Home: t.TempDir(), Socket: &daemon.Socket{}, Web: &daemon.Web{Address: taken.Addr().String()}}
	for range 2 {
		_, err := daemon.Open(&o)
		if address, ok := errors.AsType[*daemon.AddressError](err); !ok || address.Kernos || !strings.Contains(err.Error(), "in use by another program") {
			t.Errorf("got %v", err)
		}
	}
	bad := o
	bad.Web, bad.Files.Mounts = nil, []string{"nonsense"}
	if _, err := daemon.Open(&bad); err == nil || !strings.HasPrefix(err.Error(), "mount: ") {
		t.Errorf("a bad mount: %v", err)
	}
	o.Web.Optional = true
	d, err := daemon.Open(&o)
	if err != nil {
		t.Fatal(err)
	}
	if urls := d.URLs(); len(urls) != 2 {
		t.Errorf("it serves %q", urls)
	}
	if _, err := daemon.Open(&o); err == nil {
		t.Error("two daemons serve one home")
	} else if _, ok := errors.AsType[*unix.Running](err); !ok {
		t.Errorf("a second daemon: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestOptionsThatCantBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	signed := &daemon.Socket{Keys: make([]ssh.PublicKey, 1)}
	for _, c := range []struct {
		o    daemon.Options
		name string
	}{
		{daemon.Options{Execute: "all"}, "execute"},
		{daemon.Options{Fetch: daemon.Fetch{Retries: 11}}, "fetch-retries"},
		{daemon.Options{Fetch: daemon.Fetch{Allow: []string{"10.0.0.0/99"}}}, "fetch-allow"},
		{daemon.Options{Fetch: daemon.Fetch{Deny: []string{"10.0.0.0/99"}}}, "fetch-deny"},
		{daemon.Options{Keys: daemon.Keys{Seal: "nonsense"}}, "seal-key"},
		{daemon.Options{Files: daemon.Files{Directory: file}}, "directory"},
		{daemon.Options{Files: daemon.Files{Directory: file + "x"}}, "directory"},
		{daemon.Options{Web: &daemon.Web{CertFile: "c"}}, "tls-cert"},
		{daemon.Options{Web: &daemon.Web{NoToken: true, TokenFile: "t"}}, "no-token"},
		{daemon.Options{Web: &daemon.Web{NoToken: true}, Socket: signed}, "no-token"},
		{daemon.Options{Web: &daemon.Web{Address: "127.0.0.1:0"}, Socket: signed}, "addr"},
		{daemon.Options{Web: &daemon.Web{Hosts: []string{"https://a"}}}, "allow-host"},
		{daemon.Options{Web: &daemon.Web{Origins: []string{"a"}}}, "allow-origin"},
	} {
		c.o.Home = filepath.Join(t.TempDir(), "home")
		_, err := daemon.Open(&c.o)
		if option, ok := errors.AsType[*daemon.OptionError](err); !ok || option.Name != c.name {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(c.o.Home); err == nil {
			t.Errorf("%s: the home was made", c.name)
		}
	}
	if _, err := daemon.Open(&daemon.Options{}); err == nil {
		t.Error("opened without a home")
	}
	o := daemon.Options{Home: filepath.Join(file, "home"), Socket: &daemon.Socket{}}
	_, err := daemon.Open(&o)
	if _, ok := errors.AsType[*daemon.HomeError](err); !ok {
		t.Errorf("a home beneath a file: %v", err)
	}
}

// What a caller may need in place of a name that doesn't exist is the same text over every protocol.
func TestAnUnknownNameGetsTheSameHintEverywhere(t *testing.T) {
	home := t.TempDir()
	d := daemontest.Serve(t, &daemon.Options{Home: home, Web: &daemon.Web{Address: "127.0.0.1:0", NoToken: true}})
	answer, err := d.Call(t.Context(), query("Remind.Me", `{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const hint = "for remind there is Job.Start"
	if !strings.Contains(string(answer.Data), hint) {
		t.Fatalf("a message: %s", answer.Data)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, body := range map[string]string{
		"/v1/call/remind/me": `{}`,
		"/mcp":               `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Remind_Me","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+d.Address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("MCP-Protocol-Version", "2026-07-28")
		request.Header.Set("Mcp-Method", "tools/call")
		request.Header.Set("Mcp-Name", "Remind_Me")
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || !strings.Contains(string(text), hint) {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
}

// A value of the memory that sounds like a credential is stored as it is, with the same word about it in whichever way it was written.
func TestACredentialThatIsWrittenAsAFileHasANote(t *testing.T) {
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir()})
	note := func(typ message.Type, data string) string {
		t.Helper()
		m := query(typ, data)
		m.Kind = message.KindCommand
		answer, err := d.Call(t.Context(), m, nil)
		var out struct{ Note string }
		if err != nil || answer.Kind != message.KindReply || json.Unmarshal(answer.Data, &out) != nil {
			t.Fatalf("%s %s: %+v, %v", typ, data, answer, err)
		}
		return out.Note
	}
	want := note("Memory.Set", `{"key":"bank-password","value":"swordfish"}`)
	if want == "" {
		t.Fatal("Memory.Set has no word about a credential")
	}
	for data, want := range map[string]string{
		`{"uri":"os://memory/bank-password","content":"swordfish"}`:         want,
		`{"path":"os://memory/notes/1","text":"password: swordfish"}`:       want,
		`{"uri":"os://memory/notes/passwords","content":"changed often"}`:   "",
		`{"uri":"os://notes/bank-password","content":"a file on the disk"}`: "",
	} {
		if got := note("VFS.Write", data); got != want {
			t.Errorf("%s: the note is %q, want %q", data, got, want)
		}
	}
	answer, err := d.Call(t.Context(), query("Memory.Get", `{"key":"bank-password"}`), nil)
	if err != nil || string(answer.Data) != `"swordfish"` {
		t.Errorf("it is stored as %s, %v", answer.Data, err)
	}
}

// The names that callers guess for what a syscall is called with are read.
func TestGuessedNamesAreRead(t *testing.T) {
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir()})
	for _, c := range []struct {
		kind    message.Kind
		typ     message.Type
		data    string
		renamed string
	}{
		{message.KindQuery, "Syscall.Call", `{"syscall":"Ping","arguments":{"payload":1}}`, "'syscall' was read as 'type'; 'arguments' was read as 'data'"},
		{message.KindQuery, "Syscall.Call", `{"name":"Ping","args":{"payload":1}}`, "'name' was read as 'type'; 'args' was read as 'data'"},
		{message.KindQuery, "Syscall.Call", `{"type":"Ping","input":{"payload":1}}`, "'input' was read as 'data'"},
		{message.KindQuery, "Syscall.Call", `{"type":"Ping","params":{"payload":1}}`, "'params' was read as 'data'"},
		{message.KindCommand, "Job.Start", `{"syscall":"Echo","arguments":{"message":"a"}}`, "'syscall' was read as 'name'; 'arguments' was read as 'payload'"},
		{message.KindCommand, "Job.Start", `{"steps":[{"id":"a","syscall":"Echo","args":{"message":"a"}}]}`, "'syscall' was read as 'name'; 'args' was read as 'payload'"},
		{message.KindCommand, "VFS.Write", `{"path":"os://guessed.txt","text":"a"}`, "'path' was read as 'uri'; 'text' was read as 'content'"},
	} {
		m := query(c.typ, c.data)
		m.Kind = c.kind
		answer, err := d.Call(t.Context(), m, nil)
		if err != nil || answer.Kind != message.KindReply || answer.Metadata.Extension("x-note") != c.renamed {
			t.Errorf("%s %s: %+v, %v", c.typ, c.data, answer, err)
		}
	}
}

// A parameter that came under another name is read, and named in the answer, over every protocol.
func TestAnswersNameRenamedParametersEverywhere(t *testing.T) {
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir(), Web: &daemon.Web{Address: "127.0.0.1:0", NoToken: true}})
	const note = "'type' was read as 'name'"
	answer, err := d.Call(t.Context(), query("Syscall.Describe", `{"type":"Echo"}`), nil)
	if err != nil || answer.Kind != message.KindReply || answer.Metadata.Extension("x-note") != note {
		t.Errorf("a message: %+v, %v", answer, err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct{ path, accept, body string }{
		{"/v1/call/syscall/describe", "application/json", `{"type":"Echo"}`},
		{"/v1/call/syscall/describe", "text/event-stream", `{"type":"Echo"}`},
		{"/mcp", "application/json, text/event-stream", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Syscall_Describe","arguments":{"type":"Echo"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+d.Address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", c.accept)
		request.Header.Set("MCP-Protocol-Version", "2026-07-28")
		request.Header.Set("Mcp-Method", "tools/call")
		request.Header.Set("Mcp-Name", "Syscall_Describe")
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != 200 || !strings.Contains(response.Header.Get("Kernos-Note")+string(text), note) {
			t.Errorf("%s, %s: %s, %v", c.path, c.accept, text, err)
		}
	}
}
