package kernel

import (
	"strings"
	"testing"

	"kernos/message"
)

// What isn't there is said, and a name is suggested only if it is near.
func TestAnUnknownDomainNamesWhatToUse(t *testing.T) {
	k := newKernel(t, nil, echo("Memory.Set"), echo("Memory.Get"), echo("VFS.Read"), echo("Http.Fetch"), echo("Message.List"), echo("Syscall.List"))
	for name, want := range map[string]string{
		"Timer.Start":     "nothing here runs by the clock",
		"Schedule.Create": "nothing here runs by the clock",
		"Jobs.Submit":     "nothing here runs in the background",
		"File.Open":       "for file there is VFS.Read (",
		"Kv.Put":          "for kv there is Memory.Set, Memory.Get (",
		"Shell.Run":       "kernos handle TYPE -- command",
		"Web.Browse":      "for web there is Http.Fetch (",
		"Logs.Tail":       "for logs there is Message.List (",
		"Memory.Gett":     "did you mean Memory.Get",
		"Quantum.Flip":    "No handler for Quantum.Flip (",
	} {
		got := string(answer(t, k, query("q", message.Type(name), `{}`)).Data)
		if !strings.Contains(got, want) || strings.Contains(got, "did you mean") != strings.Contains(want, "did you mean") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
