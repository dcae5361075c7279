package pipe

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/transport/unix"
)

const (
	ping     = `{"kind":"query","type":"Ping","data":{"payload":1},"metadata":{"id":"p","timestamp":1}}` + "\n"
	refused  = `{"kind":"error","type":"Syscall.Disconnected","data":{"code":503,"message":"The daemon is shutting down; try again"},"metadata":{"id":"r","timestamp":1}}` + "\n"
	tooMany  = `{"kind":"error","type":"Syscall.Disconnected","data":{"code":429,"message":"There are 5 connections"},"metadata":{"id":"r","timestamp":1}}` + "\n"
	pong     = `{"kind":"reply","type":"Ping","data":{"payload":1},"metadata":{"id":"q","timestamp":1,"causation":"p"}}` + "\n"
	happened = `{"metadata":{"id":"e","timestamp":1},"type":"Test.Happened","data":{},"kind":"event"}` + "\n"
)

// A fakeWire is a connection to a daemon that does what its test wants.
type fakeWire struct {
	io.Reader              // what the daemon says
	write     func() error // nil if it takes everything
	after     int          // how much it wants to get before it says something
	patient   bool         // it ends only when it was told that nothing more will be sent
	ready     chan struct{}
	allSent   chan struct{} // closed by CloseWrite
	closed    chan struct{}
	closing   sync.Once

	mu        sync.Mutex
	got       bytes.Buffer
	halfClose bool
	told      bool
}

// newWire returns a connection to a daemon that sends says once it has got after bytes, or the end
// of the input if that is less, and then ends it.
func newWire(says string, after int) *fakeWire {
	w := &fakeWire{after: after, ready: make(chan struct{}), allSent: make(chan struct{}), closed: make(chan struct{})}
	rest := strings.NewReader(says)
	w.Reader = readerFunc(func(p []byte) (int, error) {
		ready := w.ready
		if w.patient && rest.Len() == 0 {
			ready = w.allSent
		}
		select {
		case <-ready:
			return rest.Read(p[:min(len(p), 1)]) // byte by byte
		case <-w.closed:
			return 0, net.ErrClosed
		}
	})
	w.tell()
	return w
}

// tell lets the daemon speak if it is time to. It is called with mu held.
func (w *fakeWire) tell() {
	if !w.told && (w.got.Len() >= w.after || w.halfClose) {
		w.told = true
		close(w.ready)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (w *fakeWire) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.tell()
	return w.got.Write(p)
}

func (w *fakeWire) CloseWrite() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halfClose = true
	close(w.allSent)
	w.tell()
	return nil
}

func (w *fakeWire) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return nil
}

func newPiping(in io.Reader) (*piping, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return &piping{in: readInput(in), out: out, keeping: true}, out
}

// What a daemon that is about to end was sent goes to the next one, if it has begun nothing
// of it.
func TestADaemonThatIsAboutToEndIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		says  string
		again bool
		out   string
	}{
		"nothing has begun":            {ping + ping, refused, true, ""},
		"a line that is no message":    {"nonsense\n" + ping, refused, true, ""},
		"the older dialect":            {`{"type":"query","name":"Ping","payload":{},"metadata":{"id":"o","timestamp":1}}` + "\n", refused, true, ""},
		"something was answered":       {ping + ping, pong + refused, false, pong + refused},
		"an event may have been taken": {ping + happened, refused, false, refused},
		"an answer may have been":      {pong, refused, false, refused},
		"another reason":               {ping, tooMany, false, tooMany},
		"all is answered":              {ping, pong, false, pong},
		"it says nothing":              {ping, "", false, ""},
		"half of a line":               {ping, refused[:60], false, refused[:60]},
		"too much to be kept":          {strings.Repeat(ping, maxKept/len(ping)+2), refused, false, refused},
	} {
		t.Run(name, func(t *testing.T) {
			p, out := newPiping(strings.NewReader(c.in))
			w := newWire(c.says, len(c.in))
			again, err := p.converse(t.Context(), w, true)
			if again != c.again || err != nil || out.String() != c.out {
				t.Fatalf("again %t, %v: %s", again, err, out)
			}
			if !again {
				return
			}
			// A daemon that serves closes a connection only after its client has.
			next := newWire(pong+pong, len(c.in))
			next.patient = true
			again, err = p.converse(t.Context(), next, true)
			if again || err != nil || next.got.String() != c.in || out.String() != pong+pong {
				t.Errorf("again %t, %v: it got %s, and %s came", again, err, next.got.String(), out)
			}
			if !next.halfClose || p.requests.asking != strings.Count(c.in, "\n") {
				t.Errorf("it is told that this is all: %t; %d are counted", next.halfClose, p.requests.asking)
			}
		})
	}
	p, out := newPiping(strings.NewReader(ping))
	if again, err := p.converse(t.Context(), newWire(refused, len(ping)), false); again || err != nil || out.String() != refused || !p.answers.disconnected {
		t.Errorf("the last: again %t, %v: %s", again, err, out)
	}
}

// A pipe that has nothing to say outlives its daemon, and starts none before it has.
func TestADaemonThatWasSentNothingIsLeft(t *testing.T) {
	in, feed := io.Pipe()
	p, out := newPiping(in)
	if again, err := p.converse(t.Context(), newWire("", 0), true); !again || err != nil {
		t.Fatalf("again %t, %v", again, err)
	}
	go func() { _, _ = io.WriteString(feed, ping) }()
	if !p.waitForInput(t.Context()) || string(p.kept) != ping {
		t.Fatalf("kept is %s", p.kept)
	}
	// What could not be sent was not sent.
	gone := newWire("", 1<<30)
	gone.write = func() error {
		_ = gone.Close()
		return syscall.EPIPE
	}
	if again, err := p.converse(t.Context(), gone, true); !again || err != nil {
		t.Fatalf("again %t, %v", again, err)
	}
	go func() { _ = feed.Close() }()
	last := newWire(pong, len(ping))
	if again, err := p.converse(t.Context(), last, true); again || err != nil || last.got.String() != ping || out.String() != pong {
		t.Errorf("again %t, %v: %s, %s", again, err, last.got.String(), out)
	}
	empty, _ := newPiping(strings.NewReader(""))
	if again, err := empty.converse(t.Context(), newWire("", 1), true); again || err != nil {
		t.Errorf("no input: again %t, %v", again, err)
	}
}

func TestAReaderThatGoesAwayEndsAPipe(t *testing.T) {
	p, _ := newPiping(strings.NewReader(ping))
	p.out = broken{}
	again, err := p.converse(t.Context(), newWire(pong, len(ping)), true)
	if _, unread := errors.AsType[outputError](err); again || !unread {
		t.Errorf("again %t, %v", again, err)
	}
}

// Whatever a daemon says is passed on as it is, but for a first line that says that it is
// about to end.
func FuzzReceive(f *testing.F) {
	for _, says := range []string{"", pong, refused, tooMany, refused + pong, refused[:50], pong + refused, "\n" + refused, "{"} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		var out bytes.Buffer
		p := &piping{out: &out}
		refusal, err := p.receive(newWire(string(says), 0))
		if err != nil {
			t.Fatal(err)
		}
		if refusal == nil {
			if out.String() != string(says) || p.heard.Load() != (len(says) > 0) {
				t.Errorf("%q becomes %q", says, out.String())
			}
			return
		}
		line, _, whole := bytes.Cut(says, []byte("\n"))
		if out.Len() > 0 || !whole || !stopping(line) || !bytes.HasPrefix(says, refusal) {
			t.Errorf("%q becomes %q, and %q is kept", says, out.String(), refusal)
		}
	})
}

// broken is output that nothing can be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An answer that ends in the middle is no answer, whatever its beginning says.
func TestAnAnswerThatIsNotWholeIsMissed(t *testing.T) {
	for _, says := range []string{pong[:len(pong)-1], pong[:20], pong + `{"kind":"event"`, pong + refused[:60]} {
		p, out := newPiping(strings.NewReader(ping))
		if again, err := p.converse(t.Context(), newWire(says, len(ping)), true); again || err != nil {
			t.Fatalf("again %t, %v", again, err)
		}
		err := p.verdict(t.Context(), new(server.Server), unix.Info{})
		if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Unreachable || !strings.Contains(e.Error(), "the last line is not whole") || out.String() != says {
			t.Errorf("%q: %v: %s", says, err, out)
		}
	}
}
