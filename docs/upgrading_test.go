package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

// TestUpgradingListsWhatIsDeprecated compares the older names of syscalls in UPGRADING.md, and their dates, with the definitions.
func TestUpgradingListsWhatIsDeprecated(t *testing.T) {
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir(), Unrecorded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	event := d.Kernel().Deprecated(&message.Message{}, "", "", kernel.Sender{})
	var dates kernel.Deprecation
	if err := json.Unmarshal(event.Data, &dates); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string) // the rest of the row, by older name
	row := func(older, name message.Type) {
		want[string(older)] = fmt.Sprintf("`%s` | %s | %s", name, dates.Since, dates.Until)
	}
	for _, m := range d.Kernel().Registry().All().Modules() {
		for _, s := range m.Syscalls {
			for _, alias := range s.Aliases {
				row(alias, s.Type)
			}
			if s.Replaced != "" {
				row(s.Type, s.Replaced)
			}
		}
	}
	source, err := os.ReadFile("UPGRADING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(source), "### What is deprecated now\n")
	text, _, ended := strings.Cut(text, "\n## ")
	if !found || !ended {
		t.Fatal("UPGRADING.md doesn't list what is deprecated now")
	}
	got := make(map[string]string)
	name := regexp.MustCompile("`([A-Z][A-Za-z]*\\.[A-Z][A-Za-z]*)`")
	for _, r := range regexp.MustCompile("(?m)^\\| (`[A-Z][^|]*) \\| (.*) \\|$").FindAllStringSubmatch(text, -1) {
		older, _, _ := strings.Cut(r[1], ", with the event")
		for _, n := range name.FindAllStringSubmatch(older, -1) {
			got[n[1]] = r[2]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("UPGRADING.md lists %v\nthe definitions have %v", got, want)
	}
}
