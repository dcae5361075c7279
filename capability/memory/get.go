package memory

import (
	"context"
	"strconv"

	"kernos/kernel"
	"kernos/message"
)

type getInput struct {
	Key          string `json:"key" jsonschema_description:"Path of the value, for example 'notes/123' or '/notes/123', which are the same key."`
	Revision     int64  `json:"revision,omitempty" jsonschema:"minimum=1" jsonschema_description:"Revision to get, if not the current one. Memory.History lists those that are kept."`
	WithRevision bool   `json:"withRevision,omitempty" jsonschema_description:"true: reply with {value, revision, updated, expires?} instead of the bare value; updated and expires are milliseconds of Unix time. The revision of a key in proc is 0, which is computed when it is read."`
}

// get is a raw handler, since it is what is asked most: it decodes nothing but the key,
// and the reply is the text as it is stored.
func (m *Memory) get(ctx context.Context, msg message.Message, emit kernel.Emit) {
	data, err := m.read(ctx, msg.Data)
	if err != nil {
		m.fail(ctx, msg, emit, err)
		return
	}
	emit(msg.Reply(data))
}

func (m *Memory) read(ctx context.Context, data []byte) ([]byte, error) {
	in := parse(data)
	asked, key, err := in.keyOf()
	if err != nil {
		return nil, err
	}
	if key.space() == proc {
		return m.getProc(ctx, asked, key, &in)
	}
	v, e, err := find(m.store, key)
	if err != nil {
		return nil, err
	}
	there := e.Revision != 0
	if in.revision != nil {
		if revision := integer(in.revision); !there || revision != v.revision {
			if v, err = m.readOlder(asked, key, revision); err != nil {
				return nil, err
			}
			there = true
		}
	}
	// The clock is asked only if it matters.
	if !there || v.expires != 0 && v.expired(m.opts.Now().UnixMilli()) {
		return nil, notFound(asked)
	}
	text, err := m.value(&v)
	if err != nil || !in.withRevision {
		return text, err
	}
	return v.describe(text), nil
}

// describe is the reply to who wants to know more than the value.
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
func (m *Memory) readOlder(asked string, key Key, revision uint64) (version, error) {
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
func (m *Memory) getProc(ctx context.Context, asked string, key Key, in *request) ([]byte, error) {
	if in.revision != nil {
		return nil, message.Errorf(404, "Key not found: %s at revision %d (proc/* is computed when it is read and has no revisions)", asked, integer(in.revision))
	}
	text, err := m.readProc(ctx, asked, key)
	if err != nil || !in.withRevision {
		return text, err
	}
	v := version{updated: m.opts.Now().UnixMilli()}
	return v.describe(text), nil
}

func (m *Memory) readProc(ctx context.Context, asked string, key Key) ([]byte, error) {
	if m.opts.Proc == nil {
		return nil, notFound(asked)
	}
	value, err := m.opts.Proc(ctx, string(key))
	if err == nil && value == nil {
		err = notFound(asked)
	}
	return value, err
}
