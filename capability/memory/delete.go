package memory

import (
	"context"

	"kernos/kernel"
)

type deleteInput struct {
	Key        string `json:"key" jsonschema_description:"Path of the value to delete."`
	IfRevision uint64 `json:"ifRevision,omitempty" jsonschema:"minimum=1" jsonschema_description:"Delete only if the key is at this revision. Otherwise the reply is a 409 error."`
}

type deleteOutput struct {
	Success bool `json:"success" jsonschema_description:"True: the key is deleted, durably. A failure is an error message."`
}

var remove = kernel.DefineCommand[deleteInput, deleteOutput](kernel.Definition{
	Type:    "Memory.Delete",
	Summary: "Delete a key. Its history is kept for 30 days unless configured otherwise.",
	Emits:   changed,
	Presentation: kernel.Presentation{
		Title: "Delete a value",
		Words: "forget, remove, rm, erase, throw a note away, get rid of a note, drop a note, ditch a note, delete a note, don't need this note any more, " +
			"clear a setting, unset a variable, wipe what i saved, scrap a note, remove a key, stop remembering it",
		Result: "Deleted {request.key}",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the key can't be written"},
			{Code: 404, When: "the key doesn't exist, or has expired"},
			{Code: 409, When: "the key isn't at ifRevision"},
		},
	},
	Behavior: kernel.Behavior{Destroys: true, Repeat: kernel.Idempotent},
})

func (m *Memory) delete(ctx context.Context, in deleteInput) (deleteOutput, error) {
	err := m.remove(ctx, &in)
	return deleteOutput{Success: err == nil}, m.backend(err)
}

// remove puts a deletion at the end of a key's history: it has a revision too.
func (m *Memory) remove(ctx context.Context, in *deleteInput) error {
	key, err := reachWritable(ctx, in.Key)
	if err != nil {
		return err
	}
	id := kernel.RequestOf(ctx).Metadata.ID
	d := newDraft(key, recordHead+historyKeySize(key)+len(id))
	var old prior
	old.version, old.entry, err = findAt(m.store, d.keep(appendCurrentKey(d.buf, key)))
	if err != nil {
		return err
	}
	now := m.opts.Now().UnixMilli()
	if old.entry.Revision == 0 || old.expired(now) {
		return m.missing(ctx, in.Key, key)
	}
	if in.IfRevision != 0 && in.IfRevision != old.revision {
		return mismatch(in.Key, in.IfRevision, old.revision)
	}
	next, err := m.supersede(d, key, &old)
	if err != nil {
		return err
	}
	v := version{versionSpan: next, updated: now, message: []byte(id), deleted: true}
	d.Delete(old.entry.Key)
	noteDeleted(&d.Batch, key, next)
	d.Set(d.keep(appendHistoryKey(d.buf, key, next.revision)), d.keep(v.append(d.buf)))
	d.Set(timeKey(gone, now, key), nil)
	return m.change(ctx, &d.Batch, key, next.revision, true)
}
