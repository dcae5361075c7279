// Package notify is the module of notifications: short texts for a person, sent by a program, a model or a job.
//
//	Notify.Send {"text":"Call mum"}                 → {"id":"01K…"}    waits in Notify.List until Notify.Seen
//	Notify.Send {"text":"Call mum","to":"phone"}    → {"to":"phone"}   goes to a target that the owner has configured
//
// A notification without a target is stored with the reply, so an acknowledged one survives a power cut, and the event
// Notify.Sent reports it to watchers: open chats and consoles. What was seen is forgotten; the journal still has the event.
//
// A target is a webhook or a topic of an ntfy server. Its address often is all that it takes to write to it, so the address
// is kept sealed, and no reply, error or record has it.
package notify

import (
	"context"
	"net/http"
	"time"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/store"
)

// Options are the settings of Notifications.
type Options struct {
	Store store.Store

	// Seal seals the address of a target, and Open opens it; see capability/crypto.
	Seal func(ctx context.Context, plaintext string, to sealed.Destination) (string, error)
	Open func(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error)

	// Client sends notifications to targets. It may go wherever the owner may name a host in a setting.
	Client *http.Client

	Now func() time.Time // nil means time.Now
}

// Notifications keeps notifications and targets. It is safe for concurrent use.
type Notifications struct {
	opts Options
	ids  kernel.IDs
}

// New returns the notifications of a store.
func New(o *Options) *Notifications {
	n := &Notifications{opts: *o}
	if n.opts.Now == nil {
		n.opts.Now = time.Now
	}
	return n
}

// Module returns the module.
func (n *Notifications) Module() kernel.Module {
	sending := send.Bind(n.send)
	sending.Foreseen = n.foreseen
	return kernel.Module{
		Name:     "notify",
		Version:  "1.0.0",
		Summary:  "Notifications for people: in chats and consoles, at webhooks and ntfy.",
		Domains:  []string{"Notify"},
		Syscalls: []kernel.Syscall{sending, list.Bind(n.list), seen.Bind(n.seen), targets.Bind(n.targets), add.Bind(n.add), remove.Bind(n.remove)},
	}
}

// The keys of notifications begin with SpaceNotify and a letter.
const (
	keyWaiting = 'n' // principal, zero byte, id → Notification
	keyTarget  = 't' // name → target
)

func key(letter byte, parts ...string) []byte {
	k := append(make([]byte, 0, 64), store.SpaceNotify, letter)
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}
