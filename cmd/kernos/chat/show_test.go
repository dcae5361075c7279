package chat

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// A document has the texts of the model as they are. A terminal obeys nothing in them.
func TestATerminalObeysNothingInAnExportedSession(t *testing.T) {
	replies := map[message.Type]string{
		"Session.Get":      `{"session":"s","title":"a title","seq":1,"leaf":1}`,
		"Session.Messages": `{"messages":[{"id":"m","type":"reply","seq":1,"text":"one\n\u001b[2Jtwo"}]}`,
	}
	call := func(_ context.Context, m message.Message, _ func(json.RawMessage) error) (json.RawMessage, error) {
		return json.RawMessage(replies[m.Type]), nil
	}
	for width, want := range map[int]string{0: "# a title\n\none\n\x1b[2Jtwo\n", 80: "# a title\n\none\n␛[2Jtwo\n"} {
		var b strings.Builder
		if err := ExportMarkdown(t.Context(), call, &terminal.Screen{Out: &b, Width: width}, "s"); err != nil || b.String() != want {
			t.Errorf("with %d columns: got %q, %v", width, b.String(), err)
		}
	}
}
