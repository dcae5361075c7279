package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
)

// A screen is the conversation on a terminal. What is complete is printed above it and belongs to the
// terminal from then on; below are what grows, a question, and the editor.
type screen struct {
	ctx     context.Context
	client  *client
	opts    *Options
	post    func(tea.Msg) // sends a message from another goroutine
	out     *terminal.Screen
	history *history
	known   completionNames // names for completion
	early   string          // the text that was to be completed before the names were known; "" if none

	transcript transcript
	editor     textarea.Model
	menu       menu
	width      int
	height     int

	session string
	model   string        // the model that the next input changes to; "" if none
	seq     uint64        // number of the last message that was shown
	turn    string        // the turn that is followed; "" if none
	queue   []queuedInput // inputs that wait for their turn
	sending bool

	asked     []entry      // approvals that wait, the one that is asked about first
	offer     *offer       // the question about the first of them; nil while it can't be asked
	dismissed bool         // the question is put off until /approve
	editing   bool         // the editor has the arguments of the first of them
	wanted    []editedArgs // arguments that a person has edited
	searching *search      // of the history; nil if none
	canceling bool
	pressed   bool // the last key was Ctrl-C: the next one leaves
	leaving   bool
	suspended bool

	blank    bool     // nothing of the view is drawn yet
	pending  []string // lines to be printed
	printing bool
	prints   uint64 // batches of lines that were printed
	ticking  bool
	frame    int
	status   status
	began    time.Time // start of what the model does now
	doing    string
}

// A queuedInput is an input that waits.
type queuedInput struct{ turn, text string }

// An offer is a question that a person sees. Keys answer it after they had time to notice it.
type offer struct {
	call    string
	noticed bool
	decided bool // a decision was sent: further keys decide nothing
}

// editedArgs are arguments that a person has put in the place of others: a call with these is allowed.
type editedArgs struct {
	name string
	args json.RawMessage
}

// completionNames are the names that the editor completes, beside files and commands.
type completionNames struct {
	models   []string
	syscalls map[string]string // summaries by type
	skills   map[string]string // skills and agents, by URI
}

// A menu lists what can stand in the place of the word at the cursor.
type menu struct {
	word  string // the word as it was written
	items []item
	at    int // the one that stands in its place; -1 if none does
}

type item struct{ text, about string }

// The messages of the loop, beside those of the terminal.
type (
	eventMsg event
	sentMsg  struct {
		turn turn
		text string
		err  error
	}
	turnEndedMsg struct {
		end *ending
		err error
	}
	answeredMsg struct {
		lines []string
		err   error
		then  func(*screen) tea.Cmd // nil, or what follows in the loop
	}
	offerSeenMsg struct{ offer *offer }
	drawnMsg     struct{} // the view is drawn for the first time
	printedMsg   struct{}
	tickMsg      struct{}
)

func newScreen(ctx context.Context, c *client, o *Options, out *terminal.Screen) *screen {
	m := &screen{ctx: ctx, client: c, opts: o, out: out, history: openHistory(o.history), width: out.Width, height: 24}
	m.transcript = transcript{screen: out, plain: o.Plain, began: true}
	e := textarea.New()
	e.ShowLineNumbers, e.EndOfBufferCharacter, e.CharLimit = false, ' ', 0
	e.DynamicHeight, e.MinHeight, e.MaxHeight = true, 1, 10
	e.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("ctrl+j", "alt+enter", "shift+enter"))
	e.KeyMap.Paste = key.NewBinding(key.WithDisabled()) // terminals paste by themselves
	e.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	plain := lipgloss.NewStyle()
	state := textarea.StyleState{Base: plain, Text: plain, LineNumber: plain, CursorLineNumber: plain, CursorLine: plain, EndOfBuffer: plain, Prompt: plain, Placeholder: plain}
	if out.Colour {
		state.Placeholder = plain.Faint(true)
	}
	e.SetStyles(textarea.Styles{Focused: state, Blurred: state})
	e.SetVirtualCursor(false)
	e.Focus()
	m.editor = e
	m.fit()
	m.placeholder()
	return m
}

// fit makes everything fit the terminal. Its last column stays free: after a line that fills it, what
// erases the rest of a line erases that column.
func (m *screen) fit() {
	m.out.Width = max(m.width-1, 10)
	m.editor.SetWidth(m.out.Width)
}

func (m *screen) placeholder() {
	m.editor.Placeholder = "a message, /help, @file"
	if m.busy() || m.unprinted() {
		m.editor.Placeholder = "Ctrl-C ends the turn"
	}
}

func (m *screen) busy() bool { return m.turn != "" || m.sending }

// unprinted reports whether lines wait to be printed: what is asked is about what a person has seen.
func (m *screen) unprinted() bool { return m.printing || len(m.pending) > 0 }

// say prints a block of lines above the editor.
func (m *screen) say(lines ...string) {
	if len(lines) > 0 {
		m.pending = append(m.pending, m.transcript.block(lines...)...)
	}
}

func (m *screen) fail(err error) {
	if m.ctx.Err() == nil {
		m.say(strings.Split(m.out.Paint(terminal.Red, ansi.Wrap("kernos: "+visible.Text(err.Error()), m.out.Width, "")), "\n")...)
	}
}

// shows runs a function beside the loop that writes to a screen, and prints what it has written.
func (m *screen) shows(f func(s *terminal.Screen) error) tea.Cmd {
	var b bytes.Buffer
	s := *m.out
	s.Out = &b
	return func() tea.Msg {
		err := f(&s)
		var lines []string
		if text := strings.TrimRight(b.String(), "\n"); text != "" {
			lines = strings.Split(text, "\n")
		}
		return answeredMsg{lines: lines, err: err}
	}
}

func (m *screen) leave() tea.Cmd {
	m.leaving = true
	return tea.Quit
}
