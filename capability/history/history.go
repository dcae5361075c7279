// Package history answers from the journal: what was sent, by whom, why, and when.
//
//	Message.Get     one message
//	Message.List    those of a workflow, a type, a time, …
//	Message.Search  those that have words, or a meaning
//	Message.Graph   a workflow as a picture of causes and effects
//	Message.Replay  a workflow once more: to look at, or to run
//	Message.Watch   what is recorded, as it is
//	Message.Stats   how much there is
//
// Messages come back as they were recorded, byte for byte. What they hold is in the
// journal already, so nothing that these syscalls answer is recorded again.
//
// # Goroutines
//
//   - Reading ahead for a watch with buffer, one per such watch, which waits for it.
package history

import (
	"context"
	"iter"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Journal is what this module needs of the journal.
type Journal interface {
	// Get returns the first message of an id. The error is a *message.Error with code
	// 404 if there is none.
	Get(ctx context.Context, id message.ID) (journal.Entry, error)

	// List returns a page of messages, and the number to continue after, or 0. The workflow
	// of a correlation has the message whose id it is.
	List(ctx context.Context, q journal.Query) (entries []journal.Entry, next uint64, err error)

	// Search returns the messages in which words occur, the best first.
	Search(ctx context.Context, q journal.SearchQuery) (journal.SearchResult, error)

	// Follow goes through the messages after one, and then through those that are
	// recorded later, until ctx is done or something is wrong; it ends with the error.
	Follow(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error]

	// Dropped reports what the journal had and has no more.
	Dropped() (journal.Dropped, error)

	// Stats reports what the journal has.
	Stats() (journal.Stats, error)
}

// Options are the settings of the module. The zero value is usable.
type Options struct {
	// Find returns the principal of an id as it is now, or nil if it no longer exists: a replay runs what the
	// principal has sent with its rights. Nil means that the owner is the only principal.
	Find func(principal.ID) (*principal.Principal, error)

	// Transient reports whether a request has its effect in the connection that it came over, where other requests of
	// its syscall don't: a replay skips it. Nil means that no request does.
	Transient func(*message.Message) bool
}

// Module returns the module that answers from a journal. Nil options mean defaults.
func Module(j Journal, opts *Options) kernel.Module {
	r := reader{journal: j}
	if opts != nil {
		r.Options = *opts
	}
	return kernel.Module{
		Name:    "history",
		Version: "1.0.0",
		Summary: "Recorded messages: by id, workflow, type, time and words; as a graph; live; replayed.",
		Domains: []string{"Message", "Event"},
		Syscalls: []kernel.Syscall{
			get.Bind(r.get), list.Bind(r.list), search.Bind(r.search), graphDefinition.Bind(r.graph),
			replay.BindStream(r.replay), watch.BindStream(r.watch), stats.Bind(r.stats),
		},
	}
}

// reader answers from a journal.
type reader struct {
	journal Journal
	Options
}
