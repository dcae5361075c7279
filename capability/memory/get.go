package memory

import (
	"context"
	"strconv"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type getInput struct {
	Key          string `json:"key" jsonschema_description:"Path of the value, for example 'notes/123' or '/notes/123', which are the same key."`
	Revision     int64  `json:"revision,omitempty" jsonschema:"minimum=1" jsonschema_description:"The revision to get; default: the current one. Memory.History lists the revisions that are kept."`
	WithRevision bool   `json:"withRevision,omitempty" jsonschema_description:"true: reply with {value, revision, updated, expires?} instead of the bare value; updated and expires are milliseconds of Unix time. Values below proc are computed when read, and have revision 0."`
}

var get = kernel.DefineQuery[getInput, kernel.Raw](kernel.Definition{
	Type:    "Memory.Get",
	Summary: "Get the value of a key.",
	Output:  schema.Any,
	Presentation: kernel.Presentation{
		Title: "Get a value",
		Words: "recall, read a note, look up, load, kv, storage, store, cache, redis, db, database, note, variable, setting, config, " +
			"what does the note say, show a note, open a note, get a saved value, read a setting, what is stored under a key, what did i set it to, " +
			"value of a variable, tell me what i saved there",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the key doesn't exist, has expired, or has no such revision"},
		},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromStore},
})

func (m *Memory) get(ctx context.Context, in getInput) (kernel.Raw, error) {
	text, err := m.read(ctx, &in)
	return text, m.backend(err) // the text as it is stored
}

func (m *Memory) read(ctx context.Context, in *getInput) (kernel.Raw, error) {
	key, err := reach(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if key.space() == proc {
		return m.getProc(ctx, key, in)
	}
	v, e, err := find(m.store, key)
	if err != nil {
		return nil, err
	}
	there := e.Revision != 0
	if revision := uint64(in.Revision); revision != 0 && (!there || revision != v.revision) {
		if v, err = m.readOlder(in.Key, key, revision); err != nil {
			return nil, err
		}
		there = true
	}
	// The clock is asked only if it matters.
	if !there || v.expires != 0 && v.expired(m.opts.Now().UnixMilli()) {
		return nil, m.missing(ctx, in.Key, key)
	}
	text, err := m.value(&v)
	if err != nil || !in.WithRevision {
		return text, err
	}
	return v.describe(text), nil
}

// describe returns the reply with withRevision.
func (v *version) describe(text []byte) []byte {
	reply := make([]byte, 0, len(text)+96)
	reply = append(append(reply, `{"value":`...), text...)
	reply = strconv.AppendUint(append(reply, `,"revision":`...), v.revision, 10)
	reply = strconv.AppendInt(append(reply, `,"updated":`...), v.updated, 10)
	if v.expires != 0 {
		reply = strconv.AppendInt(append(reply, `,"expires":`...), v.expires, 10)
	}
	return append(reply, '}')
}

// readOlder reads a version from the history.
func (m *Memory) readOlder(asked string, key memoryKey, revision uint64) (version, error) {
	e, err := m.store.Get(historyKey(key, revision))
	if err != nil {
		return version{}, err
	}
	if e.Revision == 0 {
		return version{}, message.Errorf(404, "Key not found: %s at revision %d (Memory.History lists the revisions that are kept)", asked, revision)
	}
	v, err := parseVersion(e.Value)
	if err == nil && v.deleted {
		err = message.Errorf(404, "Key not found: %s at revision %d, which deleted it", asked, revision)
	}
	return v, err
}

// getProc reads a key in proc. It is made anew whenever it is read, and has no revisions.
func (m *Memory) getProc(ctx context.Context, key memoryKey, in *getInput) ([]byte, error) {
	if in.Revision != 0 {
		return nil, message.Errorf(404, "Key not found: %s at revision %d (proc/* is computed when it is read and has no revisions)", in.Key, in.Revision)
	}
	text, err := m.readProc(ctx, in.Key, key)
	if err != nil || !in.WithRevision {
		return text, err
	}
	v := version{updated: m.opts.Now().UnixMilli()}
	return v.describe(text), nil
}

func (m *Memory) readProc(ctx context.Context, asked string, key memoryKey) ([]byte, error) {
	if m.opts.Proc == nil {
		return nil, notFound(asked)
	}
	value, err := m.opts.Proc(ctx, string(key))
	if err == nil && value == nil {
		err = notFound(asked)
	}
	return value, err
}
