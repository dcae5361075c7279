package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"kernos/capability/token"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/message"
	"kernos/store/storetest"
)

// What is sent after the reply to a revocation is not done, over any of the connections that
// were open, and they end.
func TestRevocationWhileConnectionsAreInUse(t *testing.T) {
	w := open(t)
	for round := range times(1, 50) {
		name := fmt.Sprintf("busy-%d", round)
		secret := w.token(name, "")
		var revoked atomic.Bool
		var using, begun sync.WaitGroup
		const connections = 50
		begun.Add(connections)
		for i := range connections {
			key := fmt.Sprintf("%s/%d", name, i)
			switch i % 3 {
			case 0: // requests of HTTP
				using.Go(func() {
					for n := 0; ; n++ {
						late := revoked.Load()
						status := w.try(secret, fmt.Sprintf(`{"key":%q,"value":%t}`, key, late))
						if n == 0 {
							begun.Done()
						}
						if late && status != 0 { // a connection that was used before may be cut first
							if status != 401 {
								t.Errorf("a request after the revocation: %d", status)
							}
							return
						}
					}
				})
			case 1: // a stream of messages
				l := w.link(secret)
				using.Go(func() {
					if o := l.ask("Memory.Set", newID(), fmt.Sprintf(`{"key":%q,"value":false}`, key)); o.code != 0 {
						t.Error(o)
					}
					begun.Done()
					for range l.in {
					}
				})
			case 2: // a WebSocket
				conn, status := w.dial(secret)
				if conn == nil {
					t.Fatal(status)
				}
				using.Go(func() {
					defer func() { _ = conn.CloseNow() }()
					ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
					defer cancel()
					for n := 0; ; n++ {
						frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"memory_set","params":{"key":%q,"value":%t}}`, n, key, revoked.Load())
						err := conn.Write(ctx, websocket.MessageText, []byte(frame))
						if err == nil {
							_, _, err = conn.Read(ctx)
						}
						if n == 0 {
							begun.Done()
						}
						if err != nil {
							if errors.Is(err, context.DeadlineExceeded) {
								t.Error("a WebSocket goes on after the revocation")
							}
							return
						}
					}
				})
			}
		}
		begun.Wait()
		w.must("Token.Revoke", fmt.Sprintf(`{"name":%q}`, name), nil)
		revoked.Store(true)
		using.Wait()
		for i := range connections {
			key := fmt.Sprintf("%s/%d", name, i)
			if got := w.owner("Memory.Get", fmt.Sprintf(`{"key":%q}`, key)); got.String() != "false" {
				t.Errorf("%s was done after the revocation: %v", key, got)
			}
		}
	}
}

// A program serves a syscall, and doesn't answer.
type program struct {
	secret  string
	serving *link
	waiting string // the id of the request that it doesn't answer
}

// A program that serves syscalls serves them as long as its token lasts: calls that wait for it
// fail, the syscall leaves the registry, and what the program still says answers nothing.
func TestHandlersEndWithTheirToken(t *testing.T) {
	w := open(t)
	calling := w.link(w.token("caller", ""))
	call := func(how string) string {
		id := newID()
		calling.send(fmt.Sprintf(`{"kind":"query","type":"Bank.%s","data":{},"metadata":{"id":%q,"timestamp":1}}`, how, id))
		return id
	}
	programs := make(map[string]*program)
	ends := map[string]func(){
		"Expired": w.anHourLater,
		"Revoked": func() { w.must("Token.Revoke", `{"name":"Revoked"}`, nil) },
		"Rotated": func() { w.must("Token.Rotate", `{"name":"Rotated"}`, nil) },
		"Updated": func() { w.must("Token.Update", `{"name":"Updated","deny":["Syscall.Register"]}`, nil) },
	}
	for how := range ends {
		grant := `"preset":"handler"`
		if how == "Expired" {
			grant += "," + w.inAnHour()
		}
		p := &program{secret: w.token(how, grant)}
		p.serving = w.link(p.secret)
		if o := p.serving.ask("Syscall.Register", newID(), definition("Bank."+how)); o.code != 0 {
			t.Fatal(how, o)
		}
		p.waiting = call(how)
		if m := p.serving.next(); m.Type != message.Type("Bank."+how) {
			t.Fatalf("%s: got %+v", how, m)
		}
		programs[how] = p
	}
	for how, end := range ends {
		end()
		programs[how].isOver(t, how, calling)
	}
	other := w.link(w.token("other", `"preset":"handler"`))
	for how, p := range programs {
		testkit.Until(t, how+": the syscall has left the registry", func() bool {
			return !strings.Contains(w.owner("Syscall.List", `{}`).String(), "Bank."+how)
		})
		id := call(how)
		if m := calling.next(); m.Metadata.Causation != id || m.outcome().code != 404 {
			t.Errorf("%s: a call afterwards gets %+v", how, m)
		}
		// A name is free when its holder has ended, and kept for it otherwise.
		want := map[string]int{"Rotated": 409, "Updated": 409}[how]
		if o := other.ask("Syscall.Register", newID(), definition("Bank."+how)); o.code != want {
			t.Errorf("%s: another registers the name: %v", how, o)
		}
		if status, _ := w.post(p.secret, "/v1/messages", ""); (status == 401) != (how != "Updated") {
			t.Errorf("%s: the secret gets %d", how, status)
		}
	}
	again := w.link(programs["Updated"].secret)
	if o := again.ask("Syscall.Register", newID(), definition("Bank.Updated")); o.code != 403 {
		t.Errorf("with the rights that it has now, it registers: %v", o)
	}
}

// isOver waits until the connection of a program has ended and its caller has an error.
func (p *program) isOver(t *testing.T, how string, calling *link) {
	t.Helper()
	if m := calling.next(); m.Metadata.Causation != p.waiting || m.outcome().code != 502 {
		t.Errorf("%s: the call that waited gets %+v", how, m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	for open := true; open; {
		select {
		case _, open = <-p.serving.in:
		case <-ctx.Done():
			t.Fatalf("%s: the connection of the program is open", how)
		}
	}
}

// Nothing is served over a WebSocket, so nothing there outlives a token. The error says where a
// program can serve.
func TestAWebSocketServesNothing(t *testing.T) {
	w := open(t)
	o := w.overWebSocket(w.token("socket", `"preset":"handler"`), []request{{Type: "Syscall.Register", Kind: message.KindCommand, Data: definition("Bank.Login")}})
	if len(o) != 1 || o[0].code != 422 || !strings.Contains(o[0].text, "/v1/messages") || strings.Contains(w.owner("Syscall.List", `{}`).String(), "Bank.Login") {
		t.Errorf("got %v", o)
	}
}

// try calls Memory.Set over HTTP, and returns the status, or 0 if the connection was cut.
func (w *world) try(secret, data string) int {
	r, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.address+"/v1/call/memory/set", strings.NewReader(data))
	if err != nil {
		w.t.Error(err)
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	response, err := w.client.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

// called calls a daemon that has no doors.
func called(d *daemon.Daemon, what message.Type, data string, out any) error {
	m := message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data)}
	answer, err := d.Call(context.Background(), m, nil)
	if err != nil {
		return err
	}
	if answer.Err != nil {
		return answer.Err
	}
	return json.Unmarshal(answer.Data, out)
}

// A rotation is what a reply to it says.
type rotation struct {
	Token   string
	Rotated int64
}

// TestKillDuringRotation kills a daemon that replaces the secret of a token again and again.
// The token is always there, a secret that was replaced is never accepted again, and the last
// one that was given out is, unless the kill met a rotation that had happened and not been
// reported.
func TestKillDuringRotation(t *testing.T) {
	var before []rotation // of all processes
	storetest.Victim{
		Work: func(dir string, report func(line string)) error {
			d, err := daemon.Open(&daemon.Options{Home: dir})
			if err != nil {
				return err
			}
			var r rotation
			if err := called(d, "Token.Create", `{"name":"ci","preset":"viewer"}`, &r); err == nil {
				report(r.Token + " 0")
			}
			for {
				if err := called(d, "Token.Rotate", `{"name":"ci"}`, &r); err != nil {
					return err
				}
				report(fmt.Sprintf("%s %d", r.Token, r.Rotated))
			}
		},
		Check: func(t *testing.T, dir string, reported []string) {
			for _, line := range reported {
				var r rotation
				if _, err := fmt.Sscan(line, &r.Token, &r.Rotated); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				before = append(before, r)
			}
			checkRotations(t, dir, before)
		},
	}.Kill(t, times(6, 200))
}

func checkRotations(t *testing.T, dir string, given []rotation) {
	t.Helper()
	d, err := daemon.Open(&daemon.Options{Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	var now rotation
	if err := called(d, "Token.Show", `{"name":"ci"}`, &now); err != nil {
		if len(given) > 0 {
			t.Errorf("the token is gone: %v", err)
		}
		return
	}
	tokens := token.New(&token.Options{Store: d.Store()})
	defer tokens.Close()
	for i, r := range given {
		p, err := tokens.Authenticate(r.Token)
		if err != nil {
			t.Fatal(err)
		}
		switch last := i == len(given)-1; {
		case p != nil && !last:
			t.Errorf("a secret that was replaced %d rotations ago is accepted", len(given)-1-i)
		case p != nil && p.Name() != "ci":
			t.Errorf("it is that of %s", p.Name())
		case p == nil && last && now.Rotated < r.Rotated:
			t.Error("the secret is not accepted, and was not replaced")
		case p != nil && last && now.Rotated != r.Rotated:
			t.Error("the secret is accepted, and was replaced")
		}
	}
}
