package vfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/vfstest"
)

func BenchmarkResolve(b *testing.B) {
	tree := vfstest.NewTree(b, vfs.Options{})
	for _, bench := range []struct{ name, uri, base string }{
		{"printed", "os://agents/team/lead.md", ""},
		{"relative", "../skills/style.md", "os://agents/team/lead.md"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tree.Resolve(bench.uri, bench.base); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead reads a small file, beside what reading it costs without a tree.
func BenchmarkRead(b *testing.B) {
	tree, dir := newDirectory(b, map[string]string{"agents/team/lead.md": "You lead.\n"})
	b.Run("tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tree.Read(b.Context(), "os://agents/team/lead.md"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tree.Stat(b.Context(), "os://agents/team/lead.md"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		path := filepath.Join(dir, "agents/team/lead.md")
		for b.Loop() {
			if _, err := os.ReadFile(path); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWalk goes over 2,000 skills in folders of their own.
func BenchmarkWalk(b *testing.B) {
	files := make(map[string]string)
	for i := range 2000 {
		files[fmt.Sprintf("skills/s%04d/SKILL.md", i)] = "---\nname: s\n---\n"
	}
	tree, _ := newDirectory(b, files)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for info, err := range tree.Walk(b.Context(), "os://skills") {
			if err != nil {
				b.Fatal(err)
			}
			if !info.Dir {
				n++
			}
		}
		if n != 2000 {
			b.Fatalf("%d files", n)
		}
	}
}
