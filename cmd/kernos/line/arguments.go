package line

import (
	"encoding/json"
	"slices"
	"strings"

	"kernos/client"
	"kernos/internal/jsonvalue"
)

// Arguments writes parameters as a command line has them. Reading them gives the same
// parameters.
func Arguments(m *client.Method, params json.RawMessage) []string {
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
	means := func(words []string) bool {
		read, err := (&Line{Args: words}).Parameters(m, Input{})
		return err == nil && jsonvalue.Same(read, params)
	}
	words := fieldArguments(root, "", members)
	for n, f := range Positional(m) { // each in its place, as long as those before it are
		i := slices.Index(words, "--"+FlagName(f.Name))
		if i < 0 || i+1 >= len(words) {
			break
		}
		short := slices.Concat(words[:n], words[i+1:i+2], words[n:i], words[i+2:])
		if !means(short) {
			break
		}
		words = short
	}
	if !means(words) {
		return []string{"--data", string(params)} // some names can't be flags
	}
	return words
}

func fieldArguments(parent *client.Field, prefix string, members jsonvalue.Object) (words []string) {
	for _, member := range members {
		path := prefix + member.Name
		var f *client.Field
		if parent != nil {
			f = parent.Member(member.Name)
		}
		if inner := jsonvalue.Members(member.Value); f != nil && len(f.Fields) > 0 && len(inner) > 0 && !strings.Contains(member.Name, ".") {
			words = append(words, fieldArguments(f, path+".", inner)...)
			continue
		}
		elements := jsonvalue.Elements(member.Value)
		if f == nil || f.Scalar() != "array" || len(elements) == 0 {
			words = append(words, argument(f, FlagName(path), member.Value)...)
			continue
		}
		list := []string{}
		for _, e := range elements {
			one := argument(element(f), path, e)
			if isWholeList(f, jsonvalue.Plain(e)) || strings.HasPrefix(one[0], path+":=") { // the element can't be written as one argument
				list = []string{path + ":=" + string(member.Value)}
				break
			}
			list = append(list, one...)
		}
		words = append(words, list...)
	}
	return words
}

// argument writes one value. A value that wouldn't be read as it is meant is written as JSON.
func argument(f *client.Field, path string, value json.RawMessage) []string {
	text := jsonvalue.Plain(value)
	pair := f == nil || IsReserved(path) // the name can't be a flag
	if read, err := convertValue(f, text); err != nil || !jsonvalue.Same(read, value) || pair && strings.HasPrefix(text, "@") {
		return []string{path + ":=" + string(value)}
	}
	switch {
	case pair:
		return []string{path + "=" + text}
	case f.Scalar() == "boolean" && text == "true" && f.Name != "": // not an element of a list
		return []string{"--" + path}
	case f.Scalar() == "boolean", strings.HasPrefix(text, "-"), text == "":
		return []string{"--" + path + "=" + text}
	}
	return []string{"--" + path, text}
}
