package history

import (
	"context"
	"iter"

	"kernos/journal"
	"kernos/message"
)

// pageSize is how many messages of a workflow are read at once. It bounds what is in
// memory; a message may have 16 KB, or 1 MB in the older dialect.
const pageSize = 4096

// workflow goes through the messages of a workflow in the order of the journal: those
// that carry its correlation and the one whose id it is, which the journal takes
// together; and the answer to that one, since a message that begins a workflow need not
// name it, and neither does the answer then.
func workflow(ctx context.Context, j Journal, correlation string) iter.Seq2[*journal.Entry, error] {
	return func(yield func(*journal.Entry, error) bool) {
		named := &pages{j: j, query: journal.Query{Filter: journal.Filter{Correlation: correlation}, Limit: pageSize}}
		caused := &pages{j: j, query: journal.Query{Filter: journal.Filter{Causation: message.ID(correlation)}, Limit: pageSize}}
		last := uint64(0)
		for {
			a, err := named.peek(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			b, err := caused.peek(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			e := a
			switch {
			case a == nil && b == nil:
				return
			case b == nil || a != nil && a.Seq <= b.Seq:
				named.skip()
			default:
				e = b
				caused.skip()
				if e.Message.Metadata.Correlation != "" {
					continue // it is among the named, or of another workflow
				}
			}
			if e.Seq <= last {
				continue // it was in both
			}
			last = e.Seq
			if !yield(e, nil) {
				return
			}
		}
	}
}

// pages reads a list, a page at a time.
type pages struct {
	j      Journal
	query  journal.Query
	buffer []journal.Entry
	done   bool // no page is left
}

// peek returns the next message, or nil at the end. It is valid after skip, too.
func (p *pages) peek(ctx context.Context) (*journal.Entry, error) {
	for len(p.buffer) == 0 && !p.done {
		entries, next, err := p.j.List(ctx, p.query)
		if err != nil {
			return nil, err
		}
		p.buffer, p.query.After, p.done = entries, next, next == 0
	}
	if len(p.buffer) == 0 {
		return nil, nil
	}
	return &p.buffer[0], nil
}

func (p *pages) skip() { p.buffer = p.buffer[1:] }

// noWorkflow is the error for a workflow of which there is nothing.
func noWorkflow(ctx context.Context, j Journal, correlation string) error {
	text := "no message in the journal has this correlation or this id"
	e, err := j.Get(ctx, message.ID(correlation))
	switch {
	case err == nil && e.Message.Metadata.Correlation != "":
		text = "the message of this id belongs to the workflow " + e.Message.Metadata.Correlation
	case err != nil && !isNotFound(err):
		return err
	default:
		if missing, err := findGap(j, 0, 0); err == nil && missing != nil {
			text += "; " + missing.String()
		}
	}
	return message.Errorf(404, "Workflow not found: %s (%s)", correlation, text)
}
