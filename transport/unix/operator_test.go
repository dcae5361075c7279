package unix

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/message/osevent"
	"kernos/transport"
)

// overseen are the syscalls of a test by which it is looked after.
func overseen() []kernel.Syscall {
	answer := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(`"fine"`))) }
	return []kernel.Syscall{slow("Kernel.Status", message.KindQuery, answer), slow("Syscall.Shutdown", message.KindCommand, answer)}
}

// full starts a server whose only place is taken.
func full(t *testing.T, adjust func(*Server)) (d *daemon, one *peer) {
	t.Helper()
	d = start(t, kerneltest.Around(t, nil, introspect.Module, overseen()...), &Options{MaxConnections: 1}, adjust)
	one = d.dial()
	one.say(ping("1"))
	one.want(pong("1"))
	return d, one
}

// operator connects and looks after the server.
func (d *daemon) operator() *peer {
	d.t.Helper()
	p := d.dial()
	p.say(ask("s", message.KindQuery, "Kernel.Status", `{}`))
	p.want(`s "fine"`)
	return p
}

func TestServeCanBeLookedAfterWhenItIsFull(t *testing.T) {
	d, one := full(t, func(s *Server) { s.operatorTime = time.Hour })
	operator := d.operator()
	operator.say(ask("d", message.KindCommand, "Syscall.Shutdown", `{}`))
	operator.want(`d "fine"`)
	// It has no other place than that.
	operator.say(ping("2"))
	operator.want("disconnected 429", "EOF")
	for _, line := range []string{
		ping("3"), "nonsense\n", strings.Repeat("x", 20_000) + "\n", ask("w", message.KindQuery, "Message.Watch", `{}`),
		strings.Repeat(ping("4"), 150), // most of it is not read, and it is told all the same
	} {
		p := d.dial()
		p.say(line)
		p.want("disconnected 429", "EOF")
	}
	asked := d.dial()
	asked.say(ask("s", message.KindQuery, "Kernel.Status", `{}`))
	if err := asked.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	asked.want(`s "fine"`, "EOF")
	one.say(ping("4"))
	one.want(pong("4"))
	testkit.Until(t, "one is left", func() bool { return d.s.Stats().Connections == 1 })
	if s := d.s.Stats(); s.Refused[transport.TooMany] != 6 || s.Accepted != 2 {
		t.Errorf("got %+v", s)
	}
}

// The places beyond the limit are few, and no connection has one for long.
func TestServeKeepsTheOperatorsPlacesFree(t *testing.T) {
	var c clock
	d, _ := full(t, c.use)
	var silent []*peer
	for range operatorPlaces + 3 {
		silent = append(silent, d.dial())
	}
	c.until(t, "all of them are refused", operatorTime, func() bool { return d.s.Stats().Refused[transport.TooMany] == uint64(len(silent)) })
	for _, p := range silent {
		p.want("disconnected 429", "EOF")
	}
	d.operator()
}

// When the operator's places are taken too, the reason says so.
func TestAskNamesAFullServer(t *testing.T) {
	d, _ := full(t, func(s *Server) { s.operatorTime = time.Hour })
	for range operatorPlaces {
		d.operator()
	}
	_, err := d.connect().Ask(t.Context(), message.Message{Kind: message.KindCommand, Type: "Syscall.Shutdown", Data: []byte("{}")})
	if !errors.Is(err, ErrFull) || errors.Is(err, message.ErrServerStopping) {
		t.Errorf("got %v", err)
	}
}

func TestServeTellsOperatorsOfItsEnd(t *testing.T) {
	d, _ := full(t, func(s *Server) { s.operatorTime = time.Hour })
	operator := d.operator()
	d.stop()
	operator.want("disconnected 503", "EOF")
	if err := d.ended(); err != nil {
		t.Error(err)
	}
	if s := d.s.Stats(); s.Refused[transport.TooMany] != 0 {
		t.Errorf("got %+v", s)
	}
}

// The operator of a daemon with keys signs, too.
func TestServeWithKeysCanBeLookedAfterWhenItIsFull(t *testing.T) {
	key := newEd25519(t)
	dialer := &Dialer{Signer: key.sign}
	d := start(t, kerneltest.Around(t, nil, introspect.Module, overseen()...), &Options{MaxConnections: 1, Keys: []ssh.PublicKey{key.public}})
	connect := func() *peer {
		t.Helper()
		c, err := dialer.Dial(t.Context(), d.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return newPeer(t, c)
	}
	connect()
	operator := connect()
	operator.say(ask("s", message.KindQuery, "Kernel.Status", `{}`))
	operator.want(`s "fine"`)
	operator.say(ping("1"))
	operator.want("disconnected 429", "EOF")
	stranger := &Dialer{Signer: func([]byte) ([]byte, error) { return make([]byte, 64), nil }}
	if _, err := stranger.Dial(t.Context(), d.path); err == nil || !strings.Contains(err.Error(), "did not accept the signature") {
		t.Errorf("another client got %v", err)
	}
}

// Whatever comes, nothing passes a filter but messages of the types that it allows, in the
// eyes of the process behind it too.
func FuzzGate(f *testing.F) {
	f.Add([]byte(ask("s", message.KindQuery, "Kernel.Status", `{}`) + ping("1")))
	f.Add([]byte(ping("1") + ask("s", message.KindQuery, "Kernel.Status", `{}`)))
	f.Add([]byte(`{"type":"query","name":"Kernel.Status","payload":{}}` + "\n"))
	f.Add([]byte(`{"kind":"query","type":"Kernel.Status","name":"Memory.Get","data":{},"payload":{},"metadata":{"id":"1","timestamp":1}}`))
	f.Add([]byte("\r\n\n" + strings.Repeat("x", 17_000) + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		g := &typeFilter{lines: ndjson.NewReader(bytes.NewReader(in), nil), allowed: operatorSyscalls, first: message.Ping}
		out, err := io.ReadAll(g)
		if err != nil && err != ErrFull {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(out, []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			var m message.Message
			_, err := osevent.NewEither(false, nil).Decode(line, &m)
			if err != nil || !slices.Contains(operatorSyscalls, m.Type) && (m.Type != message.Ping || i > 0) {
				t.Errorf("%q passes, line %d: %v", line, i, err)
			}
		}
	})
}
