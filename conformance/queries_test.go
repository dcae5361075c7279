package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kernos/message"
)

// TestQueriesChangeNothing sends every query with generated input, as a query and as a
// command, and compares the whole store and all blobs before and after, the journal aside.
func TestQueriesChangeNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := openWhole(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 30 {
		ttl := ""
		if i%5 == 4 { // some expire meanwhile
			ttl = fmt.Sprintf(`,"ttl":%d`, 1+i*100)
		}
		if m := w.command("Memory.Set", `{"key":"/notes/%d/%d","value":{"n":%d}%s}`, i%3, i, i, ttl); failure(m) != 0 {
			t.Fatalf("%s", m.Data)
		}
	}
	if m := w.command("Memory.Delete", `{"key":"/notes/1/28"}`); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	known := message.Message{Kind: message.KindCommand, Type: "Echo", Data: []byte(`{"message":"a note"}`)}
	known.Metadata = message.Metadata{ID: "known", Correlation: "flow", Timestamp: 1}
	w.ask(known)
	before, files := everything(t, w.store, "j"), listFiles(t, filepath.Join(dir, "blobs"))
	random := rand.New(rand.NewPCG(1, 2))
	answered := 0
	for _, m := range w.kernel.Registry().Modules() {
		for _, s := range m.Syscalls {
			if s.Kind != message.KindQuery || s.Type == "Message.Watch" { // which never ends
				continue
			}
			good := 0
			for i := range 300 {
				request := message.Message{Kind: message.KindQuery, Type: s.Type, Data: generate(random, s.Input.JSON(), i)}
				if i%3 == 2 && s.Type != "Message.Replay" { // which may execute
					request.Kind = message.KindCommand
				}
				if failure(w.ask(request)) == 0 {
					good++
				}
			}
			if good == 0 {
				t.Errorf("%s never succeeded: the test is blind to it", s.Type)
			}
			answered++
		}
	}
	if answered < 8 {
		t.Errorf("only %d queries", answered)
	}
	after := everything(t, w.store, "j")
	for key := range after {
		if before[key] != after[key] {
			t.Errorf("%q was %q and is %q", key, before[key], after[key])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d entries before, %d after", len(before), len(after))
	}
	// A reply that is too large for a line makes a blob; nothing else may.
	if now := listFiles(t, filepath.Join(dir, "blobs")); len(now) < len(files) {
		t.Errorf("blobs are gone: %v, %v", slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(now)))
	}
}

func listFiles(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name] = true
		}
		return nil
	})
	return all
}

// generate makes input for a schema: every member that it has, or some, of the right type
// mostly, from values that mean something to somebody.
func generate(random *rand.Rand, text []byte, round int) []byte {
	var s generated
	if err := s.read(text); err != nil {
		return []byte(`{}`)
	}
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if !required && random.IntN(3) > 0 || required && round%50 == 49 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", name), s.value(random, name)...)
	}
	return append(out, '}')
}
