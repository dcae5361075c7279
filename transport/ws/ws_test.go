package ws

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
	"go.uber.org/goleak"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long something may take that is about to happen.
const patience = 20 * time.Second

// server is a handler of a kernel with some syscalls.
type server struct {
	*Handler
	t    *testing.T
	http *httptest.Server
	big  chan struct{} // lets Test.Big go on
}

func serve(t *testing.T, opts *Options) *server {
	t.Helper()
	return serveOver(t, opts, false)
}

func serveOver(t *testing.T, opts *Options, encrypted bool) *server {
	t.Helper()
	s := &server{t: t, big: make(chan struct{})}
	raw := func(name message.Type, slow bool, h kernel.Handler) kernel.Syscall {
		return kernel.Syscall{Definition: kernel.Definition{
			Type: name, Kind: message.KindQuery, Summary: "Part of a test.", Input: schema.Any, Output: schema.Any, Slow: slow, Timeout: time.Hour,
			Emits: []kernel.EventDefinition{{Type: "Test.Chunk", Summary: "Some of it."}},
		}, Handler: h}
	}
	registry, err := kernel.NewRegistry(kernel.Module{Name: "test", Version: "1.0.0", Summary: "A test.", Syscalls: []kernel.Syscall{
		raw("Test.Echo", false, func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) }),
		raw("Test.Wait", true, func(ctx context.Context, m message.Message, emit kernel.Emit) {
			<-ctx.Done()
			kernel.Fail(ctx, m, emit, ctx.Err())
		}),
		raw("Test.Big", true, func(_ context.Context, m message.Message, emit kernel.Emit) {
			chunk := []byte(`"` + strings.Repeat("x", 256<<10) + `"`)
			for range 400 {
				emit(m.Event("Test.Chunk", chunk))
			}
			close(s.big)
			emit(m.Reply(nil))
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = New(rpc.New(kernel.New(registry, nil), nil), opts)
	if s.http = httptest.NewUnstartedServer(s.Handler); encrypted {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever still runs has no reason to
		_ = s.Shutdown(ctx)
		s.http.Close()
	})
	return s
}

func (s *server) url() string { return "ws" + strings.TrimPrefix(s.http.URL, "http") }

func (s *server) dial() *websocket.Conn {
	s.t.Helper()
	c, _, err := websocket.Dial(s.t.Context(), s.url(), &websocket.DialOptions{HTTPClient: s.http.Client()})
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
	dialer := ws.Dialer{TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	conn, buffered, _, err := dialer.Dial(s.t.Context(), s.url())
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, text, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it never came about that ", what)
		}
	}
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
	s := serve(t, &Options{MaxMessage: 1000})
	for name, one := range map[string]struct {
		frames []ws.Frame
		code   ws.StatusCode
	}{
		"too big":            {[]ws.Frame{ws.NewTextFrame(bytes.Repeat([]byte(" "), 1001))}, ws.StatusMessageTooBig},
		"too big in parts":   {[]ws.Frame{ws.NewFrame(ws.OpText, false, make([]byte, 600)), ws.NewFrame(ws.OpContinuation, true, make([]byte, 600))}, ws.StatusMessageTooBig},
		"binary":             {[]ws.Frame{ws.NewBinaryFrame([]byte("{}"))}, ws.StatusUnsupportedData},
		"not UTF-8":          {[]ws.Frame{ws.NewTextFrame([]byte("\"\xff\""))}, ws.StatusInvalidFramePayloadData},
		"continues nothing":  {[]ws.Frame{ws.NewFrame(ws.OpContinuation, true, nil)}, ws.StatusProtocolError},
		"begins twice":       {[]ws.Frame{ws.NewFrame(ws.OpText, false, nil), ws.NewFrame(ws.OpText, true, nil)}, ws.StatusProtocolError},
		"reserved":           {[]ws.Frame{ws.NewFrame(0x3, true, nil)}, ws.StatusProtocolError},
		"a ping in parts":    {[]ws.Frame{ws.NewFrame(ws.OpPing, false, nil)}, ws.StatusProtocolError},
		"a goodbye of 1":     {[]ws.Frame{ws.NewCloseFrame([]byte{3})}, ws.StatusProtocolError},
		"a goodbye of 1005":  {[]ws.Frame{ws.NewCloseFrame(ws.NewCloseFrameBody(1005, ""))}, ws.StatusProtocolError},
		"a goodbye":          {[]ws.Frame{ws.NewCloseFrame(ws.NewCloseFrameBody(1000, "bye"))}, ws.StatusNormalClosure},
		"an unmasked header": {nil, ws.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			conn, in := s.raw()
			for _, f := range one.frames {
				if err := ws.WriteFrame(conn, ws.MaskFrame(f)); err != nil {
					t.Fatal(err)
				}
			}
			if one.frames == nil {
				_ = ws.WriteFrame(conn, ws.NewTextFrame([]byte("{}")))
			}
			f, err := ws.ReadFrame(in)
			if err != nil || f.Header.OpCode != ws.OpClose {
				t.Fatalf("got %+v, %v", f, err)
			}
			if code, reason := ws.ParseCloseFrameData(f.Payload); code != one.code {
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
	for _, f := range []ws.Frame{
		ws.NewFrame(ws.OpText, false, []byte(text[:10])), ws.NewPingFrame([]byte("there?")),
		ws.NewFrame(ws.OpContinuation, false, nil), ws.NewFrame(ws.OpContinuation, true, []byte(text[10:])),
	} {
		if err := ws.WriteFrame(conn, ws.MaskFrame(f)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := ws.ReadFrame(in)
	if err != nil || f.Header.OpCode != ws.OpPong || string(f.Payload) != "there?" {
		t.Fatalf("got %+v, %v", f, err)
	}
	f, err = ws.ReadFrame(in)
	if err != nil || f.Header.OpCode != ws.OpText || !strings.Contains(string(f.Payload), `"id":1`) {
		t.Fatalf("got %+v, %v", f, err)
	}
}

// Who does not read is dropped, and told why if it reads after all. The others go on.
func TestSlowReaderIsToldWhy(t *testing.T) {
	s := serve(t, &Options{Patience: time.Second, MaxUnread: 1 << 20})
	conn, in := s.raw()
	slowReader(t, s, conn, in, func() { eventually(t, "it is dropped", func() bool { return s.Stats().Slow == 1 }) })
}

// Over TLS too, where nothing can be written behind a deadline that has passed.
func TestSlowReaderIsToldWhyOverTLS(t *testing.T) {
	s := serveOver(t, &Options{Patience: 2 * time.Second, MaxUnread: 1 << 20}, true)
	conn, in := s.raw()
	slowReader(t, s, conn, in, func() { time.Sleep(2500 * time.Millisecond) }) // it has until the fourth second
	if n := s.Stats().Slow; n != 1 {
		t.Errorf("%d were slow", n)
	}
	deaf := serveOver(t, &Options{Patience: 100 * time.Millisecond, MaxUnread: 1 << 20}, true)
	conn, _ = deaf.raw()
	if err := ws.WriteFrame(conn, ws.MaskFrame(ws.NewTextFrame([]byte(`{"jsonrpc":"2.0","id":1,"method":"test_big"}`)))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "who never reads is dropped", func() bool { return deaf.Stats().Slow == 1 })
	<-deaf.big
}

// slowReader asks for much, and reads after a while.
func slowReader(t *testing.T, s *server, conn net.Conn, in *bufio.Reader, wait func()) {
	t.Helper()
	if err := ws.WriteFrame(conn, ws.MaskFrame(ws.NewTextFrame([]byte(`{"jsonrpc":"2.0","id":1,"method":"test_big"}`)))); err != nil {
		t.Fatal(err)
	}
	other := s.dial()
	send(t, other, echo, 1, 1)
	read(t, other)
	wait()
	for {
		f, err := ws.ReadFrame(in)
		if err != nil {
			t.Fatalf("no goodbye: %v", err)
		}
		if f.Header.OpCode == ws.OpClose {
			if code, reason := ws.ParseCloseFrameData(f.Payload); code != ws.StatusPolicyViolation || !strings.Contains(reason, "Slow reader") {
				t.Errorf("got %d %s", code, reason)
			}
			break
		}
		if !json.Valid(f.Payload) {
			t.Fatalf("a frame is broken: %.80s", f.Payload)
		}
	}
	<-s.big // the handler did not hang
}

// A peer that stops in the middle of a frame is as silent as one that sends none.
func TestPeerThatStopsInAFrameIsDropped(t *testing.T) {
	s := serve(t, &Options{Ping: 100 * time.Millisecond})
	conn, in := s.raw()
	if _, err := conn.Write([]byte{0x81, 0xfe, 0x01, 0x00, 0, 0, 0, 0, '{'}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := ws.ReadFrame(in)
		if err != nil {
			t.Fatal(err)
		}
		if f.Header.OpCode == ws.OpClose {
			break
		}
	}
	eventually(t, "it counts", func() bool { return s.Stats().Silent == 1 })
}

// A peer is asked whether it is there, and dropped if it does not answer.
func TestSilentPeerIsDropped(t *testing.T) {
	s := serve(t, &Options{Ping: 500 * time.Millisecond})
	conn, in := s.raw()
	f, err := ws.ReadFrame(in)
	if err != nil || f.Header.OpCode != ws.OpPing {
		t.Fatalf("got %+v, %v", f, err)
	}
	if err := ws.WriteFrame(conn, ws.MaskFrame(ws.NewPongFrame(f.Payload))); err != nil {
		t.Fatal(err)
	}
	pings := 0
	for f.Header.OpCode != ws.OpClose {
		if f, err = ws.ReadFrame(in); err != nil {
			t.Fatal(err)
		}
		pings++
	}
	if code, reason := ws.ParseCloseFrameData(f.Payload); code != ws.StatusPolicyViolation || !strings.Contains(reason, "ping") {
		t.Errorf("got %d %s", code, reason)
	}
	if pings < 2 {
		t.Error("it was not asked again")
	}
	if s.Stats().Silent != 1 {
		t.Errorf("got %+v", s.Stats())
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	s := serve(t, &Options{MaxConnections: 1})
	c := s.dial()
	_, r, err := websocket.Dial(t.Context(), s.url(), nil)
	if err == nil || r == nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("got %v, %v", r, err)
	}
	if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), `"name":"too_many_connections"`) {
		t.Errorf("it is told %s", text)
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	eventually(t, "there is room", func() bool { return s.Stats().Connections == 0 })
	s.dial()
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
	eventually(t, "it is lost", func() bool { return s.Stats().Connections == 0 })
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

// Who waits for ever is cut off when the time is over.
func TestShutdownRunsOutOfTime(t *testing.T) {
	s := serve(t, nil)
	c := s.dial()
	send(t, c, `{"jsonrpc":"2.0","id":1,"method":"test_wait"}`)
	read(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// FuzzFrames sends any bytes: the server answers or closes, and goes on with others.
func FuzzFrames(f *testing.F) {
	f.Add(ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte(`{"jsonrpc":"2.0","id":1,"method":"service_hash"}`)))))
	f.Add(ws.MustCompileFrame(ws.MaskFrame(ws.NewCloseFrame([]byte{3, 232}))))
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4})
	f.Add([]byte{0x81, 0xfe, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		h := New(nil, &Options{MaxMessage: 1 << 16})
		mine, theirs := net.Pipe()
		w := newWire(h, theirs, bufio.NewReaderSize(theirs, readBuffer), nil)
		go func() {
			_, _ = mine.Write(sent)
			_ = mine.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, mine) }()
		for {
			message, err := w.Read()
			if err != nil {
				break
			}
			if len(message) > 1<<16 {
				t.Fatalf("%d bytes", len(message))
			}
		}
	})
}
