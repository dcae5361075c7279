package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	random "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// A session is the conversation with a client of the stateful era: one that began with initialize. Over
// HTTP it has an id; over a connection of kernos mcp it is the connection.
type session struct {
	id        string
	principal *principal.Principal
	client    client
	work      *transport.Server // a drain of which waits for what the session has begun

	mu      sync.Mutex
	level   string                        // level of log messages that the client wants; "" means none
	running map[string]*exchange          // keys are the ids of requests
	waiting map[string]chan jsonrpc.Frame // take the responses to requests that were sent to the client
	ended   bool

	life       context.Context // ends with the session
	stop       context.CancelFunc
	subscribed map[string]context.CancelFunc // resources that are watched, by URI
	follows    bool                          // the client gets notifications of changed tools
	resumed    bool                          // continues a session of an earlier server: what the client watches may have changed
	out        outlet                        // takes messages that belong to no request; nil over HTTP

	// Over HTTP.
	used     time.Time
	requests int                    // requests of the session that are being served; one that reads a stream is served for long
	streams  map[int64]*eventStream // streams that can be resumed
	last     int64                  // number of the last stream
	log      []loggedEvent
	bytes    int          // bytes of log
	general  *eventStream // the stream that the client has opened for messages that belong to no request
}

// newSession returns the session of a principal. It ends with the context, or with end.
func newSession(ctx context.Context, work *transport.Server, p *principal.Principal) *session {
	n := &session{
		principal: p, work: work, running: make(map[string]*exchange), waiting: make(map[string]chan jsonrpc.Frame), subscribed: make(map[string]context.CancelFunc),
		streams: make(map[int64]*eventStream), used: time.Now(),
	}
	life, end := context.WithCancel(ctx)
	outlive := context.AfterFunc(p.Life(), end)
	n.life, n.stop = life, func() {
		outlive() // otherwise the principal would keep what is left of the session
		end()
	}
	n.client.session = n
	return n
}

// open makes a session of HTTP for a request. If there are too many, one ends: see toEvict. The request calls release.
func (s *Server) open(requests *transport.Server, p *principal.Principal) *session {
	n := newSession(s.life, requests, p)
	n.id = rand.Text()
	n.acquire()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sessions) >= s.opts.MaxSessions {
		old := s.toEvict(p)
		delete(s.sessions, old.id)
		old.end()
	}
	s.sessions[n.id] = n
	return n
}

// toEvict returns the session that ends so that a principal can have another one. It is a session of the principal
// that has the most of them, so that none can end those of the others by opening many: the one that serves no
// request, and was idle for longest. The caller holds s.mu.
func (s *Server) toEvict(p *principal.Principal) (chosen *session) {
	count := map[principal.ID]int{p.ID(): 1} // the new one
	for _, n := range s.sessions {
		count[n.principal.ID()]++
	}
	for _, n := range s.sessions {
		if chosen == nil || cmp.Or(cmp.Compare(count[n.principal.ID()], count[chosen.principal.ID()]), chosen.lastUse().Compare(n.lastUse())) > 0 {
			chosen = n
		}
	}
	return chosen
}

// lastUse returns when a client has used the session, which is now if a request of it is being served.
func (n *session) lastUse() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests > 0 {
		return time.Now()
	}
	return n.used
}

// acquire notes that a request of the session is served from now on.
func (n *session) acquire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
}

// release notes that a request of the session is no longer served.
func (n *session) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests--
	n.used = time.Now()
}

// session returns a session of HTTP for a request, or nil. The request calls release. To other principals, the session doesn't exist.
func (s *Server) session(id string, p *principal.Principal) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n == nil || n.principal.ID() != p.ID() {
		return nil
	}
	n.acquire()
	return n
}

// close ends a session of HTTP.
func (s *Server) close(n *session) {
	s.mu.Lock()
	delete(s.sessions, n.id)
	s.mu.Unlock()
	n.end()
}

// end ends what waits for the client, and its streams.
func (n *session) end() {
	n.mu.Lock()
	n.ended = true
	n.stop()
	for id, c := range n.waiting {
		delete(n.waiting, id)
		close(c)
	}
	streams := slices.Collect(maps.Values(n.streams))
	n.mu.Unlock()
	for _, one := range streams { // the lock of a stream is taken before that of its session
		one.leave()
	}
}

// notify sends the client a notification that belongs to no request. A client of HTTP that has opened no stream for
// these doesn't get it.
func (n *session) notify(frame []byte) {
	n.mu.Lock()
	out, general := n.out, n.general
	n.mu.Unlock()
	switch {
	case out != nil:
		out.notify(frame)
	case general != nil:
		general.notify(frame)
	}
}

func (n *session) logLevel() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.level
}

func (n *session) setLogLevel(level string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.level = level
}

// begin notes a request that may be cancelled.
func (n *session) begin(x *exchange) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[string(x.ID)] = x
}

// calls notes the id of the message that calls a tool: [conn.exchangeOf] looks for it in all requests. There may be no session.
func (n *session) calls(x *exchange, id message.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n != nil { // the lock of an exchange is taken before that of its session
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	x.asked = id
}

// done forgets a request that has its response.
func (n *session) done(x *exchange) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running[string(x.ID)] == x {
		delete(n.running, string(x.ID))
	}
}

// notified takes a notification of the client.
func (n *session) notified(f *jsonrpc.Frame) {
	if f.Method != "notifications/cancelled" {
		return // initialized, progress, roots/list_changed: nothing depends on them
	}
	n.mu.Lock()
	x := n.running[string(jsonscan.Member(f.Params, "requestId"))]
	n.mu.Unlock()
	if x != nil {
		x.abandon()
	}
}

// answered takes a response of the client to a request that was sent to it.
func (n *session) answered(f *jsonrpc.Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c, ok := n.waiting[string(f.ID)]; ok {
		delete(n.waiting, string(f.ID))
		c <- *f
	}
}

// expect returns the id of a new request to the client, and where its response comes. The channel is
// closed when the session ends. The id is random, so that a client's late response to an earlier
// server, whose session this one continues, isn't taken for a response to this request.
func (n *session) expect() (id string, response chan jsonrpc.Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, response = strconv.FormatInt(random.Int64N(1<<53), 10), make(chan jsonrpc.Frame, 1)
	if n.ended {
		close(response)
	} else {
		n.waiting[id] = response
	}
	return id, response
}

// forget withdraws a request to the client.
func (n *session) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, id)
}
