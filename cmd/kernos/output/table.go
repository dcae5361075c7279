package output

import (
	"bytes"
	"encoding/json"
	"slices"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// table shows a value as a table: a row for each element of a list, or else for each member
// of an object. If an object is a list with some facts about it, such as where the next page
// begins, the list is shown, and the facts beside it.
func table(s *terminal.Screen, data json.RawMessage) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		members := jsonvalue.Members(data)
		if members == nil {
			return s.Line(cell(data))
		}
		var rows, facts [][]string
		lists, objects := 0, 0
		for _, m := range members {
			row := []string{visible.Text(m.Name), cell(m.Value)}
			rows = append(rows, row)
			switch jsonvalue.Kind(string(m.Value)) {
			case "array":
				lists++
				list = jsonvalue.Elements(m.Value)
			case "object":
				objects++
			default:
				facts = append(facts, row)
			}
		}
		if lists != 1 || objects > 0 {
			return s.Table(nil, rows)
		}
		for _, f := range facts {
			s.Note("%s: %s", f[0], f[1])
		}
	}
	var columns []string
	for _, e := range list {
		for _, m := range jsonvalue.Members(e) {
			if !slices.Contains(columns, m.Name) {
				columns = append(columns, m.Name)
			}
		}
	}
	rows := make([][]string, len(list))
	for i, e := range list {
		members := jsonvalue.Members(e)
		if members == nil && len(columns) == 0 {
			rows[i] = []string{cell(e)}
			continue
		}
		rows[i] = make([]string, len(columns))
		for _, m := range members {
			rows[i][slices.Index(columns, m.Name)] = cell(m.Value)
		}
		if members == nil {
			rows[i][0] = cell(e)
		}
	}
	for i := range columns {
		columns[i] = visible.Text(columns[i])
	}
	return s.Table(columns, rows)
}

// cell is a value in a table, on one line.
func cell(value json.RawMessage) string {
	if text, ok := jsonvalue.String(value); ok {
		return visible.Text(text)
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return visible.Text(b.String())
}
