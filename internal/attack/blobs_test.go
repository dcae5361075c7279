package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/message"
)

// get fetches a path with a secret, and returns the status and the body.
func (w *world) get(secret, path string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://"+w.address+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// pointerIn returns a pointer that an answer has, and the name of its blob.
func pointerIn(t *testing.T, o outcome) (pointer, path string) {
	t.Helper()
	var members map[string]json.RawMessage
	_ = json.Unmarshal(o.data, &members)
	for name, value := range members {
		var p message.BlobPointer
		if strings.HasSuffix(name, "Ref") && json.Unmarshal(value, &p) == nil && p.Scheme == "file" {
			return string(value), "/v1/blobs/" + p.Path[strings.LastIndex(p.Path, "/")+1:]
		}
	}
	t.Fatalf("no pointer in %v", o)
	return "", ""
}

// The name of a blob is not a right to it: a token fetches what was put for it, what it was given,
// and what the memory that it may read points to.
func TestABlobOfAnotherIsOutOfReach(t *testing.T) {
	w := open(t)
	bank, thief := w.token("bank", `"preset":"agent","memory":["bank"]`), w.token("thief", `"preset":"agent","memory":["thief"],"allow":["Syscall.*"]`)
	viewer, blind := w.token("viewer", `"preset":"viewer"`), w.token("blind", `"preset":"agent","deny":["Memory.*"]`)
	large := strings.Repeat("secret ", 6000)
	if o := w.call(bank, "Memory.Set", fmt.Sprintf(`{"key":"bank/1","value":%q}`, large)); o.code != 0 {
		t.Fatal(o)
	}
	read := []request{{"Memory.Get", message.KindQuery, `{"key":"bank/1"}`}}
	pointer, blob := pointerIn(t, w.overMessages(bank, read)[0])
	fetches := func(who, secret string, status int) {
		t.Helper()
		if got, text := w.get(secret, blob); got != status || (got == 200) != strings.Contains(text, large) {
			t.Errorf("%s gets %d %.60s", who, got, text)
		}
	}
	fetches("its owner", bank, 200)
	fetches("a viewer", viewer, 200)
	fetches("a token that reaches the key", w.defaultToken(), 200)
	fetches("a token that reads no memory", blind, 404)
	fetches("another token", thief, 404)

	// What the thief makes the kernel say doesn't make it the thief's.
	tries := []request{
		{"Echo", message.KindCommand, `{"message":` + fmt.Sprintf("%q", pointer) + `}`},
		{"Memory.Set", message.KindCommand, `{"key":"thief/1","valueRef":` + pointer + `}`},
		{"Memory.Set", message.KindCommand, `{"key":"thief/2","value":{"ref":` + pointer + `}}`},
		{"Memory.Get", message.KindQuery, `{"key":"thief/2"}`},
		{"VFS.Write", message.KindCommand, `{"uri":"os://memory/thief/3","contentRef":` + pointer + `}`},
		{"VFS.Read", message.KindQuery, `{"uri":"os://memory/thief/2"}`},
		{"Blob.Read", message.KindQuery, `{"ref":` + pointer + `}`},
		{"Message.List", message.KindQuery, `{}`},
	}
	for wire, found := range map[string][]outcome{"http": w.overMessages(thief, tries), "ws": w.overWebSocket(thief, tries)} {
		for i, o := range found {
			if strings.Contains(string(o.data), "secret secret") || o.code != 404 && (tries[i].Type == "Blob.Read" || strings.HasSuffix(tries[i].Data, `Ref":`+pointer+`}`)) {
				t.Errorf("%s over %s: %v", tries[i].Type, wire, o)
			}
		}
	}
	fetches("after all of that, the thief", thief, 404)

	// A program is given what it is asked with, and gives what it answers with, but not to one that
	// has only named it.
	shop := w.token("shop", `"preset":"handler"`)
	serving, paying, asking := w.link(shop), w.link(bank), w.link(thief)
	if o := serving.ask("Syscall.Register", newID(), definition("Shop.Pay")); o.code != 0 {
		t.Fatal(o)
	}
	asks := func(l *link, data, answer string) {
		t.Helper()
		l.send(fmt.Sprintf(`{"kind":"query","type":"Shop.Pay","data":%s,"metadata":{"id":%q,"timestamp":1}}`, data, newID()))
		serving.answer(message.KindReply, serving.next(), answer)
		if m := l.next(); string(m.Data) != answer {
			t.Fatalf("got %s", m.Data)
		}
	}
	asks(asking, `{"password":"x","ref":`+pointer+`}`, `{}`)
	fetches("a program that is asked by the thief", shop, 404)
	asks(paying, `{"password":"x","ref":`+pointer+`}`, `{}`)
	fetches("a program that is asked by its owner", shop, 200)
	asks(asking, `{"password":"x","ref":`+pointer+`}`, `{"ref":`+pointer+`}`)
	fetches("a thief that the program answers with what it was asked", thief, 404)
	asks(asking, `{"password":"x"}`, `{"ref":`+pointer+`}`)
	fetches("a caller that the program gives it", thief, 200)
}

// A token fetches what was put for it, whichever wire it was put for, and also when it doesn't
// reach any more what it was made of.
func TestABlobOfOnesOwnIsInReach(t *testing.T) {
	w := open(t)
	large := fmt.Sprintf("%q", strings.Repeat("x", 2<<20)) // for JSON-RPC, too
	read := []request{{"Memory.Get", message.KindQuery, `{"key":"ci/1"}`}}
	for wire, ask := range map[string]func(string, []request) []outcome{"http": w.overMessages, "ws": w.overWebSocket} {
		ci := w.token(wire, `"preset":"agent","memory":["ci"]`)
		w.must("Memory.Set", `{"key":"ci/1","value":`+large+`}`, nil)
		_, blob := pointerIn(t, ask(ci, read)[0])
		w.must("Token.Update", fmt.Sprintf(`{"name":%q,"deny":["Memory.*"]}`, wire), nil)
		if status, _ := w.get(ci, blob); status != 200 {
			t.Errorf("over %s: %d", wire, status)
		}
	}
}

// The metrics count all callers, so they are for those who see everything.
func TestMetricsAreForThoseWhoSeeEverything(t *testing.T) {
	w := open(t)
	for name, status := range map[string]int{"agent": 403, "handler": 403, "viewer": 200, "console": 200} {
		if got, text := w.get(w.token(name, fmt.Sprintf(`"preset":%q`, name)), "/metrics"); got != status || got == 403 && !strings.Contains(text, "--preset viewer") {
			t.Errorf("%s: %d %.100s", name, got, text)
		}
	}
	if got, _ := w.get(w.defaultToken(), "/metrics"); got != 403 {
		t.Errorf("the default token: %d", got)
	}
}

// A job fetches what its starter could have fetched: neither a file of the machine for a caller over the
// network, nor the blob of another.
func TestAJobReachesNoMoreThanItsStarter(t *testing.T) {
	w := open(t)
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`"secret secret"`), 0o600); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("secret ", 6000)
	w.must("Memory.Set", fmt.Sprintf(`{"key":"bank/1","value":%q}`, large), nil)
	blob, _ := pointerIn(t, w.overMessages(w.defaultToken(), []request{{"Memory.Get", message.KindQuery, `{"key":"bank/1"}`}})[0])
	file := fmt.Sprintf(`{"scheme":"file","path":%q}`, secret)
	thief := w.token("thief", `"preset":"agent","memory":["thief"],"allow":["Job.*"]`)
	for _, c := range []struct{ name, token, pointer string }{
		{"a token, a file", thief, file}, {"a token, a blob", thief, blob}, {"the owner over the network, a file", w.defaultToken(), file},
	} {
		for _, job := range []string{
			`{"name":"Memory.Set","payload":{"key":"thief/1","valueRef":%s}}`,
			`{"steps":[{"id":"a","name":"Ping","payload":{"payload":{"xRef":%s}}},{"id":"b","name":"Ping","payload":{"payload":{"$from":"a.payload.x"}}}]}`,
			`{"steps":[{"id":"a","name":"Ping","payload":{"payload":{"dataRef":%s}}},{"id":"b","name":"Ping","payload":{"payload":{"$from":"a.payload.x"}}}]}`,
			`{"steps":[{"id":"a","name":"Ping","payload":{"payload":{"dataRef":%s}}},{"id":"b","name":"Ping","payload":{"payload":{"$from":"a.payload.data"}}}]}`,
		} {
			var started struct{ JobID string }
			o := w.call(c.token, "Job.Start", fmt.Sprintf(job, c.pointer))
			if o.code != 0 || json.Unmarshal(o.data, &started) != nil {
				t.Fatalf("%s: %v", c.name, o)
			}
			var ended struct{ Status string }
			o = w.call(c.token, "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID))
			if json.Unmarshal(o.data, &ended) != nil || ended.Status != "failed" || strings.Contains(string(o.data), "secret secret") {
				t.Errorf("%s: %s gets %v", c.name, job, o)
			}
		}
	}
}
