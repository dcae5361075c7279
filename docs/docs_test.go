package docs_test

import (
	"strings"
	"testing"

	"kernos/docs"
)

func TestEachPageHasATopicAndATitle(t *testing.T) {
	all, taken := docs.All(), make(map[string]string)
	for _, p := range all.Pages {
		if other, ok := taken[p.Topic]; ok || p.Topic == "" || p.Title == "" || p.Text == "" {
			t.Errorf("%s has the topic %q and the title %q; %s has it too", p.File, p.Topic, p.Title, other)
		}
		taken[p.Topic] = p.File
		if all.Find(p.Topic) != p || all.Find(p.File) != p || all.Find("docs/"+p.File) != p {
			t.Errorf("%s isn't found by its topic %q, or by its place", p.File, p.Topic)
		}
	}
	for name, file := range map[string]string{
		"settings": "reference/settings.md", "Config.yaml": "reference/config.yaml", "syscalls/memory": "reference/syscalls/memory.md",
		"adding a syscall": "ADDING_A_SYSCALL.md", "reference/http": "reference/http.md", "vfs": "reference/syscalls/vfs.md", "Claude-Code": "clients/claude-code.md",
	} {
		if p := all.Find(name); p == nil || p.File != file {
			t.Errorf("%s is %v, want %s", name, p, file)
		}
	}
	if p := all.Find("no such page"); p != nil {
		t.Errorf("a page that doesn't exist is %s", p.File)
	}
}

// The index has a section for each kind of page, and its entries are read.
func TestTheIndexIsRead(t *testing.T) {
	all := docs.All()
	list := all.LLMs("/docs/")
	if !strings.HasPrefix(list, "# Kernos\n\n> ") {
		t.Errorf("the index for models begins with %.80q", list)
	}
	entries := 0
	for _, s := range all.Sections {
		if s.Title == "" || len(s.Entries) == 0 || !strings.Contains(list, "\n## "+s.Title+"\n") {
			t.Errorf("the section %q has %d entries", s.Title, len(s.Entries))
		}
		for _, e := range s.Entries {
			if entries++; e.Title == "" || !strings.Contains(list, "- ["+e.Title+"](/docs/"+e.Page.File) {
				t.Errorf("%s isn't in the index for models", e.Page.File)
			}
		}
	}
	items := 0
	for line := range strings.Lines(all.Index) {
		if strings.HasPrefix(line, "- [") {
			items++
		}
	}
	if entries != items || entries < 10 {
		t.Errorf("%d entries are read of %d", entries, items)
	}
}

// What people ask for leads to the page that answers it, and comes first.
func TestPagesAreFoundByWords(t *testing.T) {
	for words, topic := range map[string]string{
		"KERNOS_JOURNAL_AGE variable": "settings",
		"409":                         "errors",
		"revoke":                      "access",
		"upgrade":                     "backup",
		"move":                        "backup",
		"reverse proxy":               "tls",
		"LAN":                         "tls",
		"port":                        "tls",
		"seal key":                    "secrets",
		"ollama":                      "model",
		"cost":                        "model",
		"reminder":                    "notifications",
		"webhook":                     "notifications",
		"idempotency":                 "durability",
		"journal":                     "clean-up",
		"prune":                       "clean-up",
		"who did":                     "why-failed",
		"where data":                  "backup",
		"npx":                         "install",
		"docker":                      "install",
		"python":                      "handlers",
		"read-only":                   "access",
		"telemetry":                   "security",
	} {
		pages := docs.All().With(strings.Fields(words))
		if len(pages) == 0 {
			t.Errorf("no page has the words %s", words)
		} else if pages[0].Topic != topic {
			t.Errorf("%s leads to %s, want %s", words, pages[0].Topic, topic)
		}
	}
	if pages := docs.All().With([]string{"settings", "xyzzyplugh"}); len(pages) != 0 {
		t.Errorf("%d pages have a word that none has", len(pages))
	}
	if pages := docs.All().With(nil); len(pages) != 0 {
		t.Errorf("%d pages for no words", len(pages))
	}
}
