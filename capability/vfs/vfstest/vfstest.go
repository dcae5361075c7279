// Package vfstest has what the tests of the tree of files and of its drivers share.
package vfstest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/capability/vfs"
	"kernos/message"
)

// Put makes files below a directory; a name with a slash at its end is a directory.
func Put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		folder := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			folder = path
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if folder == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// NewTree returns a tree that is closed with the test.
func NewTree(t testing.TB, opts vfs.Options) *vfs.Tree {
	t.Helper()
	tree, err := vfs.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil && !errors.Is(err, os.ErrClosed) { // some tests break things
			t.Error(err)
		}
	})
	return tree
}

// Code returns the code of an error that the caller would see.
func Code(err error) int {
	if err == nil {
		return 0
	}
	e, _ := message.ErrorOf(err)
	return e.Code
}

// WantCode fails unless an error has a code, and a text that a person can use.
func WantCode(t testing.TB, what string, err error, want int) {
	t.Helper()
	if got := Code(err); got != want {
		t.Errorf("%s: %d (%v), want %d", what, got, err, want)
	}
	if _, ok := errors.AsType[*message.Error](err); want != 0 && !ok {
		t.Errorf("%s: the error has no words for the caller: %v", what, err)
	}
}

// Walk collects the URIs of a walk, directories with a slash at the end:
// at most limit of them if limit is not 0.
func Walk(t testing.TB, tree *vfs.Tree, uri string, limit int) []string {
	t.Helper()
	var uris []string
	for info, err := range tree.Walk(t.Context(), uri) {
		if err != nil {
			t.Errorf("walking %s: %v", uri, err)
			continue
		}
		if info.Dir {
			info.URI += "/"
		}
		if uris = append(uris, info.URI); len(uris) == limit {
			break
		}
	}
	return uris
}

// WantList fails unless two lists are equal.
func WantList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
