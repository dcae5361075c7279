package chat

import (
	"io"
	"testing"
	"time"

	"kernos/cmd/kernos/terminal"
)

// The line below the editor has what is known, as far as the terminal is wide.
func TestStatusLine(t *testing.T) {
	m := newScreen(t.Context(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	show := func(width int, want string) {
		t.Helper()
		m.out.Width = width
		if got := m.statusLine(); got != want {
			t.Errorf("with %d columns: got %q, want %q", width, got, want)
		}
	}
	show(80, "")
	m.session = "01M7J256SZ70N1YPK6PCBPADC8"
	show(80, "default · session 01M7J…BPADC8")
	m.status.took = 62 * time.Second
	show(80, "default · 1m2s · session 01M7J…BPADC8")
	i := describedMsg{Session: m.session, Model: "mine", Seq: 4}
	i.Used.Tokens, i.Used.Cost = 1234, 0.01234
	m.Update(i)
	whole := "mine · 1m2s · 1234 tokens · cost 0.0123 · session 01M7J…BPADC8"
	show(80, whole)
	show(61, "mine · 1m2s · 1234 tokens · cost 0.0123")
	show(20, "mine · 1m2s")
	show(3, "mi…")
	i.Seq, i.Used.Tokens = 3, 1 // it comes late
	m.Update(i)
	m.Update(describedMsg{Session: "another", Seq: 9})
	show(80, whole)
	m.Update(eventMsg{complete: &entry{Type: "reply", Model: "qwen3:8b"}})
	show(13, "qwen3:8b")
	m.model = "next"
	show(13, "next · 1m2s")
}
