package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// TestKeysOfModelsOccurNowhere: a key reaches its provider, and neither the disk, nor a cassette, an
// error, an answer or the log, also if the provider sends it back.
func TestKeysOfModelsOccurNowhere(t *testing.T) {
	const key = "sk-0123456789abcdef"
	var sent []string
	note := func(r *http.Request) { sent = append(sent, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")) }
	echo := modeltest.Answer{Do: note, Text: "Your key is " + key + "."}
	refused := modeltest.Answer{Do: note, Status: 401, Raw: `{"error":{"message":"Incorrect API key provided: ` + key + `"}}`}
	s := modeltest.Serve(t, modeltest.Answer{Do: note, Text: "Hello."}, echo, refused, modeltest.Answer{Do: note, Raw: "data: " + key + "\n\n"})
	home, log := t.TempDir(), new(testkit.Notes)
	d, err := daemon.Open(&daemon.Options{Home: home, Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	call := func(who *principal.Principal, typ message.Type, data string) string {
		ctx := t.Context()
		if who != nil {
			ctx = kernel.ActFor(ctx, kernel.From(who, "test"))
		}
		var all strings.Builder
		outcome, _ := d.Call(ctx, message.Message{Kind: message.KindCommand, Type: typ, Data: json.RawMessage(data)}, func(m message.Message) { all.Write(m.Data) })
		return all.String() + string(outcome.Data)
	}
	host, _ := url.Parse(s.URL)
	seal := func(to string) string {
		var sealed string
		text := call(nil, "Crypto.Seal", `{"plaintext":"`+key+`"`+to+`}`)
		if err := json.Unmarshal([]byte(text), &sealed); err != nil {
			t.Fatal(text)
		}
		return sealed
	}
	settings := func(name, sealed string) string {
		return call(nil, "Memory.Set", `{"key":"models/`+name+`","value":`+s.Settings(modeltest.OpenAI, `"key":"`+sealed+`","record":"tape","retries":0`)+`}`)
	}
	settings("real", seal(`,"for":["`+host.Host+`"]`))
	settings("other", seal(`,"for":["api.example.com"]`))
	settings("unbound", seal(""))
	agent := kerneltest.Principal(t, "1", "ci", principal.Grant{Preset: principal.Agent, Memory: []string{"notes"}})
	said := ""
	for _, c := range []struct {
		who         *principal.Principal
		model, want string
	}{
		{agent, "real", `"text":"Hello."`},
		{nil, "real", "has sent the key back"},
		{nil, "real", "the provider refuses the key"},
		{nil, "real", "has sent the key back"},
		{nil, "other", "it is sealed for api.example.com, and not for " + host.Host},
		{nil, "unbound", "it is sealed, but not for a host"},
	} {
		got := call(c.who, "Model.Generate", `{"model":"`+c.model+`","messages":[{"type":"input","text":"Hi"}]}`)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.model, got, c.want)
		}
		said += got
	}
	said += call(nil, "Model.List", `{}`)
	if got := settings("plain", key); !strings.Contains(got, "the key isn't sealed") {
		t.Errorf("a plain key: %s", got)
	}
	if len(sent) != 4 || sent[0] != "Bearer "+key {
		t.Errorf("sent %q", sent)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if tape, err := os.ReadFile(filepath.Join(home, "cassettes", "tape.jsonl")); err != nil || !bytes.Contains(tape, []byte("Hel")) {
		t.Errorf("the cassette is %s, %v", tape, err)
	}
	if strings.Contains(said, key) || log.Has(key) {
		t.Errorf("the key was said, or logged: %s %s", said, log)
	}
	_ = filepath.WalkDir(home, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if text, err := os.ReadFile(name); err != nil || bytes.Contains(text, []byte(key)) {
				t.Errorf("the key is in %s, or that can't be read: %v", name, err)
			}
		}
		return nil
	})
}

// TestAGenerationIsRecorded: as a whole if a caller sends it, also if that names a session; the turn of a session, which has
// the texts, is recorded by reference.
func TestAGenerationIsRecorded(t *testing.T) {
	s := modeltest.Serve(t, modeltest.Answer{Text: "An answer to be kept once."}, modeltest.Answer{Text: "An answer to be kept once."}, modeltest.Answer{Text: "An answer to be kept once."})
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir(), Models: s.Models()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-served, d.Close()); err != nil {
			t.Error(err)
		}
	}()
	call := func(correlation string, typ message.Type, data string) string {
		outcome, _ := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: typ, Data: json.RawMessage(data), Metadata: message.Metadata{Correlation: correlation}}, nil)
		return string(outcome.Data)
	}
	var created struct{ Session string }
	testkit.Until(t, "the daemon runs sessions", func() bool {
		return json.Unmarshal([]byte(call("", "Session.Create", `{"model":"openai","system":"Be brief.","tools":[]}`)), &created) == nil && created.Session != ""
	})
	generation := func(session string) string {
		return `{"model":"openai","system":"Be brief.","messages":[{"id":"m1","type":"input","text":"A question."}]` + session + `}`
	}
	for _, c := range []struct {
		name      string
		typ       message.Type
		data      string
		reference bool
	}{
		{"a caller", "Model.Generate", generation(""), false},
		{"a caller that names a session", "Model.Generate", generation(`,"session":"` + created.Session + `"`), false},
		{"a turn", "Session.Send", `{"session":"` + created.Session + `","text":"A question.","wait":true}`, true},
	} {
		if got := call(c.name, c.typ, c.data); strings.Contains(got, `"code"`) {
			t.Fatal(got)
		}
		list := call("", "Message.List", `{"type":"Model.Generate","correlation":`+strconv.Quote(c.name)+`}`)
		for text, want := range map[string]bool{"A question": !c.reference, "An answer": !c.reference, "Be brief": !c.reference, `"sha256":"`: c.reference, `"finish":"stop"`: true, "Streamed": false} {
			if strings.Contains(list, text) != want {
				t.Errorf("%s: the record has %q: %v, want %v: %s", c.name, text, !want, want, list)
			}
		}
	}
}
