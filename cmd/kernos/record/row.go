package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/message/mark"
)

// record is how a message was recorded. A kernel of an earlier version may leave out some of it.
type record struct {
	Seq         uint64 `json:"seq"`
	At          int64  `json:"at"`
	Way         string `json:"way,omitempty"`
	Principal   string `json:"principal,omitempty"` // the name of the caller that it acted for
	PrincipalID string `json:"principalId,omitempty"`
	Wire        string `json:"wire,omitempty"`
	Claim       bool   `json:"claim,omitempty"` // a program has sent it without being asked
}

// shown is a message as it is shown.
type shown struct {
	record
	Message json.RawMessage // as it is on the wire
	score   float64         // of a search
	why     string          // likewise: why it was found

	kind message.Kind
	typ  string
	id   string
	text string // the message's content, on one line

	wholeID, causation, correlation string // as they are, which may be hostile
}

// read fills in what is shown of a message.
func (m *shown) read() {
	var parts struct {
		Kind     message.Kind
		Type     string
		Data     json.RawMessage
		Metadata struct{ ID, Causation, Correlation string }
	}
	if err := json.Unmarshal(m.Message, &parts); err != nil {
		m.text = visible.Text(string(m.Message))
		return
	}
	m.wholeID, m.causation, m.correlation = parts.Metadata.ID, parts.Metadata.Causation, parts.Metadata.Correlation
	m.kind, m.typ, m.id = parts.Kind, visible.Text(parts.Type), visible.Text(parts.Metadata.ID)
	m.text = visible.Text(string(parts.Data))
	if m.kind == message.KindError {
		if e, err := message.ParseError(parts.Data); err == nil {
			m.text = strconv.Itoa(e.Code) + " " + visible.Text(e.Error())
		}
	}
	if m.Claim {
		m.text = "claimed " + string(m.kind) + ": " + m.text
	}
	if m.Principal != "" && m.Principal != "owner" {
		m.text = visible.Text(m.Principal) + ": " + m.text
	}
}

// The columns of a table of messages.
const (
	idWidth      = 12
	minTypeWidth = 14
	maxTypeWidth = 28
)

// typeWidth returns the width of the column of types.
func typeWidth(messages []shown) int {
	most := minTypeWidth
	for i := range messages {
		most = max(most, terminal.Columns(messages[i].typ))
	}
	return min(most, maxTypeWidth)
}

// read prepares a message that will be shown.
func (l *Listing) read(m *shown) {
	if l.print == nil {
		m.read()
	}
}

// show writes a message: for programs, or as a row.
func (l *Listing) show(m *shown, before string, types int, words *regexp.Regexp) error {
	if l.print != nil {
		return l.print(m.line())
	}
	return row(l.screen, m, before, types, words)
}

// line returns the message for programs: as it was recorded, with the member record after its own
// members, which describes how.
func (m *shown) line() json.RawMessage {
	text, isObject := bytes.CutSuffix(m.Message, []byte("}"))
	record, err := json.Marshal(m.record)
	if err != nil || !isObject || m.Seq == 0 {
		return m.Message
	}
	return slices.Concat(text, []byte(`,"record":`), record, []byte("}"))
}

// row writes a message as one line of a table. The words, which may be nil, are shown even
// where the text has to be cut, and stand out.
func row(s *terminal.Screen, m *shown, before string, types int, words *regexp.Regexp) error {
	k := mark.Of[m.kind]
	sign, style := cmp.Or(k.Sign, "·"), terminal.Style(k.Terminal)
	if m.Claim {
		sign, style = mark.Claim, terminal.Red
	}
	head := before + clock(s, m.At) + "  "
	typ, id := terminal.Pad(m.typ, types), terminal.Pad(terminal.ClipMiddle(m.id, idWidth), idWidth)
	text, between := m.text, "  "
	if s.IsTerminal() {
		room := s.Width - terminal.Columns(head+"▶ "+typ+"  "+id+between)
		if room < narrowText {
			// The text has a line of its own.
			head, between = terminal.Clip(head, s.Width), "\n"+indent
			typ = terminal.Clip(strings.TrimRight(typ, " "), max(s.Width-terminal.Columns(head+"▶ "+"  "+id), minTypeWidth))
			room = s.Width - len(indent)
		}
		text = around(text, words, room)
	}
	base := terminal.Plain
	if m.kind == message.KindError {
		base = terminal.Red
	}
	line := s.Paint(terminal.Faint, head) + s.Paint(style, sign) + " " + typ + "  " + s.Paint(terminal.Faint, id)
	if text != "" {
		line += between + highlight(s, text, words, base)
	}
	return s.Line(strings.TrimRight(line, " "))
}

// narrowText is how many columns a text must have beside the other columns; otherwise it is on the
// next line, after the indent.
const (
	narrowText = 24
	indent     = "    "
)

// clock writes a time, without its date if it is today and the output is a terminal.
func clock(s *terminal.Screen, at int64) string {
	t := time.UnixMilli(at).In(s.Now.Location())
	if s.IsTerminal() && t.Format(time.DateOnly) == s.Now.Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05.000")
}

// around cuts a text so that the first of the words in it can be seen.
func around(text string, words *regexp.Regexp, most int) string {
	if terminal.Columns(text) <= most {
		return text
	}
	if words != nil {
		if span := words.FindStringIndex(text); span != nil && terminal.Columns(text[:span[1]]) > most-1 {
			if before := []rune(text[:span[0]]); len(before) > most/4 {
				text = "…" + string(before[len(before)-most/4:]) + text[span[0]:]
			}
		}
	}
	return terminal.Clip(text, most)
}

// highlight paints a text, and the words in it so that they stand out.
func highlight(s *terminal.Screen, text string, words *regexp.Regexp, base terminal.Style) string {
	if !s.Colour || words == nil {
		return s.Paint(base, text)
	}
	var b strings.Builder
	end := 0
	for _, span := range words.FindAllStringIndex(text, -1) {
		b.WriteString(s.Paint(base, text[end:span[0]]))
		b.WriteString(s.Paint(terminal.Strong, text[span[0]:span[1]]))
		end = span[1]
	}
	return b.String() + s.Paint(base, text[end:])
}

// searchWords returns a pattern that finds the words of a query, nil if it has none.
func searchWords(query string) *regexp.Regexp {
	words := strings.FieldsFunc(query, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) })
	if len(words) == 0 {
		return nil
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // the longest that fits
	return regexp.MustCompile("(?i)" + strings.Join(words, "|"))
}
