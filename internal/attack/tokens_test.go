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
	tokens := token.New(d.Store())
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
