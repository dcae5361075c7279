package vector

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/vectors"
)

// The keys of the module, after the byte of its keyspace. The name of a collection is that of its owner, 0, its own, 0.
const (
	spaceHeads = 'c' // name → head
	spaceItems = 'i' // name, id → item
	spaceField = 'm' // name, field, 0, value, 0, id → nothing
	spaceIndex = 'v' // name → the keys of the index
	// 'e' is taken: vectors of an endpoint; see package daemon.
)

// A name identifies a collection.
type name struct {
	owner principal.ID
	own   string
}

func (n name) key(space byte, rest ...string) []byte {
	return append([]byte{store.SpaceVectors, space}, string(n.owner)+"\x00"+n.own+"\x00"+strings.Join(rest, "\x00")...)
}

// A head is what is kept of a collection.
type head struct {
	Owner      principal.ID `json:"owner"`
	Name       string       `json:"name"`
	Dimensions int          `json:"dimensions,omitzero"` // dimensions of the caller's vectors; 0 means that the collection holds texts
	Created    int64        `json:"created"`             // creation time in nanoseconds: a collection that is deleted and made again has other keys
}

func (h *head) name() name { return name{h.Owner, h.Name} }

// An item is what is kept of one.
type item struct {
	Text     string                    `json:"text,omitzero"`
	Vector   []byte                    `json:"vector,omitzero"` // little-endian
	Metadata map[string]jsontext.Value `json:"metadata,omitzero"`
}

func (i *item) numbers() []float32 {
	if len(i.Vector) == 0 {
		return nil
	}
	numbers := make([]float32, len(i.Vector)/4)
	for n := range numbers {
		numbers[n] = math.Float32frombits(binary.LittleEndian.Uint32(i.Vector[4*n:]))
	}
	return numbers
}

func damaged(err error) error {
	return store.Errorf(500, err, "An item or a collection of vectors can't be read; bring back a backup with kernos restore")
}

// head returns a collection; its Name is "" if there is none.
func (v *Vectors) head(n name) (h head, revision store.Revision, err error) {
	e, err := v.opts.Store.Get(n.key(spaceHeads))
	if err == nil && e.Revision > 0 {
		if err = json.Unmarshal(e.Value, &h); err != nil {
			err = damaged(err)
		}
	}
	return h, e.Revision, err
}

// all returns all collections, by owner and name.
func (v *Vectors) all(r store.Reader) (heads []head, err error) {
	for e, err := range r.Scan(store.Prefix([]byte{store.SpaceVectors, spaceHeads})) {
		if err != nil {
			return nil, err
		}
		var h head
		if err := json.Unmarshal(e.Value, &h); err != nil {
			return nil, damaged(err)
		}
		heads = append(heads, h)
	}
	return heads, nil
}

func readItem(e store.Entry) (i item, err error) {
	if err = json.Unmarshal(e.Value, &i); err != nil {
		err = damaged(err)
	}
	return i, err
}

// content returns what is embedded of an item. Credentials and sealed strings are left out.
func (v *Vectors) content(n name, id string) (vectors.Text, bool, error) {
	e, err := v.opts.Store.Get(n.key(spaceItems, id))
	if err != nil || e.Revision == 0 {
		return vectors.Text{}, false, err
	}
	i, err := readItem(e)
	return vectors.Text{Text: withoutSecrets(i.Text), Vector: i.numbers()}, true, err
}

// withoutSecrets returns a text as it may be embedded.
func withoutSecrets(text string) string {
	text, _ = sealed.Replace(text, func(string) ([]byte, error) { return []byte(" "), nil })
	kept, changed := secret.Strictness{Place: secret.Data}.Redact(jsonscan.AppendQuoted(nil, text))
	if changed {
		text = strings.ReplaceAll(jsonscan.Unquote(kept), secret.Redacted, " ")
	}
	return text
}

// reach returns the collection that a caller means: its own, or that of a principal that it sees.
func (v *Vectors) reach(ctx context.Context, collection, owner string) (name, error) {
	caller := kernel.PrincipalOf(ctx)
	n := name{caller.ID(), collection}
	if owner == "" || owner == string(caller.ID()) {
		return n, nil
	}
	n.owner = principal.ID(owner)
	if !caller.Sees(n.owner) {
		return n, message.Errorf(403, "The collection belongs to another principal; leave owner out to use your own")
	}
	return n, kernel.Reaching(ctx, kernel.ToOthers, "the collection "+collection+" of another caller")
}

// existing is reach, and returns the collection, or a 404.
func (v *Vectors) existing(ctx context.Context, collection, owner string) (name, head, error) {
	n, err := v.reach(ctx, collection, owner)
	if err != nil {
		return n, head{}, err
	}
	h, _, err := v.head(n)
	if err == nil && h.Name == "" {
		err = message.Errorf(404, "The collection %q doesn't exist; Vector.Upsert makes it with its first item, and Vector.Collections lists those that exist", collection)
	}
	return n, h, err
}

// fieldKeys returns the keys that find an item by its metadata.
func (n name) fieldKeys(id string, metadata map[string]jsontext.Value) (keys [][]byte) {
	for field, value := range metadata {
		for _, one := range elements(value) {
			keys = append(keys, append(append(n.key(spaceField, field, ""), orderly(one)...), "\x00"+id...))
		}
	}
	return keys
}

// elements returns the values that a value of the metadata stands for: those of a list, or itself.
func elements(value jsontext.Value) (all []jsontext.Value) {
	if value.Kind() != '[' {
		return []jsontext.Value{value}
	}
	_ = json.Unmarshal(value, &all) // the value was checked when it was stored
	return all
}

// orderly returns a text, a number or a truth value in a form whose bytes are in their order: numbers before texts. It has no
// zero byte, so that more of a key can follow it.
func orderly(value jsontext.Value) []byte {
	switch value.Kind() {
	case '0':
		var f float64
		_ = json.Unmarshal(value, &f) // the value was checked when it was stored
		bits := math.Float64bits(f + 0)
		if f < 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		return escaped('n', binary.BigEndian.AppendUint64(nil, bits))
	case '"':
		return escaped('s', []byte(jsonscan.Unquote(value)))
	}
	return []byte{'a', value[0]} // true, false, null
}

// escaped returns bytes without zeros, in the same order.
func escaped(kind byte, b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte{1}, []byte{1, 2})
	return append([]byte{kind}, bytes.ReplaceAll(b, []byte{0}, []byte{1, 1})...)
}
