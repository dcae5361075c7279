package chat

import (
	"context"
	"io"
	"testing"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/terminal"
)

// A question takes keys after it was shown for a while with nothing typed; so does the one after it.
func TestAQuestionIsNoticedBeforeItTakesKeys(t *testing.T) {
	m := newScreen(context.Background(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	m.turn = "turn"
	request := func(call string) eventMsg {
		return eventMsg{complete: &entry{Type: "approval-request", Turn: "turn", Call: call, Name: "Http.Fetch"}}
	}
	var first *offer
	for _, step := range []struct {
		what   string
		msg    func() tea.Msg
		call   string // that is asked about
		takes  bool   // keys
		editor string
	}{
		{"two calls wait", func() tea.Msg { m.Update(request("one")); return request("two") }, "", false, ""},
		{"their arguments are printed", func() tea.Msg { m.pending = nil; return printedMsg{} }, "one", false, ""},
		{"a letter is typed", func() tea.Msg { first = m.offer; return tea.KeyPressMsg{Code: 'a', Text: "a"} }, "", false, "a"},
		{"the time of the first offer is over", func() tea.Msg { return offerSeenMsg{first} }, "", false, "a"},
		{"the letter is taken back", func() tea.Msg { return tea.KeyPressMsg{Code: tea.KeyBackspace} }, "one", false, ""},
		{"the person has seen it", func() tea.Msg { return offerSeenMsg{m.offer} }, "one", true, ""},
		{"it is answered", func() tea.Msg { return eventMsg{complete: &entry{Type: "approval-response", Call: "one"}} }, "", false, ""},
		{"the answer is printed", func() tea.Msg { m.pending = nil; return printedMsg{} }, "two", false, ""},
		{"the same key comes twice", func() tea.Msg { return tea.KeyPressMsg{Code: 'a', Text: "a"} }, "", false, "a"},
	} {
		m.Update(step.msg())
		call := ""
		if m.offer != nil {
			call = m.offer.call
		}
		if call != step.call || m.asking() != step.takes || m.editor.Value() != step.editor {
			t.Errorf("%s: it asks about %q, takes keys: %v, the editor has %q; want %q, %v, %q", step.what, call, m.asking(), m.editor.Value(), step.call, step.takes, step.editor)
		}
	}
}

// A key that is pressed twice decides once. A decision that has failed can be made again.
func TestAKeyDecidesOnce(t *testing.T) {
	m := newScreen(context.Background(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	m.turn = "turn"
	m.Update(eventMsg{complete: &entry{Type: "approval-request", Turn: "turn", Call: "one", Name: "Http.Fetch"}})
	m.pending = nil
	m.Update(printedMsg{})
	m.Update(offerSeenMsg{m.offer})
	for _, step := range []struct {
		key     string
		failed  bool // the decision before
		decides bool
	}{{"a", false, true}, {"a", false, false}, {"d", false, false}, {"d", true, true}, {"d", false, false}} {
		if step.failed {
			m.Update(answeredMsg{err: io.EOF})
		}
		if cmd, own := m.decideBy(step.key); !own || (cmd != nil) != step.decides {
			t.Errorf("%+v: own %v, decides %v", step, own, cmd != nil)
		}
	}
}

// An approval of an agent that the session has asked is asked about, once, until it is decided.
func TestAnApprovalOfAnAgentIsAsked(t *testing.T) {
	m := newScreen(context.Background(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	m.turn, m.session, m.seq = "turn", "mine", 7
	asked := event{Session: "theirs", Call: "one", Name: "Http.Fetch", Rule: "rule"}
	asked.complete = asked.approval("mine", nil)
	decided := event{Session: "theirs", Call: "one"}
	decided.complete = decided.approval("mine", nil)
	own := event{Session: "mine", Call: "two", Name: "Http.Fetch"}
	if got := own.approval("mine", nil); got != nil {
		t.Errorf("the session's own approval comes twice: %+v", got)
	}
	for _, step := range []struct {
		e    event
		asks int
	}{{asked, 1}, {asked, 1}, {decided, 0}} {
		m.Update(eventMsg(step.e))
		if len(m.asked) != step.asks || m.seq != 7 || step.asks > 0 && m.asked[0].child != "theirs" {
			t.Errorf("%+v: it asks about %+v, after message %d", step.e, m.asked, m.seq)
		}
	}
}
