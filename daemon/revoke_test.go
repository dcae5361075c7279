package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kernos/internal/testkit"
	"kernos/message"
)

// post sends a request that lasts, and returns its answer.
func (s *served) post(ctx context.Context, secret, path, accept string, body io.Reader) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Accept", accept)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// lasting opens one of each of what lasts for a token, and returns channels that are closed when
// they have ended.
func (s *served) lasting(secret string) map[string]<-chan struct{} {
	s.t.Helper()
	all := make(map[string]<-chan struct{})
	until := func(name string, read func() error) {
		ended := make(chan struct{})
		all[name] = ended
		go func() {
			defer close(ended)
			for read() == nil {
			}
		}()
	}
	socket := s.dial(secret)
	if err := socket.Write(s.t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"message_watch","params":[{}]}`)); err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := socket.Read(s.t.Context()); err != nil { // the acknowledgement
		s.t.Fatal(err)
	}
	until("a WebSocket", func() error { _, _, err := socket.Read(s.t.Context()); return err })

	events := s.post(s.t.Context(), secret, "/v1/call/message/watch", "text/event-stream", strings.NewReader(`{}`))
	lines := bufio.NewReader(events.Body)
	if line, err := lines.ReadString('\n'); err != nil || events.StatusCode != 200 {
		s.t.Fatalf("events: %d %q %v", events.StatusCode, line, err)
	}
	until("server-sent events", func() error { _, err := lines.ReadString('\n'); return err })

	reads, writes := io.Pipe()
	s.t.Cleanup(func() { _ = writes.Close() })
	go func() {
		_, _ = io.WriteString(writes, `{"kind":"query","type":"Ping","data":{"payload":1},"metadata":{"id":"1","timestamp":1}}`+"\n")
	}()
	messages := s.post(s.t.Context(), secret, "/v1/messages", "*/*", reads)
	answers := bufio.NewReader(messages.Body)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, `"reply"`) {
		s.t.Fatalf("messages: %q %v", line, err)
	}
	until("a stream of messages", func() error { _, err := answers.ReadString('\n'); return err })
	return all
}

// What a token has open ends with the token, however it ends, and its secret is good for nothing any
// more.
func TestATokenEndsWhatItHasOpen(t *testing.T) {
	s := serve(t)
	for _, how := range []string{"revoked", "rotated", "expired"} {
		secret := s.token(fmt.Sprintf(`{"name":%q,"expires":%d}`, how, s.clock.Now().Add(time.Hour).UnixMilli()))
		open := s.lasting(secret)
		switch how {
		case "revoked":
			s.owner(message.KindCommand, "Token.Revoke", `{"name":"revoked"}`)
		case "rotated":
			s.owner(message.KindCommand, "Token.Rotate", `{"name":"rotated"}`)
		case "expired":
			s.clock.Advance(time.Hour)
			// The tokens are looked at when one of them gets an end.
			s.token(fmt.Sprintf(`{"name":"another","expires":%d}`, s.clock.Now().Add(time.Hour).UnixMilli()))
		}
		for what, ended := range open {
			select {
			case <-ended:
			case <-time.After(testkit.Patience):
				t.Fatalf("%s is open after its token was %s", what, how)
			}
		}
		a := s.post(t.Context(), secret, "/v1/call/kernel/ping", "*/*", strings.NewReader(`{"payload":1}`))
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("after it was %s, a token gets %d", how, a.StatusCode)
		}
	}
	testkit.Until(t, "nothing is kept of their streams", func() bool { return s.Kernel().Kept().Taken() == 0 })
}
