package http

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store/blobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdefghijklmnopqrstuvwxyz"

// authenticate knows one secret, the owner's.
func authenticate(given string) (*principal.Principal, error) {
	if given == secret {
		return principal.TheOwner(), nil
	}
	return nil, nil
}

// raw is a syscall of any data with a handler of its own.
func raw(t message.Type, kind message.Kind, h kernel.Handler) kernel.Syscall {
	return kernel.Syscall{Handler: h, Definition: kernel.Definition{
		Type:     t,
		Kind:     kind,
		Summary:  "A syscall of a test.",
		Input:    schema.Any,
		Output:   schema.Any,
		Behavior: kernel.Behavior{Runs: kernel.Slow},
	}}
}

// A site is a server that a test talks to over TCP.
type site struct {
	*Server
	t      testing.TB
	addr   string
	url    string
	client *http.Client
	blobs  *blobs.Dir
	stop   context.CancelFunc
	ended  chan error
}

type siteOptions struct {
	Options
	guard    *Guard
	cert     *Certificate
	client   *http.Transport
	syscalls []kernel.Syscall
	memory   bool // no network, so that time can stand still
	recorder kernel.Recorder
}

// open serves a kernel with the built-in syscalls and those of a test. It is stopped when the
// test ends, if it was not before.
func open(t testing.TB, o siteOptions) *site {
	t.Helper()
	kept := kerneltest.NewBlobs(t)
	k := kerneltest.Around(t, &kernel.Options{Blobs: kept, Recorder: o.recorder}, introspect.Module, o.syscalls...)
	o.Blobs = kept.Dir
	if o.client == nil {
		o.client = new(http.Transport)
	}
	var l net.Listener
	var err error
	if o.memory {
		m := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
		o.client.DialContext = m.dial
		l = m
	} else if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s := &site{
		Server: NewServer(k, &o.Options), t: t, addr: l.Addr().String(), url: "http://" + l.Addr().String(),
		client: &http.Client{Transport: o.client}, blobs: kept.Dir, ended: make(chan error, 1),
	}
	if o.cert != nil {
		s.url = "https://" + s.addr
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		s.ended <- s.Serve(ctx, Endpoint{Listener: l, Guard: o.guard, Certificate: o.cert, Remote: true})
	}()
	t.Cleanup(func() {
		o.client.CloseIdleConnections()
		stop()
		if err, ok := <-s.ended; ok && err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return s
}

// memory is a listener to which one connects without a network.
type memory struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return mine, nil
	case <-m.closed:
	case <-ctx.Done():
	}
	return nil, net.ErrClosed
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7420} }

// dial opens a connection of the client, without a request.
func (s *site) dial() net.Conn {
	s.t.Helper()
	dial := s.client.Transport.(*http.Transport).DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// end stops the server, and returns when it has ended.
func (s *site) end() error {
	s.stop()
	err := <-s.ended
	close(s.ended)
	return err
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// name is that of a refusal.
func (a answer) name() string {
	var e struct{ Name string }
	_ = json.Unmarshal([]byte(a.body), &e)
	return e.Name
}

// do sends a request. Headers are pairs; "Host" is that of the request.
func (s *site) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(bytes.TrimSpace(text))}
}

func ask(id string, t message.Type, data string) string {
	return `{"kind":"query","type":"` + string(t) + `","data":` + data + `,"metadata":{"id":"` + id + `","timestamp":1735000000000}}` + "\n"
}

// soon receives, or fails the test.
func soon[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testkit.Patience):
		t.Fatalf("it did not happen: %s", what)
	}
	return v
}
