package terminal

import (
	"encoding/json"
	"strconv"
	"strings"

	"kernos/client"
	"kernos/internal/jsonvalue"
	"kernos/internal/phrase"
	"kernos/internal/visible"
)

// Sentence returns what a call did, in one line: as the definition of its method reports it, or else what the reply has, in
// short. It also returns whether the reply means a failure.
func (s *Screen) Sentence(p *client.Presentation, params, reply json.RawMessage) (text string, failed bool) {
	if text = Failure(p, reply); text != "" {
		return text, true
	}
	if text = s.reported(p, params, reply); text == "" {
		text = s.listed(p, reply)
	}
	if text == "" {
		text = brief(reply)
	}
	return visible.Text(strings.Join(strings.Fields(text), " ")), false
}

// reported returns the line that a definition has for a reply; "" if it has none.
func (s *Screen) reported(p *client.Presentation, params, reply json.RawMessage) string {
	line, err := phrase.Parse(p.Result)
	if err != nil {
		return "" // of a later version, perhaps
	}
	return line.Fill(s.values(reply, params, ", "))
}

// listed returns how many elements a list has, and the first column of each; "" if the reply isn't presented as a list.
func (s *Screen) listed(p *client.Presentation, reply json.RawMessage) string {
	list, _, ok := listOf(reply)
	if !ok || len(p.Columns) == 0 {
		return ""
	}
	_, pattern, _ := strings.Cut(p.Columns[0], " ")
	column, err := phrase.Parse(pattern)
	if err != nil || column.Fill(s.values(reply, nil, ",")) != "" {
		return ""
	}
	name := nameOfList(reply)
	if len(list) == 0 {
		return "no " + name
	}
	if len(list) > 1 {
		name = strconv.Itoa(len(list)) + " " + name
	}
	cells := make([]string, len(list))
	for i, element := range list {
		cells[i] = column.Fill(s.values(element, nil, ","))
	}
	return name + ": " + strings.Join(cells, ", ")
}

// nameOfList returns the name of the member that is a list.
func nameOfList(reply json.RawMessage) string {
	for _, m := range jsonvalue.Members(reply) {
		if jsonvalue.Kind(string(m.Value)) == "array" {
			return m.Name
		}
	}
	return "elements"
}

// brief returns a value without the signs of JSON around it: an object by the values of its members.
func brief(value json.RawMessage) string {
	short := func(name string, value json.RawMessage) string {
		if text, ok := jsonvalue.String(value); ok && text != "" {
			return text
		}
		return cell(name, value)
	}
	members := jsonvalue.Members(value)
	switch {
	case members == nil:
		return short("", value)
	case len(members) == 0:
		return "done"
	}
	parts := make([]string, len(members))
	for i, m := range members {
		parts[i] = m.Name + ": " + short(m.Name, m.Value)
	}
	return strings.Join(parts, ", ")
}
