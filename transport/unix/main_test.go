package unix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is a slow syscall of any data.
func slow(t message.Type, kind message.Kind, h kernel.Handler) kernel.Syscall {
	return kernel.Syscall{Handler: h, Definition: kernel.Definition{
		Type:     t,
		Kind:     kind,
		Summary:  "A syscall of a test.",
		Input:    schema.Any,
		Output:   schema.Any,
		Emits:    []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}},
		Behavior: kernel.Behavior{Runs: kernel.Slow, Timeout: time.Hour},
	}}
}

// A daemon is a server that runs.
type daemon struct {
	t    testing.TB
	path string
	s    *Server
	stop context.CancelFunc
	done chan error // what Serve returned
}

// start serves a kernel until the test ends.
func start(t testing.TB, k *kernel.Kernel, opts *Options, adjust ...func(*Server)) *daemon {
	t.Helper()
	info := Info{Version: "1.2.3", Home: "/home", Origin: "https://test.local/"}
	if opts != nil {
		info.Auth = len(opts.Keys) > 0
	}
	return startAt(t, filepath.Join(t.TempDir(), "s"), info, k, opts, adjust...)
}

func startAt(t testing.TB, path string, info Info, k *kernel.Kernel, opts *Options, adjust ...func(*Server)) *daemon {
	t.Helper()
	l, err := Listen(path, info)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, k, opts, adjust...)
}

// serveOn starts a daemon on a socket that is there.
func serveOn(t testing.TB, l *Listener, k *kernel.Kernel, opts *Options, adjust ...func(*Server)) *daemon {
	t.Helper()
	d := &daemon{t: t, path: l.Path(), s: NewServer(k, opts), done: make(chan error, 1)}
	for _, f := range adjust {
		f(d.s)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := d.s.Serve(ctx, l)
		d.done <- errors.Join(err, l.Close())
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return d
}

// ended returns what Serve has returned.
func (d *daemon) ended() error {
	d.t.Helper()
	select {
	case err := <-d.done:
		return err
	case <-time.After(testkit.Patience):
		d.t.Fatal("the server does not end")
		return nil
	}
}

// stopping waits until the connections have been told to stop.
func (d *daemon) stopping() {
	d.t.Helper()
	testkit.Until(d.t, "the connections stop", func() bool { return d.s.conns.Stopping().Err() != nil })
}

// dial connects a peer that is a test.
func (d *daemon) dial() *peer {
	d.t.Helper()
	return newPeer(d.t, d.connect())
}

// connect connects.
func (d *daemon) connect() *Conn {
	d.t.Helper()
	c, err := new(Dialer).Dial(d.t.Context(), d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// A peer is a client by hand.
type peer struct {
	t testing.TB
	*Conn
	lines *bufio.Reader
}

func newPeer(t testing.TB, c *Conn) *peer { return &peer{t, c, bufio.NewReader(c)} }

func (p *peer) say(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.Conn, line); err != nil {
			p.t.Errorf("sending %.100q: %v", line, err)
		}
	}
}

// hear returns the next line in brief, or how the connection has ended.
func (p *peer) hear() string {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	line, err := p.lines.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return testkit.Brief(p.t, line)
}

func (p *peer) want(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		if got := p.hear(); got != want {
			p.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func ask(id string, kind message.Kind, t message.Type, data string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`+"\n", kind, t, data, id)
}

func ping(id string) string { return ask(id, message.KindQuery, "Ping", `{"payload":"`+id+`"}`) }

func pong(id string) string { return id + ` {"payload":"` + id + `"}` }

// arrives waits for something from a channel.
func arrives[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testkit.Patience):
		t.Fatalf("it does not come to this: %s", what)
		panic("unreachable")
	}
}
