package mcp_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/transport"
	"kernos/transport/mcp"
)

// A server may shut down between the moment at which it gives a connection a place and the one at which the
// connection is upgraded. The connection ends then.
func TestAConnectionThatIsStoppedBeforeItsUpgrade(t *testing.T) {
	k := kerneltest.New(t, nil)
	server, requests := mcp.New(k, nil), transport.NewServer(k, transport.Limits{}, nil, nil, nil)
	upgrade := func(w http.ResponseWriter) {
		r := httptest.NewRequest("GET", "/mcp", nil)
		r.Header.Set("Upgrade", mcp.Protocol)
		server.Serve(requests, w, r)
	}
	ended := make(chan error, 1)
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	go func() { _, _ = bufio.NewReader(far).ReadString(0) }() // it reads, and sends nothing
	upgrade(&hijacked{ResponseRecorder: httptest.NewRecorder(), hijack: func() net.Conn {
		go func() { ended <- server.Shutdown(t.Context()) }()
		testkit.Until(t, "the server stops", func() bool {
			w := httptest.NewRecorder()
			upgrade(w)
			return w.Code == http.StatusServiceUnavailable
		})
		return near
	}})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// hijacked is a response whose connection is taken.
type hijacked struct {
	*httptest.ResponseRecorder
	hijack func() net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn := h.hijack()
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}
