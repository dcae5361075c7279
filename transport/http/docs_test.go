package http

import (
	"regexp"
	"strings"
	"testing"

	"kernos/kernel/principal"
)

// Every page that /llms.txt lists is served, to callers with a token.
func TestDocumentation(t *testing.T) {
	guard, _ := tokens(t, map[string]principal.Grant{"agent": {Preset: principal.Agent}})
	s := open(t, siteOptions{guard: guard})
	if a := s.do("GET", "/llms.txt", ""); a.status != 401 {
		t.Errorf("without a token: %d", a.status)
	}
	list := s.do("GET", "/llms.txt", "", bearing("agent")...)
	if list.status != 200 || list.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasPrefix(list.body, "# Kernos\n") {
		t.Errorf("%d %v %.200s", list.status, list.header, list.body)
	}
	links := regexp.MustCompile(`(?m)^- \[[^]]+\]\((/docs/[^)#]+)[)#]`).FindAllStringSubmatch(list.body, -1)
	if len(links) < 10 {
		t.Errorf("%d pages are listed", len(links))
	}
	for _, link := range append(links, []string{"", "/docs/README.md"}, []string{"", "/docs/reference/syscalls/memory.md"}) {
		if a := s.do("GET", link[1], "", bearing("agent")...); a.status != 200 || a.header.Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.HasPrefix(a.body, "# ") {
			t.Errorf("%s: %d %v %.80s", link[1], a.status, a.header, a.body)
		}
	}
	for _, path := range []string{"/docs/nowhere.md", "/docs/docs.go", "/docs/..%2fREADME.md"} {
		if a := s.do("GET", path, "", bearing("agent")...); a.status != 404 || a.name() != "no_such_page" {
			t.Errorf("%s: %d %.200s", path, a.status, a.body)
		}
	}
}
