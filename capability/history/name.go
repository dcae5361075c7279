package history

import (
	"cmp"
	"context"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/message"
)

// How many of the latest messages are looked at for an id in its short form: at most, and to make
// sure that no other id has the same form.
const (
	maxScan = 1_000_000
	minScan = 100_000
)

// wholeID completes an id in the short form that lists and trees show: its beginning and its end
// with … between them. Any other text is taken as it is.
func (r reader) wholeID(ctx context.Context, text string, to *string) error {
	*to = text
	head, tail, short := strings.Cut(text, "…")
	if !short {
		return nil
	}
	if _, err := r.entry(ctx, message.ID(text)); !isNotFound(err) {
		return err // nil if a message has exactly this id
	}
	*to = ""
	q := journal.Query{Filter: journal.Filter{Own: ownOf(ctx)}, Reverse: true, Limit: journal.MaxLimit, Brief: true}
	for scanned := 0; ; {
		entries, next, err := r.journal.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range entries {
			id := string(entries[i].Message.Metadata.ID)
			if len(id) < len(head)+len(tail) || !strings.HasPrefix(id, head) || !strings.HasSuffix(id, tail) || id == *to {
				continue
			}
			if *to != "" {
				return message.Errorf(422, "The short id %s stands for %s and for %s, and maybe for others; give the whole id", message.Clip(text, 64), message.Clip(*to, 64), message.Clip(id, 64))
			}
			*to = id
		}
		scanned += len(entries)
		if next == 0 || scanned >= maxScan || *to != "" && scanned >= minScan {
			break
		}
		q.After = next
	}
	if *to == "" {
		return message.Errorf(404, "Message not found: none of the latest %d has an id like %s; give the whole id", maxScan, message.Clip(text, 64))
	}
	return nil
}

// maxClimb is how many causes are followed to the message that began a workflow.
const maxClimb = 64

// workflowOf returns the name of the workflow that a text means: a correlation, the id of any
// message of the workflow, which may be in its short form, or the id of a job.
func (r reader) workflowOf(ctx context.Context, text string) (name string, err error) {
	if err := r.wholeID(ctx, text, &name); err != nil {
		return "", err
	}
	for range maxClimb {
		e, err := r.entry(ctx, message.ID(name))
		if isNotFound(err) && name == text {
			begun, err := r.begunBy(ctx, text)
			if err != nil || begun == "" {
				return name, err
			}
			name = begun
			continue
		}
		if isNotFound(err) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		// A message that others belong to has begun a workflow, even if it has a cause itself.
		q := journal.Query{Filter: journal.Filter{Correlation: name, Whole: true, Own: ownOf(ctx)}, Limit: 2, Brief: true}
		others, _, err := r.journal.List(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range others {
			if string(others[i].Message.Metadata.ID) != name {
				return name, nil
			}
		}
		switch m := &e.Message.Metadata; {
		case m.Correlation != "":
			return m.Correlation, nil
		case m.Causation == "":
			return name, nil
		default:
			name = string(m.Causation)
		}
	}
	return name, nil
}

// begunBy returns the workflow of a job, or the message that began it. It is "" if the text is a workflow itself, or no job's id. The
// reply of Job.Start names a job, and so does the event of each run of it.
func (r reader) begunBy(ctx context.Context, text string) (string, error) {
	own := ownOf(ctx)
	named, _, err := r.journal.List(ctx, journal.Query{Filter: journal.Filter{Correlation: text, Whole: true, Own: own}, Limit: 1, Brief: true})
	if err != nil || len(named) > 0 {
		return "", err
	}
	for _, f := range []journal.Filter{
		{Type: "Job.Start", Kinds: []message.Kind{message.KindReply}},
		{Type: "Job.Started", Kinds: []message.Kind{message.KindEvent}},
	} { // one type each, which has an index
		f.Words, f.Own = []string{text}, own
		entries, _, err := r.journal.List(ctx, journal.Query{Filter: f, Reverse: true, Limit: 100})
		for i := range entries {
			m := &entries[i].Message
			if jsonscan.Unquote(jsonscan.Member(m.Data, "jobId")) == text {
				return cmp.Or(m.Metadata.Correlation, string(m.Metadata.Causation)), err
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}
