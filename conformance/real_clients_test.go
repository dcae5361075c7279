package conformance

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kernos/store"
	"kernos/store/storetest"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// TestRealClients runs JSON-RPC clients from npm, which nobody here wrote, against the
// server. `make npm` installs them.
func TestRealClients(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("the clients need Node.js: %v", err)
	}
	if _, err := os.Stat(filepath.Join("npm", "node_modules", "@polkadot")); err != nil {
		t.Fatalf("the clients are not installed; make npm does it: %v", err)
	}
	c, err := parse("real", `# A server for clients.
handler: Shell.Execute command emits=Shell.Output progress 0.5 Executing... ; emit Shell.Output {"stdout":"Hello"} ; reply {"exit_code":0}
handler: Shell.Follow query slow timeout=1h emits=Shell.Output emit Shell.Output {"stdout":"first"} ; sleep 1h
> `)
	if err != nil {
		t.Fatal(err)
	}
	k, end := newKernel(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
	handler := ws.New(rpc.New(k, nil), nil)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := handler.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	for _, script := range []string{"polkadot.js", "openrpc.js"} {
		t.Run(strings.TrimSuffix(script, ".js"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, script, "ws"+strings.TrimPrefix(server.URL, "http"))
			cmd.Dir = "npm"
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "fine\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
