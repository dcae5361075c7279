package vfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"kernos/message"
)

// fake is a driver that can do what it says, and remembers what it was asked.
type fake struct {
	can   Can
	err   error
	asked []string
}

func (f *fake) Can() Can       { return f.can }
func (f *fake) String() string { return "fake" }

func (f *fake) Read(_ context.Context, name string) (File, error) {
	f.asked = append(f.asked, name)
	return File{Data: []byte(name)}, f.err
}

func (f *fake) Stat(_ context.Context, name string) (Info, error) {
	f.asked = append(f.asked, name)
	return Info{}, f.err
}

func (f *fake) Write(_ context.Context, name string, _ []byte, _ Expect) (string, error) {
	f.asked = append(f.asked, name)
	return "v", f.err
}

func (f *fake) Delete(_ context.Context, name string, _ bool) error {
	f.asked = append(f.asked, name)
	return f.err
}

func TestLongestPrefixWins(t *testing.T) {
	root, a, ab := &fake{can: Can{Read: true}}, &fake{can: Can{Read: true}}, &fake{can: Can{Read: true}}
	tree := newTree(t, Options{Mounts: []Mount{{"/a", a}, {"", root}, {"/a/b/", ab}}})
	for _, test := range []struct {
		uri    string
		driver *fake
		name   string
	}{
		{"os://x", root, "x"},
		{"os://ax", root, "ax"},
		{"os://a/x", a, "x"},
		{"os://a/bx", a, "bx"},
		{"os://a/b/c", ab, "c"},
		{"os://a/b/../x", a, "x"},
		{"os://a/../../x", root, "x"},
		{"os://A/b/c", root, "A/b/c"},
	} {
		for _, f := range []*fake{root, a, ab} {
			f.asked = nil
		}
		if _, err := tree.Read(t.Context(), test.uri); err != nil {
			t.Errorf("%s: %v", test.uri, err)
		}
		for _, f := range []*fake{root, a, ab} {
			if want := f == test.driver; want != (len(f.asked) == 1) || want && f.asked[0] != test.name {
				t.Errorf("%s: a driver was asked for %q", test.uri, f.asked)
			}
		}
	}
}

func TestADriverIsAskedOnlyForWhatItCan(t *testing.T) {
	for _, can := range []Can{{}, {Read: true}, {Write: true}, {Read: true, Write: true}} {
		f := &fake{can: can}
		tree := newTree(t, Options{Mounts: []Mount{{"/m", f}}})
		_, readErr := tree.Read(t.Context(), "os://m/x")
		_, statErr := tree.Stat(t.Context(), "os://m/x")
		_, writeErr := tree.Write(t.Context(), "os://m/x", nil, "")
		deleteErr := tree.Delete(t.Context(), "os://m/x", false)
		asked := 0
		for _, one := range []struct {
			what string
			err  error
			may  bool
		}{{"Read", readErr, can.Read}, {"Stat", statErr, can.Read}, {"Write", writeErr, can.Write}, {"Delete", deleteErr, can.Write}} {
			want := 403
			if one.may {
				asked++
				want = 0
			}
			wantCode(t, fmt.Sprintf("%s of a mount that is %v", one.what, can), one.err, want)
		}
		if len(f.asked) != asked {
			t.Errorf("%v: asked for %q", can, f.asked)
		}
	}
}

func TestATreeWithoutARoot(t *testing.T) {
	tree := newTree(t, Options{Mounts: []Mount{{"/a/b", Greeting()}}})
	_, err := tree.Read(t.Context(), "os://unknown/resource.md")
	wantCode(t, "Read", err, 502)
	if want := "VFS fetch failed: no matching mount for os:///unknown/resource.md and root is undefined"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	wantList(t, "walk", walked(t, tree, "os://", 0), []string{
		"os://a/", "os://a/b/", "os://a/b/greeting.md", "os://a/b/skills/", "os://a/b/skills/first-steps.md",
	})
	for _, uri := range []string{"os://", "os://a", "os://a/b"} {
		if info, err := tree.Stat(t.Context(), uri); err != nil || !info.Dir || info.Writable {
			t.Errorf("Stat(%s) = %+v, %v; want a directory", uri, info, err)
		}
		_, err := tree.Read(t.Context(), uri)
		wantCode(t, "reading "+uri, err, 422)
	}
	empty := newTree(t, Options{})
	wantList(t, "an empty tree", walked(t, empty, "os://", 0), nil)
}

func TestMountsThatAreRefused(t *testing.T) {
	for what, mounts := range map[string][]Mount{
		"twice":     {{"/a", Greeting()}, {"a/", Greeting()}},
		"no driver": {{"/a", nil}},
		"a NUL":     {{"/a\x00", Greeting()}},
		"backslash": {{`/a\b`, Greeting()}},
	} {
		if _, err := New(&Options{Mounts: mounts}); err == nil {
			t.Errorf("%s: mounted", what)
		}
	}
}

func TestErrorsOfADriver(t *testing.T) {
	ours := message.Errorf(418, "short and stout")
	for _, test := range []struct {
		err  error
		code int
	}{
		{fs.ErrNotExist, 404},
		{fmt.Errorf("x: %w", fs.ErrPermission), 403},
		{ours, 418},
		{context.DeadlineExceeded, 504},
		{context.Canceled, 499},
		{errors.New("a secret of the backend"), 500},
	} {
		tree := newTree(t, Options{Mounts: []Mount{{"/", &fake{can: Can{Read: true}, err: test.err}}}})
		_, err := tree.Read(t.Context(), "os://x")
		if got := code(err); got != test.code {
			t.Errorf("%v: %d, want %d", test.err, got, test.code)
		}
		if shown, _ := message.ErrorOf(err); strings.Contains(shown.Error(), "secret") {
			t.Errorf("the caller is told %v", shown)
		}
	}
}

// TestAWalkOverMounts: mounts are part of the tree, hide what is below them, and keep the
// order.
func TestAWalkOverMounts(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a-b": "", "a/x": "", "a0": "", "m/hidden": "", "n": "hidden too", "z": ""})
	d, err := Directory(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := func(names ...string) Driver {
		all := fstest.MapFS{}
		for _, n := range names {
			all[n] = &fstest.MapFile{Data: []byte(n)}
		}
		return Embedded(all, "test")
	}
	tree := newTree(t, Options{Mounts: []Mount{
		{"/", d}, {"/m", files("one", "two/three")}, {"/n", files("four")}, {"/a/deep/er", files("five")},
		{"/b", &fake{can: Can{Read: true}}},
	}})
	want := []string{
		"os://a-b", "os://a/", "os://a/deep/", "os://a/deep/er/", "os://a/deep/er/five", "os://a/x", "os://a0",
		"os://b/", "os://m/", "os://m/one", "os://m/two/", "os://m/two/three", "os://n/", "os://n/four", "os://z",
	}
	got := walked(t, tree, "os://", 0)
	wantList(t, "walk", got, want)
	if !slices.IsSorted(got) {
		t.Error("a walk is not in the order of the URIs")
	}
	wantList(t, "walk of a part", walked(t, tree, "os://a/deep", 0), []string{"os://a/deep/er/", "os://a/deep/er/five"})
	wantList(t, "walk with a limit", walked(t, tree, "os://", 3), want[:3])
	for uri, want := range map[string]int{"os://z": 422, "os://nothing": 404, "os://b": 403, "os://m/one": 422, "os://m/none": 404, "\x00": 422} {
		n := 0
		for _, err := range tree.Walk(t.Context(), uri, 0) {
			wantCode(t, "walk of "+uri, err, want)
			n++
		}
		if n != 1 {
			t.Errorf("a walk of %q gives %d entries, want one error", uri, n)
		}
	}
	wantCode(t, "deleting a mount", tree.Delete(t.Context(), "os://a/deep", true), 403)
	wantCode(t, "deleting what is above a mount", tree.Delete(t.Context(), "os://a", true), 403)
	_, err = tree.Write(t.Context(), "os://a/deep", nil, "")
	wantCode(t, "writing over what is above a mount", err, 422)
}

// TestAWalkGoesOnAnywhere: whatever entry a walk goes on behind, what follows is the rest.
func TestAWalkGoesOnAnywhere(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "", "a-/b": "", "b/c/d": "", "b/c-": "", "b/d": "", "c/": "", "memory-": ""})
	for _, key := range []string{"a", "a-b", "a/b", "a/b/c", "b/x", "c"} {
		w.command("Memory.Set", object{"key": key, "value": key})
	}
	for _, recursive := range []bool{true, false} {
		var all []string
		for _, e := range w.query("VFS.List", object{"recursive": recursive, "limit": 10000})["entries"].([]any) {
			all = append(all, e.(object)["uri"].(string)+" "+e.(object)["kind"].(string))
		}
		var one []string
		cursor := ""
		for range len(all) + 1 {
			in := object{"recursive": recursive, "limit": 1}
			if cursor != "" {
				in["cursor"] = cursor
			}
			out := w.query("VFS.List", in)
			for _, e := range out["entries"].([]any) {
				one = append(one, e.(object)["uri"].(string)+" "+e.(object)["kind"].(string))
			}
			if cursor, _ = out["cursor"].(string); cursor == "" {
				break
			}
		}
		wantList(t, fmt.Sprintf("one by one, recursive %v", recursive), one, all)
		if recursive && len(all) < 30 || !recursive && len(all) != 9 {
			t.Errorf("recursive %v: only %d entries: %q", recursive, len(all), all)
		}
	}
}

func TestDefaultRoot(t *testing.T) {
	dir := t.TempDir()
	m, err := DefaultRoot(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	tree := newTree(t, Options{Mounts: []Mount{m}})
	f, err := tree.Read(t.Context(), "os://greeting.md")
	if err != nil || !strings.Contains(string(f.Data), "./skills/first-steps.md") {
		t.Errorf("the greeting: %v", err)
	}
	skill, err := tree.Resolve("./skills/first-steps.md", f.URI)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := tree.Read(t.Context(), skill); err != nil || !strings.HasPrefix(string(f.Data), "---\nname: first-steps\n") {
		t.Errorf("the skill of the greeting: %v", err)
	}
	_, err = tree.Write(t.Context(), "os://greeting.md", nil, "")
	wantCode(t, "writing the greeting", err, 403)

	put(t, dir, map[string]string{"os/agent.md": "mine"})
	if m, err = DefaultRoot(dir, ""); err != nil {
		t.Fatal(err)
	}
	tree = newTree(t, Options{Mounts: []Mount{m}})
	if f, err := tree.Read(t.Context(), "os://agent.md"); err != nil || string(f.Data) != "mine" {
		t.Errorf("read %q, %v", f.Data, err)
	}
	_, err = tree.Write(t.Context(), "os://agent.md", nil, "")
	wantCode(t, "writing the root", err, 403)
}

func TestParseMount(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"file": "", "a=b/x": "", "c:ro/x": ""})
	for _, test := range []struct{ text, at, can, driver string }{
		{"/n=" + dir, "/n", "rwx", "directory " + dir},
		{"/n=" + dir + ":ro", "/n", "r-x", "directory " + dir},
		{"/n=" + dir + ":ro:noexec", "/n", "r--", "directory " + dir},
		{"/n=" + dir + ":noexec", "/n", "rw-", "directory " + dir},
		{"/=" + dir + "/a=b", "/", "rwx", "directory " + dir + "/a=b"},
		{"/n=" + dir + "/c:ro:ro", "/n", "r-x", "directory " + dir + "/c:ro"},
		{"/s=https://example.com/a", "/s", "r--", "server https://example.com/a/"},
		{"/s=https://example.com:ro", "/s", "r--", "server https://example.com/"},
	} {
		m, err := ParseMount(test.text, nil)
		if err != nil || m.Path != test.at || m.Driver.Can().String() != test.can || m.Driver.String() != test.driver {
			t.Errorf("ParseMount(%s) = %+v, %v", test.text, m, err)
		}
	}
	for _, test := range []struct{ text, says string }{
		{"", "PATH=TARGET"},
		{"/n", "PATH=TARGET"},
		{"/n=", "PATH=TARGET"},
		{"/n=:ro", "PATH=TARGET"},
		{"=" + dir, "PATH=TARGET"},
		{"n=" + dir, "slash"},
		{"/n=" + filepath.Join(dir, "nothing"), "no such file"},
		{"/n=" + filepath.Join(dir, "file"), "directory"},
		{"/n=http://example.com", "not encrypted"},
		{"/n=ftp://example.com", "not ftp"},
		{"/n=https://", "https://host/path"},
		{"/n=https://me:hunter2@example.com", "user name"},
		{"/n=https://example.com?token=hunter2", "query"},
		{"/n\x00=" + dir, "U+0000"},
	} {
		_, err := ParseMount(test.text, nil)
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseMount(%q): %v; want an error that says %q", test.text, err, test.says)
		}
	}
	if _, err := ParseMount("/n=http://localhost:1", &MountOptions{Development: true}); err != nil {
		t.Errorf("plain http in development: %v", err)
	}
}

// FuzzParseMount: any text is a mount or an error, and no mount is outside of the tree.
func FuzzParseMount(f *testing.F) {
	for _, seed := range []string{"/n=.", "/n=.:ro", "/=https://h/a", "/../n=.", "n", "/n=https://u:p@h", "/a\\b=."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMount(text, nil)
		if err != nil {
			return
		}
		tree, err := New(&Options{Mounts: []Mount{m}})
		if err != nil {
			t.Fatalf("%q is parsed and can't be mounted: %v", text, err)
		}
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
