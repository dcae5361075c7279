package httpd

import (
	"net"
	"net/http"
	"sync"
)

// newcomers are the connections over which nothing has come yet. Browsers open some ahead of
// need. A server that shuts down would wait for them for five seconds.
type newcomers struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note implements the ConnState of an [http.Server].
func (n *newcomers) note(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if state != http.StateNew {
		delete(n.conns, c)
		return
	}
	if n.conns == nil {
		n.conns = make(map[net.Conn]struct{})
	}
	n.conns[c] = struct{}{}
}

// close closes them.
func (n *newcomers) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Close()
	}
}
