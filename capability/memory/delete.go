package memory

import (
	"context"

	"kernos/kernel"
	"kernos/message"
)

type deleteInput struct {
	Key        string `json:"key" jsonschema_description:"Path of the value to delete."`
	IfRevision int64  `json:"ifRevision,omitempty" jsonschema:"minimum=1" jsonschema_description:"Delete only if the key is at this revision. Otherwise the answer is a 409."`
}

type deleteOutput struct {
	Success bool `json:"success" jsonschema_description:"True: the key is gone, durably. A failure is an error message."`
}

func (m *Memory) delete(ctx context.Context, msg message.Message, emit kernel.Emit) {
	if err := m.remove(ctx, &msg); err != nil {
		m.fail(ctx, msg, emit, err)
		return
	}
	emit(msg.Reply(success))
}

// remove puts a deletion at the end of a key's history: it has a revision too.
func (m *Memory) remove(ctx context.Context, msg *message.Message) error {
	in := parse(msg.Data)
	asked, key, err := in.keyOf()
	if err != nil {
		return err
	}
	if err := writable(key); err != nil {
		return err
	}
	d := newDraft(key, recordHead+historyKeySize(key)+len(msg.Metadata.ID))
	var old was
	old.version, old.entry, err = findAt(m.store, d.currentKey(key))
	if err != nil {
		return err
	}
	now := m.opts.Now().UnixMilli()
	if old.entry.Revision == 0 || old.expired(now) {
		return notFound(asked)
	}
	if in.ifRevision != nil && integer(in.ifRevision) != old.revision {
		return mismatch(asked, integer(in.ifRevision), old.revision)
	}
	next, err := m.supersede(d, key, &old)
	if err != nil {
		return err
	}
	v := version{trail: next, updated: now, message: []byte(msg.Metadata.ID), deleted: true}
	d.Delete(old.entry.Key)
	leave(&d.Batch, key, next)
	d.Set(d.historyKey(key, next.revision), d.record(&v))
	d.Set(timeKey(gone, now, key), nil)
	return m.change(ctx, &d.Batch, key, next.revision, true)
}
