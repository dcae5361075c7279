//go:build linux && amd64

package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInspector lets the protocol's Inspector look at Kernos as a person would: over stdio and HTTP, in both
// eras, with the strictest checks that it has.
func TestInspector(t *testing.T) {
	p := newPerson(t, &screen{t: t})
	if err := os.CopyFS(filepath.Join(p.home, ".local/share/kernos/os"), os.DirFS("testdata/os")); err != nil {
		t.Fatal(err)
	}
	p.prints("kernos serve --addr 127.0.0.1:0 --no-http=false > serve.log 2>&1 & until kernos status > /dev/null 2>&1; do :; done")
	url := strings.TrimSpace(p.prints(`kernos status --json | jq -r '.listening[] | select(startswith("http:"))'`)) + "/mcp?tools=all"
	token := strings.TrimSpace(p.prints("kernos token"))
	for _, server := range []struct {
		name string
		args []string
	}{
		{"stdio", []string{filepath.Join(p.home, "bin/kernos"), "mcp", "--tools", "all"}},
		{"HTTP", []string{"--server-url", url, "--transport", "http", "--header", "Authorization: Bearer " + token}},
	} {
		for _, era := range []string{"legacy", "modern"} {
			for _, c := range []struct{ method, args, want string }{
				{"tools/list", "--strict", `"Message_Search"`},
				{"tools/call", "--tool-name Echo --tool-arg message=hello", `hello`},
				{"skills/list", "--verify", `pdf-processing`},
			} {
				t.Run(server.name+"/"+era+"/"+c.method, func(t *testing.T) {
					t.Parallel()
					args := append([]string{"@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli"}, server.args...)
					args = append(args, "--protocol-era", era, "--method", c.method)
					for _, name := range []string{"HOME", "XDG_RUNTIME_DIR"} {
						if server.name == "stdio" {
							args = append(args, "-e", name+"="+p.variable(name))
						}
					}
					out, err := runNode(t, append(args, strings.Fields(c.args)...)...)
					if err != nil || !strings.Contains(out, c.want) {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
		}
	}
}
