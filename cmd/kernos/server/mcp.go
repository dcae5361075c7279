package server

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"kernos/internal/exit"
	"kernos/transport/mcp"
	"kernos/transport/mcp/bridge"
)

// ServeMCP carries the Model Context Protocol between a client and the server, until the input ends. When the
// daemon closes the connection, another one is made. The query determines which tools are listed, and the principal of the
// client; what the server remarks about that goes to note.
func (s *Server) ServeMCP(ctx context.Context, query url.Values, in io.Reader, out io.Writer, note func(string)) error {
	conn, err := s.upgrade(ctx, "/mcp?"+query.Encode(), mcp.Protocol, true)
	if err != nil {
		return err
	}
	if text := conn.Header.Get(mcp.HeaderNote); text != "" {
		note(text)
	}
	query.Set(mcp.Resumed, "true")
	redial := func(ctx context.Context, needed bool) (bridge.Wire, error) {
		conn, err := s.upgrade(ctx, "/mcp?"+query.Encode(), mcp.Protocol, needed)
		if conn == nil { // a nil *client.Upgraded isn't a nil bridge.Wire
			return nil, gone(err)
		}
		return conn, nil
	}
	return exit.Wrap(bridge.Run(ctx, conn, redial, in, out))
}

// gone returns the error for a daemon that has closed the connection and can't be reached again, or nil.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon has closed the connection: it has stopped, or the token was revoked (kernos token list); connecting again has failed: %w; let the client start kernos mcp again", err)}
}
