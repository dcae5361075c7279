package dirfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/vfs"
	"kernos/capability/vfs/vfstest"
)

func TestReadAFile(t *testing.T) {
	tree, dir := newDirectory(t, Options{}, map[string]string{"a/b.md": "hello", "empty": "", ".hidden": "h", "C:/x": "windows"})
	for uri, want := range map[string]string{
		"os://a/b.md": "hello", "os:///a/b.md": "hello", "a/./b.md": "hello", "os://x/../a/b.md": "hello",
		"os://empty": "", "os://.hidden": "h", "os://C:/x": "windows",
	} {
		f, err := tree.Read(t.Context(), uri)
		if err != nil || string(f.Data) != want || f.Version == "" || f.Modified.IsZero() {
			t.Errorf("Read(%s) = %+v, %v; want %q", uri, f, err, want)
		}
		info, err := tree.Stat(t.Context(), uri)
		if err != nil || info.Version != f.Version || info.URI != f.URI || info.Size != int64(len(want)) || info.Dir {
			t.Errorf("Stat(%s) = %+v, %v; want what Read says: %+v", uri, info, err, f)
		}
	}
	before, err := tree.Version(t.Context(), "os://a/b.md")
	if err != nil {
		t.Fatal(err)
	}
	vfstest.Put(t, dir, map[string]string{"a/b.md": "hello, world"})
	if after, err := tree.Version(t.Context(), "os://a/b.md"); err != nil || after == before {
		t.Errorf("a file that has changed has the version %q, %v, as before", after, err)
	}
}

// hostile makes a directory with everything in it that could lead out, and secrets outside.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hostile(t *testing.T) *vfs.Tree {
	t.Helper()
	outside := t.TempDir()
	vfstest.Put(t, outside, map[string]string{"secret": "TOP SECRET", "folder/secret": "TOP SECRET"})
	tree, dir := newDirectory(t, Options{}, map[string]string{"inside.md": "inside", "folder/file.md": "below"})
	for link, target := range map[string]string{
		"absolute":      filepath.Join(outside, "secret"),
		"passwd":        "/etc/passwd",
		"up":            "../" + filepath.Base(outside) + "/secret",
		"climb":         "../../../../../../../../etc/passwd",
		"dir-out":       outside,
		"folder/up":     "../../" + filepath.Base(outside) + "/secret",
		"self":          "self",
		"ring-a":        "ring-b",
		"ring-b":        "ring-a",
		"dangling":      "nowhere",
		"inner":         "inside.md",
		"folder/inner":  "../inside.md",
		"folder/around": "../folder",
		"null":          "/dev/null",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	special(t, dir)
	return tree
}

func TestNothingLeavesADirectory(t *testing.T) {
	nothingLeaves(t, hostile(t))
}

// TestNothingLeavesADirectoryTheLongWay: where the short way to look below a directory is
// not there, os.Root is asked alone.
func TestNothingLeavesADirectoryTheLongWay(t *testing.T) {
	tree := hostile(t)
	d := tree.Mounts()[0].Driver.(*directory)
	if err := d.open.Load().dir.Close(); err != nil {
		t.Fatal(err)
	}
	nothingLeaves(t, tree)
}

// TestBothWaysAgree: the short way finds nothing that os.Root does not, and the same.
func TestBothWaysAgree(t *testing.T) {
	o := hostile(t).Mounts()[0].Driver.(*directory).open.Load()
	names := []string{"", ".", "..", "../x", "/etc/passwd", "folder/../inside.md", "none", "folder/file.md", "folder/around/around/file.md"}
	for _, e := range must(os.ReadDir(o.root.Name())) {
		names = append(names, e.Name(), e.Name()+"/secret", "folder/"+e.Name())
	}
	for _, name := range names {
		f, ok := inspectBeneath(o.dir, name)
		info, err := o.root.Stat(local(name))
		if !ok {
			continue
		}
		short := stateOf(must(f.Stat()))
		_ = f.Close()
		if err != nil {
			t.Errorf("%q: the short way leads to %+v, and os.Root says %v", name, short, err)
			continue
		}
		if long := stateOf(info); short.version() != long.version() || short.mode.Perm() != long.mode.Perm() ||
			short.mode.IsDir() != long.mode.IsDir() || short.mode.IsRegular() != long.mode.IsRegular() {
			t.Errorf("%q: the short way leads to %+v, the long one to %+v", name, short, long)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func nothingLeaves(t *testing.T, tree *vfs.Tree) {
	t.Helper()
	for uri, want := range map[string]int{
		"os://absolute":                            403,
		"os://passwd":                              403,
		"os://up":                                  403,
		"os://climb":                               403,
		"os://dir-out/secret":                      403,
		"os://dir-out/folder/secret":               403,
		"os://dir-out":                             403,
		"os://folder/up":                           403,
		"os://null":                                403,
		"os://fifo":                                403,
		"os://socket":                              403,
		"os://self":                                422,
		"os://ring-a":                              422,
		"os://dangling":                            404,
		"os://../../etc/passwd":                    404,
		"os:///../../../../etc/passwd":             404,
		"os://folder/../../etc/passwd":             404,
		"/etc/passwd":                              404,
		"os://inside.md/..%2fx":                    422,
		"os://%2e%2e/%2e%2e/etc":                   422,
		`os://..\..\etc\passwd`:                    422,
		"os://inside.md\x00.png":                   422,
		"file:///etc/passwd":                       422,
		"https://localhost/x":                      422,
		"os://inside.md/below":                     404,
		"os://INSIDE.MD.":                          404,
		"os://inside.md::$DATA":                    404,
		"os://folder":                              422,
		"os://":                                    422,
		"os://" + strings.Repeat("long", 100):      404,
		"os://" + strings.Repeat("a/", 2000) + "b": 404,
		"os://inner":                               0,
		"os://folder/inner":                        0,
	} {
		f, err := tree.Read(t.Context(), uri)
		vfstest.WantCode(t, fmt.Sprintf("Read(%.80s)", uri), err, want)
		if want == 0 && string(f.Data) != "inside" {
			t.Errorf("Read(%s) = %q, want inside", uri, f.Data)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("Read(%s) tells what is in the file: %v", uri, err)
		}
		if path, ok := tree.Local(uri); ok != (want == 0) {
			t.Errorf("Local(%.80s) = %q, %v", uri, path, ok)
		}
	}
}

func TestNothingIsWrittenOutsideOfADirectory(t *testing.T) {
	tree := hostile(t)
	for uri, want := range map[string]int{
		"os://absolute":                    403,
		"os://up":                          403,
		"os://dir-out/new":                 403,
		"os://dir-out/secret":              403,
		"os://inner":                       403, // a link that would be replaced
		"os://fifo":                        403,
		"os://folder":                      422,
		"os://":                            422,
		"os://inside.md/x":                 422,
		"os://inside.md/x/y":               422,
		"os://a\x00b":                      422,
		"os://%2e%2e/x":                    422,
		"os://" + strings.Repeat("x", 300): 422,
	} {
		_, err := tree.Write(t.Context(), uri, []byte("overwritten"), "")
		vfstest.WantCode(t, fmt.Sprintf("Write(%.80s)", uri), err, want)
	}
	for uri, want := range map[string]int{
		"os://dir-out/secret": 403,
		"os://dir-out/folder": 403,
		"os://":               403,
		"os://nothing":        404,
		"os://folder":         409,
	} {
		vfstest.WantCode(t, "Delete "+uri, tree.Delete(t.Context(), uri, false), want)
	}
	// Of a link, the link goes and not what it points to.
	if err := tree.Delete(t.Context(), "os://folder/around", true); err != nil {
		t.Error(err)
	}
	if err := tree.Delete(t.Context(), "os://dir-out", true); err != nil {
		t.Error(err)
	}
	if f, err := tree.Read(t.Context(), "os://folder/file.md"); err != nil || string(f.Data) != "below" {
		t.Errorf("deleting a link has deleted what it points to: %v", err)
	}
	vfstest.WantList(t, "what is left", vfstest.Walk(t, tree, "os://folder", 0), []string{"os://folder/file.md", "os://folder/inner"})
}

func TestAWalkShowsWhatCanBeRead(t *testing.T) {
	for uri, want := range map[string]int{"os://fifo": 422, "os://null": 403, "os://dir-out": 403, "os://passwd": 403, "os://self": 422} {
		for _, err := range hostile(t).Walk(t.Context(), uri) {
			vfstest.WantCode(t, "walk of "+uri, err, want)
		}
	}
	vfstest.WantList(t, "walk", vfstest.Walk(t, hostile(t), "os://", 0), []string{
		"os://folder/", "os://folder/around/", "os://folder/file.md", "os://folder/inner", "os://inner", "os://inside.md",
	})
}

func TestWriteAFile(t *testing.T) {
	tree, dir := newDirectory(t, Options{}, map[string]string{"tool.sh": "old", "locked": "l"})
	if err := os.Chmod(filepath.Join(dir, "tool.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	info, err := tree.Write(t.Context(), "os://a/b/c.md", []byte("new"), "")
	if err != nil || info.URI != "os://a/b/c.md" || info.Size != 3 {
		t.Fatalf("Write = %+v, %v", info, err)
	}
	if f, err := tree.Read(t.Context(), "os://a/b/c.md"); err != nil || string(f.Data) != "new" || f.Version != info.Version {
		t.Errorf("read back %q at %s, %v; want new at %s", f.Data, f.Version, err, info.Version)
	}
	if _, err := tree.Write(t.Context(), "os://tool.sh", []byte("#!/bin/sh\n"), ""); err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(filepath.Join(dir, "tool.sh")); err != nil || s.Mode().Perm() != 0o750 {
		t.Errorf("the mode is %v, %v; want it kept", s.Mode(), err)
	}
	_, err = tree.Write(t.Context(), "os://locked", []byte("x"), "")
	vfstest.WantCode(t, "writing a file that is read-only", err, 403)
	_, err = tree.Write(t.Context(), "os://big", make([]byte, vfs.MaxFile+1), "")
	vfstest.WantCode(t, "writing too much", err, 413)
	vfstest.WantList(t, "no leftovers", vfstest.Walk(t, tree, "os://", 0), []string{"os://a/", "os://a/b/", "os://a/b/c.md", "os://locked", "os://tool.sh"})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory has %v, %v: a temporary file is left", entries, err)
	}
}

func TestWriteIfVersion(t *testing.T) {
	tree, dir := newDirectory(t, Options{}, map[string]string{"a": "1"})
	write := func(what string, expect vfs.Expect, want int) string {
		t.Helper()
		info, err := tree.Write(t.Context(), "os://a", []byte(what), expect)
		vfstest.WantCode(t, "writing "+what, err, want)
		return info.Version
	}
	first, err := tree.Version(t.Context(), "os://a")
	if err != nil {
		t.Fatal(err)
	}
	write("not new", vfs.Absent, 409)
	second := write("second", vfs.Expect(first), 0)
	write("late", vfs.Expect(first), 409)
	third := write("third", vfs.Expect(second), 0)
	vfstest.Put(t, dir, map[string]string{"a": "by another program"})
	write("overtaken", vfs.Expect(third), 409)
	if err := tree.Delete(t.Context(), "os://a", false); err != nil {
		t.Fatal(err)
	}
	write("gone", vfs.Expect(third), 409)
	write("again", vfs.Absent, 0)
}

// TestOneOfManyWritesWins: of writers that expect the same version, one succeeds, and readers
// see whole contents only.
func TestOneOfManyWritesWins(t *testing.T) {
	tree, _ := newDirectory(t, Options{}, map[string]string{"a": strings.Repeat("0", 4096)})
	const writers = 8
	for round := range 10 {
		now, err := tree.Version(t.Context(), "os://a")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		results := make([]error, writers)
		for i := range writers {
			all.Go(func() {
				content := strings.Repeat(string(rune('a'+i)), 4096)
				_, results[i] = tree.Write(t.Context(), "os://a", []byte(content), vfs.Expect(now))
			})
			all.Go(func() {
				f, err := tree.Read(t.Context(), "os://a")
				if err != nil || len(f.Data) != 4096 || strings.Trim(string(f.Data), string(f.Data[:1])) != "" {
					t.Errorf("a reader saw %d bytes, %v", len(f.Data), err)
				}
			})
		}
		all.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			} else {
				vfstest.WantCode(t, "losing", err, 409)
			}
		}
		if won != 1 {
			t.Errorf("round %d: %d writers won, want 1", round, won)
		}
	}
}

func TestAReadOnlyDirectory(t *testing.T) {
	tree, dir := newDirectory(t, Options{ReadOnly: true, NoExec: true}, map[string]string{"a": "1", "tool": "#!"})
	if err := os.Chmod(filepath.Join(dir, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := tree.Write(t.Context(), "os://a", nil, "")
	vfstest.WantCode(t, "Write", err, 403)
	vfstest.WantCode(t, "Delete", tree.Delete(t.Context(), "os://a", false), 403)
	if p, ok := tree.Local("os://tool"); !ok || p.Can.Code {
		t.Errorf("a file of a mount without code: %+v, %v", p, ok)
	}
	if info, err := tree.Stat(t.Context(), "os://tool"); err != nil || info.Executable || info.Writable {
		t.Errorf("Stat = %+v, %v", info, err)
	}
}

func TestLocal(t *testing.T) {
	tree, dir := newDirectory(t, Options{Programs: true}, map[string]string{"bin/tool": "#!/bin/sh"})
	if err := os.Chmod(filepath.Join(dir, "bin/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bin/tool", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(filepath.Join(dir, "bin/tool"))
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"os://bin/tool", "os://link", "/bin/../bin/tool"} {
		if path, ok := tree.Program(uri); !ok || path != want {
			t.Errorf("Program(%s) = %q, %v; want %q", uri, path, ok, want)
		}
		if info, err := tree.Stat(t.Context(), uri); err != nil || !info.Executable {
			t.Errorf("Stat(%s) = %+v, %v; want it executable", uri, info, err)
		}
	}
}

// TestADirectoryThatIsReplaced: what is at the path now counts, not what was there first.
func TestADirectoryThatIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "os")
	vfstest.Put(t, dir, map[string]string{"a": "old"})
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}})
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	_, err = tree.Read(t.Context(), "os://a")
	vfstest.WantCode(t, "reading in a directory that is gone", err, 404)
	vfstest.Put(t, dir, map[string]string{"a": "new"})
	if f, err := tree.Read(t.Context(), "os://a"); err != nil || string(f.Data) != "new" {
		t.Errorf("read %q, %v; want new", f.Data, err)
	}
}

func TestNamesThatNoURICanHold(t *testing.T) {
	tree, dir := newDirectory(t, Options{}, map[string]string{"good": "1"})
	for _, name := range []string{`back\slash`, "new\nline", "bad\xff", "%2e%2e"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, unnamed := 0, 0
	for _, err := range tree.Walk(t.Context(), "os://") {
		switch {
		case errors.Is(err, vfs.ErrUnnamed):
			unnamed++
		case err != nil:
			t.Error(err)
		default:
			found++
		}
	}
	if found != 1 || unnamed != 4 {
		t.Errorf("%d found and %d without a name, want 1 and 4", found, unnamed)
	}
}

func TestAFileThatIsTooLarge(t *testing.T) {
	tree, dir := newDirectory(t, Options{}, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), vfs.MaxFile+1); err != nil {
		t.Fatal(err)
	}
	_, err := tree.Read(t.Context(), "os://large")
	vfstest.WantCode(t, "Read", err, 413)
}

func TestACancelledReader(t *testing.T) {
	tree, _ := newDirectory(t, Options{}, map[string]string{"a": "1", "b/c": "2"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tree.Read(ctx, "os://a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	for _, err := range tree.Walk(ctx, "os://") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Walk: %v", err)
		}
	}
}

func TestADirectoryThatIsNone(t *testing.T) {
	dir := t.TempDir()
	vfstest.Put(t, dir, map[string]string{"file": ""})
	for _, path := range []string{filepath.Join(dir, "nothing"), filepath.Join(dir, "file")} {
		if _, err := Open(path, Options{}); err == nil {
			t.Errorf("%s is mounted as a directory", path)
		}
	}
}

func TestTheExecutableBitIsPartOfTheVersion(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tool")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}})
	before, err := tree.Version(t.Context(), "os://tool")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if after, err := tree.Version(t.Context(), "os://tool"); err != nil || after == before {
		t.Errorf("%q before and %q after, %v", before, after, err)
	}
}

// newDirectory returns a tree whose root is a directory with some files.
func newDirectory(t testing.TB, opts Options, files map[string]string) (*vfs.Tree, string) {
	t.Helper()
	dir := t.TempDir()
	vfstest.Put(t, dir, files)
	d, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}}), dir
}
