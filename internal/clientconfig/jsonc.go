package clientconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonc is JSON, in which clients allow comments and trailing commas.
var jsonc = format{entry: jsonEntry, put: jsonPut, drop: jsonDrop, values: jsonValues, render: func(c *Client, s Server) (string, error) {
	b, err := json.Marshal(c.shape(s))
	return string(b), err
}}

func jsonValues(text string) (values map[string]any, err error) {
	file, _, err := jsonParse(text, "")
	if err != nil {
		return nil, err
	}
	file.Standardize()
	return values, json.Unmarshal(file.Pack(), &values)
}

// jsonParse returns the file, and the servers in it if they are there.
func jsonParse(text, under string) (file hujson.Value, servers *hujson.Object, err error) {
	if strings.TrimSpace(text) == "" {
		text = "{}\n"
	}
	if file, err = hujson.Parse([]byte(text)); err != nil {
		return file, nil, err
	}
	root, ok := file.Value.(*hujson.Object)
	if !ok {
		return file, nil, fmt.Errorf("the file isn't a JSON object; it begins with %.20s", strings.TrimSpace(text))
	}
	if m := member(root, under); m != nil {
		if servers, ok = m.Value.Value.(*hujson.Object); !ok {
			return file, nil, fmt.Errorf("%s in the file isn't an object", under)
		}
	}
	return file, servers, nil
}

// member returns a member of an object: the last one of the name, which is the one that counts.
func member(o *hujson.Object, name string) (found *hujson.ObjectMember) {
	for i := range o.Members {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			found = &o.Members[i]
		}
	}
	return found
}

func jsonEntry(text, under string) (string, error) {
	_, servers, err := jsonParse(text, under)
	if err != nil || servers == nil || member(servers, entryName) == nil {
		return "", err
	}
	return string(hujson.Value{Value: member(servers, entryName).Value.Value}.Pack()), nil
}

func jsonPut(text, under, entry string) (string, error) {
	file, servers, err := jsonParse(text, under)
	if err != nil {
		return "", err
	}
	root := file.Value.(*hujson.Object)
	unit := unitOf(root)
	value, err := layOut(entry, strings.Repeat(unit, 2), unit)
	if err != nil {
		return "", err
	}
	if servers == nil {
		servers = new(hujson.Object)
		insert(root, under, servers, unit, "")
	}
	switch m := member(servers, entryName); {
	case m == nil:
		insert(servers, entryName, value, strings.Repeat(unit, 2), unit)
	case !equal(m.Value.Value, value): // otherwise only its layout or its comments differ
		m.Value.Value = value
	}
	return string(file.Pack()), nil
}

// layOut parses a value. One that this package has rendered gets a line for each of its members; one
// that a file had keeps its own layout.
func layOut(text, prefix, unit string) (hujson.ValueTrimmed, error) {
	v, err := hujson.Parse([]byte(text))
	o, ok := v.Value.(*hujson.Object)
	if err != nil || !ok || strings.Contains(text, "\n") {
		return v.Value, err
	}
	for i := range o.Members {
		m := &o.Members[i]
		m.Name.BeforeExtra, m.Value.BeforeExtra = hujson.Extra("\n"+prefix+unit), hujson.Extra(" ")
		switch inner := m.Value.Value.(type) {
		case *hujson.Array:
			for j := range inner.Elements[1:] {
				inner.Elements[j+1].BeforeExtra = hujson.Extra(" ")
			}
		case *hujson.Object:
			for j := range inner.Members {
				inner.Members[j].Name.BeforeExtra, inner.Members[j].Value.BeforeExtra = hujson.Extra(" "), hujson.Extra(" ")
			}
			inner.AfterExtra = hujson.Extra(" ")
		}
	}
	o.AfterExtra = hujson.Extra("\n" + prefix)
	return o, nil
}

func equal(a, b hujson.ValueTrimmed) bool {
	var values [2]any
	for i, v := range []hujson.ValueTrimmed{a, b} {
		whole := hujson.Value{Value: v}.Clone()
		whole.Standardize()
		if json.Unmarshal(whole.Pack(), &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// unitOf returns the indent of the first member that begins a line.
func unitOf(o *hujson.Object) string {
	for i := range o.Members {
		extra := string(o.Members[i].Name.BeforeExtra)
		if at := strings.LastIndexByte(extra, '\n'); at >= 0 && strings.Trim(extra[at:], " \t\n") == "" && extra[at+1:] != "" {
			return extra[at+1:]
		}
	}
	return "  "
}

// insert puts a member at the end of an object, after the comments at its end.
func insert(o *hujson.Object, name string, value hujson.ValueTrimmed, indent, outer string) {
	comments := strings.TrimRight(string(o.AfterExtra), " \t\r\n")
	if rest := string(o.AfterExtra)[len(comments):]; !strings.Contains(rest, "\n") {
		o.AfterExtra = hujson.Extra("\n" + outer)
	} else {
		o.AfterExtra = hujson.Extra(rest)
	}
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(comments + "\n" + indent), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	})
}

func jsonDrop(text, under string) (string, error) {
	file, servers, err := jsonParse(text, under)
	if err != nil || servers == nil || member(servers, entryName) == nil {
		return text, err
	}
	pointer := strings.NewReplacer("~", "~0", "/", "~1")
	patch, err := json.Marshal([]map[string]string{{"op": "remove", "path": "/" + pointer.Replace(under) + "/" + entryName}})
	if err != nil {
		return "", err
	}
	if err := file.Patch(patch); err != nil {
		return "", err
	}
	return string(file.Pack()), nil
}
