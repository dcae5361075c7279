package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tables is TOML, where an entry is a table with the tables inside it.
var tables = format{entry: tomlEntry, put: tomlPut, drop: tomlDrop, values: tomlValues, render: tomlRender}

func tomlValues(text string) (map[string]any, error) {
	values := map[string]any{}
	return values, toml.Unmarshal([]byte(text), &values)
}

func tomlRender(c *Client, s Server) (string, error) {
	var b strings.Builder
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = strconv.Quote(a)
	}
	fmt.Fprintf(&b, "[%s.%s]\ncommand = %q\nargs = [%s]\n", c.under, entryName, s.Command, strings.Join(args, ", "))
	if len(s.Env) > 0 {
		fmt.Fprintf(&b, "\n[%s.%s.env]\n", c.under, entryName)
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			fmt.Fprintf(&b, "%s = %q\n", name, s.Env[name])
		}
	}
	return b.String(), nil
}

// tomlFind returns where the text of an entry begins and ends; both are 0 if it isn't there.
// Comments before the table that follows belong to that table.
func tomlFind(text, under string) (from, to int, err error) {
	p := new(unstable.Parser)
	p.Reset([]byte(text))
	inside := false
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		var path []string
		start := -1
		for keys := e.Key(); keys.Next(); {
			if start < 0 {
				start = strings.LastIndexByte(text[:keys.Node().Raw.Offset], '\n') + 1
			}
			path = append(path, string(keys.Node().Data))
		}
		ours := len(path) >= 2 && path[0] == under && path[1] == entryName
		switch {
		case ours && !inside && to > 0:
			return 0, 0, fmt.Errorf("the tables of %s.%s are in several places", under, entryName)
		case ours && !inside:
			from, inside = start, true
		case !ours && inside:
			to, inside = start, false
		}
	}
	if inside {
		to = len(text)
	}
	kept := strings.SplitAfter(text[from:to], "\n")
	for len(kept) > 0 && (strings.TrimSpace(kept[len(kept)-1]) == "" || strings.HasPrefix(strings.TrimSpace(kept[len(kept)-1]), "#")) {
		kept = kept[:len(kept)-1]
	}
	return from, from + len(strings.Join(kept, "")), p.Error()
}

func tomlEntry(text, under string) (string, error) {
	from, to, err := tomlFind(text, under)
	return text[from:to], err
}

func tomlPut(text, under, entry string) (string, error) {
	from, to, err := tomlFind(text, under)
	switch {
	case err != nil:
		return "", err
	case from != to:
		return text[:from] + entry + text[to:], nil
	case text != "" && !strings.HasSuffix(text, "\n"):
		text += "\n"
	}
	if strings.TrimSpace(text) != "" && !strings.HasSuffix(text, "\n\n") {
		text += "\n"
	}
	return text + entry, nil
}

func tomlDrop(text, under string) (string, error) {
	from, to, err := tomlFind(text, under)
	if err != nil || from == to {
		return text, err
	}
	before := text[:from]
	if strings.HasSuffix(before, "\n\n") { // put has separated it with a line
		before = before[:len(before)-1]
	}
	return before + text[to:], nil
}
