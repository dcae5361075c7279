package mcp_test

import (
	"strings"
	"testing"

	"kernos/docs"
	"kernos/kernel/principal"
)

// The documentation is one resource in lists, which names the others; any caller may read it.
func TestDocumentation(t *testing.T) {
	d, _ := serve(t, fixtures)
	c := connect(t, d, agent(t, principal.Grant{Allow: []string{"Ping"}}), "")
	c.initialize(`{}`)
	if list := c.ask(2, "resources/list", ``); strings.Count(list, `"uri":"docs://`) != 1 || !strings.Contains(list, `{"uri":"docs://index"`) {
		t.Errorf("the list isn't as it should be: %s", list)
	}
	check(t, "templates", c.ask(3, "resources/templates/list", ``), `"uriTemplate":"docs://{+file}"`)
	check(t, "the index", c.ask(4, "resources/read", `"uri":"docs://index"`), `"text":"# Kernos\n`, `(docs://`+docs.All().Sections[0].Entries[0].Page.File+`)`)
	for _, uri := range []string{"docs://reference/settings.md", "docs://settings", "docs://reference/settings.md#limits"} {
		check(t, uri, c.ask(5, "resources/read", `"uri":"`+uri+`"`), `"uri":"`+uri+`"`, `"mimeType":"text/markdown"`, `"text":"# Settings\n`)
	}
	check(t, "a page that doesn't exist", c.ask(6, "resources/read", `"uri":"docs://nowhere"`), `"code":-32002`, `docs://index lists them`)
	check(t, "completion", c.ask(7, "completion/complete", `"ref":{"type":"ref/resource","uri":"docs://{+file}"},"argument":{"name":"file","value":"reference/set"}`), `"values":["reference/settings.md"]`)
}
