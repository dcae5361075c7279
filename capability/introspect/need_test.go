package introspect_test

import (
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// What isn't there is said, and a name is suggested only if it is near.
func TestAnUnknownDomainNamesWhatToUse(t *testing.T) {
	var served []kernel.Syscall
	for t, words := range map[message.Type]string{
		"Memory.Set": "note, kv, shell we keep it", "Memory.Get": "kv", "VFS.Read": "file", "Http.Fetch": "web, get a page", "Message.List": "log", "Syscall.List": "",
	} {
		one := kerneltest.Echo(t)
		one.Words = words
		served = append(served, one)
	}
	k := kerneltest.New(t, &kernel.Options{Needs: introspect.Needs}, served...)
	for name, want := range map[string]string{
		"Timer.Start":     "nothing here runs by the clock",
		"Schedule.Create": "nothing here runs by the clock",
		"Jobs.Submit":     "nothing here runs in the background",
		"File.Open":       "for file there is VFS.Read (",
		"Kv.Put":          "for kv there is Memory.",
		"Shell.Run":       "kernos handle TYPE -- command",
		"Web.Browse":      "for web there is Http.Fetch (",
		"Logs.Tail":       "for logs there is Message.List (",
		"Memory.Gett":     "did you mean Memory.Get",
		"Quantum.Flip":    "No handler for Quantum.Flip (",
	} {
		got := string(kerneltest.Answer(t, k, kerneltest.Query("q", message.Type(name), `{}`)).Data)
		if !strings.Contains(got, want) || strings.Contains(got, "did you mean") != strings.Contains(want, "did you mean") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
