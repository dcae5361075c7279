package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// TestRealClients runs JSON-RPC clients from npm, which others wrote, against the
// server.
func TestRealClients(t *testing.T) {
	c, err := parse("real", `# A server for clients.
handler: Shell.Execute command emits=Shell.Output progress 0.5 Executing... ; emit Shell.Output {"stdout":"Hello"} ; reply {"exit_code":0}
handler: Shell.Follow query slow timeout=1h emits=Shell.Output emit Shell.Output {"stdout":"first"} ; wait
> `)
	if err != nil {
		t.Fatal(err)
	}
	k, end := newKernel(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
	handler := ws.New(rpc.New(k, nil), nil)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := handler.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	for _, script := range []string{"polkadot.js", "openrpc.js"} {
		t.Run(strings.TrimSuffix(script, ".js"), func(t *testing.T) {
			out, err := runClient(t, script, "ws"+strings.TrimPrefix(server.URL, "http"))
			if err != nil || !strings.HasSuffix(out, "fine\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestRealClientsAtTheDoors runs them against kernos serve, in the ways that the README says:
// with the token in a header, over the socket, and where no token is wanted.
func TestRealClientsAtTheDoors(t *testing.T) {
	binary := testkit.Program(t, "kernos/cmd/kernos")
	k := startKernel(t, binary, "127.0.0.1:0")
	open := startKernel(t, binary, "127.0.0.1:0", "--no-token")
	serveShell(t, k.socket)
	tcp := func(k *kernelProcess) string { return "ws" + strings.TrimPrefix(k.url, "http") + "/" }
	for _, c := range []struct {
		name, script, address, token string
		refused                      string // "" if it is let in
	}{
		{"with the token in a header", "polkadot.js", tcp(k), servedToken, ""},
		{"over the socket", "openrpc.js", "ws+unix:" + k.socket + ":/", "", ""},
		{"without a token where none is wanted", "openrpc.js", tcp(open), "", ""},
		{"without a token", "openrpc.js", tcp(k), "", "Unexpected server response: 401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := runClient(t, c.script, c.address, c.token)
			if c.refused == "" && (err != nil || !strings.HasSuffix(out, "fine\n")) {
				t.Errorf("%v\n%s", err, out)
			}
			if c.refused != "" && (err == nil || !strings.Contains(out, c.refused)) {
				t.Errorf("it is not refused with %s: %v\n%s", c.refused, err, out)
			}
		})
	}
}

// runClient runs one of the clients, and returns what it says.
func runClient(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	tool.Need(t, "node", "npm modules")
	ctx, cancel := context.WithTimeout(context.Background(), 3*testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir = "npm"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// serveShell is a program that serves over a socket what the clients call, until the test
// ends.
func serveShell(t *testing.T, socket string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	send := func(kind, name, cause, data string) {
		sent++
		// A kernel that has gone is noticed by the clients.
		_, _ = fmt.Fprintf(conn, `{"kind":%q,"type":%q,"data":%s,"metadata":{"id":"shell-%d","timestamp":1735000000000,"causation":%q}}`+"\n", kind, name, data, sent, cause)
	}
	const register = `{"name":%q,"kind":%q,"description":"Run a program.","inputSchema":{"type":"object"},"outputSchema":{},"handler":"connection","timeout":3600000,"emits":[{"type":"Shell.Output","description":"What it has said."}]}`
	send("command", "Syscall.Register", "test", fmt.Sprintf(register, "Shell.Execute", "command"))
	send("command", "Syscall.Register", "test", fmt.Sprintf(register, "Shell.Follow", "query"))
	registered, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		replies := 0
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var m message.Message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("%v: %s", err, lines.Text())
				return
			}
			cause := string(m.Metadata.ID)
			switch {
			case m.Kind == message.KindReply:
				if replies++; replies == 2 {
					close(registered)
				}
			case m.Kind == message.KindError:
				t.Errorf("the kernel says %s", lines.Text())
			case m.Type == "Shell.Execute":
				send("event", "Syscall.Progressed", cause, `{"message":"Executing...","percentage":0.5}`)
				send("event", "Shell.Output", cause, `{"stdout":"Hello"}`)
				send("reply", "Shell.Execute", cause, `{"exit_code":0}`)
			case m.Type == "Shell.Follow":
				send("event", "Shell.Output", cause, `{"stdout":"first"}`)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	select {
	case <-registered:
	case <-ended:
		t.Fatal("the program is not served")
	}
}
