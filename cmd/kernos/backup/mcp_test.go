package backup

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/daemon"
	"kernos/message"
	"kernos/store"
)

// newTools serves MCP with two tools to clients that know its secret.
func newTools(t *testing.T) *httptest.Server {
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hidden" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var in struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"content":[{"type":"text","text":"acted"}],`+
			`"tools":[{"name":"act","inputSchema":{"type":"object"}},{"name":"rest","inputSchema":{"type":"object"}}]}}`, in.ID)
	}))
	t.Cleanup(tools.Close)
	return tools
}

// A restored home has its MCP servers mounted, with what sessions may call. Their secrets open with the sealing key;
// without it, a call says what is missing, and the servers stay.
func TestRestoreBringsBackMCPServers(t *testing.T) {
	tools := newTools(t)
	home, err := daemon.FindHome(t.TempDir(), store.DefaultOrigin)
	if err != nil {
		t.Fatal(err)
	}
	call := caller(t, home)
	ask := func(call server.Caller, kind message.Kind, what message.Type, data string) (string, error) {
		var out json.RawMessage
		err := server.Read(t.Context(), call, kind, what, json.RawMessage(data), &out)
		return string(out), err
	}
	for _, step := range [][2]string{
		{"Mcp.Add", `{"name":"fake","url":"` + tools.URL + `","headers":{"Authorization":"Bearer hidden"}}`},
		{"Mcp.Allow", `{"name":"fake","tools":["act"]}`},
	} {
		if _, err := ask(call, message.KindCommand, message.Type(step[0]), step[1]); err != nil {
			t.Fatal(step[0], err)
		}
	}
	passphrase := func() ([]byte, error) { return []byte("correct horse"), nil }
	key, err := sealKey(home, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	name := t.TempDir() + "/file"
	if _, err := write(t.Context(), call, name, key, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]struct {
		key  Passphrase
		fail string // what a call of a tool says
	}{
		"with the key":    {passphrase, ""},
		"without the key": {nil, "A secret of the MCP server fake can't be opened; bring back the key"},
	} {
		t.Run(about, func(t *testing.T) {
			restored, err := daemon.FindHome(t.TempDir(), store.DefaultOrigin)
			if err != nil {
				t.Fatal(err)
			}
			if err := (Restore{Name: name, Home: restored, AnyOrigin: true, Key: c.key, Report: io.Discard}).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			call := caller(t, restored)
			shown, err := ask(call, message.KindQuery, "Mcp.Show", `{"name":"fake"}`)
			if err != nil || !strings.Contains(shown, `"toolCount":2,"allowed":1`) || !strings.Contains(shown, `"secrets":["Authorization"]`) {
				t.Errorf("the server is %s, %v", shown, err)
			}
			acted, err := ask(call, message.KindCommand, "Fake.Act", `{}`)
			if c.fail == "" && (err != nil || !strings.Contains(acted, "acted")) || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
				t.Errorf("the tool replies %s, %v", acted, err)
			}
		})
	}
}
