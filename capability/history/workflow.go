package history

import (
	"cmp"
	"context"
	"iter"

	"kernos/journal"
	"kernos/message"
)

// chosen is the part of an input that selects a workflow.
type chosen struct {
	Correlation   string `json:"correlation,omitempty" jsonschema:"minLength=1,maxLength=256,oneof_required=correlation" jsonschema_description:"The workflow: metadata.correlation of its messages, or the id of any of them, or of a job."`
	CorrelationID string `json:"correlationId,omitempty" jsonschema:"minLength=1,maxLength=256,oneof_required=correlationId" jsonschema_description:"Another name for correlation."`
}

// correlation returns the workflow by either of its names.
func (c *chosen) correlation() string { return cmp.Or(c.Correlation, c.CorrelationID) }

// pageSize is how many messages of a workflow are read at once, if they have their data. It
// bounds what is in memory; a message may have 16 KB, or 1 MB in the older dialect.
const pageSize = 4096

// workflow goes through the messages of a workflow in the order of the journal: those
// that carry its correlation and the one whose id it is; and the answer to that one, since
// a message that begins a workflow need not name it, and neither does the answer then. The filter
// names the correlation, and may select among its messages. In brief, they come without their
// data, but for errors.
func (r reader) workflow(ctx context.Context, f journal.Filter, brief bool) iter.Seq2[*journal.Entry, error] {
	f.Whole, f.Own = true, ownOf(ctx)
	q := journal.Query{Filter: f, Limit: pageSize, Brief: brief}
	if brief {
		q.Limit = journal.MaxLimit
	}
	return func(yield func(*journal.Entry, error) bool) {
		for q := q; ; {
			entries, next, err := r.journal.List(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range entries {
				if !yield(&entries[i], nil) {
					return
				}
			}
			if next == 0 {
				return
			}
			q.After = next
		}
	}
}

// noWorkflow returns the error for a workflow of which there is nothing.
func (r reader) noWorkflow(ctx context.Context, correlation string) error {
	text := "no message and no job in the journal has this correlation or this id"
	if note := narrowed(ctx).Note; note != "" {
		text += "; " + note + " was searched"
	}
	if missing, err := r.gap(0, 0); err == nil && missing != nil {
		text += "; " + missing.String()
	}
	return message.Errorf(404, "Workflow not found: %s (%s)", correlation, text)
}
