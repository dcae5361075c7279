package mcp_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"kernos/daemon"
	"kernos/daemon/daemontest"
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
	d := daemontest.Serve(t, o)
	return d.Daemon, d.Address
}
