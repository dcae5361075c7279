package vfs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/vfs/vfstest"
	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestReadCall(t *testing.T) {
	w := newWorld(t, map[string]string{
		"text.md": "héllo", "empty": "", "bin": "\x00\x01\xff", "nul": "a\x00b", "latin": "h\xe9llo",
		"large": strings.Repeat("x", 16<<10+1), "fits": strings.Repeat("y", 10_000),
	})
	if got := w.query("VFS.Read", object{"uri": "text.md"}); got["uri"] != "os://text.md" || got["content"] != "héllo" || got["size"] != 6.0 || got["version"] == "" || got["contentRef"] != nil {
		t.Errorf("text: %v", got)
	}
	if got := w.query("VFS.Read", object{"uri": "os://empty"}); got["content"] != "" || got["contentRef"] != nil {
		t.Errorf("an empty file: %v", got)
	}
	if got := w.query("VFS.Read", object{"uri": "os://fits"}); len(got["content"].(string)) != 10_000 {
		t.Errorf("a text that fits: %v", got)
	}
	for _, name := range []string{"bin", "nul", "latin", "large"} {
		got := w.query("VFS.Read", object{"uri": "os://" + name})
		ref, _ := got["contentRef"].(object)
		want, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if path, _ := ref["path"].(string); got["content"] != nil || ref["scheme"] != "file" {
			t.Errorf("%s: %v", name, got)
		} else if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, want) {
			t.Errorf("%s: the pointer leads to %q, %v", name, kept, err)
		}
	}
	w.fails(message.KindQuery, "VFS.Read", object{"uri": "os://none"}, 404, "File not found: os://none")
	w.fails(message.KindQuery, "VFS.Read", object{"uri": ""}, 422, "uri")
	w.fails(message.KindQuery, "VFS.Read", object{}, 422, "uri")
}

// TestReadCallThatDoesNotFit: what becomes too long as JSON goes to a blob by way of the
// kernel.
func TestReadCallThatDoesNotFit(t *testing.T) {
	w := newWorld(t, map[string]string{"quotes": strings.Repeat(`"`, 16<<10)})
	var reply message.Message
	w.kernel.Handle(t.Context(), message.Message{Kind: message.KindQuery, Type: "VFS.Read", Data: []byte(`{"uri":"os://quotes"}`),
		Metadata: message.Metadata{ID: "r", Timestamp: 1}}, func(m message.Message) { reply = m })
	fitted := w.kernel.Fit(t.Context(), reply, 16_384, func(m *message.Message) int { return len(m.Data) })
	if text := string(fitted.Data); !strings.Contains(text, `"contentRef":{"scheme":"file"`) || strings.Contains(text, `"content":`) {
		t.Errorf("fitted: %.200s", text)
	}
}

func TestReadWithoutBlobs(t *testing.T) {
	tree, _ := newDirectory(t, map[string]string{"small": "\xff\x00", "large": strings.Repeat("\xff", message.MaxInlineBlob+1)})
	w := &world{t: t, kernel: kerneltest.Of(t, nil, tree.Module())}
	ref, _ := w.query("VFS.Read", object{"uri": "os://small"})["contentRef"].(object)
	if ref["scheme"] != "data" || ref["path"] != "application/octet-stream;base64,/wA=" {
		t.Errorf("the pointer is %v", ref)
	}
	w.fails(message.KindQuery, "VFS.Read", object{"uri": "os://large"}, 503, "no place for blobs")
}

func TestWriteCall(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "old"})
	got := w.command("VFS.Write", object{"uri": "/new/b.md", "content": "text"})
	if got["uri"] != "os://new/b.md" || got["size"] != 4.0 || got["version"] != w.query("VFS.Read", object{"uri": "os://new/b.md"})["version"] {
		t.Errorf("VFS.Write = %v", got)
	}
	binary := object{"scheme": "data", "path": "application/octet-stream;base64," + base64.StdEncoding.EncodeToString([]byte("\x00\xff"))}
	w.command("VFS.Write", object{"uri": "os://bin", "contentRef": binary})
	if data, err := os.ReadFile(filepath.Join(w.dir, "bin")); err != nil || string(data) != "\x00\xff" {
		t.Errorf("written %q, %v", data, err)
	}
	w.command("VFS.Write", object{"uri": "os://empty", "content": ""})
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://a"}, 422, "one of content, contentRef")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://a", "content": "", "contentRef": binary}, 422, "one of content, contentRef")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://a", "content": "", "ifVersion": "old"}, 409, "os://a")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://a", "contentRef": object{"scheme": "file", "path": "/etc/passwd"}}, 403, "blob")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://proc/version", "content": ""}, 403, "/proc is r--")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://greeting/greeting.md", "contentRef": object{"scheme": "file", "path": "/etc/passwd"}}, 403, "/greeting is r--")
	w.fails(message.KindQuery, "VFS.Write", object{"uri": "os://a", "content": ""}, 422, "command")
	if got := w.query("VFS.Read", object{"uri": "os://a"}); got["content"] != "old" {
		t.Errorf("a write that was refused has changed the file: %v", got)
	}
}

func TestListCall(t *testing.T) {
	w := newWorld(t, map[string]string{"a/one.md": "1", "a/two.md": "22", "a/sub/x": ""})
	got := w.query("VFS.List", object{"uri": "os://a"})
	entries := got["entries"].([]any)
	if len(entries) != 3 || got["cursor"] != nil || got["skipped"] != nil {
		t.Fatalf("VFS.List = %v", got)
	}
	one := entries[0].(object)
	if one["uri"] != "os://a/one.md" || one["name"] != "one.md" || one["kind"] != "file" || one["size"] != 1.0 || one["writable"] != true || one["modified"] == nil {
		t.Errorf("a file: %v", one)
	}
	if sub := entries[1].(object); sub["uri"] != "os://a/sub" || sub["kind"] != "directory" || sub["size"] != nil {
		t.Errorf("a directory: %v", sub)
	}
	var names []string
	for _, e := range w.query("VFS.List", object{})["entries"].([]any) {
		names = append(names, e.(object)["name"].(string))
	}
	vfstest.WantList(t, "the root", names, []string{"a", "greeting", "memory", "proc", "sys"})
	if empty := w.query("VFS.List", object{"uri": "os://memory"}); len(empty["entries"].([]any)) != 0 {
		t.Errorf("an empty directory: %v", empty)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "a", `b\c`), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.query("VFS.List", object{"uri": "os://a"}); got["skipped"] != 1.0 {
		t.Errorf("a name that no URI can hold: %v", got)
	}
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://a/one.md"}, 422, "is a file")
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://none"}, 404, "os://none")
	w.fails(message.KindQuery, "VFS.List", object{"limit": 0}, 422, "limit")
	w.fails(message.KindQuery, "VFS.List", object{"cursor": "!"}, 422, "cursor")
	cursor := w.query("VFS.List", object{"uri": "os://a", "limit": 1})["cursor"]
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://a", "recursive": true, "cursor": cursor}, 422, "cursor")
}

func TestDeleteCall(t *testing.T) {
	w := newWorld(t, map[string]string{"a/one": "1", "a/b/two": "2", "file": "", "empty/": ""})
	w.fails(message.KindCommand, "VFS.Delete", object{"uri": "os://a"}, 409, "not empty")
	for _, in := range []object{{"uri": "os://a", "recursive": true}, {"uri": "os://file"}, {"uri": "os://empty"}} {
		if got := w.command("VFS.Delete", in); got["success"] != true {
			t.Errorf("VFS.Delete %v = %v", in, got)
		}
	}
	for uri, want := range map[string]int{"os://a": 404, "os://": 403, "os://memory": 403, "os://proc/version": 403, "os://sys/log/level": 403, "os://sys/none": 404} {
		w.fails(message.KindCommand, "VFS.Delete", object{"uri": uri, "recursive": true}, want, "")
	}
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestResolveCall(t *testing.T) {
	w := newWorld(t, nil)
	for _, typ := range []message.Type{"VFS.Resolve", "FileSystem.Resolve", "Kernel.Resolve"} {
		if got := w.query(typ, object{"uri": "../b", "base": "os://x/y/z"}); got["uri"] != "os://x/b" {
			t.Errorf("%s = %v", typ, got)
		}
	}
	w.fails(message.KindQuery, "VFS.Resolve", object{"uri": "file:///etc/passwd"}, 422, "scheme file")
}

func TestSettings(t *testing.T) {
	w := newWorld(t, nil)
	if got := w.query("VFS.Read", object{"uri": "os://sys/log/level"}); got["content"] != "info" {
		t.Errorf("read %v", got)
	}
	vfstest.WantList(t, "walk", vfstest.Walk(t, w.tree, "os://sys", 0), []string{"os://sys/limits/", "os://sys/limits/line", "os://sys/log/", "os://sys/log/level"})
	got := w.command("VFS.Write", object{"uri": "os://sys/log/level", "content": "debug\n"})
	if w.level != "debug" || got["version"] != w.query("VFS.Read", object{"uri": "os://sys/log/level"})["version"] {
		t.Errorf("written: %v, and the level is %s", got, w.level)
	}
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/log/level", "content": "loud"}, 422, "info or debug")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/log/level", "content": "a\nb"}, 422, "single line")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/log/level", "content": "info", "ifVersion": "x"}, 409, "version")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/limits/line", "content": "1"}, 403, "can't be changed")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/none", "content": "1"}, 404, "os://sys/none")
	w.fails(message.KindCommand, "VFS.Write", object{"uri": "os://sys/log", "content": "1"}, 422, "directory")
	w.fails(message.KindQuery, "VFS.Read", object{"uri": "os://sys/log"}, 422, "directory")
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://sys/log/level"}, 422, "is a file")
	w.fails(message.KindQuery, "VFS.List", object{"uri": "os://sys/none"}, 404, "os://sys/none")
	if w.level != "debug" {
		t.Errorf("a write that was refused has changed the level to %s", w.level)
	}
}

func TestProc(t *testing.T) {
	w := newWorld(t, nil)
	for name, says := range map[string]string{
		"version": "kernos test go", "cmdline": "kernos pipe \"a b\"\n", "uptime": ".", "connections": "connections  0\n",
		"memory": "goroutines", "mounts": "/memory    rw-  memory\n", "registry/Memory.Get": `"type": "Memory.Get"`, "registry/VFS.Read": "contentRef",
	} {
		if got, _ := w.query("VFS.Read", object{"uri": "os://proc/" + name})["content"].(string); !strings.Contains(got, says) {
			t.Errorf("proc/%s is %q, want %q in it", name, got, says)
		}
	}
	all := vfstest.Walk(t, w.tree, "os://proc", 0)
	if len(all) < 15 || all[0] != "os://proc/cmdline" {
		t.Errorf("proc has %q", all)
	}
	for uri, want := range map[string]int{"os://proc": 422, "os://proc/registry": 422, "os://proc/none": 404, "os://proc/registry/None": 404} {
		w.fails(message.KindQuery, "VFS.Read", object{"uri": uri}, want, uri)
	}
	if v, err := w.tree.Version(t.Context(), "os://proc/version"); err != nil || v == "" {
		t.Errorf("Version = %q, %v", v, err)
	}
}

// FuzzRedact: whatever came, what is recorded is JSON, and has no content that was meant for
// the vault or for an unknown place.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{
		`{"uri":"os://memory/vault/x","content":"hunter2"}`, `{"uri":"os://a","content":"x"}`, `"hunter2"`, `{}`, `{"\u0075ri":"os://memory/vault","content":1}`,
		`[]`, `{"uri":7,"content":"hunter2"}`,
	} {
		f.Add([]byte(seed))
	}
	w := newWorld(f, nil)
	write, _ := w.kernel.Registry().Lookup("VFS.Write")
	redact := write.Redact
	f.Fuzz(func(t *testing.T, data []byte) {
		var scan jsonscan.Scanner
		if scan.Text(data) != nil {
			return // the kernel gives it JSON only
		}
		out := redact(bytes.TrimSpace(data))
		if !json.Valid(out) {
			t.Fatalf("%q is redacted to %q", data, out)
		}
		var in struct {
			URI     string `json:"uri"`
			Content string `json:"content"`
		}
		var kept map[string]any
		if json.Unmarshal(data, &in) != nil || json.Unmarshal(out, &kept) != nil {
			return
		}
		secret, err := w.tree.Resolve(in.URI, "")
		if (err != nil || strings.HasPrefix(secret, "os://memory/vault/")) && kept["content"] != nil && kept["content"] == in.Content && `"`+in.Content+`"` != kernel.RedactedData {
			t.Fatalf("%q is kept as %q", data, out)
		}
	})
}

// FuzzCursor: any cursor is an error, or leads to a place below.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"ra/b", "r../../etc", "ca", "r/", "ra//b/"} {
		text := base64.RawURLEncoding.EncodeToString([]byte(seed))
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Add("!", false)
	w := newWorld(f, map[string]string{"a/b": "", "a/c": "", "d": ""})
	f.Fuzz(func(t *testing.T, text string, recursive bool) {
		w := &world{t: t, kernel: w.kernel}
		out, err := w.call(message.KindQuery, "VFS.List", object{"uri": "os://a", "cursor": text, "recursive": recursive})
		if err != nil {
			if vfstest.Code(err) != 422 {
				t.Errorf("VFS.List: %v", err)
			}
			return
		}
		entries, _ := out["entries"].([]any)
		for _, e := range entries {
			if uri, _ := e.(object)["uri"].(string); !strings.HasPrefix(uri, "os://a/") {
				t.Fatalf("a list of os://a has %s", uri)
			}
		}
	})
}
