package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/store"
	"kernos/store/cursor"
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
	kernel.Narrowed
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
	Presentation: kernel.Presentation{
		Title: "List keys",
		Words: "ls, dir, kv, storage, store, note, setting, config, all my notes, show me my notes, everything that is stored, " +
			"which notes do i have, what have i saved, what notes are there, names of all keys, how many notes, browse my notes, overview of my notes, " +
			"which settings are stored, list my notes, everything you remember",
		Columns:   []string{"KEY {.}"},
		Arguments: []string{"prefix"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the caller reaches nothing below the prefix"},
			{Code: 422, When: "the cursor is invalid"},
		},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (m *Memory) list(ctx context.Context, in listInput) (listOutput, error) {
	folder := strings.Trim(in.Prefix, "/")
	base, err := reachFolder(ctx, folder)
	if folder == "" && len(in.Prefix) > maxKey {
		err = badKey(in.Prefix, "it has %d bytes, and %d are allowed", len(in.Prefix), maxKey)
	}
	if err != nil {
		return listOutput{}, err
	}
	from := base
	if in.Cursor != "" {
		name, err := cursor.Parse(listCursor(in.Recursive), in.Cursor, 1+maxKey)
		if err == nil && !strings.HasPrefix(name, base) {
			err = cursor.ErrInvalid
		}
		if err != nil {
			return listOutput{}, err
		}
		from = behind(name)
	}
	in.Limit = cmp.Or(in.Limit, defaultListed)
	out, err := m.children(ctx, base, from, in)
	if err != nil {
		return listOutput{}, m.backend(err)
	}
	out.Narrowed = kernel.Narrow(ctx, (*principal.Principal).SeesAllKeys)
	return out, nil
}

// reachFolder returns what the keys in a folder begin with: "" if it is the root. It refuses
// folders in which the caller reaches nothing.
func reachFolder(ctx context.Context, folder string) (base string, err error) {
	if folder == "" {
		return "", nil
	}
	key, err := parseKey(folder)
	if err != nil {
		return "", err
	}
	if e := kernel.PrincipalOf(ctx).Folder(string(key)); e != nil {
		return "", e
	}
	return string(key) + "/", nil
}

// nextReached returns the first key from one on, which isn't reached, that is; "" if there is
// none. A prefix stands for itself and for what is below it, and other keys may lie between.
func nextReached(prefixes []string, name string) (next string) {
	for _, prefix := range prefixes {
		for _, from := range []string{prefix, prefix + "/"} {
			if from > name && (next == "" || from < next) {
				next = from
			}
		}
	}
	return next
}

// behind returns the first key that is not listed under a name.
func behind(name string) string {
	if folder, ok := strings.CutSuffix(name, "/"); ok {
		return folder + string('/'+1)
	}
	return name + "\x00"
}

// children lists names from a key on. It takes the folders in order with the keys, and
// jumps over what is in them, and over what the caller doesn't reach.
func (m *Memory) children(ctx context.Context, base, from string, in listInput) (out listOutput, err error) {
	entries := func(from string) iter.Seq2[store.Entry, error] { return m.computed(base, from) }
	if memoryKey(base).space() != proc {
		s, err := m.store.Snapshot()
		if err != nil {
			return out, err
		}
		defer func() { _ = s.Close() }()
		end := store.After(currentKey(memoryKey(base)))
		entries = func(from string) iter.Seq2[store.Entry, error] {
			return s.Scan(store.Range{From: currentKey(memoryKey(from)), To: end})
		}
	}
	now := m.opts.Now().UnixMilli()
	caller := kernel.PrincipalOf(ctx)
	out.Keys = []string{}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		more = false
		var folder []byte // the one that is listed and being passed over
		inside := 0
		for e, err := range entries(from) {
			if err != nil {
				return out, err
			}
			name := e.Key[2:]
			if folder != nil && bytes.HasPrefix(name, folder) {
				if inside++; inside > fewInside {
					from, more = behind(string(folder)), true
					break
				}
				continue
			}
			folder = nil
			if len(caller.KeyPrefixes()) > 0 && caller.Key(string(name)) != nil {
				from = nextReached(caller.KeyPrefixes(), string(name))
				more = from != "" && strings.HasPrefix(from, base)
				break
			}
			if ok, err := live(e.Value, now); err != nil {
				return out, err
			} else if !ok {
				continue
			}
			if len(out.Keys) == in.Limit {
				out.Cursor = cursor.New(listCursor(in.Recursive), out.Keys[in.Limit-1])
				break
			}
			if i := bytes.IndexByte(name[len(base):], '/'); i >= 0 && !in.Recursive {
				folder, inside = bytes.Clone(name[:len(base)+i+1]), 0
				name = folder
			}
			out.Keys = append(out.Keys, string(name))
		}
	}
	return out, nil
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
			if key >= from && strings.HasPrefix(key, base) && !yield(store.Entry{Key: currentKey(memoryKey(key)), Value: []byte{0}}, nil) {
				return
			}
		}
	}
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
