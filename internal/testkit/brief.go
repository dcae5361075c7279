package testkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Brief describes an answer on one line: "causation data", "causation code" for an error, and
// "disconnected code" for a connection that was refused. Lines of the older dialect are marked.
func Brief(t testing.TB, line string) string {
	t.Helper()
	var m struct {
		Kind     string
		Type     string
		Data     json.RawMessage
		Payload  json.RawMessage
		Metadata struct{ Causation string }
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Errorf("%s: %v", line, err)
		return line
	}
	data, mark, failed := m.Data, "", m.Kind == "error"
	if m.Payload != nil {
		data, mark, failed = m.Payload, " (older)", m.Type == "error"
	}
	if !failed {
		return fmt.Sprintf("%s %s%s", m.Metadata.Causation, data, mark)
	}
	var e struct{ Code any }
	if err := json.Unmarshal(data, &e); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	if m.Type == "Syscall.Disconnected" {
		m.Metadata.Causation = "disconnected"
	}
	return fmt.Sprintf("%s %v%s", m.Metadata.Causation, e.Code, mark)
}

// Briefs is Brief for some lines, one per line.
func Briefs(t testing.TB, lines []string) string {
	t.Helper()
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = Brief(t, l)
	}
	return strings.Join(all, "\n")
}
