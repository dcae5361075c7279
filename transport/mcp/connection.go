package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// Protocol is what a client of kernos mcp upgrades a connection of HTTP to: the messages of the
// protocol, one per line, in both directions.
const Protocol = "mcp"

// Resumed is the parameter of an upgrade that continues a lost connection: its client learns that everything it
// watches may have changed.
const Resumed = "resumed"

// HeaderNote is the header of the answer to an upgrade for what is odd about it, as a sentence without its end.
const HeaderNote = "Kernos-Note"

// upgrade makes a connection of kernos mcp of a request. The owner may let it act for a token: ?as=NAME.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) {
		transport.Refuse(w, http.StatusBadRequest, "unknown_upgrade", "The only upgrade is to "+Protocol)
		return
	}
	caller := kernel.SenderIn(r.Context()).Principal()
	if as := r.URL.Query().Get("as"); as != "" {
		if !caller.IsOwner() || s.opts.Find == nil {
			transport.Refuse(w, http.StatusForbidden, "not_the_owner", "Only the owner can act for a token by its name")
			return
		}
		found, err := s.opts.Find(as)
		if err != nil {
			transport.Refuse(w, http.StatusNotFound, "no_such_token", err.Error())
			return
		}
		caller = found
	}
	c := s.newConn(s.life, caller, choiceOf(r))
	c.session.resumed = r.URL.Query().Has(Resumed)
	if _, reason := s.conns.Admit(c); s.conns.RefuseFor(w, reason) {
		c.session.end()
		return
	}
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.session.end()
		s.conns.Leave(c)
		s.conns.Done()
		return
	}
	s.conns.Accept()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	c.open(raw)
	c.init(io.MultiReader(bytes.NewReader(bytes.Clone(early)), raw), &socket{Socket: transport.NewSocket(raw), conn: raw})
	c.out.Add(func(dst []byte) []byte {
		dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+Protocol+"\r\n"...)
		if note := s.unmatched(caller, c.choice); note != "" {
			dst = append(dst, HeaderNote+": "+note+"\r\n"...)
		}
		return append(dst, "\r\n"...)
	}, false)
	work := kernel.ActFor(s.conns.Work(), kernel.From(caller, "mcp"))
	go func() {
		defer s.conns.Done()
		_ = c.serve(work)
		s.conns.Leave(c)
		_ = raw.Close()
	}()
}

// writeTime is how long a client may take to read some of what was sent.
const writeTime = 30 * time.Second

// A socket is the output of a connection. It implements [transport.Output].
type socket struct {
	*transport.Socket
	conn net.Conn
}

func (o *socket) WriteAll(p []byte, sent int) error {
	_, err := transport.WriteInTime(o.conn, p[sent:], writeTime)
	return err
}

// conn is a connection that carries the requests of one client, as lines. It is the source from which
// the kernel takes the calls, so that calls see the effects of those before them.
type conn struct {
	s       *Server
	choice  choice
	session *session // in both eras: requests in it can be cancelled
	in      *ndjson.Reader
	out     *transport.Writer
	served  *connection.Connection
	scan    jsonscan.Scanner
	ctx     context.Context

	pacer *transport.Pacer // nil if there is no frame rate

	mu        sync.Mutex
	raw       net.Conn // nil if the wire can't be closed, or before it is there
	interrupt func()   // ends reading; nil before the wire is there
	stopped   bool

	next   func() (message.Message, kernel.Emit) // a call that is to begin, or nil
	last   message.Message                       // the message that Next returned
	others sync.WaitGroup                        // requests that aren't calls of tools, and run beside them
	stop   context.CancelFunc                    // ends them

	reading context.Context    // ends with the input, and subscriptions with it
	unread  context.CancelFunc // ends it
}

func (s *Server) newConn(ctx context.Context, caller *principal.Principal, tools choice) *conn {
	return &conn{s: s, choice: tools, session: newSession(ctx, s.conns, caller), pacer: s.conns.Pacer()}
}

func (c *conn) init(in io.Reader, out transport.Output) {
	c.in = ndjson.NewReader(in, &ndjson.ReaderOptions{Limit: c.s.opts.MaxBody, BeforeRead: func() { c.out.Flush() }})
	c.out = transport.NewWriter(out, 1<<20)
	c.session.out = c
}

func (c *conn) serve(ctx context.Context) error {
	ctx = context.WithValue(ctx, exchangeKey{}, c)
	c.ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	c.reading, c.unread = context.WithCancel(c.ctx)
	defer c.unread()
	if c.raw != nil {
		defer context.AfterFunc(c.session.principal.Life(), c.Cut)()
	}
	c.served = connection.New(c.s.k, c, &connection.Options{NoRequests: true})
	err := c.served.Serve(ctx)
	c.others.Wait()
	c.session.end()
	return errors.Join(err, c.out.Close(nil))
}

// Next implements [connection.Source].
func (c *conn) Next() (*message.Message, kernel.Emit, error) {
	for {
		line, err := c.in.Next()
		if long, tooLong := errors.AsType[*ndjson.TooLong](err); tooLong {
			c.pacer.Wait()
			c.write(jsonrpc.AppendFailure(nil, jsonrpc.SalvagedID(long.Salvage), &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: " + err.Error()}), true)
			continue
		}
		if err != nil {
			c.ended()
			return nil, nil, err
		}
		c.pacer.Wait()
		c.throttled()
		c.receive(bytes.Clone(line))
		if next := c.next; next != nil {
			c.next = nil
			m, emit := next()
			c.last = m
			return &c.last, emit, nil
		}
	}
}

// throttled notifies a client that exceeds the frame rate, if it gets log messages.
func (c *conn) throttled() {
	notice := c.pacer.Notice()
	if notice == nil || c.session.client.version == "" { // in the stateless era, log messages belong to requests
		return
	}
	if c.session.logLevel() == "" || c.session.client.logs("warning", nil) {
		c.write(jsonrpc.AppendNotification(nil, "notifications/message", logParams("warning", string(notice.Type), notice.Data)), true)
	}
}

// lingerTime is how long requests may take that aren't answered when the input has ended.
const lingerTime = 10 * time.Second

// ended ends what doesn't end by itself: nothing else can cancel it now.
func (c *conn) ended() {
	c.unread()
	time.AfterFunc(lingerTime, c.stop)
}

// receive takes one message.
func (c *conn) receive(line []byte) {
	f, bad := jsonrpc.Parse(&c.scan, line)
	switch {
	case bad != nil:
		c.write(jsonrpc.AppendFailure(nil, f.ID, bad), true)
		return
	case f.Method == "":
		c.session.answered(&f)
		return
	case f.ID == nil:
		c.session.notified(&f)
		if f.Method == "notifications/initialized" {
			c.session.follow(c.s, c.choice)
		}
		return
	}
	client := &c.session.client
	if jsonscan.Member(f.Meta, mcp.MetaVersion) != nil || f.Method == "server/discover" {
		if client, bad = modernClient(&f); bad != nil {
			c.write(jsonrpc.AppendFailure(nil, f.ID, bad), true)
			return
		}
	}
	x := &exchange{s: c.s, work: c.s.conns, Frame: f, client: client, choice: c.choice, ctx: c.ctx, out: c, session: c.session}
	m, bad := client.find(f.Method)
	if bad != nil {
		x.fail(bad)
		return
	}
	c.session.begin(x)
	if m.quick {
		x.run = func(m message.Message, emit kernel.Emit) {
			x.cancel = func() { c.served.Cancel(m.Metadata.ID) }
			c.next = func() (message.Message, kernel.Emit) { return m, emit }
		}
		m.answer(x)
		return
	}
	ctx := c.ctx
	if f.Method == mcp.MethodListen {
		ctx = c.reading
	}
	x.ctx, x.cancel = context.WithCancel(context.WithValue(ctx, exchangeKey{}, x))
	rest := m.begin(x)
	c.others.Go(func() {
		defer x.cancel()
		rest()
		c.out.Flush()
	})
}

// exchangeOf implements [conversation].
func (c *conn) exchangeOf(id message.ID) *exchange {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	for _, x := range c.session.running {
		if x.asked == id {
			return x
		}
	}
	return nil
}

// notify implements [outlet].
func (c *conn) notify(frame []byte) {
	c.out.Writable(true)
	c.write(frame, false)
}

// respond implements [outlet]. The response is written when nothing else is ready to be sent.
func (c *conn) respond(frame []byte, _ *jsonrpc.Failure) { c.write(frame, true) }

func (c *conn) write(frame []byte, more bool) {
	c.out.Add(func(dst []byte) []byte { return append(append(dst, frame...), '\n') }, more)
}

// Detach implements [connection.Source]. Each line has memory of its own.
func (c *conn) Detach() {}

// Flush implements [connection.Source].
func (c *conn) Flush() { c.out.Flush() }

// Writable implements [connection.Source].
func (c *conn) Writable(wait bool) bool { return c.out.Writable(wait) }

// Left implements [connection.Source].
func (c *conn) Left(finished <-chan struct{}) bool {
	select {
	case <-finished:
		return false
	case <-c.ctx.Done():
		return true
	}
}

// Stop implements [transport.Conn].
func (c *conn) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.interrupt != nil {
		c.interrupt()
	}
}

// open gives the connection its wire. It may have been stopped before.
func (c *conn) open(raw net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.interrupt = raw, func() { _ = raw.SetReadDeadline(time.Unix(1, 0)) }
	if c.stopped {
		c.interrupt()
	}
}

// Cut implements [transport.Conn].
func (c *conn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw != nil {
		go c.raw.Close() // over TLS that may take seconds
	}
}

// Serves implements [transport.Conn].
func (c *conn) Serves() bool { return false }

// Throttled implements [transport.Conn].
func (c *conn) Throttled() bool { return c.pacer.Waits() }
