package terminal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// printTable shows a value as a table: a row for each element of a list, or else for each member
// of an object. If an object is a list with some facts about it, such as where the next page
// begins, the list is shown, and the facts beside it.
func printTable(s *Screen, data json.RawMessage, more More) error {
	list, facts, ok := listOf(data)
	if !ok {
		members := jsonvalue.Members(data)
		if members == nil {
			return s.Line(cell("", data))
		}
		rows := make([][]string, len(members))
		for i, m := range members {
			rows[i] = []string{visible.Text(m.Name), cell(m.Name, m.Value)}
		}
		return s.Table(nil, rows)
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
			rows[i] = []string{cell("", e)}
			continue
		}
		rows[i] = make([]string, len(columns))
		for _, m := range members {
			rows[i][slices.Index(columns, m.Name)] = cell(m.Name, m.Value)
		}
		if members == nil {
			rows[i][0] = cell("", e)
		}
	}
	return s.list(facts, more, func() error { return s.Table(columns, rows) })
}

// listOf returns the elements of a list, or of the only list of an object, and the other members of that object; false for an
// object that has more than one list, or other objects.
func listOf(data json.RawMessage) (list []json.RawMessage, facts jsonvalue.Object, ok bool) {
	if json.Unmarshal(data, &list) == nil {
		return list, nil, true
	}
	for _, m := range jsonvalue.Members(data) {
		switch kind := jsonvalue.Kind(string(m.Value)); {
		case kind == "object" || kind == "array" && ok:
			return nil, nil, false
		case kind == "array":
			list, ok = jsonvalue.Elements(m.Value), true
		default:
			facts = append(facts, m)
		}
	}
	return list, facts, ok
}

// ListOf returns the elements of a page of a list, and the cursor of the next page; "" if it is the last one.
func ListOf(data json.RawMessage) (list []json.RawMessage, cursor string) {
	list, facts, _ := listOf(data)
	cursor, _ = jsonvalue.String(facts.Get("cursor"))
	return list, cursor
}

// More returns what to say of the pages that follow a list, by the cursor of the next one.
type More func(cursor string) string

// list notes what is said about a list, writes the list, and says how much of it isn't shown.
func (s *Screen) list(facts jsonvalue.Object, more More, write func() error) error {
	rest := ""
	for _, f := range facts {
		if note, ok := jsonvalue.String(f.Value); ok && f.Name == "note" {
			s.Remark(note)
			continue
		}
		if cursor, ok := jsonvalue.String(f.Value); ok && f.Name == "cursor" && more != nil {
			rest = more(cursor)
			continue
		}
		s.Remark(f.Name + ": " + cell(f.Name, f.Value))
	}
	err := write()
	if err == nil {
		s.Remark(rest)
	}
	return err
}

// cell returns the value of a member in a table, on one line: a time as a time, and nested values short.
func cell(name string, value json.RawMessage) string {
	if text, ok := jsonvalue.String(value); ok {
		return visible.Text(text)
	}
	switch jsonvalue.Kind(string(value)) {
	case "integer", "number":
		if t, ok := asTime(name, value); ok {
			return t.Local().Format(time.DateTime)
		}
	case "array":
		if list, ok := words(value); ok {
			return Clip(list, nestedWidth)
		}
		return Clip(compact(value), nestedWidth)
	case "object":
		return Clip(compact(value), nestedWidth)
	}
	return compact(value)
}

// nestedWidth is how wide a list or an object may be in a table. -o json shows all of it.
const nestedWidth = 40

func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return visible.Text(b.String())
}

// words joins a list of texts and numbers.
func words(list json.RawMessage) (string, bool) {
	var all []string
	for _, e := range jsonvalue.Elements(list) {
		if kind := jsonvalue.Kind(string(e)); kind == "array" || kind == "object" {
			return "", false
		}
		all = append(all, visible.Text(jsonvalue.Plain(e)))
	}
	return strings.Join(all, ", "), true
}

// Names of members that hold a time, in milliseconds of Unix time, or the endings of such names.
var (
	timeNames   = []string{"time", "timestamp", "created", "updated", "modified", "changed", "expires", "started", "ended", "finished", "since", "until"}
	timeEndings = []string{"At", "_at", "Time", "_time"}
)

// asTime returns the time that a number is, going by the name of its member, and by its size: from the
// year 2001 to the year 2128.
func asTime(name string, value json.RawMessage) (time.Time, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 1e12 || n > 5e12 {
		return time.Time{}, false
	}
	named := slices.Contains(timeNames, name) || slices.ContainsFunc(timeEndings, func(end string) bool { return strings.HasSuffix(name, end) })
	return time.UnixMilli(n), named
}
