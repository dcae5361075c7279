package http

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/transport"
)

// Browsers connect before they have something to ask.
func TestAConnectionThatSaysNothingDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, siteOptions{memory: true})
		s.dial()
		synctest.Wait()
		begun := time.Now()
		s.stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		close(s.ended)
		// Shutdown looks again after a moment, which grows.
		if took := time.Since(begun); took >= time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Half requests take few places, however many there are, and a caller with a token is
// served beside them.
func TestHalfRequestsTakeFewPlaces(t *testing.T) {
	const most, flood = 8, 200
	s := open(t, siteOptions{guard: &Guard{Authenticate: authenticate}, Options: Options{MaxConnections: 16, MaxUnadmitted: most, UnadmittedTime: testkit.Patience}})
	for range flood {
		if _, err := io.WriteString(s.dial(), "GET /openrpc.json HTTP/1.1\r\nHost: "); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if a := s.do("GET", "/openrpc.json", "", "Authorization", "Bearer "+secret); a.status != 200 {
			t.Fatalf("beside half requests: %d %s", a.status, a.body)
		}
	}
	testkit.Until(t, "few connections are open", func() bool { return s.conns.Stats().Connections <= most+1 }) // and that of the caller
}

// A connection has seconds for the first request that is let in, and those that are not don't
// give it more.
func TestANewcomerHasSeconds(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":              "",
		"half a request":       "GET /openrpc.json HTTP/1.1\r\nHost: ",
		"a request, no token":  "GET /openrpc.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"a question of health": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, siteOptions{memory: true, guard: &Guard{Authenticate: authenticate}})
			conn := s.dial()
			begun := time.Now()
			go func() { _, _ = io.WriteString(conn, text) }()
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(begun); took > 6*time.Second {
				t.Errorf("after %s, the connection is closed after %v", what, took)
			}
		})
	}
}

// A drain may stop a connection as soon as it is admitted. Nothing of it is left.
func TestADrainWhileConnectionsAreAccepted(t *testing.T) {
	k := kerneltest.New(t, nil)
	for range 100 {
		conns := transport.NewServer(k, transport.Limits{Connections: 100}, []transport.Reason{transport.Stopping}, nil, nil)
		all := &unadmitted{most: 100, time: time.Hour}
		l := &listener{Listener: endless{conns}, conns: conns, unadmitted: all}
		first := make(chan struct{})
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for n := range 50 {
				if _, err := l.Accept(); err != nil {
					return
				}
				if n == 0 {
					close(first)
				}
			}
		})
		<-first
		if err := conns.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		accepting.Wait()
		if n := all.all.Len(); n != 0 {
			t.Fatalf("%d connections that were stopped are still unadmitted", n)
		}
	}
}

// endless accepts connections whose peer has left, until its server stops.
type endless struct{ server *transport.Server }

func (e endless) Accept() (net.Conn, error) {
	if e.server.Stopping().Err() != nil {
		return nil, net.ErrClosed
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

func (endless) Close() error   { return nil }
func (endless) Addr() net.Addr { return nil }
