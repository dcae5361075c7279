package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

// ticketType is the syscall by which those who have signed get what HTTP wants to see of
// them. HTTP has no place for a signature: a connection of it may be shared by many requests,
// and a request may come over any of them. So there is a secret that only this daemon knows,
// and tells those only who ask over the socket on which everybody has signed.
const ticketType message.Type = "Kernel.Ticket"

type ticketInput struct{}

type ticketOutput struct {
	Token string `json:"token" jsonschema:"writeOnly=true" jsonschema_description:"The token that HTTP on the daemon's socket takes until the daemon ends. It is not recorded."`
}

// issueTickets makes the secret, and the syscall by which it is told.
func issueTickets(r *kernel.Registry) (ticket func() (string, error), err error) {
	token := rand.Text()
	s := kernel.Query(
		kernel.Definition{
			Type:       ticketType,
			Summary:    "Get the token for HTTP on the socket of a daemon that wants signatures.",
			Visibility: kernel.Hidden,
		},
		func(context.Context, ticketInput) (ticketOutput, error) { return ticketOutput{Token: token}, nil },
	)
	return func() (string, error) { return token, nil }, r.AddSyscall(kernel.Module{Name: "kernel"}, s)
}

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
	data, err := ask(ctx, c.Call, message.KindQuery, ticketType, ticketInput{}, nil)
	if lost, ok := errors.AsType[*unix.Lost](err); ok && errors.Is(lost, unix.ErrStopping) {
		return "", &client.Unreachable{URL: a.target().URL, Err: lost}
	}
	if err != nil {
		return "", err
	}
	var out ticketOutput
	if err := json.Unmarshal(data, &out); err != nil || out.Token == "" {
		return "", exit.Wrap(fmt.Errorf("the daemon wants a signature, and does not say what for; use the same version of both"))
	}
	return out.Token, nil
}
