package memory

import (
	"cmp"
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
	"kernos/store/cursor"
)

type historyInput struct {
	Key    string `json:"key" jsonschema_description:"Path of the value whose versions are wanted."`
	Cursor string `json:"cursor,omitempty" jsonschema_description:"The cursor of the previous reply, to continue after it."`
	Limit  int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"The most versions to return; default: 100."`
}

type historyOutput struct {
	Versions []versionOutput `json:"versions" jsonschema_description:"The versions that are kept, newest first."`
	Cursor   string          `json:"cursor,omitempty" jsonschema_description:"Present if there is more: pass it to the next call. It stays valid when the key changes."`
}

type versionOutput struct {
	Revision  uint64               `json:"revision" jsonschema_description:"The number of the version, from 1 on."`
	Value     jsontext.Value       `json:"value,omitzero" jsonschema_description:"The value, if it is not large and not expired."`
	ValueRef  *message.BlobPointer `json:"valueRef,omitzero" jsonschema_description:"Where the JSON text of a large value is."`
	Size      int64                `json:"size,omitzero" jsonschema_description:"With valueRef: how many bytes it has."`
	MediaType string               `json:"mediaType,omitzero" jsonschema_description:"With valueRef: what it is, application/json."`
	Deleted   bool                 `json:"deleted,omitzero" jsonschema_description:"true: the key was deleted, and has no value."`
	Updated   int64                `json:"updated" jsonschema_description:"When it was written, in milliseconds of Unix time."`
	Message   message.ID           `json:"message" jsonschema_description:"Id of the command that wrote it."`
	Expires   int64                `json:"expires,omitzero" jsonschema_description:"When it expires or has expired, in milliseconds of Unix time."`
}

const defaultVersionsListed = 100

var history = kernel.DefineQuery[historyInput, historyOutput](kernel.Definition{
	Type:    "Memory.History",
	Summary: "List the versions of a key, newest first.",
	Presentation: kernel.Presentation{
		Title: "List the versions of a value",
		Words: "earlier values, past values, previous value, what it was before, undo, revisions, who changed this note, when did this value change, " +
			"what did the note say before, old versions of a note, how a value changed over time, changes of a note, what was the setting yesterday",
		Columns: []string{
			"REVISION {revision}", "UPDATED {updated:time}", "VALUE deleted{?deleted} | {value} | {size} bytes",
		},
		Errors: []kernel.ErrorDefinition{{Code: 404, When: "nothing is known of the key"}},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"versions.updated", "versions.expires"}},
	Journaled: kernel.Journaled{Answers: kernel.FromStore},
})

func (m *Memory) history(ctx context.Context, in historyInput) (historyOutput, error) {
	key, err := reach(ctx, in.Key)
	if err != nil {
		return historyOutput{}, err
	}
	before := uint64(0)
	if in.Cursor != "" {
		name, err := cursor.Parse(cursorHistory, in.Cursor, maxKey)
		if err == nil {
			before, err = strconv.ParseUint(name, 10, 64)
		}
		if err != nil || before == 0 {
			return historyOutput{}, cursor.ErrInvalid
		}
	}
	in.Limit = cmp.Or(in.Limit, defaultVersionsListed)
	out, err := m.versions(key, before, in.Limit)
	if err == nil && len(out.Versions) == 0 && before == 0 {
		err = m.missing(ctx, in.Key, key)
	}
	if err != nil {
		return historyOutput{}, m.backend(err)
	}
	return out, nil
}

// versions lists the versions of a key before a revision, or all of them. It looks at
// one state of the store: a version moves when another takes its place.
func (m *Memory) versions(key memoryKey, before uint64, limit int) (historyOutput, error) {
	out := historyOutput{Versions: []versionOutput{}}
	s, err := m.store.Snapshot()
	if err != nil {
		return out, err
	}
	defer func() { _ = s.Close() }()
	now := m.opts.Now().UnixMilli()
	v, e, err := find(s, key)
	if err != nil {
		return out, err
	}
	if e.Revision != 0 && (before == 0 || v.revision < before) {
		out.Versions = append(out.Versions, m.output(&v, now))
	}
	for e, err := range s.Scan(versions(key, before, true)) {
		if err != nil {
			return out, err
		}
		if len(out.Versions) == limit {
			out.Cursor = cursor.New(cursorHistory, strconv.FormatUint(out.Versions[limit-1].Revision, 10))
			break
		}
		v, err := parseVersion(e.Value)
		if err != nil {
			return out, err
		}
		out.Versions = append(out.Versions, m.output(&v, now))
	}
	return out, nil
}

// output copies a version out of the store.
func (m *Memory) output(v *version, now int64) versionOutput {
	o := versionOutput{Revision: v.revision, Updated: v.updated, Message: message.ID(v.message), Deleted: v.deleted, Expires: v.expires}
	switch {
	case v.deleted || v.expired(now):
	case v.large != 0:
		p := m.blobs.Pointer(v.blob)
		o.ValueRef, o.Size, o.MediaType = &p, v.large, "application/json"
	default:
		o.Value = jsontext.Value(v.text).Clone()
	}
	return o
}
