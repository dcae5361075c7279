package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kernos/client"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/message"
	"kernos/transport/unix"
)

// ticket signs over the socket, and returns the token with which HTTP accepts the caller.
func (d *Daemon) ticket(ctx context.Context) (string, error) {
	conn, err := d.Connect(ctx)
	if err != nil {
		return "", err
	}
	if conn == nil {
		return "", &client.Unreachable{URL: d.target().URL, Err: errNotRunning}
	}
	data, err := ask(ctx, conn, message.KindQuery, daemon.TicketType)
	if lost, ok := errors.AsType[*unix.Lost](err); ok && errors.Is(lost, message.ErrServerStopping) {
		return "", &client.Unreachable{URL: d.target().URL, Err: lost}
	}
	if err != nil {
		return "", err
	}
	var out daemon.Ticket
	if err := json.Unmarshal(data, &out); err != nil || out.Token == "" {
		return "", exit.Wrap(fmt.Errorf("the daemon wants a signature, and its ticket can't be read; use the same version of both"))
	}
	return out.Token, nil
}
