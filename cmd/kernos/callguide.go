package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
	"kernos/internal/visible"
)

// failed shows the error that a call was answered with, and what to do about it.
func (c *calling) failed(e *client.Item, g *client.Guidance, params json.RawMessage) error {
	c.screen.Note("%s", visible.Text(e.Error))
	if g == nil && c.unlisted { // other servers may leave it to the caller to find out
		_, err := c.catalog.Method(c.root.Context(), c.module, c.name)
		if u, ok := errors.AsType[*client.Unknown](err); ok {
			g = u.Guidance
		}
	}
	if g != nil {
		c.guide(g, params)
	}
	return &exit.Error{Status: failureStatus(e.Code, g)}
}

// guide shows guidance: the command as it should have been, or what to look at.
func (c *calling) guide(g *client.Guidance, params json.RawMessage) {
	var lines []string
	say := func(format string, args ...any) {
		lines = append(lines, "  "+visible.Text(fmt.Sprintf(format, args...)))
	}
	if g.Reason != "" && g.Reason != g.Message {
		say("%s", g.Reason)
	}
	switch g.Action {
	case client.TryMethod:
		if line := c.corrected(g, params); line != "" {
			say("try:  %s", line)
		}
	case client.CallModuleSchema:
		say("see:  %s", c.program(g.Namespace))
	case client.CallServiceSchema:
		say("see:  %s", c.program("call"))
	case client.Custom:
		say("%s", g.Message)
	}
	if len(g.AvailableMethods) > 0 && g.ErrorKind != client.InvalidParams {
		say("there are: %s", strings.Join(g.AvailableMethods, ", "))
	}
	if g.ErrorKind == client.InvalidParams && c.method != nil {
		say("help: %s", c.program(c.module, c.name, "--help"))
	}
	for _, l := range lines {
		fmt.Fprintln(c.screen.Err, l)
	}
}

// corrected is the command that guidance suggests, with as much of what was given as the
// method takes.
func (c *calling) corrected(g *client.Guidance, params json.RawMessage) string {
	module, method := c.module, g.SuggestedMethod
	if before, after, ok := strings.Cut(method, "."); ok {
		module, method = before, after
	}
	if method == "" {
		return ""
	}
	m := c.method
	if c.catalog != nil && (m == nil || m.Module != module || m.Name != method) {
		m, _ = c.catalog.Method(c.root.Context(), module, method) // without its schema the command is still right
	}
	if m == nil {
		params = nil // nobody knows which of it is secret
	} else {
		params = withoutSecrets(&m.Field, renamed(m, params))
	}
	return c.program(append([]string{module, method}, arguments(m, mended(m, params, g.ExampleParams))...)...)
}

// renamed gives parameters that have a name which the method does not know the one that was
// probably meant.
func renamed(m *client.Method, params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	all := make(map[string]json.RawMessage)
	for _, one := range members {
		all[one.Name] = one.Value
	}
	p := paramReader{method: m}
	for _, one := range members {
		if findField(&m.Field, one.Name) != nil {
			continue
		}
		path, f := p.meant(one.Name)
		if f == nil || len(path) > 1 || all[path[0]] != nil {
			continue
		}
		if value, err := convertValue(f, jsonvalue.Plain(one.Value)); err == nil {
			delete(all, one.Name)
			all[path[0]] = value
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return params
	}
	return text
}

// withoutSecrets leaves out what must not be shown.
func withoutSecrets(f *client.Field, params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	shown := make(map[string]json.RawMessage)
	for _, m := range members {
		inner := findField(f, m.Name)
		switch {
		case inner == nil:
			shown[m.Name] = m.Value
		case !inner.Sensitive:
			shown[m.Name] = withoutSecrets(inner, m.Value)
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil
	}
	return text
}

// mended returns what was given, with that of the example in the place of what is missing
// or wrong.
func mended(m *client.Method, given, example json.RawMessage) json.RawMessage {
	if m == nil || given == nil {
		if example != nil {
			return example
		}
		return given
	}
	if m.Validate(given) == nil {
		return given
	}
	if example == nil {
		example = m.Example()
	}
	if example == nil {
		return given
	}
	result := make(map[string]json.RawMessage)
	var base, wanted map[string]json.RawMessage
	if json.Unmarshal(example, &base) != nil || json.Unmarshal(given, &wanted) != nil {
		return example
	}
	maps.Copy(result, base)
	fits := func() bool {
		text, err := json.Marshal(result)
		return err == nil && m.Validate(text) == nil
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		old, had := result[name]
		if result[name] = wanted[name]; fits() {
			continue
		}
		if result[name] = likeliest(findField(&m.Field, name), wanted[name]); result[name] != nil && fits() {
			continue
		}
		delete(result, name)
		if had {
			result[name] = old
		}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return example
	}
	return text
}

// likeliest returns the value that was probably meant, of those that a parameter can have; nil
// if nobody knows.
func likeliest(f *client.Field, given json.RawMessage) json.RawMessage {
	if f == nil {
		return nil
	}
	words := make([]string, len(f.Enum))
	for i, v := range f.Enum {
		words[i] = jsonvalue.Plain(v)
	}
	near := nearest.Names(jsonvalue.Plain(given), words)
	if len(near) == 0 {
		return nil
	}
	return f.Enum[slices.Index(words, near[0])]
}

// program is a command line of kernos, as a shell takes it, for the same server.
func (c *calling) program(words ...string) string {
	quoted := []string{"kernos"}
	for _, w := range words {
		quoted = append(quoted, shellQuote(w))
	}
	if c.context != "" {
		quoted = append(quoted, "--context", shellQuote(c.context))
	}
	if c.server != "" {
		quoted = append(quoted, "--server", shellQuote(c.server))
	}
	return strings.Join(quoted, " ")
}

// shellQuote writes a word so that every shell takes it as it is.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// arguments writes parameters as a command line has them. Reading them gives the same
// parameters.
func arguments(m *client.Method, params json.RawMessage) []string {
	members := jsonvalue.Members(params)
	if members == nil {
		if len(params) == 0 || jsonvalue.Kind(string(params)) == "null" {
			return nil
		}
		return []string{"--data", string(params)}
	}
	var root *client.Field
	if m != nil {
		root = &m.Field
	}
	words := fieldArguments(root, "", members)
	if read, err := parameters(m, new(callFlags), words, strings.NewReader("")); err != nil || !jsonvalue.Same(read, params) {
		return []string{"--data", string(params)} // it has names that no flag can have
	}
	return words
}

func fieldArguments(parent *client.Field, prefix string, members jsonvalue.Object) (words []string) {
	for _, member := range members {
		path := prefix + member.Name
		var f *client.Field
		if parent != nil {
			f = findField(parent, member.Name)
		}
		if inner := jsonvalue.Members(member.Value); f != nil && len(f.Fields) > 0 && len(inner) > 0 && !strings.Contains(member.Name, ".") {
			words = append(words, fieldArguments(f, path+".", inner)...)
			continue
		}
		elements := jsonvalue.Elements(member.Value)
		if f == nil || f.Scalar() != "array" || len(elements) == 0 {
			words = append(words, argument(f, flagName(path), member.Value)...)
			continue
		}
		list := []string{}
		for _, e := range elements {
			if wholeList(f, jsonvalue.Plain(e)) {
				list = []string{path + ":=" + string(member.Value)}
				break
			}
			one := argument(elementOf(f), path, e)
			if strings.HasPrefix(one[0], path+":=") { // an element can't be written so
				list = []string{path + ":=" + string(member.Value)}
				break
			}
			list = append(list, one...)
		}
		words = append(words, list...)
	}
	return words
}

func findField(parent *client.Field, name string) *client.Field {
	for _, inner := range parent.Fields {
		if inner.Name == name {
			return inner
		}
	}
	return nil
}

// argument writes one value. What would not be read as it is meant is written as JSON.
func argument(f *client.Field, path string, value json.RawMessage) []string {
	text := string(value)
	if s, ok := jsonvalue.String(value); ok {
		text = s
	}
	own := findsOwn("--" + path)
	if read, err := convertValue(f, text); err == nil && jsonvalue.Same(read, value) && !strings.HasPrefix(text, "@") {
		switch {
		case f == nil || own:
			return []string{path + "=" + text}
		case f.Scalar() == "boolean" && text == "true" && f.Name != "": // not an element of a list
			return []string{"--" + path}
		case f.Scalar() == "boolean", strings.HasPrefix(text, "-"), text == "":
			return []string{"--" + path + "=" + text}
		}
		return []string{"--" + path, text}
	}
	return []string{path + ":=" + string(value)}
}
