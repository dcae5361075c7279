package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/cmd/kernos/terminal"
)

// A document has the texts of the model as they are. A terminal obeys nothing in them.
func TestATerminalObeysNothingInAnExportedSession(t *testing.T) {
	const exported = `{"info":{"session":"s","title":"a title","seq":1,"leaf":1},"messages":[{"id":"m","type":"reply","seq":1,"text":"one\n\u001b[2Jtwo"}]}`
	for width, want := range map[int]string{0: "# a title\n\none\n\x1b[2Jtwo\n", 80: "# a title\n\none\n␛[2Jtwo\n"} {
		var b strings.Builder
		if err := ExportMarkdown(t.Context(), nil, &terminal.Screen{Out: &b, Width: width}, json.RawMessage(exported)); err != nil || b.String() != want {
			t.Errorf("with %d columns: got %q, %v", width, b.String(), err)
		}
	}
}
