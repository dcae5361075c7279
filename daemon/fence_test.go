package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
)

// sending sends a request, and returns where its whole answer comes: its status, Retry-After and body.
func (s *served) sending(secret, method, path, body string, headers ...string) <-chan string {
	s.t.Helper()
	answer := make(chan string, 1)
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go func() {
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = got.Body.Close() }()
		text, err := io.ReadAll(got.Body)
		answer <- fmt.Sprintf("%d retry=%s %s %v", got.StatusCode, got.Header.Get("Retry-After"), text, err)
	}()
	return answer
}

// On each wire, a read of what another caller has changed is answered when that change is decided: with it, or with 503 if it
// is lost.
func TestNoWireShowsWhatCanBeLost(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{false: "kept", true: "lost"}[lost], func(t *testing.T) { testWires(t, lost) })
	}
}

func testWires(t *testing.T, lost bool) {
	held := kerneltest.NewHeld()
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir(), Web: &daemon.Web{Address: "127.0.0.1:0"}, Fenced: true,
		OpenStore: func(string) (store.Store, error) { return held, nil }})
	t.Cleanup(held.Restore) // before the daemon ends, which writes the rest of its journal
	s := &served{Daemon: d, t: t, url: "http://" + d.Address}
	secret := s.token(`{"name":"reader"}`)
	s.owner(message.KindCommand, "Memory.Set", `{"key":"/notes/1","value":"old"}`)
	socket := s.dial(secret)

	held.Manual()
	write := make(chan message.Message, 1)
	call := func(m message.Message) message.Message {
		answer, _ := s.Call(t.Context(), m, nil)
		return answer
	}
	go func() {
		write <- call(message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: []byte(`{"key":"/notes/1","value":"new"}`)})
	}()
	get := message.Message{Kind: message.KindQuery, Type: "Memory.Get", Data: []byte(`{"key":"/notes/1"}`)}
	testkit.Until(t, "the change is visible", func() bool { // within the kernel
		outcome, _ := s.Kernel().Do(t.Context(), kernel.WorkCall{Type: get.Type, Data: get.Data, Sender: kernel.SenderIn(t.Context()), Work: new(idleWork)})
		return string(outcome.Data) == `"new"`
	})
	before := held.Barriers()
	const line = `{"kind":"query","type":"Memory.Get","data":{"key":"/notes/1"},"metadata":{"id":"%s","timestamp":1735000000000}}` + "\n"
	inProcess, socketed := make(chan string, 1), make(chan string, 1)
	go func() {
		m := call(get)
		inProcess <- fmt.Sprintf("%s %s", m.Kind, m.Data)
	}()
	go func() {
		all := ""
		err := socket.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"memory_get","params":["/notes/1"]}`))
		for err == nil && !strings.Contains(all, `"done"`) {
			var frame []byte
			_, frame, err = socket.Read(t.Context())
			if !strings.Contains(string(frame), `"id":1,`) { // the acknowledgement shows nothing
				all += string(frame)
			}
		}
		socketed <- all
	}()
	reads := map[string]<-chan string{
		"a Go program": inProcess,
		"a WebSocket":  socketed,
		"HTTP":         s.sending(secret, "POST", "/v1/call/memory/get", `{"key":"/notes/1"}`),
		"messages":     s.sending(secret, "POST", "/v1/messages", fmt.Sprintf(line, "a")+fmt.Sprintf(line, "b")),
		"MCP": s.sending(secret, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Memory_Get","arguments":{"key":"/notes/1"},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "Memory_Get"),
		"a description": s.sending(secret, "GET", "/openrpc.json", ""),
		"a blob":        s.sending(secret, "GET", "/v1/blobs/"+strings.Repeat("a", 64), ""),
	}
	events := s.sending(secret, "POST", "/v1/call/memory/get", `{"key":"/notes/1"}`, "Accept", "text/event-stream")
	testkit.Until(t, "the reads are done", func() bool {
		for wire, answer := range reads {
			if len(answer) > 0 {
				t.Fatalf("%s has answered before the commit: %s", wire, <-answer)
			}
		}
		return held.Barriers() >= before+len(reads)+1
	})
	if len(write) > 0 {
		t.Error("the change was acknowledged before its commit")
	}
	if lost {
		held.Depose()
	}
	reads["events"] = events
	for wire, answer := range reads {
		testkit.Until(t, wire+" has answered", func() bool {
			_ = held.Sync() // an answer may wait for a later commit, too; it fails if the change is lost
			return len(answer) > 0
		})
		got, found := <-answer, strings.Contains
		switch {
		case lost && (!found(got, "503") || found(got, `"new"`)):
			t.Errorf("after a loss, %s answers %s", wire, got)
		case lost && (wire == "HTTP" || wire == "a blob" || wire == "a description") && !strings.HasPrefix(got, "503 retry=1 "):
			t.Errorf("after a loss, %s answers %s", wire, got)
		case !lost && wire == "a blob" && !strings.HasPrefix(got, "404 "), !lost && wire == "a description" && !found(got, `"openrpc"`):
			t.Errorf("%s answers %s", wire, got)
		case !lost && wire != "a blob" && wire != "a description" && !found(got, `new`):
			t.Errorf("%s answers %s", wire, got)
		}
	}
	testkit.Until(t, "the change is answered", func() bool { _ = held.Sync(); return len(write) > 0 })
	if m := <-write; (m.Kind == message.KindReply) == lost {
		t.Errorf("the change was answered with %s %s", m.Kind, m.Data)
	}
}

// idleWork is a work that changes nothing.
type idleWork struct{ kernel.Settlement }

func (*idleWork) Held() error { return nil }

func (*idleWork) Settle(*store.Batch, *message.Message) ([]message.Message, error) { return nil, nil }
