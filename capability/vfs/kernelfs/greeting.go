package kernelfs

import (
	"context"
	"embed"
	"io/fs"
	"strings"

	"kernos/capability/vfs"
)

//go:embed greeting
var greeting embed.FS

// Greeting returns the driver of the tree that the kernel has of its own: an agent that
// greets, os://greeting.md, and its skill.
func Greeting() vfs.Driver {
	files := make(map[string]File)
	err := fs.WalkDir(greeting, "greeting", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			read := func(context.Context) ([]byte, error) { return greeting.ReadFile(path) }
			files[strings.TrimPrefix(path, "greeting/")] = File{Read: read, Cheap: true}
		}
		return err
	})
	if err != nil {
		panic(err) // the program was built without it
	}
	return &driver{what: "embedded greeting", can: vfs.Can{Read: true}, files: func() map[string]File { return files }}
}
