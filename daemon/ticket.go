package daemon

import (
	"context"
	"crypto/rand"
	"crypto/subtle"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// TicketType is the syscall that gives clients of the socket, who have signed, the token for
// HTTP on the second socket. HTTP has no place for a signature: requests share connections.
// The token is known to this daemon only, and given over the signed socket only.
const TicketType message.Type = "Kernel.Ticket"

// Ticket is the reply of TicketType.
type Ticket struct {
	Token string `json:"token" jsonschema:"writeOnly=true" jsonschema_description:"The token that HTTP on the daemon's socket takes until the daemon ends. It is not recorded."`
}

// issueTickets makes a token, and the syscall that gives it.
func issueTickets(r *kernel.Registry) (authenticate func(string) (*principal.Principal, error), err error) {
	text := rand.Text()
	s := kernel.Query(
		kernel.Definition{
			Type:         TicketType,
			Summary:      "Get the token for HTTP on the socket of a daemon that wants signatures.",
			Presentation: kernel.Presentation{Visibility: kernel.Hidden},
			Behavior:     kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
			Access:       principal.OwnerOnly,
		},
		func(context.Context, struct{}) (Ticket, error) { return Ticket{Token: text}, nil },
	)
	authenticate = func(secret string) (*principal.Principal, error) {
		if subtle.ConstantTimeCompare([]byte(secret), []byte(text)) == 1 {
			return principal.TheOwner(), nil
		}
		return nil, nil
	}
	return authenticate, r.AddSyscall(kernel.Module{Name: "kernel"}, s)
}
