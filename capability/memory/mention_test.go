package memory

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

// referencesTo counts the values that need a blob.
func referencesTo(r store.Reader, h blobs.Hash) (int, error) {
	return storetest.Count(r, append([]byte{store.SpaceBlobs}, h[:]...))
}

// keeps checks how many values need a blob, and that a collection goes by it.
func (w *world) keeps(b blobs.Hash, references int) {
	w.t.Helper()
	if n, err := referencesTo(w.store, b); err != nil || n != references {
		w.t.Errorf("%d values need the blob, %v; want %d", n, err, references)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(w.blobs.Path(b), old, old); err != nil && references > 0 {
		w.t.Fatal(err)
	}
	if _, err := w.blobs.Collect(w.t.Context(), w.store, time.Minute, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := os.Stat(w.blobs.Path(b)); (err == nil) != (references > 0) {
		w.t.Errorf("after a collection: %v", err)
	}
}

// pointing returns a value that points to new blobs.
func (w *world) pointing(texts ...string) (value string, hashes []blobs.Hash) {
	for i, text := range texts {
		w.file(text)
		hashes = append(hashes, blobs.Sum([]byte(text)))
		value += fmt.Sprintf(`"%d":{"bodyRef":%s},`, i, w.blobs.Pointer(hashes[i]).Append(nil))
	}
	return `{` + strings.TrimSuffix(value, ",") + `}`, hashes
}

func TestWhatAValuePointsToIsKept(t *testing.T) {
	w := newWorld(t, Options{Versions: 2})
	value, h := w.pointing("first", "second")
	escaped, e := w.pointing("escaped")
	w.reply("Set", `{"key":"a","value":`+value+`}`, ok)
	w.reply("Get", `{"key":"a"}`, value)
	w.keeps(h[0], 1)
	w.keeps(h[1], 1)
	w.reply("Set", `{"key":"b","value":`+value+`}`, ok)
	w.keeps(h[0], 2)
	// Versions in the history need it as well, as long as they are there.
	w.reply("Set", `{"key":"a","value":`+strings.ReplaceAll(escaped, "/", `\/`)+`}`, ok)
	w.keeps(h[0], 2)
	w.keeps(e[0], 1)
	w.reply("Set", `{"key":"a","value":1}`, ok)
	w.keeps(h[0], 1)
	w.keeps(h[1], 1)
	w.keeps(e[0], 1)
	w.reply("Set", `{"key":"a","value":2}`, ok)
	w.keeps(e[0], 0)
	w.reply("Delete", `{"key":"b"}`, ok)
	w.keeps(h[0], 1)
	w.clock.Add(defaultRemember.Milliseconds() + 1)
	w.sweep(1)
	w.keeps(h[0], 0)
	w.keeps(h[1], 0)
}

func TestWhatALargeValuePointsToIsKept(t *testing.T) {
	w := newWorld(t, Options{Versions: 1})
	value, h := w.pointing("inside")
	text := `[` + value + `,"` + strings.Repeat("x", maxInline) + `"]`
	own := blobs.Sum([]byte(text))
	w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"ttl":10}`, w.file(text)), ok)
	w.keeps(h[0], 1)
	w.keeps(own, 1)
	if got := w.ask("Get", `{"key":"a"}`); string(got.Data) != text {
		t.Errorf("got %.100s", got.Data)
	}
	w.clock.Add(10)
	w.sweep(1) // it has expired, and its history is still there
	w.keeps(h[0], 1)
	w.clock.Add(defaultRemember.Milliseconds() + 1)
	w.sweep(1)
	w.keeps(h[0], 0)
	w.keeps(own, 0)
}

func TestOnlyBlobsThatAreThereAreKept(t *testing.T) {
	w := newWorld(t, Options{})
	none := blobs.Sum([]byte("none"))
	w.reply("Set", fmt.Sprintf(`{"key":"a","value":%s}`, w.blobs.Pointer(none).Append(nil)), ok)
	if n, err := referencesTo(w.store, none); err != nil || n != 0 {
		t.Errorf("%d values need a blob that is not there, %v", n, err)
	}
	var many []string
	for i := range maxMentions + 1 {
		many = append(many, string(w.blobs.Pointer(blobs.Sum(fmt.Append(nil, i))).Append(nil)))
	}
	path := w.file("[" + strings.Join(many, ",") + "]")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, path), 422, "points to 1025 blobs, and 1024 are allowed")
}

func FuzzParseVersion(f *testing.F) {
	a, b := blobs.Sum([]byte("a")), blobs.Sum([]byte("b"))
	for _, v := range []version{
		{versionSpan: versionSpan{revision: 3, oldest: 1}, updated: start, message: []byte("c1"), text: []byte(`"x"`)},
		{versionSpan: versionSpan{revision: 3, oldest: 1, blobbed: 2}, updated: start, expires: start + 1, text: []byte(`"x"`)},
		{versionSpan: versionSpan{revision: 3, oldest: 3}, updated: start, blob: a, large: 7},
		{versionSpan: versionSpan{revision: 3, oldest: 3}, updated: start, text: []byte(`{}`), mentions: []blobs.Hash{a, b}},
		{versionSpan: versionSpan{revision: 3, oldest: 3}, updated: start, blob: a, large: 7, mentions: []blobs.Hash{b}},
		{versionSpan: versionSpan{revision: 4, oldest: 3}, deleted: true},
	} {
		f.Add(v.append(nil))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		v, err := parseVersion(stored)
		if err != nil {
			return
		}
		again, err := parseVersion(v.append(nil))
		if err != nil || again.versionSpan != v.versionSpan || again.updated != v.updated || again.expires != v.expires || again.deleted != v.deleted ||
			string(again.message) != string(v.message) || string(again.text) != string(v.text) ||
			again.blob != v.blob || again.large != v.large || !slices.Equal(again.mentions, v.mentions) {
			t.Fatalf("%x\n%+v became\n%+v, %v", stored, v, again, err)
		}
	})
}
