package engine_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/capability/script/engine"
)

func TestWebAssemblyHandlers(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ name, want string }{
		{"echo", `{"in":1}`},
		{"files", `0`},
		{"loop", `Test.Wasm took longer than its 50ms`},
		{"sleep", `Test.Wasm took longer than its 50ms`},
		{"grow", `Test.Wasm used more than its 64 MB of memory`},
		{"recurse", `Test.Wasm: stack overflow`},
		{"flood", `Test.Wasm wrote more than its 1024 KB of output`},
		{"flood_log", `Test.Wasm wrote more than its 64 KB of log`},
		{"exit", `Test.Wasm: the module ended with status 3`},
		{"silent", `Test.Wasm must write JSON to its standard output: `},
		{"import", `Test.Wasm: the module imports system from env; only WASI (wasi_snapshot_preview1) can be imported`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := os.ReadFile("testdata/wasm/" + c.name + ".wasm")
			if err != nil {
				t.Fatal(err)
			}
			limits := engine.Limits{Time: time.Minute}
			if strings.Contains(c.want, "50ms") {
				limits.Time = 50 * time.Millisecond
			}
			h := &host{}
			p, err := e.Compile(context.Background(), engine.Source{Name: "Test.Wasm", Language: "wasm", Code: base64.StdEncoding.EncodeToString(code)})
			var out json.RawMessage
			if err == nil {
				out, err = e.Run(context.Background(), p, json.RawMessage(`{"in":1}`), h, limits)
			}
			got := string(out)
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (!strings.HasSuffix(c.want, " ") || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.name == "echo" && !slices.Equal(h.lines, []string{"info hello"}) {
				t.Errorf("the log has %q", h.lines)
			}
		})
	}
}
