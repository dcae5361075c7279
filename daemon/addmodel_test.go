package daemon_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/message"
)

// TestModelsAreAddedAndRemovedWhole: a model that doesn't answer isn't kept, and one that does is kept with its key sealed,
// as the default if there is none, in one step. What stands for a removed model goes with it.
func TestModelsAreAddedAndRemovedWhole(t *testing.T) {
	const key = "sk-0123456789abcdef"
	var sent []string
	note := func(r *http.Request) { sent = append(sent, r.Header.Get("Authorization")) }
	s := modeltest.Serve(t, modeltest.Answer{Do: note, Status: 401, Raw: `{"error":{"message":"no"}}`}, modeltest.Answer{Do: note, Text: "ready"}, modeltest.Answer{Do: note, Text: "ready"})
	home, log := t.TempDir(), new(testkit.Notes)
	configured := map[string]json.RawMessage{"fixed": json.RawMessage(`{"dialect":"demo"}`)}
	d, err := daemon.Open(&daemon.Options{Home: home, Log: log.Logger(), Models: configured})
	if err != nil {
		t.Fatal(err)
	}
	call := func(typ message.Type, data string) string {
		outcome, _ := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: typ, Data: json.RawMessage(data)}, nil)
		return string(outcome.Data)
	}
	models := func() string {
		var list struct {
			Models []struct {
				Name, Model, Source, Problem string
				Key                          bool
			}
		}
		if err := json.Unmarshal([]byte(call("Model.List", `{}`)), &list); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range list.Models {
			if m.Source != "memory" {
				continue
			}
			if m.Key {
				m.Name += "+key"
			}
			all = append(all, m.Name+":"+m.Model+m.Problem)
		}
		return strings.Join(all, " ")
	}
	at := `","baseUrl":"` + s.URL + `/v1","model":"m"`
	for _, step := range []struct {
		typ              message.Type
		data, says, want string
	}{
		{"Model.Add", `{"name":"cloud` + at + `,"apiKey":"` + key + `"}`, "the provider refuses the key", ""},
		{"Model.Add", `{"name":"cloud` + at + `,"apiKey":"` + key + `"}`, `{"name":"cloud","model":"m","baseUrl":"` + s.URL + `/v1","default":true}`, "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"cloud` + at + `}`, "A model cloud is configured already", "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"fixed` + at + `}`, "A model fixed is configured already", "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"default` + at + `}`, "and not default", "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"new"}`, "baseUrl: expected a URL", "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"openai","apiKey":"pwenc:v1:` + key + `"}`, "key: expected a string that is sealed", "cloud+key:m default:cloud"},
		{"Model.Add", `{"name":"local` + at + `}`, `"name":"local"`, "cloud+key:m default:cloud local:m"},
		{"Model.Default", `{"name":"local"}`, `{"default":"local","before":"cloud"}`, "cloud+key:m default:local local:m"},
		{"Model.Default", `{"name":"locl"}`, "did you mean local?", "cloud+key:m default:local local:m"},
		{"Model.Default", `{"name":"default"}`, "stands for the default model", "cloud+key:m default:local local:m"},
		{"Model.Remove", `{"name":"fixed"}`, "aren't in the memory (config)", "cloud+key:m default:local local:m"},
		{"Model.Remove", `{"name":"cloud"}`, `{"removed":true}`, "default:local local:m"},
		{"Model.Remove", `{"name":"cloud"}`, `isn't configured`, "default:local local:m"},
		{"Model.Remove", `{"name":"local"}`, `{"removed":true,"default":true}`, ""},
	} {
		if got := call(step.typ, step.data); !strings.Contains(got, step.says) || strings.Contains(got, key) {
			t.Errorf("%s %s: got %s; want %s", step.typ, step.data, got, step.says)
		}
		if got := models(); got != step.want {
			t.Errorf("after %s %s: %s; want %s", step.typ, step.data, got, step.want)
		}
	}
	if got := strings.Join(sent, ","); got != "Bearer "+key+",Bearer "+key+"," {
		t.Errorf("sent %s", got)
	}
	if err := d.Close(); err != nil || log.Has(key) {
		t.Errorf("%v, %s", err, log)
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
