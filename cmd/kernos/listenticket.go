package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/daemon"
	"kernos/message"
	"kernos/transport/unix"
)

// ticket signs, and returns what HTTP wants to see of those who have.
func (a *address) ticket(ctx context.Context) (string, error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return "", err
	}
	if conn == nil {
		return "", &client.Unreachable{URL: a.target().URL, Err: errNotRunning}
	}
	c := unix.NewClient(conn)
	defer func() { _ = c.Close() }()
	data, err := request.Send(ctx, c.Call, message.KindQuery, daemon.TicketType, struct{}{}, nil)
	if lost, ok := errors.AsType[*unix.Lost](err); ok && errors.Is(lost, unix.ErrStopping) {
		return "", &client.Unreachable{URL: a.target().URL, Err: lost}
	}
	if err != nil {
		return "", err
	}
	var out daemon.Ticket
	if err := json.Unmarshal(data, &out); err != nil || out.Token == "" {
		return "", exit.Wrap(fmt.Errorf("the daemon wants a signature, and does not say what for; use the same version of both"))
	}
	return out.Token, nil
}
