package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/message"
)

// A served is a daemon with a TCP address, for as long as a test runs.
type served struct {
	*daemontest.Daemon
	t     *testing.T
	url   string
	clock *testkit.Clock
}

// serve serves a new home over HTTP.
func serve(t *testing.T) *served {
	t.Helper()
	clock := new(testkit.Clock)
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir(), Web: &daemon.Web{Address: "127.0.0.1:0"}, Now: clock.Now})
	return &served{Daemon: d, t: t, url: "http://" + d.Address, clock: clock}
}

// owner calls as the owner, and returns the reply.
func (s *served) owner(kind message.Kind, what message.Type, data string) message.Message {
	s.t.Helper()
	answer, _ := s.Call(s.t.Context(), message.Message{Kind: kind, Type: what, Data: []byte(data)}, nil)
	if answer.Kind != message.KindReply {
		s.t.Fatalf("%s %s: %s", what, data, answer.Data)
	}
	return answer
}

// token makes a token, and returns its secret.
func (s *served) token(data string) string {
	s.t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal(s.owner(message.KindCommand, "Token.Create", data).Data, &made); err != nil || made.Token == "" {
		s.t.Fatalf("no token: %v", err)
	}
	return made.Token
}

// dial opens a WebSocket.
func (s *served) dial(secret string) *websocket.Conn {
	s.t.Helper()
	c, _, err := websocket.Dial(s.t.Context(), strings.Replace(s.url, "http", "ws", 1)+"/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetReadLimit(-1)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Connections full of watches take what the budget of their token allows, and say so; a
// neighbour is answered, and nothing grows when they hang up.
func TestAFloodOfWatchesIsBounded(t *testing.T) {
	s := serve(t)
	secret := s.token(`{"name":"flood"}`)
	before := heap()
	const sockets, each = 3, 600
	var watches []*websocket.Conn
	refused := 0
	for range sockets {
		c := s.dial(secret)
		watches = append(watches, c)
		go func() {
			for i := range each {
				_ = c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"message_watch","params":[{}]}`, i))
			}
			_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"last","method":"kernel_ping","params":[{"payload":"the last"}]}`))
		}()
		for last := false; !last; {
			_, frame, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := string(frame)
			if strings.Contains(text, `"code":429`) {
				refused++
				if !strings.Contains(text, "watches and kept streams") {
					t.Fatalf("refused with %s", text)
				}
			}
			if strings.Contains(text, "Message.Watch") {
				t.Fatalf("a watch is told of a watch: %s", text)
			}
			last = strings.Contains(text, "the last")
		}
	}
	const most = 64 << 20
	taken := s.Kernel().Kept().Taken()
	if refused == 0 || taken > most || taken < most/2 {
		t.Errorf("%d watches are refused, and %d bytes are taken", refused, taken)
	}
	neighbour := func(when string) {
		t.Helper()
		begun := time.Now()
		s.owner(message.KindQuery, "Ping", `{"payload":1}`)
		t.Logf("%s, a ping takes %v", when, time.Since(begun))
	}
	neighbour("while they watch")
	open := heap() - before
	for _, c := range watches {
		_ = c.CloseNow()
	}
	neighbour("when they hang up")
	if grown := heap() - before; open > 256<<20 || grown > 256<<20 {
		t.Errorf("the watches take %d MB, and %d MB after their end", open>>20, grown>>20)
	}
	t.Logf("%d of %d refused; %d MB open, %d MB after", refused, sockets*each, open>>20, (heap()-before)>>20)
}
