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

// Definitions returns the module without its handlers.
func Definitions() kernel.Module {
	return kernel.Module{
		Name:    "history",
		Version: "1.0.0",
		Summary: "Recorded messages: by id, workflow, type, time and words; as a graph; live; replayed.",
		Domains: []string{"Message", "Event"},
		Syscalls: kernel.Unbound(get.Definition, list.Definition, search.Definition, graphDefinition.Definition,
			replay.Definition, watch.Definition, stats.Definition),
	}
}

// Principals returns the principal of an id as it is now, or nil if it no longer exists.
type Principals func(principal.ID) (*principal.Principal, error)

// Module returns the module that answers from a journal. A replay runs what a principal has
// sent with its rights; nil means that there is none but the owner.
func Module(j Journal, principals Principals) kernel.Module {
	r := reader{j, principals}
	return Definitions().Bind(get.Bind(r.get), list.Bind(r.list), search.Bind(r.search), graphDefinition.Bind(r.graph),
		replay.BindStream(r.replay), watch.BindStream(r.watch), stats.Bind(r.stats))
}

// reader answers from a journal.
type reader struct {
	journal    Journal
	principals Principals
}
