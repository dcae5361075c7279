package blobs_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

// change applies what do adds to a batch.
func change(t *testing.T, s store.Store, do func(b *store.Batch)) {
	t.Helper()
	var b store.Batch
	do(&b)
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
}

func TestReferencesAreCountedByOwner(t *testing.T) {
	s := storetest.NewMemory()
	h, other := blobs.Sum([]byte("a")), blobs.Sum([]byte("b"))
	want := func(n int) {
		t.Helper()
		got, err := storetest.Count(s, append([]byte{store.SpaceBlobs}, h[:]...))
		if err != nil || got != n {
			t.Errorf("there are %d references, %v; want %d", got, err, n)
		}
		if referred, err := blobs.ReferredBelow(s, h, nil); err != nil || referred != (n > 0) {
			t.Errorf("referred: %v, %v", referred, err)
		}
	}
	want(0)
	change(t, s, func(b *store.Batch) { blobs.Refer(b, other, []byte("x")) })
	want(0)
	change(t, s, func(b *store.Batch) {
		blobs.Refer(b, h, []byte("x"))
		blobs.Refer(b, h, nil)
	})
	change(t, s, func(b *store.Batch) { blobs.Refer(b, h, []byte("x")) }) // again
	want(2)
	change(t, s, func(b *store.Batch) { blobs.Unrefer(b, h, []byte("y")) }) // never was
	want(2)
	change(t, s, func(b *store.Batch) { blobs.Unrefer(b, h, []byte("x")) })
	want(1)
	change(t, s, func(b *store.Batch) { blobs.Unrefer(b, h, nil) })
	want(0)
	s.Fail(func(string) error { return errors.New("broken") })
	if _, err := storetest.Count(s, append([]byte{store.SpaceBlobs}, h[:]...)); err == nil {
		t.Error("a store that fails has no references")
	}
	if _, err := blobs.ReferredBelow(s, h, nil); err == nil {
		t.Error("a store that fails has no reference")
	}
}

// everyWay writes a text as JSON with all its characters escaped in one of the ways.
func everyWay(text string) []string {
	ways := []string{
		string(jsonscan.AppendQuoted(nil, text)),
		strings.ReplaceAll(string(jsonscan.AppendQuoted(nil, text)), "/", `\/`),
		`"`, `"`,
	}
	for _, r := range text {
		units := fmt.Sprintf(`\u%04x`, r)
		if r > 0xFFFF {
			units = fmt.Sprintf(`\u%04x\u%04X`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
		}
		ways[2] += units
		ways[3] += strings.ToUpper(units[:0]) + strings.ReplaceAll(strings.ToUpper(units), `\U`, `\u`)
	}
	ways[2] += `"`
	ways[3] += `"`
	return ways
}

func TestMentionsFindsBlobsHoweverTheyAreWritten(t *testing.T) {
	for _, path := range []string{"/var/blobs", `/odd "dir\`, "/übel/😀", "/tab\there"} {
		d := newDir(t, path)
		h := blobs.Sum([]byte("hello"))
		for _, written := range everyWay(d.Path(h)) {
			text := `{"a":[1,{"bodyRef":{"scheme":"file","path":` + written + `}}],"b":"\n"}`
			if got := d.Mentions([]byte(text)); !slices.Equal(got, []blobs.Hash{h}) {
				t.Errorf("in %s: found %v", text, got)
			}
		}
		if got := newDir(t, "/elsewhere").Mentions([]byte(everyWay(d.Path(h))[0])); len(got) != 0 {
			t.Errorf("another directory's: found %v", got)
		}
	}
}

func TestMentionsNamesEachOnceAndOnlyBlobs(t *testing.T) {
	d := newDir(t, "/var/blobs")
	a, b := blobs.Sum([]byte("a")), blobs.Sum([]byte("b"))
	text := append(d.Pointer(a).Append(nil), d.Pointer(b).Append(nil)...)
	text = append(append(text, text...), `"\/var\/blobs\/`...)
	if got := d.Mentions(text); !slices.Equal(got, []blobs.Hash{a, b}) {
		t.Errorf("found %v", got)
	}
	name := a.String()
	for _, text := range []string{
		"", "/var/blobs", "/var/blobs/", "/var/blobs/" + name, "/var/blobs/" + name[:2] + "/" + name[:63],
		"/var/blobs/00/" + name, "/var/blobs/" + name[:2] + "/" + strings.ToUpper(name),
		"/var/blobs/" + name[:2] + `\` + name, `\`, `\u`, `\u00`, `\ud800\ud800`, `\ud800\u0041`,
	} {
		if got := d.Mentions([]byte(text)); len(got) != 0 {
			t.Errorf("in %s: found %v", text, got)
		}
	}
	// The directory may have been elsewhere, and a broken start hides no whole path behind it.
	if got := d.Mentions([]byte("/home/ada/blobs/var/blobs/" + name[:2] + "/" + name)); !slices.Equal(got, []blobs.Hash{a}) {
		t.Errorf("found %v", got)
	}
	if got := d.Mentions([]byte("/var/blobs//var/blobs/" + name[:2] + "/" + name)); !slices.Equal(got, []blobs.Hash{a}) {
		t.Errorf("found %v", got)
	}
}

func FuzzMentions(f *testing.F) {
	d, err := blobs.New("/var/blobs")
	if err != nil {
		f.Fatal(err)
	}
	h := blobs.Sum([]byte("hello"))
	for _, text := range everyWay(d.Path(h)) {
		f.Add([]byte(text), 5)
	}
	f.Add([]byte(`\ud83d\ude00\/\\\u`), 3)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		d.Mentions(text)
		// Whatever stands around it, what is plainly there is found.
		if at < 0 || at > len(text) {
			return
		}
		with := slices.Concat(text[:at], message.FileBlob(d.Path(h)).Append(nil), text[at:])
		if !slices.Contains(d.Mentions(with), h) && !bytes.HasSuffix(text[:at], []byte("/var/blobs/")) {
			t.Fatalf("not found in %s", with)
		}
	})
}
