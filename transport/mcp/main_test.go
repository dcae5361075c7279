package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modernMeta is the _meta of a request of the stateless era.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

func request(id int, method, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, members)
}

// serve serves a whole Kernos, and returns it with its TCP address.
func serve(t testing.TB, options func(*daemon.Options)) (*daemon.Daemon, string) {
	t.Helper()
	o := &daemon.Options{Home: t.TempDir(), Web: &daemon.Web{Address: "127.0.0.1:0", NoToken: true}}
	if options != nil {
		options(o)
	}
	d, err := daemon.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, url := range d.URLs() {
		if address, ok := strings.CutPrefix(url, "http://"); ok {
			return d, address
		}
	}
	t.Fatalf("it listens at %v", d.URLs())
	return nil, ""
}
