package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

// What Copy as writes is the call of the form, without its secrets: it is run as it was copied.
func TestCopyAs(t *testing.T) {
	tool.Need(t, "browser", "curl")
	bin := filepath.Dir(testkit.Program(t, "kernos/cmd/kernos"))
	w := open(t, formModule())
	const data = `{"title":"it's \"quoted\"\nand \ttabs, ` + "`ticks`" + `, $HOME, \\\\, %s, !x, <é 日本 🎉\u2028>","count":9007199254740993,"labels":{"a'b":""},"tags":["; rm"]}`
	token, err := os.ReadFile(filepath.Join(w.home, "token"))
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	run := func(input, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "KERNOS_HOME="+w.home, "PATH="+bin+":"+os.Getenv("PATH"), "KERNOS_TOKEN="+secret)
		cmd.Stdin = strings.NewReader(input)
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v\n%s%s", err, out, &failed)
		}
		return string(out)
	}
	ways := map[string]func(text string) string{
		"CLI":    func(text string) string { return run("", "sh", "-c", text) },
		"curl":   func(text string) string { return run("", "sh", "-c", text) },
		"NDJSON": func(text string) string { return run(text+"\n", filepath.Join(bin, "kernos"), "pipe") },
		"Go": func(text string) string {
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return run("", "go", "run", "-ldflags=-w", file)
		},
		"JSON-RPC": func(text string) string {
			c, _, err := websocket.Dial(t.Context(), "ws://"+w.daemon.Address+"/", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.CloseNow() }()
			if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			for {
				_, frame, err := c.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(frame, []byte(`"type":"data"`)) || bytes.Contains(frame, []byte(`"error"`)) {
					return string(frame)
				}
			}
		},
	}
	w.goTo("/call/form/fill?data=" + eval[string](w, fmt.Sprintf("encodeURIComponent(%q)", data)))
	w.wait(`document.querySelector('.kind.query') && document.querySelector('[data-field="/count"] input')?.value === "9007199254740993"`)
	w.fill(`[data-field="/secret"] input`, "hush")
	eval[bool](w, `navigator.clipboard.writeText = async (text) => { window.copied = text; }, true`)
	want := decoded(t, data)
	for name, do := range ways {
		eval[bool](w, `window.copied = "", true`)
		w.choose(`[data-testid=copy]`, name)
		w.wait(`window.copied`)
		text := eval[string](w, `window.copied`)
		if strings.Contains(text, "hush") {
			t.Errorf("%s has a write-only field: %s", name, text)
		}
		answer := do(text)
		if !within(decoded(t, answer), want) {
			t.Errorf("%s\n%s\nis answered with\n%s", name, text, answer)
		}
	}
}

// decoded is a value with its numbers as they are written.
func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Errorf("%v in %q", err, text)
	}
	return value
}

// within reports whether a value, or one inside of it, is the wanted one.
func within(value, want any) bool {
	if reflect.DeepEqual(value, want) {
		return true
	}
	members, _ := value.(map[string]any)
	for _, inner := range members {
		if within(inner, want) {
			return true
		}
	}
	items, _ := value.([]any)
	for _, inner := range items {
		if within(inner, want) {
			return true
		}
	}
	return false
}

// The source of the console has no type error; esbuild looks at none.
func TestTypes(t *testing.T) {
	tool.Need(t, "node")
	out, err := exec.Command("node", filepath.Join(tool.Modules(t), "typescript", "bin", "tsc"), "-p", "../../console/tsconfig.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
