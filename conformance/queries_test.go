package conformance

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/capability/lifecycle"
	"kernos/internal/testkit"
	"kernos/message"
	"kernos/store/storetest"
)

// TestQueriesChangeNothing sends every query with generated input, as a query and as a
// command, and compares the whole store, the journal aside, and all files before and after:
// those of the kernel, but for blobs, and those that it shows.
//
// Clauses: M24-4.2.2-1
func TestQueriesChangeNothing(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"agents/writer.md":      "---\nname: writer\ndescription: Writes.\nskills: [os://skills/spell]\n---\nYou write.\n",
		"skills/spell/SKILL.md": "---\nname: spell\ndescription: Spells.\n---\nSpell well.\n",
		"notes.txt":             "milk",
	} {
		path := filepath.Join(files, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w := newWhole(t, dir, around{engine: engines["pebble"], files: files})
	askAll(t, w, generator{random: rand.New(rand.NewPCG(3, 4)), texts: texts}, dir, files, false) // nothing is there yet
	known := append(fill(t, w), `"Text.Count"`, `"mounted"`, `"known"`)
	counts := askAll(t, w, generator{random: rand.New(rand.NewPCG(1, 2)), texts: append(slices.Repeat(known, 10), texts...)}, dir, files, true)
	for name, good := range counts {
		if good == 0 && !strings.HasPrefix(string(name), "Mcp.") { // they ask a client of the Model Context Protocol, which this test isn't
			t.Errorf("%s never succeeded: the test is blind to it", name)
		}
	}
	if len(counts) < 23 {
		t.Errorf("only %d queries: %v", len(counts), slices.Sorted(maps.Keys(counts)))
	}
}

// fill puts something into a kernel that can be asked for. It returns a sealed string and the ids
// of a finished job and a session, as JSON.
func fill(t *testing.T, w *whole) (known []string) {
	t.Helper()
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
	if m := w.command("Memory.Set", `{"key":"/notes/large","value":%q}`, strings.Repeat("large ", 2000)); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	if m := w.command("Syscall.Register", `{"name":"Text.Count","kind":"query","code":"export const handler = () => 1","inputSchema":{},"outputSchema":{}}`); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { // of the Model Context Protocol
		var request struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&request)
		out.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"tools":[]}}`, request.ID)
	}))
	t.Cleanup(server.Close)
	if m := w.command("Mcp.Add", `{"name":"mounted","url":%q}`, server.URL); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	if m := w.command("Token.Create", `{"name":"known","preset":"viewer"}`); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	note := message.Message{Kind: message.KindCommand, Type: "Echo", Data: []byte(`{"message":"a note"}`)}
	note.Metadata = message.Metadata{ID: "known", Correlation: "flow", Timestamp: 1}
	w.ask(note)
	secret := w.command("Crypto.Seal", `{"plaintext":"a secret"}`)
	if failure(secret) != 0 {
		t.Fatalf("%s", secret.Data)
	}
	return append(serveAWhile(t, w), string(secret.Data))
}

// serveAWhile runs a job to its end, creates a session, and has an item embedded. It returns the ids
// of the first two and the name of the collection, as JSON.
func serveAWhile(t *testing.T, w *whole) []string {
	t.Helper()
	defer w.serve(t)()
	var started struct{ JobID json.RawMessage }
	testkit.Until(t, "a job is started", func() bool {
		m := w.command("Job.Start", `{"name":"Echo","payload":{"message":"in the background"}}`)
		return failure(m) == 0 && json.Unmarshal(m.Data, &started) == nil
	})
	if m := w.query("Job.Wait", `{"jobId":%s}`, started.JobID); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	var created struct{ Session json.RawMessage }
	if m := w.command("Session.Create", `{"system":"You are a test."}`); failure(m) != 0 || json.Unmarshal(m.Data, &created) != nil {
		t.Fatalf("%s", m.Data)
	}
	if m := w.command("Vector.Upsert", `{"collection":"docs","items":[{"id":"1","text":"a note"}]}`); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	testkit.Until(t, "an item is embedded", func() bool {
		return strings.Contains(string(w.query("Vector.Collections", `{}`).Data), `"items":1,"model"`)
	})
	return []string{string(started.JobID), string(created.Session), `"docs"`}
}

// askAll sends every query that a kernel has, and looks whether anything has changed. It
// returns how many of each succeeded.
func askAll(t *testing.T, w *whole, g generator, dir, files string, many bool) map[message.Type]int {
	t.Helper()
	rounds, most := 20, 20
	if many {
		rounds, most = storetest.Sized(300), 300 // until one has succeeded
	}
	before := everything(t, w.store, "j")
	blobsBefore, filesBefore := listFiles(t, filepath.Join(dir, "blobs")), fingerprints(t, dir, files)
	good := make(map[message.Type]int)
	for _, m := range w.kernel.Registry().All().Modules() {
		for _, s := range m.Syscalls {
			if s.Kind != message.KindQuery {
				continue
			}
			good[s.Type] = 0
			rounds := rounds
			if s.Type == lifecycle.BackupType { // which reads the whole store each time
				rounds = min(rounds, 30)
			}
			for i := 0; i < rounds || i < most && good[s.Type] == 0; i++ {
				request := message.Message{Kind: message.KindQuery, Type: s.Type, Data: g.input(s.Input.JSON(), i)}
				if i%3 == 2 && s.Type != "Message.Replay" { // which may execute
					request.Kind = message.KindCommand
				}
				if s.Type == "Message.Watch" { // which never ends
					request.Data = fmt.Appendf(nil, `{"from":%d,"limit":1}`, i%2)
				}
				if s.Type == "Vector.Query" && i%10 == 0 { // whose input seldom fits by chance
					request.Data = fmt.Appendf(nil, `{"collection":"docs","text":%s}`, g.texts[i%len(g.texts)])
				}
				if s.Type == "Memory.History" && i%10 == 0 {
					request.Data = []byte(`{"key":"notes/0/3"}`)
				}
				if s.Type == "Session.Watch" { // which never ends either
					request.Data = fmt.Appendf(request.Data[:0], `{"session":%s,"limit":1}`, g.texts[i%len(g.texts)])
				}
				if failure(w.ask(request)) == 0 {
					good[s.Type]++
				}
			}
		}
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
	if now := listFiles(t, filepath.Join(dir, "blobs")); len(now) < len(blobsBefore) {
		t.Errorf("blobs are gone: %v, %v", slices.Sorted(maps.Keys(blobsBefore)), slices.Sorted(maps.Keys(now)))
	}
	filesAfter := fingerprints(t, dir, files)
	for name := range maps.Keys(filesAfter) {
		if filesBefore[name] != filesAfter[name] {
			t.Errorf("%s was %q and is %q", name, filesBefore[name], filesAfter[name])
		}
	}
	if len(filesAfter) != len(filesBefore) {
		t.Errorf("files before: %v\nand after: %v", slices.Sorted(maps.Keys(filesBefore)), slices.Sorted(maps.Keys(filesAfter)))
	}
	return good
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

// fingerprints are the contents, times and permissions of all files below some directories,
// but for the store, which is looked at as what it means, and blobs.
func fingerprints(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "store" || d.Name() == "blobs"):
				return filepath.SkipDir
			case d.IsDir():
				all[name] = "a directory"
				return nil
			case d.Name() == "blobs.lock": // an empty file, which a reader of the blobs locks
				return nil
			case d.Type() == os.ModeSymlink: // to the script engine, compiled
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(name)
			all[name] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), sha256.Sum256(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A generator makes input for schemas from values that mean something to a syscall.
type generator struct {
	random *rand.Rand
	texts  []string // JSON strings
}

// input makes input for a schema: every member that it has, or some, of the right type
// mostly.
func (g generator) input(text []byte, round int) []byte {
	var s generated
	if err := s.read(text); err != nil {
		return []byte(`{}`)
	}
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if !required && g.random.IntN(3) > 0 || required && round%50 == 49 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", name), g.value(&s, name)...)
	}
	return append(out, '}')
}
