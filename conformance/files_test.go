package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/capability/content"
	"kernos/capability/memory"
	"kernos/capability/vfs"
	"kernos/capability/vfs/memoryfs"
	"kernos/capability/vfs/mounts"
	"kernos/kernel"
)

// fileSpec is a file below the os root that a conversation needs.
type fileSpec struct {
	path, content string
	mode          fs.FileMode
}

// addFile reads the value of a file: or file+x: line.
func (c *conversation) addFile(text string, mode fs.FileMode) error {
	path, quoted, _ := strings.Cut(text, " ")
	f := fileSpec{path: path, mode: mode}
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return fmt.Errorf("a file lies below the os root, not at %q", path)
	}
	quoted, err := expand(strings.TrimSpace(quoted))
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(quoted), &f.content); err != nil {
		return fmt.Errorf("the content of %s is no JSON string: %w", path, err)
	}
	c.files = append(c.files, f)
	return nil
}

// makeFiles makes a directory in which the folder os has the conversation's files, and
// returns it. Without files there is no such folder, and the root is undefined.
func (c *conversation) makeFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range c.files {
		path := filepath.Join(dir, "os", filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.content), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// executes reports whether the conversation has tools, which are executed to describe themselves.
func (c *conversation) executes() bool {
	return slices.ContainsFunc(c.files, func(f fileSpec) bool { return f.mode&0o100 != 0 })
}

// fileFlags returns the flags with which a kernel has the conversation's files.
func (c *conversation) fileFlags(t *testing.T) []string {
	dir := c.makeFiles(t)
	if c.executes() {
		return []string{"--mount", "/=" + filepath.Join(dir, "os") + ":exec"}
	}
	return []string{"--directory", dir}
}

// wantsFiles reports whether the conversation needs the tree of files.
func (c *conversation) wantsFiles() bool {
	return c.wants("capability/vfs") || c.wants("capability/content") || len(c.files) > 0
}

// tree returns the tree of files of a conversation: its own at the root, and the memory.
func (c *conversation) tree(t *testing.T, m *memory.Memory, b kernel.BlobPutter) *vfs.Tree {
	t.Helper()
	folder := mounts.Folder{Path: filepath.Join(c.makeFiles(t), "os"), New: true, Programs: c.executes()}
	root, err := mounts.Root(func() []mounts.Folder { return []mounts.Folder{folder} })
	if err != nil {
		t.Fatal(err)
	}
	tree, err := vfs.New(vfs.Options{
		Mounts: []vfs.Mount{root, {Path: "/memory", Driver: memoryfs.New(m, b)}},
		Blobs:  b,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// contentFiles is the tree of files as content reads it.
type contentFiles struct{ *vfs.Tree }

func (f contentFiles) Read(ctx context.Context, uri string) (content.File, error) {
	file, err := f.Tree.Read(ctx, uri)
	return content.File{Data: file.Data, Version: file.Version, Modified: file.Modified}, err
}

func (f contentFiles) Walk(ctx context.Context, uri string) iter.Seq2[content.Entry, error] {
	return func(yield func(content.Entry, error) bool) {
		for info, err := range f.Tree.Walk(ctx, uri) {
			if (err != nil || !info.Dir) && !yield(content.Entry{URI: info.URI, Version: info.Version}, err) {
				return
			}
		}
	}
}
