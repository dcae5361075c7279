package line_test

import (
	"bytes"
	"strings"
	"testing"

	"kernos/capability/token"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/terminal"
	"kernos/kernel/principal"
)

// A browser is listed as the holder of a key, not as a token with a secret.
func TestBrowsersAreListed(t *testing.T) {
	console := principal.Grant{Preset: principal.Console}
	list := line.TokenList{Tokens: []token.Info{
		{Name: "ci", Grant: principal.Grant{Preset: principal.Agent, Memory: []string{"ci"}}},
		{Name: "console-aaaaaaaa", Grant: console, Browser: &token.Browser{Name: "Firefox 143", Origin: "http://127.0.0.1:7420", Used: 1, Owner: 1}},
		{Name: "console-bbbbbbbb", Grant: console, Browser: &token.Browser{Origin: "https://kernos.example.com"}},
		{Name: "console-cccccccc", Grant: console, Cookie: true},
	}}
	var out bytes.Buffer
	if err := list.Show(terminal.NewScreen(&out, &out)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"--memory ci", "key of Firefox 143 at http://127.0.0.1:7420, used 1970-01-01", "key of a browser at https://kernos.example.com", "cookie of an earlier version, no longer accepted",
	} {
		if !strings.Contains(lines[i+1], want) || strings.Contains(lines[i+1], "as the owner until") != (i == 1) {
			t.Errorf("%q lacks %q", lines[i+1], want)
		}
	}
}
