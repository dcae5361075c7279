package terminal

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"kernos/client"
	"kernos/internal/jsonvalue"
	"kernos/internal/phrase"
	"kernos/internal/visible"
)

// Present writes the reply to a call as the definition of its method wants it shown to people: as a table, or in one line. It
// reports false, and writes nothing, if the definition has neither for this reply.
func (s *Screen) Present(p *client.Presentation, params, reply json.RawMessage, more More) (bool, error) {
	if text := s.reported(p, params, reply); text != "" {
		return true, s.Line(visible.Lines(text))
	}
	var titles []string
	var texts []phrase.Phrase
	coloured := make(map[int]bool)
	for _, column := range p.Columns {
		title, pattern, _ := strings.Cut(column, " ")
		text, err := phrase.Parse(pattern)
		if err != nil {
			return false, nil // of a later version, perhaps
		}
		if first, _, _ := strings.Cut(pattern, " | "); strings.LastIndexByte(first, '{') == 0 && (strings.HasSuffix(first, ":time}") || strings.HasSuffix(first, ":clock}")) {
			title += s.Now.Local().Format(" (MST)")
		}
		coloured[len(titles)] = strings.HasSuffix(pattern, ":state}")
		titles, texts = append(titles, title), append(texts, text)
	}
	if len(texts) == 0 {
		return false, nil
	}
	if texts[0].Fill(s.values(reply, nil, ",")) != "" { // it isn't a list
		var rows [][]string
		for i, text := range texts {
			if shown := text.Fill(s.values(reply, nil, ",")); shown != "" {
				title, _, _ := strings.Cut(p.Columns[i], " ")
				rows = append(rows, []string{strings.ToLower(title), shown})
			}
		}
		return true, s.Table(nil, rows)
	}
	list, facts, ok := listOf(reply)
	if !ok {
		return false, nil
	}
	if len(list) == 0 {
		s.Remark("no " + nameOfList(reply))
	}
	rows := make([][]string, len(list))
	for i, element := range list {
		for _, text := range texts {
			rows[i] = append(rows[i], Clip(text.Fill(s.values(element, nil, ",")), widestCell))
		}
	}
	err := s.list(facts, more, func() error {
		return s.table(titles, rows, func(column int, text string) Style {
			if !coloured[column] {
				return Plain
			}
			return stateStyles[text]
		})
	})
	return true, err
}

// stateStyles are the colours of what {PATH:state} writes.
var stateStyles = map[string]Style{
	"running": Cyan, "starting": Cyan, "completed": Green, "connected": Green, "failed": Red, "pending": Yellow, "waiting": Yellow, "idle": Faint,
}

// Failure returns why what was asked for has failed, by the reply to a call; "" if it hasn't.
func Failure(p *client.Presentation, reply json.RawMessage) string {
	text, err := phrase.Parse(p.Failure)
	if err != nil {
		return "" // of a later version, perhaps
	}
	return visible.Text(text.Fill(new(Screen).values(reply, nil, ", ")))
}

// widestCell is how wide a cell of such a table may be. Other forms of the output show all of it.
const widestCell = 400

// values returns the function that finds and writes the values of a phrase: members of object and of request, or, for the
// path ".", the whole object if it is a text or a number. between separates the elements of a list.
func (s *Screen) values(object, request json.RawMessage, between string) func(path, form string) string {
	return func(path, form string) string {
		value, inside := object, path
		if path == "." {
			if kind := jsonvalue.Kind(string(value)); kind == "object" || kind == "array" {
				return ""
			}
			return s.formed(value, form, between)
		}
		if name, ok := strings.CutPrefix(path, "request."); ok {
			value, inside = request, name
		}
		for step := range strings.SplitSeq(inside, ".") {
			value = jsonvalue.Members(value).Get(step)
		}
		return s.formed(value, form, between)
	}
}

// formed writes a value in a form of [phrase.Forms]; "" if there is none.
func (s *Screen) formed(value json.RawMessage, form, between string) string {
	if value == nil || string(value) == "null" {
		return ""
	}
	number, err := strconv.ParseFloat(string(value), 64)
	at := time.UnixMilli(int64(number)).Local()
	switch {
	case form == "id":
		return ClipMiddle(visible.Text(jsonvalue.Plain(value)), shortID)
	case form == "percent" && err == nil:
		return strconv.Itoa(int(number*100+0.5)) + "%"
	case form == "time" && number > 0:
		return at.Format("2006-01-02 15:04")
	case form == "clock" && number > 0:
		return clock(at, s.Now)
	case form == "age" && number > 0:
		return Age(at, s.Now)
	case form != "" && form != "state":
		return ""
	}
	if list := jsonvalue.Elements(value); list != nil {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = jsonvalue.Plain(e)
		}
		return strings.Join(words, between)
	}
	return jsonvalue.Plain(value)
}
