package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"golang.org/x/text/width"

	"kernos/cmd/kernos/exit"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

// An opener finds a kernel to call, and returns what lets go of it.
type opener func(context.Context) (caller, func() error, error)

// asking runs a command that asks a kernel. A signal cancels what is asked for.
func asking(c *cobra.Command, open opener, f func(context.Context, caller, *screen) error) error {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	call, done, err := open(ctx)
	if ctx.Err() != nil && err != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	if err != nil {
		return exit.Wrap(err)
	}
	err = f(ctx, call, newScreen(c))
	closeErr := done()
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Status: exit.Interrupted}
	case err != nil:
		return err
	}
	return exit.Wrap(closeErr)
}

// ask sends one request and returns the data of its reply.
func ask(ctx context.Context, call caller, kind message.Kind, t message.Type, input any, event func(message.Message)) (json.RawMessage, error) {
	data, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	request := message.Message{Kind: kind, Type: t, Data: data}
	outcome, err := call(ctx, request, event)
	if err != nil {
		return nil, &exit.Error{Status: exit.Unreachable, Cause: err}
	}
	if outcome.Kind == message.KindError {
		e, err := message.ParseError(outcome.Data)
		if err != nil {
			return nil, &exit.Error{Status: exit.Failure, Cause: err}
		}
		return nil, &exit.Error{Status: askedStatus(e), Cause: fmt.Errorf("%s", visible.Text(e.Error()))}
	}
	return fetched(outcome.Data)
}

// unfit reports whether an error says that an answer was too long to be given, so that less may
// be asked for. It happens when the disk takes no blobs.
func unfit(err error) bool {
	e, ok := errors.AsType[*exit.Error](err)
	return ok && e.Cause != nil && strings.HasPrefix(e.Cause.Error(), kernel.Unfit)
}

// askedStatus is statusOf for a syscall whose name the user did not choose: a 404 is
// about what they asked for.
func askedStatus(e *message.Error) int {
	if e.Code == 404 && !strings.HasPrefix(e.Message, "No handler for ") {
		return exit.Failure
	}
	return exit.StatusOf(e)
}

// fetched returns the data of a reply that was too long for a line from the file where
// it is.
func fetched(data json.RawMessage) (json.RawMessage, error) {
	if !bytes.HasPrefix(data, []byte(`{"dataRef":`)) {
		return data, nil
	}
	var ref struct{ DataRef message.BlobPointer }
	if err := json.Unmarshal(data, &ref); err != nil || ref.DataRef.Scheme != "file" {
		return data, nil
	}
	data, err := os.ReadFile(ref.DataRef.Path)
	if err != nil {
		return nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer is in a file that can't be read: %w", err)}
	}
	return data, nil
}

// A screen is where a command shows what it has found.
type screen struct {
	out, err io.Writer
	width    int  // columns of the terminal; 0 if it is none, and lines are not cut
	colour   bool //
	now      time.Time
}

func newScreen(c *cobra.Command) *screen {
	s := &screen{out: c.OutOrStdout(), err: c.ErrOrStderr(), now: time.Now()}
	file, ok := s.out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	s.width = 80
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		s.width = max(columns, 40)
	}
	s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// terminal reports whether somebody is looking.
func (s *screen) terminal() bool { return s.width > 0 }

// note tells the user something that is not part of the output.
func (s *screen) note(format string, args ...any) {
	fmt.Fprintf(s.err, "kernos: "+format+"\n", args...)
}

// line writes a line.
func (s *screen) line(text []byte) error {
	_, err := s.out.Write(append(text, '\n'))
	return exit.Wrap(err)
}

// indented prints JSON for people.
func (s *screen) indented(text jsontext.Value) error {
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return exit.Wrap(err)
	}
	return s.line(text)
}

// A style is how a terminal shows a text.
type style string

const (
	plain  style = ""
	faint  style = "2"
	strong style = "1;33"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	cyan   style = "36"
)

// paint gives a text a style, if there are colours.
func (s *screen) paint(st style, text string) string {
	if !s.colour || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// kinds are the signs of the kinds of messages.
var kinds = map[message.Kind]struct {
	glyph string
	style style
}{
	message.KindCommand: {"▶", blue},
	message.KindQuery:   {"?", cyan},
	message.KindEvent:   {"◆", yellow},
	message.KindReply:   {"✓", green},
	message.KindError:   {"✗", red},
}

// shown is a message that is to be shown.
type shown struct {
	Seq     uint64
	At      int64
	Message json.RawMessage // as it is on the wire

	kind message.Kind
	typ  string
	id   string
	text string // what it says, on one line
}

// read reads what is shown of a message.
func (m *shown) read() {
	var parts struct {
		Kind     message.Kind
		Type     string
		Data     json.RawMessage
		Metadata struct{ ID string }
	}
	if err := json.Unmarshal(m.Message, &parts); err != nil {
		m.text = visible.Text(string(m.Message))
		return
	}
	m.kind, m.typ, m.id = parts.Kind, visible.Text(parts.Type), visible.Text(parts.Metadata.ID)
	m.text = visible.Text(string(parts.Data))
	if m.kind == message.KindError {
		if e, err := message.ParseError(parts.Data); err == nil {
			m.text = strconv.Itoa(e.Code) + " " + visible.Text(e.Error())
		}
	}
}

// The columns of a table of messages.
const (
	idWidth      = 12
	minTypeWidth = 14
	maxTypeWidth = 28
)

// typeWidth is how wide the column of types is for these messages.
func typeWidth(messages []shown) int {
	most := minTypeWidth
	for i := range messages {
		most = max(most, columns(messages[i].typ))
	}
	return min(most, maxTypeWidth)
}

// row writes a message as one line of a table. Words are what to show of its text, and
// to point out.
func (s *screen) row(m *shown, before string, types int, words []string) error {
	k := kinds[m.kind]
	if k.glyph == "" {
		k.glyph = "·"
	}
	head := before + s.clock(m.At) + "  "
	tail := pad(m.typ, types) + "  " + pad(middle(m.id, idWidth), idWidth) + "  "
	text := m.text
	if s.terminal() {
		room := s.width - columns(head) - 2 - columns(tail)
		text = around(text, words, max(room, 8))
	}
	base := plain
	if m.kind == message.KindError {
		base = red
	}
	line := s.paint(faint, head) + s.paint(k.style, k.glyph) + " "
	line += pad(m.typ, types) + "  " + s.paint(faint, pad(middle(m.id, idWidth), idWidth)) + "  "
	return s.line([]byte(strings.TrimRight(line+s.highlight(text, words, base), " ")))
}

// clock writes a time, shortly if it is today's and somebody looks at it.
func (s *screen) clock(at int64) string {
	t := time.UnixMilli(at).In(s.now.Location())
	if s.terminal() && t.Format(time.DateOnly) == s.now.Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05.000")
}

// runeColumns is how many columns of a terminal a character takes.
func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func columns(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// clip cuts a text that is wider than most columns, and shows that it did.
func clip(text string, most int) string {
	n, cut := 0, 0 // cut is where the ellipsis would still fit
	for i, r := range text {
		if n <= most-1 {
			cut = i
		}
		if n += runeColumns(r); n > most {
			return text[:cut] + "…"
		}
	}
	return text
}

// pad makes a text exactly this wide.
func pad(text string, columnsWanted int) string {
	text = clip(text, columnsWanted)
	return text + strings.Repeat(" ", max(columnsWanted-columns(text), 0))
}

// middle cuts a text that is wider than most columns in its middle: ids often begin
// alike.
func middle(text string, most int) string {
	if columns(text) <= most {
		return text
	}
	runes := []rune(text)
	head, n := 0, 0
	for head < len(runes) && n+runeColumns(runes[head]) <= (most-1)/2 {
		n += runeColumns(runes[head])
		head++
	}
	tail := len(runes)
	for tail > head && n+1+runeColumns(runes[tail-1]) <= most {
		tail--
		n += runeColumns(runes[tail])
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

// around cuts a text so that the first of the words in it can be seen.
func around(text string, words []string, most int) string {
	if columns(text) <= most {
		return text
	}
	if spans := occurrences(text, words); len(spans) > 0 {
		runes := []rune(text)
		if from := spans[0].from - most/4; from > 0 && columns(string(runes[:spans[0].to])) > most-1 {
			text = "…" + string(runes[from:])
		}
	}
	return clip(text, most)
}

// span is a part of a text, in characters.
type span struct{ from, to int }

// occurrences finds words in a text, whatever their case, one behind the other.
func occurrences(text string, words []string) []span {
	if len(words) == 0 {
		return nil
	}
	lower := []rune(text)
	for i, r := range lower {
		lower[i] = unicode.ToLower(r)
	}
	var found []span
	for i := 0; i < len(lower); {
		longest := 0
		for _, w := range words {
			if n := len([]rune(w)); n > longest && startsWith(lower[i:], w) {
				longest = n
			}
		}
		if longest > 0 {
			found = append(found, span{i, i + longest})
			i += longest
			continue
		}
		i++
	}
	return found
}

func startsWith(text []rune, word string) bool {
	i := 0
	for _, r := range word {
		if i == len(text) || text[i] != r {
			return false
		}
		i++
	}
	return true
}

// highlight paints a text, and points the words in it out.
func (s *screen) highlight(text string, words []string, base style) string {
	if !s.colour {
		return text
	}
	runes := []rune(text)
	var b strings.Builder
	end := 0
	for _, o := range occurrences(text, words) {
		b.WriteString(s.paint(base, string(runes[end:o.from])))
		b.WriteString(s.paint(strong, string(runes[o.from:o.to])))
		end = o.to
	}
	b.WriteString(s.paint(base, string(runes[end:])))
	return b.String()
}

// searchWords are the words of a query, in lower case.
func searchWords(query string) []string {
	return strings.FieldsFunc(strings.Map(unicode.ToLower, query), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r)
	})
}

// filterFlags are the flags that say which messages are meant.
type filterFlags struct {
	Correlation string `json:"correlation,omitempty"`
	Causation   string `json:"causation,omitempty"`
	Type        string `json:"type,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Code        int    `json:"code,omitempty"`
	Since       string `json:"since,omitempty"`
	Until       string `json:"until,omitempty"`
}

func (f *filterFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Correlation, "correlation", "", "only messages of this `workflow`")
	flags.StringVar(&f.Causation, "causation", "", "only messages that the message with this `id` caused")
	flags.StringVar(&f.Type, "type", "", "only messages of this `type`, or of a domain: 'Memory.*'")
	flags.StringVar(&f.Kind, "kind", "", "only messages of this `kind`: command, query, event, reply or error")
	flags.IntVar(&f.Code, "code", 0, "only errors with this code")
	flags.StringVar(&f.Since, "since", "", "only messages recorded since this `time`: 1h (ago), 7d, 2026-01-31T12:00:00Z")
	flags.StringVar(&f.Until, "until", "", "only messages recorded before this `time`")
}

// noMessages says that nothing was found, and what to do.
func (s *screen) noMessages() {
	s.note("no message in the journal matches; the daemon records all messages, kernos pipe --inline with --journal")
}
