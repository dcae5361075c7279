package mcp

import (
	"context"
	"io"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// ServeLines answers the messages on in, one per line, until it ends, ctx is done, or the server is shut
// down: what [Server.Upgrade] does, over two pipes. It acts for the sender in ctx. It is one of the
// connections that there may be.
func (s *Server) ServeLines(ctx context.Context, in io.Reader, out io.Writer, tools string) error {
	c := s.newConn(ctx, kernel.SenderIn(ctx).Principal(), choice(tools))
	reading, end := context.WithCancelCause(ctx)
	c.interrupt = func() { end(io.EOF) }
	defer c.interrupt()
	switch _, reason := s.conns.Admit(c); reason {
	case transport.Stopping:
		return message.Errorf(503, "The daemon is shutting down; try again")
	case transport.TooMany:
		return s.conns.Full()
	}
	defer s.conns.Done()
	defer s.conns.Leave(c)
	s.conns.Accept()
	input := transport.Stoppable(reading, in)
	defer func() { _ = input.Close() }()
	c.init(input, transport.OutputTo(out))
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(s.conns.Work(), func() { cut(context.Cause(s.conns.Work())) })()
	return c.serve(ctx)
}
