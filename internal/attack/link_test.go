package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
	"kernos/transport/unix"
)

// A link is a lasting connection that carries messages in both directions.
type link struct {
	t     testing.TB
	out   io.WriteCloser
	in    chan incoming // closed at the end
	close func()
}

// incoming is a message that came over a link.
type incoming struct {
	Kind     message.Kind
	Type     message.Type
	Data     json.RawMessage
	Metadata struct{ ID, Causation string }
}

func (m incoming) outcome() outcome {
	if m.Kind != message.KindError {
		return outcome{data: m.Data}
	}
	var e struct {
		Code    int
		Message string
	}
	_ = json.Unmarshal(m.Data, &e)
	return outcome{code: e.Code, text: e.Message}
}

// link opens a link for the holder of a secret, over HTTP.
func (w *world) link(secret string) *link {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	read, write := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.address+"/v1/messages", read)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	if response.StatusCode != 200 {
		w.t.Fatal(response.Status)
	}
	return newLink(w.t, write, response.Body, cancel)
}

// ownersLink opens a link over the socket.
func (w *world) ownersLink() *link {
	w.t.Helper()
	conn, err := new(unix.Dialer).Dial(w.t.Context(), w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	return newLink(w.t, conn, conn, func() {})
}

func newLink(t testing.TB, out io.WriteCloser, in io.ReadCloser, cancel func()) *link {
	l := &link{t: t, out: out, in: make(chan incoming, 1024)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(l.in)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var m incoming
			if json.Unmarshal(lines.Bytes(), &m) == nil {
				l.in <- m
			}
		}
	}()
	closed := false
	l.close = func() {
		if !closed {
			closed = true
			_ = out.Close()
			cancel()
			_ = in.Close()
			<-ended
		}
	}
	t.Cleanup(l.close)
	return l
}

// send sends a line.
func (l *link) send(line string) {
	l.t.Helper()
	if _, err := io.WriteString(l.out, line+"\n"); err != nil {
		l.t.Fatal(err)
	}
}

// next returns the next message of a kind that answers or asks.
func (l *link) next() incoming {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), testkit.Patience)
	defer cancel()
	for {
		select {
		case m, ok := <-l.in:
			if !ok {
				l.t.Fatal("the connection has ended")
			}
			if m.Kind != message.KindEvent {
				return m
			}
		case <-ctx.Done():
			l.t.Fatal("nothing came")
		}
	}
}

// ask sends a request and waits for its outcome.
func (l *link) ask(what message.Type, id, data string) outcome {
	l.t.Helper()
	l.send(fmt.Sprintf(`{"kind":"command","type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1}}`, what, data, id))
	m := l.next()
	if m.Metadata.Causation != id {
		l.t.Fatalf("got %+v", m)
	}
	return m.outcome()
}

// answer sends something for a request that came.
func (l *link) answer(kind message.Kind, to incoming, data string) {
	l.t.Helper()
	l.send(fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1,"causation":%q}}`, kind, to.Type, data, newID(), to.Metadata.ID))
}
