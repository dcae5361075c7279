// Package models has programs that are language models of the kernel, in three languages. The
// test runs them beside a daemon.
package models

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/message"
)

func TestProgramsAreModels(t *testing.T) {
	home := testkit.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", home)
	d := daemontest.Serve(t, &daemon.Options{Home: filepath.Join(home, "home"), Socket: &daemon.Socket{}, Models: map[string]json.RawMessage{
		"go": settings("Echoing.Generate"), "python": settings("Parrot.Generate"), "typescript": settings("Polly.Generate"),
	}})
	socket, err := d.Home().Socket()
	if err != nil {
		t.Fatal(err)
	}
	library, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "KERNOS_SOCKET="+socket, "PYTHONPATH="+library, "PYTHONDONTWRITEBYTECODE=1")
	program := testkit.Program(t, "kernos/examples/models/go")
	long := strings.Repeat("a long conversation ", 5000)
	for model, command := range map[string][]string{"go": {program}, "python": {"python3", "python/model.py"}, "typescript": {"node", "typescript/model.mjs"}} {
		t.Run(model, func(t *testing.T) {
			tool.Need(t, tool.In(command[0])...)
			c := exec.Command(command[0], command[1:]...)
			c.Env, c.Stderr = env, new(testkit.Notes)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = c.Process.Kill()
				_ = c.Wait()
			}()
			ask := func(earlier string) (streamed, reply string) {
				data, _ := json.Marshal(map[string]any{"model": model, "messages": []any{
					map[string]any{"type": "input", "text": earlier}, map[string]any{"type": "reply", "text": "I see."}, map[string]any{"type": "input", "text": "hello out there"},
				}})
				outcome, _ := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Model.Generate", Data: data}, func(m message.Message) {
					var e struct{ Delta struct{ Text string } }
					_ = json.Unmarshal(m.Data, &e)
					streamed += e.Delta.Text
				})
				return streamed, string(outcome.Data)
			}
			testkit.Until(t, "the program serves its model", func() bool {
				_, reply := ask("first")
				return !strings.Contains(reply, "o program serves")
			})
			for _, earlier := range []string{"short", long} {
				if streamed, reply := ask(earlier); streamed != "You said: hello out there" || !strings.Contains(reply, `"text":"You said: hello out there"`) || !strings.Contains(reply, `"input":3,"output":5`) {
					t.Errorf("streamed %q, replied %s; %s", streamed, reply, c.Stderr)
				}
			}
		})
	}
}

func settings(generates string) json.RawMessage {
	return json.RawMessage(`{"dialect":"syscall","type":"` + generates + `","retries":0}`)
}
