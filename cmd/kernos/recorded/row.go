package recorded

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
)

// kinds are the signs of the kinds of messages.
var kinds = map[message.Kind]struct {
	glyph string
	style terminal.Style
}{
	message.KindCommand: {"▶", terminal.Blue},
	message.KindQuery:   {"?", terminal.Cyan},
	message.KindEvent:   {"◆", terminal.Yellow},
	message.KindReply:   {"✓", terminal.Green},
	message.KindError:   {"✗", terminal.Red},
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
		most = max(most, terminal.Columns(messages[i].typ))
	}
	return min(most, maxTypeWidth)
}

// row writes a message as one line of a table. Words are what to show of its text, and
// to point out.
func row(s *terminal.Screen, m *shown, before string, types int, words []string) error {
	k := kinds[m.kind]
	if k.glyph == "" {
		k.glyph = "·"
	}
	head := before + clock(s, m.At) + "  "
	tail := terminal.Pad(m.typ, types) + "  " + terminal.Pad(terminal.ClipMiddle(m.id, idWidth), idWidth) + "  "
	text := m.text
	if s.IsTerminal() {
		room := s.Width - terminal.Columns(head) - 2 - terminal.Columns(tail)
		text = around(text, words, max(room, 8))
	}
	base := terminal.Plain
	if m.kind == message.KindError {
		base = terminal.Red
	}
	line := s.Paint(terminal.Faint, head) + s.Paint(k.style, k.glyph) + " "
	line += terminal.Pad(m.typ, types) + "  " + s.Paint(terminal.Faint, terminal.Pad(terminal.ClipMiddle(m.id, idWidth), idWidth)) + "  "
	return s.Line(strings.TrimRight(line+highlight(s, text, words, base), " "))
}

// clock writes a time, shortly if it is today's and somebody looks at it.
func clock(s *terminal.Screen, at int64) string {
	t := time.UnixMilli(at).In(s.Now.Location())
	if s.IsTerminal() && t.Format(time.DateOnly) == s.Now.Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05.000")
}

// around cuts a text so that the first of the words in it can be seen.
func around(text string, words []string, most int) string {
	if terminal.Columns(text) <= most {
		return text
	}
	if spans := occurrences(text, words); len(spans) > 0 {
		runes := []rune(text)
		if from := spans[0].from - most/4; from > 0 && terminal.Columns(string(runes[:spans[0].to])) > most-1 {
			text = "…" + string(runes[from:])
		}
	}
	return terminal.Clip(text, most)
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
func highlight(s *terminal.Screen, text string, words []string, base terminal.Style) string {
	if !s.Colour {
		return text
	}
	runes := []rune(text)
	var b strings.Builder
	end := 0
	for _, o := range occurrences(text, words) {
		b.WriteString(s.Paint(base, string(runes[end:o.from])))
		b.WriteString(s.Paint(terminal.Strong, string(runes[o.from:o.to])))
		end = o.to
	}
	b.WriteString(s.Paint(base, string(runes[end:])))
	return b.String()
}

// searchWords are the words of a query, in lower case.
func searchWords(query string) []string {
	return strings.FieldsFunc(strings.Map(unicode.ToLower, query), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r)
	})
}

// noMessages says that nothing was found, and what to do.
func noMessages(s *terminal.Screen) {
	s.Note("no message in the journal matches; the daemon records all messages, kernos pipe --inline with --journal")
}
