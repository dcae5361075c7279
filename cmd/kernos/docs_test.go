package main

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/docs"
	"kernos/internal/exit"
)

// The documentation is shown without a daemon, and without a home.
func TestDocs(t *testing.T) {
	t.Setenv("KERNOS_HOME", t.TempDir())
	list, _, status := runHere(t, "docs")
	for _, s := range docs.All().Sections {
		if status != 0 || !strings.Contains(list, s.Title+":\n") {
			t.Errorf("%d: the section %s isn't listed:\n%s", status, s.Title, list)
		}
		for _, e := range s.Entries {
			if e.Anchor == "" && !strings.Contains(list, "\n  "+e.Page.Topic+" ") {
				t.Errorf("%s isn't listed:\n%s", e.Page.Topic, list)
			}
		}
	}
	for words, title := range map[string]string{"settings": "# Settings", "syscalls/memory": "# Syscalls of memory", "adding a syscall": "# Adding a syscall", "config.yaml": "# config.yaml"} {
		if out, notes, status := runHere(t, append([]string{"docs"}, strings.Fields(words)...)...); status != 0 || !strings.HasPrefix(out, title) {
			t.Errorf("%s: %d %s %.60q", words, status, notes, out)
		}
	}
	out, _, _ := runHere(t, "docs", "settings", "-o", "json")
	var page struct{ Topic, Title, File, Text string }
	if err := json.Unmarshal([]byte(out), &page); err != nil || page.Topic != "settings" || page.Title != "Settings" || page.File != "reference/settings.md" || page.Text == "" {
		t.Errorf("%v: %.200s", err, out)
	}
}

func TestDocsOfAWrongTopic(t *testing.T) {
	for words, hint := range map[string]string{
		"setings":                     `no page is named "setings": did you mean settings?`,
		"memori":                      `no page is named "memori": did you mean memory?`,
		"KERNOS_JOURNAL_AGE variable": `Pages with these words: settings`,
		"xyzzyplugh":                  `no page is named "xyzzyplugh": kernos docs lists the topics`,
	} {
		out, notes, status := runHere(t, append([]string{"docs"}, strings.Fields(words)...)...)
		if status != exit.Unknown || out != "" || !strings.Contains(notes, hint) {
			t.Errorf("%s: %d %q %q", words, status, out, notes)
		}
	}
}

func TestDocsCompletesTopics(t *testing.T) {
	out, _, _ := runHere(t, "__complete", "docs", "sett")
	if !strings.HasPrefix(out, "settings\tSettings\n") {
		t.Errorf("%q", out)
	}
	if out, _, _ := runHere(t, "__complete", "docs", "settings", ""); strings.Contains(out, "settings") {
		t.Errorf("a second topic is completed: %q", out)
	}
}
