package blobs

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"kernos/store"
)

// Refer adds to a batch that an owner needs a blob. The blob must have been given to Put
// a moment ago, or be referred to already by an owner that keeps its reference.
func Refer(b *store.Batch, h Hash, owner []byte) { b.Set(referenceKey(h, owner), nil) }

// Unrefer adds to a batch that an owner does not need a blob any more.
func Unrefer(b *store.Batch, h Hash, owner []byte) { b.Delete(referenceKey(h, owner)) }

// Referred reports whether a blob has an owner.
func Referred(r store.Reader, h Hash) (bool, error) {
	for _, err := range r.Scan(store.Prefix(referenceKey(h, nil))) {
		return err == nil, err
	}
	return false, nil
}

func referenceKey(h Hash, owner []byte) []byte {
	key := make([]byte, 0, 1+len(h)+len(owner))
	key = append(key, store.SpaceBlobs)
	key = append(key, h[:]...)
	return append(key, owner...)
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
	if escaped {
		found = d.paths(found, unescaped(data))
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

// unescaped returns text with what JSON escapes in strings as it is meant. What is no
// escape stays.
func unescaped(text []byte) []byte {
	plain := make([]byte, 0, len(text))
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 == len(text) {
			return append(plain, text...)
		}
		plain = append(plain, text[:i]...)
		text = text[i:]
		if text[1] == 'u' {
			r, n := unicodeEscape(text)
			plain, text = utf8.AppendRune(plain, r), text[n:]
			continue
		}
		if i := strings.IndexByte(escapes, text[1]); i >= 0 {
			plain = append(plain, escaped[i])
		} else {
			plain = append(plain, text[:2]...)
		}
		text = text[2:]
	}
}

// The escapes of one letter, and what they mean.
const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

// unicodeEscape reads the escape that text begins with, or two of them that make one
// character. It returns how many bytes they have; a broken one has 2.
func unicodeEscape(text []byte) (rune, int) {
	unit := func(at int) (rune, bool) {
		if len(text) < at+6 || text[at] != '\\' || text[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(0)
	if !ok {
		return utf8.RuneError, 2
	}
	if utf16.IsSurrogate(r) {
		if low, ok := unit(6); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return r, 6
}
