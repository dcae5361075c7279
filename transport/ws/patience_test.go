package ws_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gobwas "github.com/gobwas/ws"

	"kernos/internal/testkit"
	"kernos/transport/ws"
)

// pipe connects without a network, so that the time of a test can stand still.
func (s *server) pipe() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	mine, theirs := net.Pipe()
	go s.upgrade(&takeover{conn: theirs})
	return mine, s.upgraded(mine)
}

// takeover is a request whose connection is taken over, when a test lets it be.
type takeover struct {
	httptest.ResponseRecorder
	conn net.Conn
	wait chan struct{} // nil if it need not wait
}

// Hijack implements [http.Hijacker].
func (r *takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.wait != nil {
		<-r.wait
	}
	return r.conn, bufio.NewReadWriter(bufio.NewReader(r.conn), bufio.NewWriter(r.conn)), nil
}

// upgrade hands a request for a WebSocket to the handler.
func (s *server) upgrade(r *takeover) {
	s.ServeHTTP(r, &http.Request{Method: http.MethodGet, ProtoMajor: 1, ProtoMinor: 1, Host: "x", Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}})
}

// upgraded reads the answer to a request for a WebSocket.
func (s *server) upgraded(conn net.Conn) *bufio.Reader {
	s.t.Helper()
	in := bufio.NewReader(conn)
	if r, err := http.ReadResponse(in, nil); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("not upgraded: %+v, %v", r, err)
	}
	return in
}

// pipeTLS is pipe over TLS.
func (s *server) pipeTLS() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	mine, theirs := net.Pipe()
	go s.upgrade(&takeover{conn: tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})})
	conn := tls.Client(mine, &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	return conn, s.upgraded(conn)
}

// A late is a connection whose time to write is over when a test says so, and not before.
type late struct {
	*net.TCPConn
	mu      sync.Mutex
	set     bool // there is a deadline
	expired bool // whatever it is, it has passed, and no write has noticed
}

// SetWriteDeadline implements [net.Conn].
func (l *late) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = !t.IsZero()
	if l.expired {
		return nil
	}
	return l.TCPConn.SetWriteDeadline(time.Time{})
}

// Write implements [net.Conn].
func (l *late) Write(b []byte) (int, error) {
	n, err := l.TCPConn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.mu.Lock()
		l.expired = false
		l.mu.Unlock()
	}
	return n, err
}

// expire says that the time is over for the goroutine that writes, or will.
func (l *late) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expired = true
	_ = l.TCPConn.SetWriteDeadline(time.Unix(1, 0))
}

// pass says that so much time has passed that the deadline, if there is one, is over.
func (l *late) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set {
		_ = l.TCPConn.SetWriteDeadline(time.Unix(1, 0))
	}
}

// lates makes connections late.
type lates struct {
	net.Listener
	conns chan *late
}

func (l *lates) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &late{TCPConn: c.(*net.TCPConn)}
	l.conns <- conn
	return conn, nil
}

// serveLate is serve with such connections.
func serveLate(t *testing.T, opts *ws.Options) (*server, *lates) {
	t.Helper()
	s := handler(t, opts)
	s.http = httptest.NewUnstartedServer(s.Handler)
	l := &lates{Listener: s.http.Listener, conns: make(chan *late, 10)}
	s.http.Listener = l
	s.http.Start()
	t.Cleanup(s.http.Close)
	return s, l
}

const bigCall = `{"jsonrpc":"2.0","id":1,"method":"test_big"}`

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if err := gobwas.WriteFrame(conn, gobwas.MaskFrame(gobwas.NewTextFrame([]byte(text)))); err != nil {
		t.Fatal(err)
	}
}

// farewell reads until the end, and checks that everything is whole.
func farewell(t *testing.T, in io.Reader) (gobwas.StatusCode, string) {
	t.Helper()
	for {
		f, err := gobwas.ReadFrame(in)
		if err != nil {
			t.Fatalf("no goodbye: %v", err)
		}
		if f.Header.OpCode == gobwas.OpClose {
			return gobwas.ParseCloseFrameData(f.Payload)
		}
		if f.Header.OpCode == gobwas.OpText && !json.Valid(f.Payload) {
			t.Fatalf("a frame is broken: %.80s", f.Payload)
		}
	}
}

// Who does not read is dropped, and told why if it reads after all. The others go on.
func TestSlowReaderIsToldWhy(t *testing.T) {
	s, l := serveLate(t, &ws.Options{MaxUnread: 1 << 20})
	conn, in := s.raw()
	slow := <-l.conns
	say(t, conn, bigCall)
	other := s.dial()
	send(t, other, echo, 1, 1)
	read(t, other)
	if _, err := in.Peek(1); err != nil { // it has begun
		t.Fatal(err)
	}
	slow.expire()
	testkit.Until(t, "it is dropped", func() bool { return s.Stats().Closed["slow"] == 1 })
	send(t, other, echo, 2, 2)
	read(t, other)
	if code, reason := farewell(t, in); code != gobwas.StatusPolicyViolation || !strings.HasPrefix(reason, "Slow reader: ") {
		t.Errorf("got %d %s", code, reason)
	}
	<-s.big // the handler did not hang
}

// Over TLS too, where nothing can be written behind a deadline that has passed.
func TestSlowReaderIsToldWhyOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, &ws.Options{Patience: 2 * time.Second, MaxUnread: 1 << 20})
		conn, in := s.pipeTLS()
		say(t, conn, bigCall)
		time.Sleep(2500 * time.Millisecond) // it has until the fourth second
		if code, reason := farewell(t, in); code != gobwas.StatusPolicyViolation || !strings.HasPrefix(reason, "Slow reader: ") {
			t.Errorf("got %d %s", code, reason)
		}
		<-s.big
		if n := s.Stats().Closed["slow"]; n != 1 {
			t.Errorf("%d were slow", n)
		}
		_ = conn.Close()
	})
}

func TestWhoNeverReadsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, &ws.Options{Patience: 2 * time.Second, MaxUnread: 1 << 20})
		conn, _ := s.pipeTLS()
		say(t, conn, bigCall)
		began := time.Now()
		<-s.big // the handler waits for it, and not for ever
		if took := time.Since(began); took < 2*time.Second || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := s.Stats(); n.Closed["slow"] != 1 || n.Connections != 0 {
			t.Errorf("%+v", n)
		}
		_ = conn.Close()
	})
}

// The time of one write is not that of the next.
func TestWritesHaveTheirOwnTime(t *testing.T) {
	s, l := serveLate(t, nil)
	c := s.dial()
	conn := <-l.conns
	for i := range 10 {
		send(t, c, `{"jsonrpc":"2.0","id":%d,"method":"test_slow_echo"}`, i) // written aside
		for range 3 {
			read(t, c)
		}
		conn.pass()
		send(t, c, echo, i, i) // written by the reader
		for range 3 {
			read(t, c)
		}
	}
}

// A peer that stops in the middle of a frame is as silent as one that sends none.
func TestPeerThatStopsInAFrameIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		conn, in := s.pipe()
		if _, err := conn.Write([]byte{0x81, 0xfe, 0x01, 0x00, 0, 0, 0, 0, '{'}); err != nil {
			t.Fatal(err)
		}
		if code, reason := farewell(t, in); code != gobwas.StatusPolicyViolation || !strings.HasPrefix(reason, "Silent peer: ") {
			t.Errorf("got %d %s", code, reason)
		}
		if s.Stats().Closed["silent"] != 1 {
			t.Errorf("got %+v", s.Stats())
		}
	})
}

// A peer is asked whether it is there, and dropped if it does not answer.
func TestSilentPeerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		conn, in := s.pipe()
		began := time.Now()
		for i := range 3 {
			f, err := gobwas.ReadFrame(in)
			if err != nil || f.Header.OpCode != gobwas.OpPing {
				t.Fatalf("got %+v, %v", f, err)
			}
			// A pong resets the time: it is asked again after the second of two that are silent.
			if want := 30*time.Second + time.Duration(i)*time.Minute; time.Since(began) != want {
				t.Errorf("it is asked after %v, and not %v", time.Since(began), want)
			}
			if err := gobwas.WriteFrame(conn, gobwas.MaskFrame(gobwas.NewPongFrame(f.Payload))); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Now()
		if code, reason := farewell(t, in); code != gobwas.StatusPolicyViolation || !strings.Contains(reason, "ping") {
			t.Errorf("got %d %s", code, reason)
		}
		if took := time.Since(last); took != 90*time.Second {
			t.Errorf("it is dropped after %v", took)
		}
		if s.Stats().Closed["silent"] != 1 || s.Stats().Connections != 0 {
			t.Errorf("got %+v", s.Stats())
		}
	})
}

// What does not end although it was told to is left behind.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		conn, in := s.pipe()
		say(t, conn, `{"jsonrpc":"2.0","id":1,"method":"test_deaf"}`)
		if _, err := gobwas.ReadFrame(in); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		cut, cancel := context.WithDeadline(context.Background(), began.Add(time.Minute))
		defer cancel()
		if err := s.Shutdown(cut); err == nil || time.Since(began) != time.Minute+2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(s.big)
	})
}

// The query of a peer that has said goodbye is cancelled, also if the server is shut down before
// it has done everything that follows from that.
func TestShutdownDoesNotOvertakeAGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		conn, in := s.pipe()
		say(t, conn, `{"jsonrpc":"2.0","id":1,"method":"test_wait"}`)
		if _, err := gobwas.ReadFrame(in); err != nil {
			t.Fatal(err)
		}
		if err := gobwas.WriteFrame(conn, gobwas.MaskFrame(gobwas.NewCloseFrame(gobwas.NewCloseFrameBody(gobwas.StatusNormalClosure, "")))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is about to answer that
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		synctest.Wait() // it is stopped
		began := time.Now()
		if code, _ := farewell(t, in); code != gobwas.StatusNormalClosure {
			t.Errorf("got %d", code)
		}
		if err := <-ended; err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The query of a peer that leaves after the server was told to stop is cancelled: neither side
// waits for it.
func TestShutdownDoesNotWaitForAPeerThatLeaves(t *testing.T) {
	goodbye := gobwas.MustCompileFrame(gobwas.MaskFrame(gobwas.NewCloseFrame(gobwas.NewCloseFrameBody(gobwas.StatusNormalClosure, ""))))
	for name, sent := range map[string]struct{ before, after []byte }{
		"is lost": {}, "says goodbye": {after: goodbye}, "is lost in a message": {before: []byte{0x81}, after: []byte{0x80}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := handler(t, nil)
				conn, in := s.pipe()
				say(t, conn, `{"jsonrpc":"2.0","id":1,"method":"test_wait"}`)
				if _, err := gobwas.ReadFrame(in); err != nil {
					t.Fatal(err)
				}
				send := func(bytes []byte) {
					if _, err := conn.Write(bytes); err != nil {
						t.Fatal(err)
					}
				}
				send(sent.before)
				ended := make(chan error, 1)
				go func() { ended <- s.Shutdown(context.Background()) }()
				synctest.Wait()
				if len(ended) > 0 {
					t.Error("the query is not waited for")
				}
				began := time.Now()
				go func() { _, _ = io.Copy(io.Discard, in) }()
				send(sent.after)
				if name != "says goodbye" {
					_ = conn.Close()
				}
				if err := <-ended; err != nil || time.Since(began) > time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				_ = conn.Close()
			})
		})
	}
}
