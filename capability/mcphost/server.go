package mcphost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kernos/capability/mcphost/client"
	"kernos/internal/backoff"
	"kernos/internal/process"
	"kernos/internal/sealed"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

const (
	startTime   = 2 * time.Minute // how long a server may take to start, which may include a download, and to list what it offers
	refreshTime = 30 * time.Second
	callTime    = time.Minute // how long a tool may take, unless the owner has set another time

	firstPause, longestPause = 250 * time.Millisecond, time.Minute // pauses before a failed server is started again

	changeEvery = time.Second // how often changes that a server announces are followed
)

// A server is a mounted MCP server.
type server struct {
	host *Host
	name string
	now  atomic.Pointer[record] // changed with the host's mu held

	mu      sync.Mutex
	conn    *client.Conn // nil if it isn't connected
	dialing *dialing     // nil if no connection is made
	pauses  backoff.Backoff
	next    time.Time // earliest time to start the server again
	failed  error     // why the server isn't connected
	starts  int
	asked   *challenge // the server's request for credentials; nil if a person has logged in since
	removed bool
	size    int // bytes of the schemas that are charged
}

// dialing is a connection that is being made.
type dialing struct {
	done chan struct{} // closed when it was made, or wasn't
	conn *client.Conn
	err  error
}

func newServer(h *Host, r *record) *server {
	s := &server{host: h, name: r.Name, pauses: backoff.Backoff{First: firstPause, Longest: longestPause}}
	s.now.Store(r)
	return s
}

func (r *record) timeout() time.Duration {
	return cmp.Or(time.Duration(r.Timeout)*time.Millisecond, callTime)
}

// publish puts the tools of a record in the place of those of another one, or of none, in the
// registry. The host's mu is held.
func (s *server) publish(old, next *record) error {
	var remove []message.Type
	size := 0
	if old != nil {
		for i := range old.Tools {
			remove = append(remove, old.Tools[i].Type)
		}
	}
	var add []kernel.Addition
	if next != nil {
		module := kernel.Module{Name: strings.ToLower(next.Domain), Version: "1.0.0", Summary: fmt.Sprintf("Tools of the MCP server %s.", next.Name)}
		for i := range next.Tools {
			t := &next.Tools[i]
			size += t.size()
			add = append(add, kernel.Addition{Module: module, Syscall: kernel.Syscall{
				Definition: next.definition(t), Handler: s.handler(t),
				Provenance: kernel.Provenance{Provider: kernel.Mounted, Allowed: t.Allowed && t.Next == nil},
			}})
		}
	}
	owner := principal.TheOwner()
	if err := s.host.opts.Schemas.Take(owner, size); err != nil {
		return err
	}
	if _, err := s.host.registry.Change(remove, add...); err != nil {
		s.host.opts.Schemas.Give(owner, size)
		return message.Errorf(409, "The tools of the MCP server %s can't be registered: %v", s.name, err)
	}
	s.host.opts.Schemas.Give(owner, s.size)
	s.size = size
	return nil
}

// taken reports why a type can't be that of a tool of the server. The host's mu is held.
func (s *server) taken(t message.Type) string {
	if other, ok := s.host.registry.Lookup(t); ok && other.Provider != kernel.Mounted {
		return fmt.Sprintf("%s is registered already", t)
	}
	claimed, err := s.host.opts.Taken(t)
	switch {
	case err != nil:
		return err.Error()
	case claimed:
		return fmt.Sprintf("%s belongs to a program that isn't connected", t)
	case !t.Valid():
		return fmt.Sprintf("%s can't be the name of a syscall", message.Clip(string(t), 64))
	}
	return ""
}

// connect returns the connection to the server, which is started if it has to be. What a caller asks goes to
// the server, so a session needs an approval, unless the owner has allowed all that the server offers.
func (s *server) connect(ctx context.Context) (*client.Conn, error) {
	if !s.now.Load().trusted() {
		if err := kernel.Reaching(kernel.OnItsOwn(ctx), kernel.ToProgram, "the MCP server "+s.name); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	if err := s.over(); err != nil {
		defer s.mu.Unlock()
		return nil, err
	}
	if s.connected() {
		defer s.mu.Unlock()
		return s.conn, nil
	}
	if pause := time.Until(s.next); pause > 0 {
		if at, ok := ctx.Deadline(); ok && s.next.After(at) || pause > 5*time.Second {
			defer s.mu.Unlock()
			return nil, message.Errorf(503, "The MCP server %s has failed, and is started again in %v at the earliest: %w", s.name, pause.Round(time.Second), reason(s.failed))
		}
	}
	d := s.dialing
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		s.dialing = d
		wait := time.Until(s.next)
		s.host.work.Go(func() { s.dial(d, wait) })
	}
	s.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// use does something with the connection to the server, which is started if it has to be. A server that no longer knows the
// session has done nothing: it is asked once more, in a new one.
func (s *server) use(ctx context.Context, do func(*client.Conn) error) error {
	for again := false; ; again = true {
		conn, err := s.connect(ctx)
		if err == nil {
			err = do(conn)
		}
		if again || !errors.Is(err, client.ErrForgotten) {
			return err
		}
	}
}

// reason returns an error as the cause of another one.
func reason(err error) *message.Error {
	if err == nil {
		err = errors.New("it isn't connected")
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e
	}
	return &message.Error{Code: 502, Message: visible.Short(err.Error(), 600)}
}

// dial connects to the server after a pause, and reads what it offers before it is used.
func (s *server) dial(d *dialing, pause time.Duration) {
	ctx, cancel := context.WithTimeout(s.host.life, startTime)
	defer cancel()
	if pause > 0 {
		wait := backoff.Backoff{First: pause, Longest: pause}
		wait.Wait(ctx.Done())
	}
	changed := make(chan struct{}, 1)
	conn, err := s.open(ctx, s.now.Load(), changed, nil)
	if err == nil {
		err = s.reread(ctx, conn)
	}
	s.mu.Lock()
	s.dialing = nil
	unused := conn
	switch {
	case s.over() != nil:
		d.err = s.over()
	case s.connected(): // by Mcp.Add or Mcp.Refresh meanwhile
		d.conn = s.conn
	case err != nil:
		d.err = s.failure(err)
	default:
		s.begin(conn, changed)
		d.conn, unused = conn, nil
	}
	s.mu.Unlock()
	close(d.done)
	if unused != nil {
		unused.Close() // without the lock: what the connection does until it ends may need it
	}
}

// over returns why the server gets no connection any more, or nil. mu is held.
func (s *server) over() error {
	switch {
	case s.removed:
		return message.Errorf(404, "The MCP server %s was removed", s.name)
	case s.host.life.Err() != nil:
		return message.Errorf(503, "The kernel is stopping")
	}
	return nil
}

// connected reports whether there is a connection that can be used. mu is held.
func (s *server) connected() bool { return s.conn != nil && s.conn.Err() == nil }

// begin takes a connection into use where there is no other. mu is held.
func (s *server) begin(conn *client.Conn, changed chan struct{}) {
	s.conn, s.failed = conn, nil
	s.starts++
	s.host.work.Go(func() { s.follow(conn, changed) })
}

// exchange takes a connection into use in the place of an earlier one, which may have other credentials.
func (s *server) exchange(conn *client.Conn, changed chan struct{}) error {
	s.mu.Lock()
	unused, err := s.conn, s.over()
	if err == nil {
		s.begin(conn, changed)
	} else {
		unused = conn
	}
	s.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	return err
}

// failure notes that the server has failed, and returns the error of calls. mu is held.
func (s *server) failure(err error) error {
	s.failed = err
	s.next = time.Now().Add(s.pauses.Pause())
	s.pauses.Grow()
	if s.host.life.Err() == nil {
		s.host.opts.Log.Warn("an MCP server has failed", "name", s.name, "error", visible.Short(err.Error(), 600))
	}
	return s.explain(err)
}

// explain returns the error of a call that the server doesn't answer.
func (s *server) explain(err error) error {
	switch {
	case errors.As(err, new(*message.Error)), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, new(*client.NotAuthorized)):
		return s.wantsLogin(err)
	}
	return message.Errorf(502, "The MCP server %s can't answer: %w", s.name, reason(err))
}

// wantsLogin returns the error of a call that needs a person to log in first.
func (s *server) wantsLogin(err error) error {
	return message.Errorf(503, "The MCP server %s needs credentials; the owner can give them: kernos mcp refresh %s: %w", s.name, s.name, reason(err))
}

// answered notes that the server works.
func (s *server) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses.Reset()
	s.next = time.Time{}
}

// follow reads what the server offers when it announces changes, until the connection has ended.
func (s *server) follow(conn *client.Conn, changed chan struct{}) {
	for {
		select {
		case <-changed:
		case <-conn.Done():
			s.mu.Lock()
			if s.conn == conn {
				s.conn = nil
				if !errors.Is(conn.Err(), client.ErrEnded) && !errors.Is(conn.Err(), client.ErrForgotten) {
					_ = s.failure(conn.Err())
				}
			}
			s.mu.Unlock()
			conn.Close()
			return
		}
		ctx, cancel := context.WithTimeout(s.host.life, refreshTime)
		if err := s.reread(ctx, conn); err != nil && conn.Err() == nil {
			s.host.opts.Log.Warn("an MCP server has changed, and its new lists can't be read", "name", s.name, "error", visible.Short(err.Error(), 600))
		}
		cancel()
		pause := backoff.Backoff{First: changeEvery, Longest: changeEvery}
		pause.Wait(conn.Done())
	}
}

// reread asks the server what it offers, and records events about changes before they are used.
func (s *server) reread(ctx context.Context, conn *client.Conn) error {
	x, err := readOffers(ctx, conn, s.now.Load())
	if err != nil {
		return err
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	before := s.now.Load()
	next, c := x.merge(before, s.taken)
	next.Token = before.Token
	if c.empty() && sameRecord(before, next) {
		return nil
	}
	if !c.empty() {
		s.host.recordEvent(changedEvent, c.encode(s.name))
		s.host.opts.Log.Info("an MCP server offers other tools", "name", s.name, "added", len(c.added), "changed", len(c.changed), "removed", len(c.removed))
	}
	return s.replace(ctx, next)
}

// replace makes a record that of the server: in the registry and in the store. The host's mu is held.
func (s *server) replace(ctx context.Context, next *record) error {
	before := s.now.Load()
	if err := s.publish(before, next); err != nil {
		return err
	}
	if err := s.host.save(ctx, s.name, next); err != nil {
		return errors.Join(err, s.publish(next, before))
	}
	s.now.Store(next)
	return nil
}

var mapKeys = maps.Keys[map[string]string]

// open connects to the server that a record describes.
func (s *server) open(ctx context.Context, r *record, changed chan struct{}, login *login) (*client.Conn, error) {
	o := &client.Options{
		Command: r.Command, Dir: r.Dir, Home: s.host.opts.Home, URL: r.URL, HTTP: s.host.opts.HTTP, Revision: cmp.Or(r.Protocol, r.Spoken), Version: s.host.opts.Version,
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
		Log: func(line string) {
			s.host.opts.Log.Info("an MCP server says", "name", s.name, "text", visible.Short(line, maxDescription))
		},
	}
	if r.Fill {
		o.Fill = fill
	}
	owners := kernel.ActFor(ctx, kernel.Sender{}) // the owner has mounted it
	use := sealed.Use{Syscall: opens, Hosts: r.hosts()}
	if r.URL == "" {
		o.Env = process.Environment()
		for _, name := range slices.Sorted(mapKeys(r.Env)) {
			value, err := s.reveal(owners, r.Env[name], use)
			if err != nil {
				return nil, err
			}
			o.Env = append(o.Env, name+"="+value)
			o.Secrets = append(o.Secrets, r.secrets(name, value)...)
		}
	} else {
		o.Header = make(http.Header)
		for name, value := range r.Headers {
			value, err := s.reveal(owners, value, use)
			if err != nil {
				return nil, err
			}
			value = string(sealed.Line([]byte(value)))
			o.Header.Set(name, value)
			o.Secrets = append(o.Secrets, r.secrets(name, value)...)
		}
		if o.Header.Get("Authorization") == "" {
			var err error
			if o.OAuth, err = s.authorizer(owners, r, login); err != nil {
				return nil, err
			}
		}
	}
	return client.Dial(ctx, o)
}

// reveal opens what is sealed in a text.
func (s *server) reveal(ctx context.Context, text string, use sealed.Use) (string, error) {
	plain, err := sealed.Replace(text, func(one string) ([]byte, error) {
		plain, _, err := s.host.opts.Open(ctx, one, use)
		return plain, err
	})
	if err != nil && ctx.Err() == nil {
		err = message.Errorf(503, "A secret of the MCP server %s can't be opened; bring back the key that it was sealed with, or mount the server again (kernos mcp remove %s, kernos mcp add): %w", s.name, s.name, reason(err))
	}
	return plain, err
}

// close ends the connection.
func (s *server) close() {
	s.mu.Lock()
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}
