package memory

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"

	"kernos/internal/cursor"
	"kernos/kernel"
	"kernos/store"
)

type listInput struct {
	Prefix    string `json:"prefix,omitempty" jsonschema_description:"The folder to list, for example 'notes'; leading and trailing slashes don't matter. Default: the root. Computed values are listed below proc only."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"true: all keys below the prefix, however deep, and no folders."`
	Cursor    string `json:"cursor,omitempty" jsonschema_description:"The cursor of the previous reply, to continue after it."`
	Limit     int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"The most names to return; default: 1000."`
}

type listOutput struct {
	Keys   []string `json:"keys" jsonschema_description:"Full keys, sorted, without a leading slash. A name with a trailing slash is a folder, and a prefix for another Memory.List. A name that is both a key and a folder is listed twice."`
	Cursor string   `json:"cursor,omitempty" jsonschema_description:"Present if there is more: pass it to the next call. It stays valid when keys change."`
}

const (
	defaultListed = 1000
	// fewInside is how many keys of a folder are passed over one by one before it is
	// cheaper to look for its end.
	fewInside = 16
)

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "Memory.List",
	Summary: "List the keys and folders directly below a prefix, or all keys below it.",
})

func (m *Memory) list(ctx context.Context, in listInput) (listOutput, error) {
	base := ""
	if folder := strings.Trim(in.Prefix, "/"); folder != "" {
		key, err := ParseKey(folder)
		if err != nil {
			return listOutput{}, err
		}
		base = string(key) + "/"
	} else if in.Prefix != "" && len(in.Prefix) > MaxKey {
		return listOutput{}, badKey(in.Prefix, "it has %d bytes, and %d are allowed", len(in.Prefix), MaxKey)
	}
	from := base
	if in.Cursor != "" {
		name, err := cursor.Parse(listCursor(in.Recursive), in.Cursor, 1+MaxKey)
		if err == nil && !strings.HasPrefix(name, base) {
			err = cursor.ErrInvalid
		}
		if err != nil {
			return listOutput{}, err
		}
		from = behind(name)
	}
	if in.Limit == 0 {
		in.Limit = defaultListed
	}
	out, err := m.children(ctx, base, from, in)
	if err != nil {
		return listOutput{}, m.backend(err)
	}
	return out, nil
}

// behind returns the first key that is not listed under a name.
func behind(name string) string {
	if folder, ok := strings.CutSuffix(name, "/"); ok {
		return folder + string('/'+1)
	}
	return name + "\x00"
}

// children lists names from a key on. It takes the folders in order with the keys, and
// jumps over what is in them.
func (m *Memory) children(ctx context.Context, base, from string, in listInput) (out listOutput, err error) {
	entries := func(from string) iter.Seq2[store.Entry, error] { return m.computed(base, from) }
	if Key(base).space() != proc {
		s, err := m.store.Snapshot()
		if err != nil {
			return out, err
		}
		defer func() { _ = s.Close() }()
		end := store.After(currentKey(Key(base)))
		entries = func(from string) iter.Seq2[store.Entry, error] {
			return s.Scan(store.Range{From: currentKey(Key(from)), To: end})
		}
	}
	l := listing{base: []byte(base), in: in, now: m.opts.Now().UnixMilli()}
	l.out.Keys = []string{}
	for from != "" || base == "" {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if from, err = l.some(entries(from)); err != nil {
			return out, err
		}
		if from == "" {
			break
		}
	}
	return l.out, nil
}

// computed yields the keys of proc under a base, from one on, as if they were stored. A list of
// all keys leaves them out: they can be read, but not written.
func (m *Memory) computed(base, from string) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if m.opts.ProcKeys == nil {
			return
		}
		keys := slices.Sorted(slices.Values(m.opts.ProcKeys()))
		for _, key := range slices.Compact(keys) {
			if key >= from && strings.HasPrefix(key, base) && !yield(store.Entry{Key: currentKey(Key(key)), Value: []byte{0}}, nil) {
				return
			}
		}
	}
}

type listing struct {
	base []byte
	in   listInput
	now  int64
	out  listOutput
}

// some lists names of entries, and returns where to go on: "" if it is done.
func (l *listing) some(entries iter.Seq2[store.Entry, error]) (from string, err error) {
	var folder []byte // the one that is listed and being passed over
	inside := 0
	for e, err := range entries {
		if err != nil {
			return "", err
		}
		name := e.Key[2:]
		if folder != nil && bytes.HasPrefix(name, folder) {
			if inside++; inside > fewInside {
				return behind(string(folder)), nil
			}
			continue
		}
		folder = nil
		if ok, err := live(e.Value, l.now); err != nil {
			return "", err
		} else if !ok {
			continue
		}
		if len(l.out.Keys) == l.in.Limit {
			l.out.Cursor = cursor.New(listCursor(l.in.Recursive), l.out.Keys[l.in.Limit-1])
			return "", nil
		}
		if !l.in.Recursive {
			if i := bytes.IndexByte(name[len(l.base):], '/'); i >= 0 {
				folder = bytes.Clone(name[:len(l.base)+i+1])
				name, inside = folder, 0
			}
		}
		l.out.Keys = append(l.out.Keys, string(name))
	}
	return "", nil
}

// The listings that cursors belong to.
const (
	cursorChildren  = 'c'
	cursorRecursive = 'r'
	cursorHistory   = 'h'
)

func listCursor(recursive bool) byte {
	if recursive {
		return cursorRecursive
	}
	return cursorChildren
}
