package content

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/vfstest"
	"kernos/internal/patience"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestMain(m *testing.M) {
	patience.Stretch(20)
	goleak.VerifyTestMain(m)
}

// tree makes the kernel's tree of files a [Files], as the program does.
type tree struct{ *vfs.Tree }

func (t tree) Read(ctx context.Context, uri string) (File, error) {
	f, err := t.Tree.Read(ctx, uri)
	return File{Data: f.Data, Version: f.Version, Modified: f.Modified}, err
}

func (t tree) Walk(ctx context.Context, uri string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for info, err := range t.Tree.Walk(ctx, uri) {
			if (err != nil || !info.Dir) && !yield(Entry{URI: info.URI, Version: info.Version}, err) {
				return
			}
		}
	}
}

// put makes files below a directory, long ago. Those that begin with #! can be executed.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		age(t, path)
	}
}

// age makes a file one that was changed an hour ago.
func age(t testing.TB, path string) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

// directory returns a tree whose root is a directory with some files.
func directory(t testing.TB, files map[string]string) (tree, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	driver, err := dirfs.Open(dir, dirfs.Options{Programs: true})
	if err != nil {
		t.Fatal(err)
	}
	return tree{vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: driver}}})}, dir
}

// hydration returns the reply of Content.Hydrate.
func hydration(ctx context.Context, c *Content, uri string) []byte {
	data, err := jsonv2.Marshal(c.compose(kernel.OnItsOwn(ctx), hydrateInput{URI: uri}))
	if err != nil {
		panic(err)
	}
	return data
}

// hydrated is the output of a hydration.
func hydrated(t testing.TB, c *Content, uri string) hydrateOutput {
	t.Helper()
	data := hydration(t.Context(), c, uri)
	var out hydrateOutput
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%s: %v in %s", uri, err, data)
	}
	if out.Metadata.Dependencies.Skills == nil || out.Metadata.Dependencies.Tools == nil {
		t.Errorf("%s: a list is missing: %s", uri, data)
	}
	return out
}

// want compares the output of a hydration with JSON text.
func want(t testing.TB, c *Content, uri, text string) {
	t.Helper()
	if got := string(hydration(t.Context(), c, uri)); got != text {
		t.Errorf("%s:\n got %s\nwant %s", uri, got, text)
	}
}

// tool1 returns the description of the only tool of a resource.
func tool1(t testing.TB, c *Content, uri string) string {
	t.Helper()
	tools := hydrated(t, c, uri).Metadata.Dependencies.Tools
	if len(tools) != 1 {
		t.Fatalf("%s: %d tools", uri, len(tools))
	}
	return tools[0].Description
}

// call makes a call and returns its outcome.
func call(t testing.TB, k *kernel.Kernel, typ message.Type, data string) message.Message {
	return kerneltest.Outcome(t.Context(), k, kerneltest.Query("m1", typ, data))
}
