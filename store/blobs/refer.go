package blobs

import (
	"bytes"
	"path/filepath"
	"slices"

	"kernos/internal/jsonscan"
	"kernos/store"
)

// Refer adds to a batch that an owner needs a blob. The blob must have been given to Put
// a moment ago, or be referred to already by an owner that keeps its reference.
func Refer(b *store.Batch, h Hash, owner []byte) { b.Set(key(store.SpaceBlobs, h, owner), nil) }

// Unrefer adds to a batch that an owner no longer needs a blob.
func Unrefer(b *store.Batch, h Hash, owner []byte) { b.Delete(key(store.SpaceBlobs, h, owner)) }

// ReferredBelow reports whether a blob has an owner that begins with prefix. Nil is the prefix of all.
func ReferredBelow(r store.Reader, h Hash, prefix []byte) (bool, error) {
	e, err := store.First(r, store.Prefix(key(store.SpaceBlobs, h, prefix)))
	return e.Revision > 0, err
}

// key returns the key in a keyspace that is about a blob and another name.
func key[T string | []byte](space byte, h Hash, name T) []byte {
	k := append(make([]byte, 0, 1+len(h)+len(name)), space)
	return append(append(k, h[:]...), name...)
}

// Mentions finds the blobs whose paths stand in JSON text, however their characters are
// escaped. The text need not be valid. Each is named once. The directory counts by its
// name: where it lay when the text was written does not matter, since a state may have
// been restored elsewhere. Text without the directory's name costs next to nothing.
func (d *Dir) Mentions(data []byte) []Hash {
	escaped := bytes.IndexByte(data, '\\') >= 0
	if !bytes.Contains(data, d.sign) && !(escaped && bytes.Contains(data, []byte(`\u`))) {
		return nil
	}
	found := d.paths(nil, data)
	for i := 0; escaped; {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			break
		}
		i += quote
		end, hasEscapes, err := jsonscan.String(data, i)
		if err != nil {
			i++ // the text isn't valid
			continue
		}
		if hasEscapes {
			found = d.paths(found, []byte(jsonscan.Unquote(data[i:end])))
		}
		i = end
	}
	return found
}

// paths adds the blobs whose paths stand in plain text.
func (d *Dir) paths(found []Hash, text []byte) []Hash {
	const rest = 2 + 1 + 2*len(Hash{}) // ab/abcd…
	for {
		i := bytes.Index(text, d.mark)
		if i < 0 || len(text)-i-len(d.mark) < rest {
			return found
		}
		text = text[i+len(d.mark):]
		h, err := ParseHash(string(text[3:rest]))
		if err != nil || text[2] != filepath.Separator || string(text[:2]) != string(text[3:5]) {
			continue
		}
		if !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
}
