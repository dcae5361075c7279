package vfs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/capability/vfs/vfstest"
	"kernos/message"
)

func TestMemoryAsFiles(t *testing.T) {
	w := newWorld(t, nil)
	w.command("Memory.Set", object{"key": "notes/1", "value": "milk\n\"eggs\""})
	w.command("Memory.Set", object{"key": "notes/number", "value": 42})
	w.command("Memory.Set", object{"key": "notes/list", "value": []any{1, "two"}})
	for uri, want := range map[string]string{
		"os://memory/notes/1": "milk\n\"eggs\"", "os://memory/notes/number": "42", "os://memory/notes/list": `[1,"two"]`,
	} {
		if got := w.query("VFS.Read", object{"uri": uri}); got["content"] != want || got["version"] == "" || got["modified"] == nil {
			t.Errorf("VFS.Read %s = %v, want %q", uri, got, want)
		}
	}
	written := w.command("VFS.Write", object{"uri": "os://memory/notes/new", "content": `{"a":1}`})
	read := w.query("VFS.Read", object{"uri": "os://memory/notes/new"})
	if read["content"] != `{"a":1}` || read["version"] != written["version"] {
		t.Errorf("written %v, read %v", written, read)
	}
	if _, revision, _, err := w.memory.Get(t.Context(), "notes/new"); err != nil || revision != 1 {
		t.Errorf("Memory has it at revision %d, %v", revision, err)
	}
	for uri, want := range map[string]int{
		"os://memory": 422, "os://memory/notes": 422, "os://memory/none": 404, "os://memory/notes/1/below": 404,
	} {
		_, err := w.call(message.KindQuery, "VFS.Read", object{"uri": uri})
		vfstest.WantCode(t, "VFS.Read "+uri, err, want)
	}
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://memory/notes/1"}, 422, "is a file")
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://memory/none"}, 404, "os://memory/none")
	w.fails(message.KindCommand, "VFS.Delete", object{"uri": "os://memory/notes"}, 409, "recursive")
	w.fails(message.KindCommand, "VFS.Delete", object{"uri": "os://memory/none", "recursive": true}, 404, "os://memory/none")
	w.command("VFS.Delete", object{"uri": "os://memory/notes/1"})
	w.fails(message.KindQuery, "VFS.Read", object{"uri": "os://memory/notes/1"}, 404, "os://memory/notes/1")
	w.command("VFS.Delete", object{"uri": "os://memory/notes", "recursive": true})
	vfstest.WantList(t, "the memory", vfstest.Walk(t, w.tree, "os://memory", 0), nil)
}

// TestTheRulesOfTheMemoryHold: no way through the files leads around them, and no secret
// that was sent by mistake is recorded.
func TestTheRulesOfTheMemoryHold(t *testing.T) {
	w := newWorld(t, nil)
	for _, uri := range []string{"os://memory/vault/key", "os://memory/./vault/key", "os:///memory//vault/key", "os://memory/Vault/key", "os://memory/vault/a/b", "os://memory/va%75lt\\x"} {
		w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "content": "hunter2"}, 422, "")
		w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "contentRef": object{"scheme": "data", "path": "text/plain,hunter2"}}, 422, "")
	}
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://memory/proc/x", "content": "1"}, 403, "read-only")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://memory/sys/x", "content": "1\n2"}, 422, "single-line")
	for _, r := range w.records {
		if strings.Contains(r, "hunter2") {
			t.Errorf("recorded: %s", r)
		}
	}
	if !slices.ContainsFunc(w.records, func(r string) bool { return strings.HasPrefix(r, "Memory.Set ") }) {
		t.Error("no call of Memory.Set is recorded")
	}
	w.command("VFS.Write", object{"uri": "os://memory/notes/1", "content": "not secret"})
	if !slices.ContainsFunc(w.records, func(r string) bool {
		return strings.HasPrefix(r, "VFS.Write ") && strings.Contains(r, "not secret")
	}) {
		t.Error("what is no secret is not recorded")
	}
}

func TestLargeValues(t *testing.T) {
	w := newWorld(t, nil)
	large := strings.Repeat("line of text\n", 10_000)
	blob, err := w.blobs.Put([]byte(large))
	if err != nil {
		t.Fatal(err)
	}
	out := w.command("VFS.Write", object{"uri": "os://memory/large", "contentRef": blob.Pointer()})
	if out["size"] != float64(len(large)) {
		t.Errorf("written: %v", out)
	}
	if f, err := w.tree.Read(t.Context(), "os://memory/large"); err != nil || string(f.Data) != large {
		t.Errorf("read %d bytes, %v; want %d", len(f.Data), err, len(large))
	}
	if info, err := w.tree.Stat(t.Context(), "os://memory/large"); err != nil || info.Size != -1 || info.Version != out["version"] {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	if got := w.query("VFS.Read", object{"uri": "os://memory/large"}); got["content"] != nil || got["contentRef"].(object)["path"] != blob.Path {
		t.Errorf("VFS.Read = %v", got)
	}
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://memory/x", "contentRef": object{"scheme": "data", "path": "a/b;base64,/w=="}}, 422, "UTF-8")
}

func TestMemoryIfVersion(t *testing.T) {
	w := newWorld(t, nil)
	const uri = "os://memory/a"
	first := w.command("VFS.Write", object{"uri": uri, "content": "1", "ifVersion": "none"})
	w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "content": "2", "ifVersion": "none"}, 409, "not to exist")
	second := w.command("VFS.Write", object{"uri": uri, "content": "2", "ifVersion": first["version"]})
	w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "content": "3", "ifVersion": first["version"]}, 409, "expected to have version")
	w.command("Memory.Set", object{"key": "a", "value": "by another caller"})
	w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "content": "3", "ifVersion": second["version"]}, 409, "has version r3")
	w.command("VFS.Delete", object{"uri": uri})
	w.fails(message.KindCommand, "VFS.Write", object{"uri": uri, "content": "3", "ifVersion": second["version"]}, 409, "does not exist")
}

// TestWritersOfOneValue: those who expect nothing all succeed, one after the other.
func TestWritersOfOneValue(t *testing.T) {
	w := newWorld(t, nil)
	var all sync.WaitGroup
	const writers, each = 64, 20
	for range writers {
		all.Go(func() {
			for i := range each {
				if _, err := w.call(message.KindCommand, "VFS.Write", object{"uri": "os://memory/a", "content": fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, revision, _, err := w.memory.Get(t.Context(), "a"); err != nil || revision != writers*each {
		t.Errorf("the key is at revision %d, %v; want %d", revision, err, writers*each)
	}
}

func TestAMemoryWithManyKeys(t *testing.T) {
	w := newWorld(t, nil)
	var want []string
	for i := range 1000 + 50 {
		key := fmt.Sprintf("many/%05d", i)
		w.command("Memory.Set", object{"key": key, "value": i})
		want = append(want, "os://memory/"+key)
	}
	vfstest.WantList(t, "walk", vfstest.Walk(t, w.tree, "os://memory/many", 0), want)
	w.command("VFS.Delete", object{"uri": "os://memory/many", "recursive": true})
	vfstest.WantList(t, "after deleting", vfstest.Walk(t, w.tree, "os://memory", 0), nil)
}

func TestMemoryOutsideOfACall(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.tree.Write(t.Context(), "os://memory/a", []byte("1"), ""); err == nil {
		t.Error("a value was written by no call: nothing would wait until it is durable")
	}
}

// TestALargeSecretReachesNoBlob: what is refused must not be on the disk by then.
func TestALargeSecretReachesNoBlob(t *testing.T) {
	w := newWorld(t, nil)
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://memory/vault/key", "content": strings.Repeat("hunter2 ", 1500)}, 422, "vault")
	err := filepath.WalkDir(w.blobs.Root(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("hunter2")) {
				t.Errorf("%s has it", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
