package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
)

// shownAgain is how many messages of a session are shown when it is resumed.
const shownAgain = 40

// restore shows the end of a session, and follows its turn if one is open.
func (m *screen) restore(session string) error {
	i, err := m.client.get(m.ctx, session)
	if err != nil {
		return err
	}
	path, err := m.client.last(m.ctx, &i, shownAgain)
	if err != nil {
		return err
	}
	m.session, m.seq, m.turn = session, i.Seq, i.Turn
	m.status.described = i
	lines := []string{m.out.Paint(terminal.Faint, m.transcript.clip(strings.TrimSpace("session "+session+" "+visible.Text(i.Title))))}
	if len(path) > 0 && path[0].Parent > 0 {
		lines = append(lines, m.out.Paint(terminal.Faint, "… kernos session show has what came before"))
	}
	for _, message := range path {
		if message.Type == "approval-request" && slices.Contains(i.Pending, message.Call) {
			m.asked = append(m.asked, message)
		}
		m.status.generator = cmp.Or(message.Model, m.status.generator)
		lines = append(lines, m.transcript.message(&message)...)
	}
	return m.out.Line(strings.Join(lines, "\n"))
}

// run shows the conversation until the person leaves.
func (m *screen) run(ctx context.Context) error {
	file, _ := m.opts.Out.(*os.File) // Prepare has found that it is a terminal
	out := &drawing{File: file}
	m.blank = true
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(m.opts.in), tea.WithOutput(out), tea.WithoutSignalHandler())
	m.post = p.Send
	out.first = func() { p.Send(drawnMsg{}) }
	_, err := p.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, tea.ErrProgramKilled) {
		return context.Canceled
	}
	return err
}

// A drawing is a terminal that reports when the view is drawn for the first time. Until then bubbletea takes the whole
// terminal for the view, and what is printed would erase it.
type drawing struct {
	*os.File
	first func()
	once  sync.Once
}

// Write implements [io.Writer]. The modes of the terminal are set together with the first view.
func (d *drawing) Write(text []byte) (int, error) {
	n, err := d.File.Write(text)
	if bytes.Contains(text, []byte(ansi.SetModeBracketedPaste)) {
		d.once.Do(func() { go d.first() }) // the loop may wait for this write
	}
	return n, err
}

// Init implements [tea.Model].
func (m *screen) Init() tea.Cmd {
	cmds := []tea.Cmd{m.learn, m.notice}
	if m.turn != "" {
		cmds = append(cmds, m.follow())
	}
	if m.opts.First != "" {
		m.editor.SetValue(m.opts.First)
		cmds = append(cmds, m.submit())
	}
	return tea.Batch(cmds...)
}

// Update implements [tea.Model].
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	m.placeholder()
	m.clock()
	return m, tea.Batch(cmd, m.print(), m.spin(), m.present())
}

func (m *screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = cmp.Or(msg.Width, 80), cmp.Or(msg.Height, 24) // a terminal may not know its size
		m.fit()
	case tea.KeyPressMsg:
		if msg.String() != "ctrl+c" {
			m.pressed = false
		}
		return m.key(msg)
	case tea.PasteMsg:
		m.pressed, m.searching = false, nil
		return m.edit(msg)
	case eventMsg:
		return m.watched(event(msg))
	case sentMsg:
		return m.sent(msg)
	case turnEndedMsg:
		return tea.Batch(m.ended(msg), m.describe())
	case describedMsg:
		m.described(msg)
	case tea.ResumeMsg:
		m.suspended = false
	case noticesMsg:
		m.noticed(msg)
	case answeredMsg:
		m.say(msg.lines...)
		if msg.err != nil {
			m.fail(msg.err)
			if m.offer != nil {
				m.offer.decided = false
			}
		} else if msg.then != nil {
			return msg.then(m)
		}
	case completionNames:
		m.known = msg
		if m.early != "" && m.early == m.editor.Value() {
			m.complete(1)
		}
		m.early = ""
	case offerSeenMsg:
		msg.offer.noticed = true
	case drawnMsg:
		m.blank = false
	case printedMsg:
		m.printing = false
		m.prints++
	case tickMsg:
		m.ticking = false
		m.frame++
	}
	return nil
}

// print prints the lines that wait, one batch after the other: the order of two commands isn't certain.
// A batch is no longer than what fits above the view: the terminal would keep copies of the view.
func (m *screen) print() tea.Cmd {
	if m.blank || m.printing || len(m.pending) == 0 {
		return nil
	}
	m.printing = true
	n := min(len(m.pending), max(m.height-len(m.lines())-m.editor.Height()-len(m.under()), 1))
	text := strings.Join(m.pending[:n], "\n")
	m.pending = m.pending[n:]
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}

const spinEvery = 120 * time.Millisecond

// spin moves the spinner while the model generates no text, and the seconds of the turn.
func (m *screen) spin() tea.Cmd {
	doing := ""
	if m.busy() && len(m.asked) == 0 {
		doing = m.transcript.doing()
	}
	if doing != m.doing {
		m.doing, m.began = doing, time.Now()
	}
	if !m.busy() || m.ticking {
		return nil
	}
	m.ticking = true
	return tea.Tick(spinEvery, func(time.Time) tea.Msg { return tickMsg{} })
}

// send sends an input to the session, which is created with the first one.
func (m *screen) send(text string) tea.Cmd {
	files, err := attached(text, m.opts.keep)
	if err != nil {
		m.fail(err)
		m.editor.SetValue(text)
		return nil
	}
	in := input{Session: m.session, Text: text, Files: files, Model: m.model}
	m.sending = true
	return func() tea.Msg {
		var err error
		if in.Session == "" {
			in.Session, err = m.client.create(m.ctx, m.opts.Agent, cmp.Or(in.Model, m.opts.Model), title(text))
			in.Model = ""
		}
		var t turn
		if err == nil {
			t, err = m.client.send(m.ctx, in)
		}
		t.Session = in.Session
		return sentMsg{t, text, err}
	}
}

func (m *screen) sent(s sentMsg) tea.Cmd {
	m.sending = false
	m.session = cmp.Or(s.turn.Session, m.session)
	if s.err != nil {
		m.fail(s.err)
		if m.editor.Value() == "" {
			m.editor.SetValue(s.text)
		}
		return nil
	}
	if s.text != "" { // the input has changed the model; /continue has not
		m.model = ""
	}
	if m.turn != "" {
		m.queue = append(m.queue, queuedInput{s.turn.Turn, s.text})
		return nil
	}
	m.turn = s.turn.Turn
	return m.follow()
}

// follow reports what happens until the turn has ended.
func (m *screen) follow() tea.Cmd {
	session, after, until := m.session, m.seq, m.turn
	return func() tea.Msg {
		end, err := m.client.follow(m.ctx, session, after, until, func(e event) { m.post(eventMsg(e)) })
		return turnEndedMsg{end, err}
	}
}

func (m *screen) watched(e event) tea.Cmd {
	if c := e.complete; c != nil && c.child != "" {
		known := slices.ContainsFunc(m.asked, func(a entry) bool { return a.Call == c.Call })
		switch {
		case c.Type == "approval-response":
			m.settle(c)
		case !known: // a connection that was made again repeats it
			m.pending = append(m.pending, m.transcript.event(e)...)
			return m.ask(*c)
		}
		return nil
	} else if c != nil {
		m.seq = c.Seq
		m.status.generator = cmp.Or(c.Model, m.status.generator)
		switch c.Type {
		case "input":
			m.queue = slices.DeleteFunc(m.queue, func(q queuedInput) bool { return q.turn == c.Turn && q.turn == m.turn })
		case "approval-request":
			m.pending = append(m.pending, m.transcript.event(e)...)
			return tea.Batch(m.ask(*c), m.describe())
		case "approval-response", "tool-results":
			m.settle(c)
		}
	}
	m.pending = append(m.pending, m.transcript.event(e)...)
	if e.complete != nil {
		return m.describe()
	}
	return nil
}

func (m *screen) ended(e turnEndedMsg) tea.Cmd {
	m.turn, m.canceling, m.asked, m.editing = "", false, nil, false
	m.transcript.growing, m.transcript.open = nil, nil
	switch err := e.end.err(); {
	case e.err != nil:
		m.fail(e.err)
	case e.end != nil && e.end.Status == "canceled":
		m.say(m.out.Paint(terminal.Faint, "The turn was ended; /continue resumes it."))
	case err != nil:
		m.fail(fmt.Errorf("%w; /continue resumes the turn", err))
	}
	if len(m.queue) > 0 {
		m.status.began = time.Time{} // the time of the next turn begins
		m.turn = m.queue[0].turn
		m.queue = m.queue[1:]
		m.pressed = false // the next Ctrl-C ends this turn
		return m.follow()
	}
	return nil
}

// key handles a key.
func (m *screen) key(k tea.KeyPressMsg) tea.Cmd {
	if m.asking() {
		if cmd, done := m.decideBy(k.String()); done {
			return cmd
		}
	}
	if m.searching != nil {
		if cmd, done := m.searchBy(k); done {
			return cmd
		}
	}
	switch k.String() {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+r":
		if !m.editing {
			m.searchHistory()
		}
		return nil
	case "ctrl+d":
		if m.editor.Value() == "" {
			return m.leave()
		}
	case "ctrl+z":
		m.suspended = true // the shell finds nothing of the view
		return tea.Suspend
	case "enter":
		return m.submit()
	case "tab":
		m.complete(1)
		return nil
	case "shift+tab":
		m.complete(-1)
		return nil
	case "esc":
		if m.editing {
			m.editing = false
			m.editor.Reset()
		}
		m.menu = menu{}
		return nil
	case "up", "down":
		if m.recall(k.String() == "up") {
			return nil
		}
	}
	return m.edit(k)
}

// edit lets the editor handle a key or a paste.
func (m *screen) edit(msg tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	m.editor, cmd = m.editor.Update(msg)
	m.suggest()
	return cmd
}

// interrupt is what Ctrl-C does: it ends the turn, or clears the editor, and a second one leaves.
func (m *screen) interrupt() tea.Cmd {
	if m.pressed {
		return m.leave()
	}
	m.pressed = true
	switch {
	case m.editing:
		m.editing = false
		m.editor.Reset()
	case m.busy() && !m.canceling && m.session != "":
		m.canceling = true
		session := m.session
		return func() tea.Msg {
			return answeredMsg{err: m.client.do(m.ctx, "Session.Cancel", session, map[string]any{})}
		}
	case !m.busy():
		m.editor.Reset()
		m.menu = menu{}
	}
	return nil
}

func (m *screen) submit() tea.Cmd {
	text := m.editor.Value()
	if strings.HasSuffix(text, `\`) && !m.editing { // as in a shell, the line continues
		m.editor.SetValue(strings.TrimSuffix(text, `\`) + "\n")
		return nil
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	m.menu = menu{}
	if m.editing {
		return m.edited(text)
	}
	m.history.add(text)
	m.editor.Reset()
	if text == "exit" || text == "quit" { // as in a shell
		return m.leave()
	}
	if name, args, ok := slash(text); ok {
		return m.command(name, args, text)
	}
	return m.send(text)
}

// lines returns those of the view above the editor, without those that grow.
func (m *screen) lines() []string {
	lines := []string{""}
	if m.doing != "" && !m.leaving {
		frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
		text := string(frames[m.frame%len(frames)]) + " " + m.doing
		if took := time.Since(m.began).Truncate(time.Second); took > 0 {
			text += " " + took.String()
		}
		if m.canceling {
			text += ", ending"
		}
		lines = append(lines, m.out.Paint(terminal.Faint, m.transcript.clip(text)), "")
	}
	for _, q := range m.queue {
		lines = append(lines, m.out.Paint(terminal.Faint, m.transcript.clip("queued: "+visible.Text(strings.Join(strings.Fields(q.text), " ")))))
	}
	return append(lines, m.question()...)
}

// under returns the lines below the editor.
func (m *screen) under() []string {
	switch {
	case m.searching != nil:
		return []string{m.out.Paint(terminal.Faint, m.transcript.clip(m.searching.line()))}
	case m.pressed:
		return []string{m.out.Paint(terminal.Faint, m.transcript.clip("Ctrl-C again leaves"))}
	}
	if lines := m.menuLines(); len(lines) > 0 {
		return lines
	}
	if line := m.statusLine(); line != "" {
		return []string{m.out.Paint(terminal.Faint, line)}
	}
	return nil
}

// View implements [tea.Model].
func (m *screen) View() tea.View {
	if m.leaving || m.suspended {
		return tea.NewView("")
	}
	below := m.lines()
	editor := strings.Split(m.editor.View(), "\n")
	if m.asking() {
		editor = nil
	}
	under := m.under()
	live := m.transcript.live()
	if room := max(m.height-len(below)-len(editor)-len(under)-1, 0); len(live) > room {
		live = live[len(live)-room:]
	}
	above := append(live, below...)
	v := tea.NewView(strings.Join(slices.Concat(above, editor, under), "\n") + invisible(m.prints))
	if cursor := m.editor.Cursor(); cursor != nil && !m.asking() {
		cursor.Y += len(above)
		v.Cursor = cursor
	}
	return v
}

// invisible writes a number in sequences that a terminal shows nothing of. Printing leaves the cursor above
// the view, and bubbletea does not put it back where it belongs while the view is the same as before.
func invisible(n uint64) string {
	return strings.NewReplacer("0", "\x1b[m", "1", "\x1b[0m").Replace(strconv.FormatUint(n, 2))
}
