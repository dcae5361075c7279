package memory

import (
	"context"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
)

// The methods here are for other parts of the kernel that have what they show or keep in the memory. They have the
// rights of the caller of ctx.

// Get returns the JSON text of a key's value, its revision, and when it was written. A key
// in proc has no revision and no time. The errors are those of Memory.Get.
func (m *Memory) Get(ctx context.Context, key string) (text []byte, revision uint64, updated time.Time, err error) {
	return m.direct(ctx, key, true)
}

// Stat is Get, but for a text that is large and kept elsewhere: that is nil.
func (m *Memory) Stat(ctx context.Context, key string) (text []byte, revision uint64, updated time.Time, err error) {
	return m.direct(ctx, key, false)
}

func (m *Memory) direct(ctx context.Context, asked string, whole bool) ([]byte, uint64, time.Time, error) {
	key, err := reach(ctx, asked)
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	if key.space() == proc {
		text, err := m.readProc(ctx, asked, key)
		return text, 0, time.Time{}, err
	}
	v, e, err := find(m.store, key)
	if err == nil && (e.Revision == 0 || v.expired(m.opts.Now().UnixMilli())) {
		err = notFound(asked)
	}
	text := v.text
	if err == nil && whole {
		text, err = m.value(&v)
	}
	if err != nil {
		return nil, 0, time.Time{}, m.backend(err)
	}
	return text, v.revision, time.UnixMilli(v.updated), nil
}

// List returns the names directly in a folder, or the keys below it if recursive, from a
// name on and in their order: at most limit of them. They are given without the folder; one
// that ends with a slash is a folder itself. Folder and from may be empty.
func (m *Memory) List(ctx context.Context, folder, from string, limit int, recursive bool) ([]string, error) {
	base, err := reachFolder(ctx, folder)
	if err != nil {
		return nil, err
	}
	out, err := m.children(ctx, base, base+from, listInput{Limit: limit, Recursive: recursive})
	if err != nil {
		return nil, m.backend(err)
	}
	for i, name := range out.Keys {
		out.Keys[i] = strings.TrimPrefix(name, base)
	}
	return out.Keys, nil
}

// Secret reports whether a value written under a key may be an unsealed secret, which must
// not be recorded.
func (m *Memory) Secret(key string) bool {
	k, err := parseKey(key)
	return err != nil || k.space() == vault
}

// Sounds returns the note of Memory.Set about a text under a key: "" if it doesn't sound like a credential.
func (m *Memory) Sounds(key, text string) string {
	value := jsonscan.AppendQuoted(nil, text)
	request := jsonvalue.Object{}.Set("key", jsonscan.AppendQuoted(nil, key)).Set("value", value).Text()
	if !soundsSecret(&setInput{Key: key, Value: value}, request) {
		return ""
	}
	return soundsLikeACredential
}

// Put stages a value of a key in the call of ctx, whose definition names Memory.Changed. It fails as
// Memory.Set does, with a 409 if the key is to be new, and exists.
func (m *Memory) Put(ctx context.Context, key string, value []byte, isNew bool) error {
	in := setInput{Key: key, Value: value}
	if isNew {
		in.IfRevision = new(uint64)
	}
	_, err := m.write(ctx, &in, string(kernel.RequestOf(ctx).Metadata.ID))
	return m.backend(err)
}

// Delete stages in the call of ctx that a key is deleted, as Put does. It fails as Memory.Delete does.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.backend(m.remove(ctx, &deleteInput{Key: key}))
}
