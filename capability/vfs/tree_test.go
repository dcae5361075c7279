package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/capability/vfs/vfstest"
	"kernos/message"
)

// fake is a driver that can do what it says, and remembers what it was asked.
type fake struct {
	can   vfs.Can
	err   error
	asked []string
}

func (f *fake) Can() vfs.Can   { return f.can }
func (f *fake) String() string { return "fake" }

func (f *fake) Read(_ context.Context, name string) (vfs.File, error) {
	f.asked = append(f.asked, name)
	return vfs.File{Data: []byte(name)}, f.err
}

func (f *fake) Stat(_ context.Context, name string) (vfs.Info, error) {
	f.asked = append(f.asked, name)
	return vfs.Info{}, f.err
}

func (f *fake) Write(_ context.Context, name string, _ []byte, _ vfs.Expect) (string, error) {
	f.asked = append(f.asked, name)
	return "v", f.err
}

func (f *fake) Delete(_ context.Context, name string, _ bool) error {
	f.asked = append(f.asked, name)
	return f.err
}

func TestLongestPrefixWins(t *testing.T) {
	root, a, ab := &fake{can: vfs.Can{Read: true}}, &fake{can: vfs.Can{Read: true}}, &fake{can: vfs.Can{Read: true}}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/a", Driver: a}, {Path: "", Driver: root}, {Path: "/a/b/", Driver: ab}}})
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
	for _, can := range []vfs.Can{{}, {Read: true}, {Write: true}, {Read: true, Write: true}} {
		f := &fake{can: can}
		tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/m", Driver: f}}})
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
			vfstest.WantCode(t, fmt.Sprintf("%s of a mount that is %v", one.what, can), one.err, want)
		}
		if len(f.asked) != asked {
			t.Errorf("%v: asked for %q", can, f.asked)
		}
	}
}

func TestATreeWithoutARoot(t *testing.T) {
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/a/b", Driver: kernelfs.Greeting()}}})
	_, err := tree.Read(t.Context(), "os://unknown/resource.md")
	vfstest.WantCode(t, "Read", err, 502)
	if want := "VFS fetch failed: no matching mount for os:///unknown/resource.md and root is undefined"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	vfstest.WantList(t, "walk", vfstest.Walk(t, tree, "os://", 0), []string{
		"os://a/", "os://a/b/", "os://a/b/greeting.md", "os://a/b/skills/", "os://a/b/skills/first-steps.md",
	})
	for _, uri := range []string{"os://", "os://a", "os://a/b"} {
		if info, err := tree.Stat(t.Context(), uri); err != nil || !info.Dir || info.Writable {
			t.Errorf("Stat(%s) = %+v, %v; want a directory", uri, info, err)
		}
		_, err := tree.Read(t.Context(), uri)
		vfstest.WantCode(t, "reading "+uri, err, 422)
	}
	empty := vfstest.NewTree(t, vfs.Options{})
	vfstest.WantList(t, "an empty tree", vfstest.Walk(t, empty, "os://", 0), nil)
}

func TestMountsThatAreRefused(t *testing.T) {
	for what, mounts := range map[string][]vfs.Mount{
		"twice":     {{Path: "/a", Driver: kernelfs.Greeting()}, {Path: "a/", Driver: kernelfs.Greeting()}},
		"no driver": {{Path: "/a", Driver: nil}},
		"a NUL":     {{Path: "/a\x00", Driver: kernelfs.Greeting()}},
		"backslash": {{Path: `/a\b`, Driver: kernelfs.Greeting()}},
	} {
		if _, err := vfs.New(vfs.Options{Mounts: mounts}); err == nil {
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
		tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: &fake{can: vfs.Can{Read: true}, err: test.err}}}})
		_, err := tree.Read(t.Context(), "os://x")
		if got := vfstest.Code(err); got != test.code {
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
	vfstest.Put(t, dir, map[string]string{"a-b": "", "a/x": "", "a0": "", "m/hidden": "", "n": "hidden too", "z": ""})
	d, err := dirfs.Open(dir, dirfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files := func(names ...string) vfs.Driver {
		all := make(map[string]kernelfs.File)
		for _, n := range names {
			all[n] = kernelfs.File{Read: func(context.Context) ([]byte, error) { return []byte(n), nil }}
		}
		return kernelfs.Proc(func() map[string]kernelfs.File { return all })
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{
		{Path: "/", Driver: d}, {Path: "/m", Driver: files("one", "two/three")}, {Path: "/n", Driver: files("four")}, {Path: "/a/deep/er", Driver: files("five")},
		{Path: "/b", Driver: &fake{can: vfs.Can{Read: true}}},
	}})
	want := []string{
		"os://a-b", "os://a/", "os://a/deep/", "os://a/deep/er/", "os://a/deep/er/five", "os://a/x", "os://a0",
		"os://b/", "os://m/", "os://m/one", "os://m/two/", "os://m/two/three", "os://n/", "os://n/four", "os://z",
	}
	got := vfstest.Walk(t, tree, "os://", 0)
	vfstest.WantList(t, "walk", got, want)
	if !slices.IsSorted(got) {
		t.Error("a walk is not in the order of the URIs")
	}
	vfstest.WantList(t, "walk of a part", vfstest.Walk(t, tree, "os://a/deep", 0), []string{"os://a/deep/er/", "os://a/deep/er/five"})
	vfstest.WantList(t, "walk with a limit", vfstest.Walk(t, tree, "os://", 3), want[:3])
	for uri, want := range map[string]int{"os://z": 422, "os://nothing": 404, "os://b": 403, "os://m/one": 422, "os://m/none": 404, "\x00": 422} {
		n := 0
		for _, err := range tree.Walk(t.Context(), uri) {
			vfstest.WantCode(t, "walk of "+uri, err, want)
			n++
		}
		if n != 1 {
			t.Errorf("a walk of %q gives %d entries, want one error", uri, n)
		}
	}
	vfstest.WantCode(t, "deleting a mount", tree.Delete(t.Context(), "os://a/deep", true), 403)
	vfstest.WantCode(t, "deleting what is above a mount", tree.Delete(t.Context(), "os://a", true), 403)
	_, err = tree.Write(t.Context(), "os://a/deep", nil, "")
	vfstest.WantCode(t, "writing over what is above a mount", err, 422)
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
		vfstest.WantList(t, fmt.Sprintf("one by one, recursive %v", recursive), one, all)
		if recursive && len(all) < 30 || !recursive && len(all) != 9 {
			t.Errorf("recursive %v: only %d entries: %q", recursive, len(all), all)
		}
	}
}
