package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzLines sends anything at all. Each line of the output is a message of JSON-RPC, and a request after
// it is answered.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{", "[]", "null", `"`, "\xff", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		request(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}`), request(1, "ping", ``),
		request(1, "tools/list", ``), request(1, "tools/list", `"cursor":"MC9F"`), request(1, "tools/list", modernMeta), request(1, "server/discover", modernMeta),
		request(1, "tools/call", `"name":"Echo","arguments":{"message":"x"}`), request(1, "tools/call", `"name":"Ping","arguments":{"payload":{"a":1}},`+modernMeta),
		request(1, "tools/call", `"name":"Echo","requestState":"x","inputResponses":null,`+modernMeta), request(1, "resources/read", `"uri":"memory://a%zz"`),
		request(1, "resources/templates/list", ``), request(1, "completion/complete", `"ref":{"uri":"memory://{+key}"},"argument":{"value":"a"}`), request(1, "logging/setLevel", `"level":"debug"`),
		request(1, "tasks/get", `"taskId":"x",`+modernMeta), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		request(1, "tools/call", `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","progressToken":[]},"name":"Echo"`),
	} {
		f.Add([]byte(seed))
	}
	d, _ := serve(f, nil)
	f.Fuzz(func(t *testing.T, input []byte) {
		in := append(append(bytes.Clone(input), '\n'), request(999999, "no/such", ``)+"\n"...)
		var out bytes.Buffer
		if err := d.MCP().ServeLines(context.Background(), bytes.NewReader(in), &out, "core"); err != nil {
			t.Fatal(err)
		}
		answered := false
		for line := range strings.Lines(out.String()) {
			var m struct{ JSONRPC string }
			if json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" {
				t.Errorf("%q: %.300q", input, line)
			}
			answered = answered || strings.Contains(line, `"id":999999,"error":{"code":-32601`)
		}
		if !answered {
			t.Errorf("%q: the last request isn't answered: %.300q", input, out.String())
		}
	})
}
