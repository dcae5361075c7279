package kernelfs

import (
	"context"

	"kernos/capability/vfs"
)

// A Variable is a setting that can be seen, and perhaps changed, while the kernel runs. Its
// functions are safe for concurrent use.
type Variable struct {
	Name string // segments with slashes between them: log/level
	Get  func() string

	// Set changes the setting, and what depends on it, at once. Its errors are
	// *message.Error: 422 says which values there are. Nil means that it can't be changed.
	Set func(value string) error
}

// Sys returns the driver of some settings: each is a file with one line.
func Sys(variables []Variable) vfs.Driver {
	files := make(map[string]File, len(variables))
	for _, v := range variables {
		read := func(context.Context) ([]byte, error) { return []byte(v.Get()), nil }
		files[v.Name] = File{Read: read, Write: v.Set, Cheap: true}
	}
	return &driver{what: "settings", can: vfs.Can{Read: true, Write: true}, files: func() map[string]File { return files }}
}
