package ws_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	gobwas "github.com/gobwas/ws"
	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/transport"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a handler of a kernel with some syscalls.
type server struct {
	*ws.Handler
	t    *testing.T
	http *httptest.Server
	big  chan struct{} // closed by Test.Big, lets Test.Deaf and Test.Hold go on
}

// serve serves over the network of the machine.
func serve(t *testing.T, opts *ws.Options) *server {
	t.Helper()
	s := handler(t, opts)
	s.http = httptest.NewServer(s.Handler)
	t.Cleanup(s.http.Close)
	return s
}

// handler is a server without a network.
func handler(t *testing.T, opts *ws.Options) *server {
	t.Helper()
	s := &server{t: t, big: make(chan struct{})}
	raw := func(name message.Type, runs kernel.RunMode, h kernel.Handler) kernel.Syscall {
		return kernel.Syscall{Definition: kernel.Definition{
			Type:     name,
			Kind:     message.KindQuery,
			Summary:  "Part of a test.",
			Input:    schema.Any,
			Output:   schema.Any,
			Emits:    []kernel.EventDefinition{{Type: "Test.Chunk", Summary: "Some of it."}},
			Behavior: kernel.Behavior{Runs: runs, Timeout: time.Hour},
		}, Handler: h}
	}
	echo := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) }
	k := kerneltest.New(t, nil,
		raw("Test.Echo", kernel.Inline, echo),
		raw("Test.SlowEcho", kernel.Slow, echo),
		raw("Test.Hold", kernel.Inline, func(_ context.Context, m message.Message, emit kernel.Emit) {
			<-s.big
			emit(m.Reply(nil))
		}),
		raw("Test.Wait", kernel.Slow, func(ctx context.Context, m message.Message, emit kernel.Emit) {
			<-ctx.Done()
			kernel.Fail(ctx, m, emit, ctx.Err())
		}),
		raw("Test.Deaf", kernel.Slow, func(_ context.Context, m message.Message, emit kernel.Emit) {
			<-s.big
			emit(m.Reply(nil))
		}),
		raw("Test.Big", kernel.Slow, func(_ context.Context, m message.Message, emit kernel.Emit) {
			chunk := []byte(`"` + strings.Repeat("x", 128<<10) + `"`)
			for range 200 { // more than systems take in between
				emit(m.Event("Test.Chunk", chunk))
			}
			close(s.big)
			emit(m.Reply(nil))
		}),
	)
	s.Handler = ws.New(rpc.New(k, nil), opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever still runs has no reason to
		_ = s.Shutdown(ctx)
	})
	return s
}

func (s *server) url() string { return "ws" + strings.TrimPrefix(s.http.URL, "http") }

func (s *server) dial() *websocket.Conn {
	s.t.Helper()
	c, _, err := websocket.Dial(s.t.Context(), s.url(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetReadLimit(-1)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// raw connects without a library's help, so that a test can send anything.
func (s *server) raw() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	conn, buffered, _, err := gobwas.Dial(s.t.Context(), s.url())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if buffered == nil {
		buffered = bufio.NewReader(conn)
	}
	return conn, buffered
}

func send(t *testing.T, c *websocket.Conn, format string, args ...any) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	_, text, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const echo = `{"jsonrpc":"2.0","id":%d,"method":"test_echo","params":[{"n":%d}]}`

func TestCallsAreAnsweredInOrder(t *testing.T) {
	c := serve(t, nil).dial()
	const n = 1000
	go func() {
		for i := range n {
			_ = c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, echo, i, i))
		}
	}()
	for i := range n {
		if got := read(t, c); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"result":`) {
			t.Fatalf("no acknowledgement of %d: %s", i, got)
		}
		if got := read(t, c); !strings.Contains(got, fmt.Sprintf(`"data":{"n":%d},"seq":1`, i)) {
			t.Fatalf("not the data of %d: %s", i, got)
		}
		if got := read(t, c); !strings.Contains(got, `"type":"done"`) {
			t.Fatalf("not done: %s", got)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("the goodbye is not answered: %v", err)
	}
}

// A peer that writes all that it has before it reads anything does not stand still.
func TestPeerMayWriteBeforeItReads(t *testing.T) {
	c := serve(t, nil).dial()
	large := strings.Repeat("y", 8<<10)
	const n = 1000
	for i := range n {
		send(t, c, `{"jsonrpc":"2.0","id":%d,"method":"test_echo","params":[{"n":%q}]}`, i, large)
	}
	for range 3 * n {
		read(t, c)
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, &ws.Options{MaxMessage: 1000})
	for name, one := range map[string]struct {
		frames []gobwas.Frame
		code   gobwas.StatusCode
	}{
		"too big":            {[]gobwas.Frame{gobwas.NewTextFrame(bytes.Repeat([]byte(" "), 1001))}, gobwas.StatusMessageTooBig},
		"too big in parts":   {[]gobwas.Frame{gobwas.NewFrame(gobwas.OpText, false, make([]byte, 600)), gobwas.NewFrame(gobwas.OpContinuation, true, make([]byte, 600))}, gobwas.StatusMessageTooBig},
		"binary":             {[]gobwas.Frame{gobwas.NewBinaryFrame([]byte("{}"))}, gobwas.StatusUnsupportedData},
		"not UTF-8":          {[]gobwas.Frame{gobwas.NewTextFrame([]byte("\"\xff\""))}, gobwas.StatusInvalidFramePayloadData},
		"continues nothing":  {[]gobwas.Frame{gobwas.NewFrame(gobwas.OpContinuation, true, nil)}, gobwas.StatusProtocolError},
		"begins twice":       {[]gobwas.Frame{gobwas.NewFrame(gobwas.OpText, false, nil), gobwas.NewFrame(gobwas.OpText, true, nil)}, gobwas.StatusProtocolError},
		"reserved":           {[]gobwas.Frame{gobwas.NewFrame(0x3, true, nil)}, gobwas.StatusProtocolError},
		"a ping in parts":    {[]gobwas.Frame{gobwas.NewFrame(gobwas.OpPing, false, nil)}, gobwas.StatusProtocolError},
		"a goodbye of 1":     {[]gobwas.Frame{gobwas.NewCloseFrame([]byte{3})}, gobwas.StatusProtocolError},
		"a goodbye of 1005":  {[]gobwas.Frame{gobwas.NewCloseFrame(gobwas.NewCloseFrameBody(1005, ""))}, gobwas.StatusProtocolError},
		"a goodbye":          {[]gobwas.Frame{gobwas.NewCloseFrame(gobwas.NewCloseFrameBody(1000, "bye"))}, gobwas.StatusNormalClosure},
		"an unmasked header": {nil, gobwas.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			conn, in := s.raw()
			for _, f := range one.frames {
				if err := gobwas.WriteFrame(conn, gobwas.MaskFrame(f)); err != nil {
					t.Fatal(err)
				}
			}
			if one.frames == nil {
				_ = gobwas.WriteFrame(conn, gobwas.NewTextFrame([]byte("{}")))
			}
			f, err := gobwas.ReadFrame(in)
			if err != nil || f.Header.OpCode != gobwas.OpClose {
				t.Fatalf("got %+v, %v", f, err)
			}
			if code, reason := gobwas.ParseCloseFrameData(f.Payload); code != one.code {
				t.Errorf("got %d %s", code, reason)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("more came, or %v", err)
			}
		})
	}
}

// A message may come in parts, with control frames between them.
func TestFragmentsAndPings(t *testing.T) {
	conn, in := serve(t, nil).raw()
	text := fmt.Sprintf(echo, 1, 2)
	for _, f := range []gobwas.Frame{
		gobwas.NewFrame(gobwas.OpText, false, []byte(text[:10])), gobwas.NewPingFrame([]byte("there?")),
		gobwas.NewFrame(gobwas.OpContinuation, false, nil), gobwas.NewFrame(gobwas.OpContinuation, true, []byte(text[10:])),
	} {
		if err := gobwas.WriteFrame(conn, gobwas.MaskFrame(f)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := gobwas.ReadFrame(in)
	if err != nil || f.Header.OpCode != gobwas.OpPong || string(f.Payload) != "there?" {
		t.Fatalf("got %+v, %v", f, err)
	}
	f, err = gobwas.ReadFrame(in)
	if err != nil || f.Header.OpCode != gobwas.OpText || !strings.Contains(string(f.Payload), `"id":1`) {
		t.Fatalf("got %+v, %v", f, err)
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	s := serve(t, &ws.Options{MaxConnections: 1})
	c := s.dial()
	_, r, err := websocket.Dial(t.Context(), s.url(), nil)
	if err == nil || r == nil || r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Fatalf("got %v, %v", r, err)
	}
	if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), `"name":"too_many_connections","message":"There are 1 connections`) {
		t.Errorf("it is told %s", text)
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	testkit.Until(t, "there is room", func() bool { return s.Stats().Connections == 0 })
	s.dial()
}

// However many come at once, there are never more than there may be.
func TestConnectionsAreLimitedWhenManyComeAtOnce(t *testing.T) {
	const most, come = 3, 40
	s := serve(t, &ws.Options{MaxConnections: most})
	conns := make(chan *websocket.Conn, come)
	for range come {
		go func() {
			c, _, _ := websocket.Dial(t.Context(), s.url(), nil)
			conns <- c
		}()
	}
	served := 0
	for range come {
		if c := <-conns; c != nil {
			served++
			defer func() { _ = c.CloseNow() }()
		}
	}
	if got := s.Stats(); served != most || got.Accepted != most || got.Refused[transport.TooMany] != come-most {
		t.Errorf("%d are served: %+v", served, got)
	}
}

// One that is not upgraded after all gives its place back, and its connection is closed.
func TestFailedUpgradesTakeNoPlace(t *testing.T) {
	s := serve(t, &ws.Options{MaxConnections: 1})
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 7\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
	} {
		c, err := net.Dial("tcp", s.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 4") {
			t.Errorf("%v: %s", err, text)
		}
		_ = c.Close()
	}
	s.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: "GET", Header: http.Header{"Upgrade": {"websocket"}}}) // which has no connection
	s.dial()
	if got := s.Stats(); got.Connections != 1 || got.Refused[transport.TooMany] != 0 {
		t.Errorf("%+v", got)
	}
}

// A client that was connecting when the server stopped is told.
func TestConnectionThatComesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		mine, theirs := net.Pipe()
		upgrade := &takeover{conn: theirs, wait: make(chan struct{})}
		go s.upgrade(upgrade)
		synctest.Wait() // it has a place
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		synctest.Wait()
		close(upgrade.wait)
		in := s.upgraded(mine)
		f, err := gobwas.ReadFrame(in)
		if code, _ := gobwas.ParseCloseFrameData(f.Payload); err != nil || code != gobwas.StatusGoingAway {
			t.Errorf("%v, %+v", err, f)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("it is not closed: %v", err)
		}
		if err := <-ended; err != nil || s.Stats().Connections != 0 {
			t.Errorf("%v, %+v", err, s.Stats())
		}
	})
}

func TestPlainRequestsAreToldToUpgrade(t *testing.T) {
	s := serve(t, nil)
	r, err := http.Get(s.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusUpgradeRequired || r.Header.Get("Upgrade") != "websocket" {
		t.Errorf("got %+v", r)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A browser wants one of the protocols that it has named.
func TestProtocolIsChosen(t *testing.T) {
	s := serve(t, nil)
	for want, offered := range map[string][]string{"kernos": {"kernos.token.x", "kernos"}, "kernos.token.y": {"other", "kernos.token.y"}, "": {"other"}} {
		c, _, err := websocket.Dial(t.Context(), s.url(), &websocket.DialOptions{Subprotocols: offered})
		if err != nil {
			t.Fatal(err)
		}
		if c.Subprotocol() != want {
			t.Errorf("%v: got %q", offered, c.Subprotocol())
		}
		_ = c.CloseNow()
	}
}

// A lost connection's streams go on at the next one; who says that it is done loses them.
func TestResumeOverANewConnection(t *testing.T) {
	s := serve(t, nil)
	one := s.dial()
	send(t, one, `{"jsonrpc":"2.0","id":1,"method":"test_wait"}`)
	var ack struct{ Result string }
	if err := json.Unmarshal([]byte(read(t, one)), &ack); err != nil {
		t.Fatal(err)
	}
	_ = one.CloseNow()
	testkit.Until(t, "it is lost", func() bool { return s.Stats().Connections == 0 })
	two := s.dial()
	send(t, two, `{"jsonrpc":"2.0","id":2,"method":"service_resume","params":[%q,0]}`, ack.Result)
	if got := read(t, two); got != `{"jsonrpc":"2.0","id":2,"result":"`+ack.Result+`"}` {
		t.Fatal(got)
	}
	send(t, two, `{"jsonrpc":"2.0","id":3,"method":"service_unsubscribe","params":[%q]}`, ack.Result)
	for _, want := range []string{`"type":"error"`, `"type":"done"`, `"result":true`} {
		if got := read(t, two); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// At the end, what has begun is answered before the peer is told.
func TestShutdownFinishesAndSaysGoodbye(t *testing.T) {
	s := serve(t, nil)
	c := s.dial()
	send(t, c, echo, 1, 1)
	for range 3 {
		read(t, c)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	_, _, err := c.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("got %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, r, err := websocket.Dial(t.Context(), s.url(), nil); err == nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a server that is shut down takes connections: %v", err)
	}
}

// A message beyond the rate waits, and not longer than the server lives.
func TestMessagesHaveAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, &ws.Options{FrameRate: 2})
		conn, in := s.pipe()
		began := time.Now()
		next := func(i int) {
			say(t, conn, fmt.Sprintf(echo, i, i))
			for range 3 {
				if _, err := gobwas.ReadFrame(in); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range 6 { // two at once
			next(i)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("six took %v", took)
		}
		say(t, conn, fmt.Sprintf(echo, 7, 7))
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		if code, _ := farewell(t, in); code != gobwas.StatusGoingAway {
			t.Errorf("got %d", code)
		}
		_ = conn.Close()
		if err := <-ended; err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A peer that is held up for a second is told so, once, between its answers.
func TestOneThatSendsTooMuchIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 12
		s := handler(t, &ws.Options{FrameRate: 3})
		conn, in := s.pipe()
		go func() {
			for i := range calls {
				say(t, conn, fmt.Sprintf(echo, i, i))
			}
		}()
		begun, answers := time.Now(), 0
		var told []string
		for answers < 3*calls {
			f, err := gobwas.ReadFrame(in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(f.Payload), `"method":"syscall_throttled"`) {
				answers++
				continue
			}
			told = append(told, time.Since(begun).String())
			var frame struct {
				Version string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Params  struct {
					Code    int
					Limit   float64
					Message string
				}
			}
			if err := json.Unmarshal(f.Payload, &frame); err != nil || frame.Version != "2.0" || frame.ID != nil ||
				frame.Params.Code != 429 || frame.Params.Limit != 3 || !strings.Contains(frame.Params.Message, "(frame-rate)") {
				t.Errorf("%v: %s", err, f.Payload)
			}
		}
		if len(told) != 1 {
			t.Errorf("told after %v", told)
		}
		_ = conn.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Who waits for ever is cut off when the time is over.
func TestShutdownRunsOutOfTime(t *testing.T) {
	s := serve(t, nil)
	c := s.dial()
	send(t, c, `{"jsonrpc":"2.0","id":1,"method":"test_wait"}`)
	read(t, c)
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// FuzzFrames sends any bytes: the server answers or closes, and goes on with others.
func FuzzFrames(f *testing.F) {
	f.Add(gobwas.MustCompileFrame(gobwas.MaskFrame(gobwas.NewTextFrame([]byte(`{"jsonrpc":"2.0","id":1,"method":"service_hash"}`)))))
	f.Add(gobwas.MustCompileFrame(gobwas.MaskFrame(gobwas.NewCloseFrame([]byte{3, 232}))))
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4})
	f.Add([]byte{0x81, 0xfe, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := handler(t, &ws.Options{MaxMessage: 1 << 16})
		conn, in := s.pipe()
		go func() {
			_, _ = conn.Write(sent)
			_ = gobwas.WriteFrame(conn, gobwas.MaskFrame(gobwas.NewCloseFrame(nil)))
			_ = conn.Close()
		}()
		_, _ = io.Copy(io.Discard, in)
		testkit.Until(t, "it has left", func() bool { return s.Stats().Connections == 0 })
	})
}

// A peer that takes batches gets every message once, in order, in fewer frames than messages.
func TestBatches(t *testing.T) {
	s := serve(t, nil)
	c, answer, err := websocket.Dial(t.Context(), s.url(), &websocket.DialOptions{Subprotocols: []string{"kernos", "kernos.batch"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(-1)
	if got := answer.Header.Get("Sec-WebSocket-Protocol"); got != "kernos.batch" {
		t.Fatalf("the protocol is %q", got)
	}
	send := func(id int, method, data string) {
		if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":[%s]}`, id, method, data)); err != nil {
			t.Fatal(err)
		}
	}
	const big = 201 // items of Test.Big, each longer than a short frame
	send(1, "test_big", "null")
	var frames, items, ends, last int
	for ends < 101 {
		_, text, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		frames++
		var all []struct {
			ID     int
			Params struct {
				Result struct {
					Type string
					Data json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("%v in %.200s", err, text)
		}
		for _, one := range all {
			switch {
			case one.ID != 0 && one.ID != last+1:
				t.Fatalf("the answer to %d follows that to %d", one.ID, last)
			case one.ID != 0:
				last = one.ID
			case one.Params.Result.Type == "data":
				items++
			case one.Params.Result.Type == "done":
				if ends++; ends == 1 { // many answers at once, in one write of the peer each
					for id := range 100 {
						send(id+2, "test_echo", `"`+strings.Repeat("y", id*40)+`"`)
					}
				}
			}
		}
	}
	if items != big+100 || last != 101 {
		t.Errorf("%d items and %d answers came", items, last)
	}
	t.Logf("%d messages in %d frames", items+ends+last, frames)
	if frames >= items+ends+last {
		t.Errorf("%d frames had %d messages", frames, items+ends+last)
	}
}
