package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"kernos/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// A session is one connection to a fake server.
type session struct {
	conn *websocket.Conn
	ctx  context.Context
}

func (s *session) send(format string, args ...any) {
	_ = s.conn.Write(s.ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)) // who has gone is not told
}

// item sends one item of a stream.
func (s *session) item(subscription, item string) {
	s.send(`{"jsonrpc":"2.0","method":"some_subscription","params":{"subscription":%s,"result":%s}}`, subscription, item)
}

func (s *session) ack(id json.RawMessage, subscription string) {
	s.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, subscription)
}

// A call is what a fake server was asked for.
type call struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// A fakeServer speaks the protocol and does what its test wants. It is not ours: its
// subscriptions are numbers, and its notifications have a name of their own.
type fakeServer struct {
	t      testing.TB
	target Target
	http   *httptest.Server
	answer func(*session, call)

	mu       sync.Mutex
	busy     int // how many connections are refused from now on
	calls    []call
	sessions []*session
}

func newServer(t testing.TB, answer func(*session, call)) *fakeServer {
	s := &fakeServer{t: t, answer: answer}
	s.http = httptest.NewServer(s)
	s.target = Target{URL: "ws" + s.http.URL[len("http"):], Patience: testkit.Patience}
	t.Cleanup(s.close)
	return s
}

// newSocketServer is newServer on a unix socket.
func newSocketServer(t testing.TB, path string, answer func(*session, call)) *fakeServer {
	s := &fakeServer{t: t, answer: answer}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewUnstartedServer(s)
	_ = s.http.Listener.Close()
	s.http.Listener = l
	s.http.Start()
	s.target = Target{URL: "unix://" + path, Patience: testkit.Patience}
	t.Cleanup(s.close)
	return s
}

func (s *fakeServer) close() {
	s.http.Close()
	s.drop() // a connection that is a WebSocket is the server's no more
}

// drop breaks all connections.
func (s *fakeServer) drop() {
	s.mu.Lock()
	all := s.sessions
	s.sessions = nil
	s.mu.Unlock()
	for _, one := range all {
		_ = one.conn.CloseNow()
	}
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "Bearer wrong" {
		http.Error(w, "that token is not mine", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	busy := s.busy > 0
	s.busy--
	s.mu.Unlock()
	if busy {
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	one := &session{conn: conn, ctx: context.WithoutCancel(r.Context())}
	s.mu.Lock()
	s.sessions = append(s.sessions, one)
	s.mu.Unlock()
	for {
		_, text, err := conn.Read(one.ctx)
		if err != nil {
			return
		}
		var c call
		if err := json.Unmarshal(text, &c); err != nil {
			s.t.Errorf("the client sent %s", text)
			return
		}
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		s.answer(one, c)
	}
}

// asked returns the methods that were called.
func (s *fakeServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range s.calls {
		names = append(names, c.Method)
	}
	return names
}

func (s *fakeServer) dial() *Client {
	s.t.Helper()
	c, err := Dial(testContext(s.t), s.target)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

const done = `{"service_hash":"h1","type":"done","provenance":["m"]}`

func data(value string) string {
	return fmt.Sprintf(`{"service_hash":"h1","type":"data","provenance":["m"],"content_type":"m.x","data":%s}`, value)
}

func numbered(n int) string {
	return fmt.Sprintf(`{"service_hash":"h1","type":"data","provenance":["m"],"content_type":"m.x","data":%d,"seq":%d}`, n, n)
}

// read reads a stream to its end, and returns the data and the error.
func read(t testing.TB, s *Stream) (values []string, err error) {
	t.Helper()
	for item, err := range s.Items(testContext(t)) {
		if err != nil {
			return values, err
		}
		if item.Type == Data {
			values = append(values, string(item.Data))
		}
	}
	return values, nil
}

// streamed calls m_x and reads its stream.
func streamed(t testing.TB, c *Client) (values []string, err error) {
	t.Helper()
	stream, err := c.Stream(testContext(t), "m_x")
	if err != nil {
		t.Fatal(err)
	}
	return read(t, stream)
}

func count(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// socketPath returns the path of a socket, which is short as it must be.
func socketPath(t testing.TB) string {
	return filepath.Join(t.TempDir(), "s")
}
