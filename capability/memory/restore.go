package memory

import (
	"context"

	"kernos/kernel"
	"kernos/message"
)

type restoreInput struct {
	Key        string  `json:"key" jsonschema_description:"Path of the value."`
	Revision   int64   `json:"revision" jsonschema:"minimum=1" jsonschema_description:"The revision whose value comes back. Memory.History lists the revisions that are kept."`
	IfRevision *uint64 `json:"ifRevision,omitempty" jsonschema:"minimum=0" jsonschema_description:"Restore only if the key is at this revision now; 0: only if it does not exist. Otherwise the reply is a 409 error."`
}

type restoreOutput struct {
	Success  bool   `json:"success" jsonschema_description:"True: the value is back, and durable. A failure is an error message."`
	Revision uint64 `json:"revision" jsonschema_description:"The new revision of the key, which has the older value. The revisions between are kept."`
}

var restore = kernel.DefineCommand[restoreInput, restoreOutput](kernel.Definition{
	Type:    "Memory.Restore",
	Summary: "Bring back the value that a key had at an earlier revision, also of a deleted key. It doesn't expire.",
	Emits:   changed,
	Presentation: kernel.Presentation{
		Title: "Restore an earlier value",
		Words: "undo, go back, revert, roll back, undelete, recover, bring back, earlier version, deleted a note by accident, get my note back, " +
			"undo my last change of a value, put the old value back, bring a deleted note back, overwrote a value by mistake, return to an older value, " +
			"restore a note, recover a lost note",
		Result:    "Restored {request.key} (version {revision})",
		Arguments: []string{"key", "revision"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the key can't be written"},
			{Code: 404, When: "the revision isn't kept, was a deletion, or has expired"},
			{Code: 409, When: "the key isn't at ifRevision"},
		},
	},
	Behavior: kernel.Behavior{Repeat: kernel.Idempotent},
})

func (m *Memory) restore(ctx context.Context, in restoreInput) (restoreOutput, error) {
	revision, err := m.bringBack(ctx, &in)
	return restoreOutput{Success: true, Revision: revision}, m.backend(err)
}

// bringBack stages the value of an earlier version as the next one.
func (m *Memory) bringBack(ctx context.Context, in *restoreInput) (uint64, error) {
	key, err := reachWritable(ctx, in.Key)
	if err != nil {
		return 0, err
	}
	id := string(kernel.RequestOf(ctx).Metadata.ID)
	d := newDraft(key, recordHead+2*len(id)+64)
	old, err := m.expect(d, in.Key, key, in.IfRevision)
	if err != nil {
		return 0, err
	}
	v := old.version
	switch wanted := uint64(in.Revision); {
	case old.revision == 0:
		return 0, m.missing(ctx, in.Key, key)
	case wanted > old.revision:
		return 0, message.Errorf(404, "Key not found: %s at revision %d (it is at revision %d)", in.Key, wanted, old.revision)
	case wanted < old.oldest:
		return 0, message.Errorf(404, "Key not found: %s at revision %d (the value isn't kept: Memory.History lists the last %d revisions; Message.Search finds the commands that set older ones, unless they are redacted or forgotten)",
			in.Key, wanted, m.opts.Versions)
	case wanted != old.revision || old.entry.Revision == 0:
		v, err = m.readOlder(in.Key, key, wanted)
	}
	if err == nil && v.expired(m.opts.Now().UnixMilli()) {
		err = message.Errorf(404, "Key not found: %s at revision %d, which has expired", in.Key, in.Revision)
	}
	if err != nil {
		return 0, err
	}
	text, err := m.value(&v)
	if err == nil {
		err = fits(key, text)
	}
	if err != nil {
		return 0, err
	}
	return m.stage(ctx, d, key, &old, version{text: text, message: []byte(id)})
}
