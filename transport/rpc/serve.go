package rpc

import (
	"cmp"
	"context"
	"encoding/json"

	"kernos/internal/recent"
	"kernos/kernel"
)

// New returns a service of a kernel. Nil options mean defaults.
func New(k *kernel.Kernel, opts *Options) *Service {
	s := &Service{k: k, documents: recent.New[json.RawMessage](keepDocuments)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Subscriptions = cmp.Or(s.opts.Subscriptions, DefaultSubscriptions)
	s.opts.KeepFor = cmp.Or(s.opts.KeepFor, DefaultKeepFor)
	s.opts.KeepItems = cmp.Or(s.opts.KeepItems, 1024)
	s.opts.KeepBytes = cmp.Or(s.opts.KeepBytes, 1<<20)
	s.opts.KeepAll = cmp.Or(s.opts.KeepAll, 64<<20)
	s.opts.KeepEndless = cmp.Or(s.opts.KeepEndless, 4096)
	s.kept.opts = &s.opts
	return s
}

// Serve answers the frames of one connection. It returns when the wire has ended and
// everything that it began is done: at once if the peer closed the connection, as late as KeepFor
// if it was lost, and later still if its streams were resumed elsewhere. When the peer closes
// the connection or does not come back, its queries are cancelled, and its commands completed.
//
// If the wire's error is [ErrStopped], what has begun is finished and sent, and so is what was
// resumed there.
func (s *Service) Serve(ctx context.Context, w Conn) error {
	if s.closed.Load() {
		return ErrClosed
	}
	c := newConn(ctx, s, w)
	defer c.leave() // for a connection that was stopped
	defer context.AfterFunc(c.caller.Life(), c.expire)()
	return c.serve(ctx)
}

// Close forgets the streams of connections that were lost, and takes no more connections.
// Connections that are being served continue until their wires end.
func (s *Service) Close() {
	s.closed.Store(true)
	s.kept.close()
}
