package line

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
)

func TestParametersThatAreFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"path": true, "file": true, "outputPath": true, "log_file": true, "files": true, "Directory": true,
		"key": false, "profile": false, "value": false, "pathology": false, "uri": false, "": false,
	} {
		if got := isFile(&client.Field{Name: name, Types: []string{"string"}}); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
	if isFile(&client.Field{Name: "file", Types: []string{"integer"}}) {
		t.Error("a number is a file")
	}
}

// The exit status is that of the job that was waited for, and of the code that was tested.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct{ module, name, data, want string }{
		{"job", "wait", `{"jobId":"1","status":"completed"}`, ""},
		{"job", "wait", `{"jobId":"1","status":"failed","error":{"code":500,"message":"no"}}`, "the job 1 has failed: 500 no"},
		{"job", "wait", `{"jobId":"1","status":"running"}`, "the job 1 is still running; kernos job wait 1 waits for it"},
		{"syscall", "unregister", `{"unregistered":true}`, ""},
		{"syscall", "unregister", `{"unregistered":false}`, "nothing was removed: no code is registered under this name; kernos ls lists the syscalls"},
		{"job", "status", `{"jobId":"1","status":"failed"}`, ""},
		{"syscall", "test", `{"output":1,"ms":1}`, ""},
		{"syscall", "test", `{"error":{"code":504,"message":"too slow"},"ms":1}`, "the code has failed: 504 too slow"},
	} {
		got := ""
		route, _ := builtIn(c.module + "_" + c.name)
		m := &client.Method{Presentation: client.Presentation{Failure: route.Syscall.Failure}}
		if err := (&call{method: m}).outcome([]byte(c.data)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.module, c.name, c.data, got, c.want)
		}
	}
}

func TestAskForWhatIsMissing(t *testing.T) {
	name := &client.Field{Name: "name", Types: []string{"string"}, Required: true}
	height := &client.Field{Name: "maxHeight", Types: []string{"number"}, Required: true}
	m := &client.Method{Module: "garden", Name: "plant", Field: client.Field{Types: []string{"object"}, Fields: []*client.Field{name, height, {Name: "alive", Types: []string{"boolean"}}}}}
	m.Schema = json.RawMessage(`{"type":"object","properties":{"maxHeight":{"type":"number","maximum":100}},"required":["name","maxHeight"]}`)
	var notes bytes.Buffer
	c := &call{method: m, screen: &terminal.Screen{Err: &notes}}
	answers := []string{"oak", "tall", "700", "7"}
	var asked []string
	got, err := c.ask(json.RawMessage(`{"alive":true}`), func(f *client.Field) (string, error) {
		asked = append(asked, f.Name)
		text := answers[0]
		answers = answers[1:]
		return text, nil
	})
	if err != nil || string(got) != `{"alive":true,"maxHeight":7,"name":"oak"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if strings.Join(asked, " ") != "name maxHeight maxHeight maxHeight" || !strings.Contains(notes.String(), `expected a number, got "tall"`) || !strings.Contains(notes.String(), "a number of at most 100") {
		t.Errorf("asked were %v: %s", asked, notes.String())
	}
	if q := question(&client.Field{Name: "key", Description: "Where it is."}); q != "key (Where it is): " {
		t.Errorf("the question is %q", q)
	}
	if q := question(&client.Field{Name: "pin", Sensitive: true}); q != "pin (What you type is not shown): " {
		t.Errorf("the question is %q", q)
	}
}
