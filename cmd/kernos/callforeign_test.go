package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"kernos/internal/exit"
)

// garden is the schema of the module that foreign servers have.
const garden = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"GardenMethods","oneOf":[
{"type":"object","description":"Plant a tree","properties":{"method":{"const":"plant"},"name":{"type":"string","description":"What it is called"},"height":{"type":"integer","default":3}},"required":["method","name"],"additionalProperties":false},
{"type":"object","description":"Water a tree","properties":{"method":{"const":"water"},"name":{"type":"string"},"pin":{"type":"string","writeOnly":true}},"required":["method","name"]}]}`

// A foreignServer speaks the protocol, and isn't a kernel. Its streams are what answers
// says, or what a well-behaved server would say.
type foreignServer struct {
	*httptest.Server
	url string

	mu      sync.Mutex
	answers map[string][]string // items by method
	early   bool                // items come before their acknowledgement
	params  []string            // that calls had
	open    []*websocket.Conn
}

func newForeign(t *testing.T) *foreignServer {
	s := &foreignServer{answers: map[string][]string{
		"service_hash":          {`"type":"data","content_type":"service.hash","data":{"hash":"h"}`, `"type":"done"`},
		"service_schema":        {`"type":"data","content_type":"service.schema","data":{"modules":[{"namespace":"garden","version":"1","description":"Trees","methods":["plant","water"]}],"total_methods":2}`, `"type":"done"`},
		"service_module_schema": {`"type":"data","content_type":"service.module_schema","data":` + strings.ReplaceAll(garden, "\n", ""), `"type":"done"`},
		"garden_plant":          {`"type":"progress","message":"digging","percentage":0.5`, `"type":"data","content_type":"garden.plant","data":{"id":1}`, `"type":"data","content_type":"garden.plant","data":{"id":2}`, `"type":"done"`},
	}}
	s.Server = httptest.NewServer(s)
	s.url = "ws" + strings.TrimPrefix(s.URL, "http")
	t.Cleanup(func() {
		s.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.open {
			_ = c.CloseNow()
		}
	})
	return s
}

func (s *foreignServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("Authorization") == "Bearer wrong" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.open = append(s.open, conn)
	s.mu.Unlock()
	ctx := context.WithoutCancel(r.Context())
	for n := 1; ; n++ {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return
		}
		s.answer(ctx, conn, n, text)
	}
}

func (s *foreignServer) answer(ctx context.Context, conn *websocket.Conn, n int, text []byte) {
	var call struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if json.Unmarshal(text, &call) != nil {
		return
	}
	s.mu.Lock()
	items, ok := s.answers[call.Method]
	early := s.early
	s.params = append(s.params, call.Method+" "+string(call.Params))
	s.mu.Unlock()
	if !ok || call.Method == "service_module_schema" && string(call.Params) != `["garden"]` {
		items = []string{
			`"type":"guidance","error_kind":"method_not_found","module":"garden","method":"plan","available_methods":["plant","water"],"action":"try_method","suggested_method":"plant"`,
			`"type":"error","error":"Method not found","recoverable":false`, `"type":"done"`,
		}
	}
	frames := []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%d}`, call.ID, n)}
	for _, i := range items {
		frames = append(frames, fmt.Sprintf(`{"jsonrpc":"2.0","method":"garden_events","params":{"subscription":%d,"result":{"service_hash":"h","provenance":["garden"],%s}}}`, n, i))
	}
	if early {
		frames[0], frames[1] = frames[1], frames[0]
	}
	for _, f := range frames {
		_ = conn.Write(ctx, websocket.MessageText, []byte(f)) // who has gone is not told
	}
}

// foreign runs a command in this process, and returns what it wrote and its status.
func foreign(t *testing.T, in string, args ...string) (out, notes string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	root := rootCommand()
	root.SetArgs(asModule(root, args))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&o)
	root.SetErr(&e)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		status = exit.Usage
		if s, ok := err.(*exit.Error); ok {
			status = s.Status
		}
		fmt.Fprintln(&e, err)
	}
	return o.String(), e.String(), status
}

// privately keeps a test away from the settings and the cache of the user that runs it.
func privately(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "config"))
	t.Setenv("KERNOS_CONTEXT", "")
	t.Setenv("KERNOS_TOKEN", "")
}

func TestCallOfAForeignServer(t *testing.T) {
	privately(t)
	s := newForeign(t)
	out, notes, status := foreign(t, "", "garden", "plant", "--name", "oak", "--server", s.url)
	if out != "{\"id\":1}\n{\"id\":2}\n" || notes != "" || status != 0 {
		t.Errorf("got %q, %q, %d", out, notes, status)
	}
	out, _, _ = foreign(t, "", "garden", "plant", "--help", "--server", s.url)
	for _, want := range []string{"Plant a tree", "kernos garden plant NAME [--PARAMETER", "Required:\n  --name STRING", "Default: 3.", "Example:\n  kernos garden plant name"} {
		if !strings.Contains(out, want) {
			t.Errorf("the help has no %q:\n%s", want, out)
		}
	}
	_, notes, status = foreign(t, "", "garden", "plan", "--name", "oak", "--server", s.url)
	if want := "  try:  kernos garden plant oak --server " + s.url + "\n"; status != exit.Unknown || !strings.Contains(notes, want) {
		t.Errorf("got %q, %d", notes, status)
	}
	_, notes, status = foreign(t, "", "garden", "plant", "--height", "5", "--server", s.url)
	if want := "  try:  kernos garden plant name --height 5 --server"; status != exit.Invalid || !strings.Contains(notes, want) {
		t.Errorf("got %q, %d", notes, status)
	}
	s.mu.Lock()
	for _, p := range s.params {
		if strings.Contains(p, `"height":5`) {
			t.Errorf("what is not valid was sent: %s", p)
		}
	}
	s.mu.Unlock()
	t.Setenv("KERNOS_TOKEN", "wrong")
	if _, notes, status = foreign(t, "", "garden", "plant", "--name", "oak", "--server", s.url); status != exit.Forbidden || !strings.Contains(notes, "--token-file") {
		t.Errorf("a wrong token: %q, %d", notes, status)
	}
}

func TestCallWithoutASchema(t *testing.T) {
	privately(t)
	s := newForeign(t)
	s.answers["service_schema"] = []string{`"type":"error","error":"not today","recoverable":false`, `"type":"done"`}
	out, notes, status := foreign(t, "", "garden", "plant", "--name", "oak", "n:=1", "--deep", "--server", s.url)
	if out != "{\"id\":1}\n{\"id\":2}\n" || status != 0 || !strings.Contains(notes, "parameters are sent as they are") {
		t.Errorf("got %q, %q, %d", out, notes, status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.params[len(s.params)-1]; got != `garden_plant [{"deep":true,"n":1,"name":"oak"}]` {
		t.Errorf("it was sent %s", got)
	}
}

func TestCallWithAStaleCatalog(t *testing.T) {
	privately(t)
	s := newForeign(t)
	if _, _, status := foreign(t, "", "garden", "plant", "--name", "oak", "--server", s.url); status != 0 {
		t.Fatal(status)
	}
	s.mu.Lock()
	s.answers["service_hash"] = []string{`"type":"error","error":"not today","recoverable":false`, `"type":"done"`}
	s.mu.Unlock()
	_, notes, status := foreign(t, "", "garden", "plant", "--name", "oak", "--server", s.url)
	if status != 0 || !strings.Contains(notes, "what it had when it was last called") {
		t.Errorf("got %q, %d", notes, status)
	}
	// With the server gone, help still comes from the cache, and says so.
	s.Close()
	out, notes, status := foreign(t, "", "garden", "plant", "--help", "--server", s.url)
	if status != 0 || !strings.Contains(out, "Plant a tree") || !strings.Contains(notes, "last called") {
		t.Errorf("got %q, %q, %d", out, notes, status)
	}
	if _, _, status = foreign(t, "", "garden", "plant", "--name", "oak", "--server", s.url); status != exit.Unreachable {
		t.Errorf("a call is %d", status)
	}
	// So do the methods of a module.
	if out, notes, status := foreign(t, "", "garden", "--server", s.url); status != 0 || !strings.Contains(out, "plant") || !strings.Contains(notes, "can't reach") {
		t.Errorf("a module: %q, %q, %d", out, notes, status)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	privately(t)
	s := newForeign(t)
	for _, args := range [][]string{
		{"water", "--name", "elm", "--pin", "hunter2", "--height", "1"},
		{"water", "--pin", "hunter2"},
		{"watr", "--name", "elm", "--pin", "hunter2"},
		{"water", "--name", "elm", "pin:=hunter2"},
		{"water", "--name", "elm", "pin:=[\"hunter2\"]"},
		{"water", "--name", "elm", "--pinn", "hunter2"},
		{"plant", "--name", "elm", "--hight", "tall"},
		{"water", "--data", `{"pin":"hunter2"`},
		{"water", "--data", `["hunter2"]`},
	} {
		out, notes, status := foreign(t, "", append(append([]string{"garden"}, args...), "--server", s.url)...)
		if status == 0 || strings.Contains(out+notes, "hunter2") || !strings.Contains(notes, "try:  kernos garden ") {
			t.Errorf("%v: got %q, %q, %d", args, out, notes, status)
		}
	}
	for _, form := range []string{"jsonrpc", "ndjson", "curl"} {
		out, notes, status := foreign(t, "", "garden", "water", "--name", "elm", "--pin", "hunter2", "--as", form, "--server", s.url)
		if status != 0 || strings.Contains(out+notes, "hunter2") || !strings.Contains(out, `"pin":"[redacted]"`) {
			t.Errorf("%s: got %q, %q, %d", form, out, notes, status)
		}
	}
}

func TestDoctorOfAForeignServer(t *testing.T) {
	privately(t)
	s := newForeign(t)
	out, _, status := foreign(t, "", "doctor", s.url)
	if status != 0 || strings.Contains(out, "✗") || !strings.Contains(out, "2 methods in 1 module, each with its schema") || !strings.Contains(out, "the server isn't a kernel") {
		t.Errorf("got %d\n%s", status, out)
	}
	for name, test := range map[string]struct {
		spoil func()
		want  string
	}{
		"items too early": {func() { s.early = true }, "before the acknowledgement"},
		"a wrong total": {func() {
			s.answers["service_schema"][0] = strings.Replace(s.answers["service_schema"][0], `"total_methods":2`, `"total_methods":7`, 1)
		}, "total_methods is 7, and there are 2"},
		"another order": {func() {
			s.answers["service_schema"][0] = strings.Replace(s.answers["service_schema"][0], `"plant","water"`, `"water","plant"`, 1)
		}, `has "plant" where its list has "water"`},
		"no hash":         {func() { s.answers["service_hash"][0] = `"type":"data","content_type":"service.hash","data":{}` }, "doesn't answer with a hash"},
		"no error":        {func() { s.answers["service_nosuchmethod"] = []string{`"type":"done"`} }, "as if it had succeeded"},
		"no guided error": {func() { s.answers["service_nosuchmethod"] = []string{`"type":"guidance"`, `"type":"done"`} }, "guidance is followed by done"},
		"a broken schema": {func() {
			s.answers["service_module_schema"][0] = strings.Replace(s.answers["service_module_schema"][0], `"type":"integer"`, `"type":"whole"`, 1)
		}, "the schema of garden"},
		"no content type": {func() { s.answers["service_hash"][0] = `"type":"data","data":{"hash":"h"}` }, "no content_type"},
		"something else":  {func() { s.answers["service_hash"] = []string{`"kind":"data"`} }, "breaks the protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			s = newForeign(t)
			test.spoil()
			out, _, status := foreign(t, "", "doctor", s.url)
			if status != exit.Failure || !strings.Contains(out, test.want) || !strings.Contains(out, "→ ") {
				t.Errorf("got %d\n%s", status, out)
			}
		})
	}
	t.Run("a wrong token", func(t *testing.T) {
		t.Setenv("KERNOS_TOKEN", "wrong")
		out, _, status := foreign(t, "", "doctor", newForeign(t).url)
		if status != exit.Forbidden || !strings.Contains(out, "kernos token prints") {
			t.Errorf("got %d\n%s", status, out)
		}
	})
	t.Run("no such path", func(t *testing.T) {
		out, _, status := foreign(t, "", "doctor", newForeign(t).url+"/elsewhere")
		if status != exit.Unreachable || !strings.Contains(out, "no server of this protocol at this path") {
			t.Errorf("got %d\n%s", status, out)
		}
	})
}

func TestAServerThatGivesNoGuidance(t *testing.T) {
	privately(t)
	s := newForeign(t)
	blunt := []string{`"type":"error","error":"Method not found","recoverable":false`, `"type":"done"`}
	for _, method := range []string{"garden_plnt", "service_nosuchmethod", "kernel_status"} {
		s.answers[method] = blunt
	}
	_, notes, status := foreign(t, "", "garden", "plnt", "--name", "oak", "--server", s.url)
	if status != exit.Unknown || !strings.Contains(notes, "  try:  kernos garden plant oak --server "+s.url) {
		t.Errorf("got %q, %d", notes, status)
	}
	out, _, status := foreign(t, "", "doctor", s.url)
	if status != 0 || !strings.Contains(out, "! sequence   a method that doesn't exist: error → done") || !strings.Contains(out, "the server isn't a kernel") {
		t.Errorf("got %d\n%s", status, out)
	}
}
