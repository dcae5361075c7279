package daemon

import (
	"context"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// A mounted server may have other tools when it is next asked, and programs bring their syscalls themselves: a word is known to
// be wrong by the names of code and of kernos.
func TestNamesThatAreRemembered(t *testing.T) {
	r, err := kernel.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[message.Type]kernel.Provider{"Files.Read": kernel.Mounted, "Files.Find": kernel.Mounted, "Text.Count": kernel.Code, "Note.Take": kernel.Program} {
		module := kernel.Module{Name: strings.ToLower(name.Domain()), Version: "1.0.0", Summary: "Test."}
		s := kernel.Syscall{Definition: kernel.Definition{Type: name, Kind: message.KindQuery, Summary: "Test.", Input: schema.Any, Output: schema.Any}, Handler: func(context.Context, message.Message, kernel.Emit) {}, Provenance: kernel.Provenance{Provider: by}}
		if err := r.AddSyscall(module, s); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(namesIn(r), " "), "Files.* Files.Find Files.Read Text.Count"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
