package line

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"kernos/client"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

const maxListed = 500 // values of a parameter

// listed returns the values of a parameter that a server has, if it runs: those that begin
// like word. Names that end with a slash are folders, and one that is the only value is
// looked into.
func (c *call) listed(ctx context.Context, f *client.Field, word string) (found []string) {
	lister, list := c.lister(ctx, f)
	if lister == "" || c.kernel == nil || c.kernel.DefinitionsOnly() {
		return nil
	}
	if list != "" {
		return c.inList(ctx, lister, list, f, word)
	}
	for folder := word[:strings.LastIndexByte(word, '/')+1]; ; folder = found[0] {
		inside := c.inFolder(ctx, lister, f, folder, word)
		if len(inside) > 0 {
			found = inside
		}
		if len(inside) != 1 || complete(inside[0]) || len(inside[0]) <= len(folder) {
			return found
		}
	}
}

// inFolder returns the values in a folder that begin like word, page by page until there are
// enough or the time is over.
func (c *call) inFolder(ctx context.Context, lister string, f *client.Field, folder, word string) (found []string) {
	params := map[string]string{"prefix": folder}
	for {
		data, err := c.kernel.Client().Call(ctx, lister, params)
		if err != nil {
			return found
		}
		members := jsonvalue.Members(data)
		found = append(found, beginning(texts(members.Get(f.Name+"s")), word)...)
		params["cursor"], _ = jsonvalue.String(members.Get("cursor"))
		found = slices.DeleteFunc(found, func(v string) bool { return visible.Text(v) != v })
		if params["cursor"] == "" || len(found) >= maxListed {
			return found
		}
	}
}

// inList returns the values in the elements of a list that begin like word. The list has the
// latest ones first, and its first page will do.
func (c *call) inList(ctx context.Context, lister, list string, f *client.Field, word string) (found []string) {
	data, err := c.kernel.Client().Call(ctx, lister, struct{}{})
	if err != nil {
		return nil
	}
	for _, e := range jsonvalue.Elements(jsonvalue.Members(data).Get(list)) {
		found = append(found, beginning(texts(jsonvalue.Members(e).Get(f.Name)), word)...)
	}
	return slices.DeleteFunc(found, func(v string) bool { return visible.Text(v) != v })
}

// lister returns the method of the module that lists the values of a parameter, or "": a
// query that is known here, for others may do anything. It requires nothing, and either takes a
// prefix and answers with the plural of the parameter, or answers with a list, whose name is
// returned too, of objects that have a member of the parameter's name. A method that takes the
// parameter itself lists a part only.
func (c *call) lister(ctx context.Context, f *client.Field) (method, list string) {
	module := c.catalog.Module(c.module)
	if module == nil || f.Sensitive || c.method.Find(f.Name) != f {
		return "", ""
	}
	for _, name := range module.Methods {
		route, ok := builtIn(module.Namespace + "_" + name)
		if !ok || route.Syscall.Kind != message.KindQuery || route.Syscall.Runs == kernel.Endless {
			continue
		}
		m, err := c.catalog.Method(ctx, module.Namespace, name)
		if err != nil || slices.ContainsFunc(m.Fields, func(f *client.Field) bool { return f.Required }) {
			continue
		}
		output := client.ReadField(route.Syscall.Output.JSON())
		if output.Member(f.Name+"s") != nil && m.Find("prefix") != nil && route.Syscall.Runs == kernel.Inline {
			return m.Call(), ""
		}
		for _, member := range output.Fields {
			if member.Items != nil && member.Items.Member(f.Name) != nil && m.Find(f.Name) == nil {
				return m.Call(), member.Name
			}
		}
	}
	return "", ""
}

// texts returns the text that a value is, or those in a list.
func texts(value json.RawMessage) (all []string) {
	if text, ok := jsonvalue.String(value); ok {
		return []string{text}
	}
	for _, e := range jsonvalue.Elements(value) {
		if text, ok := jsonvalue.String(e); ok {
			all = append(all, text)
		}
	}
	return all
}

// isFile reports whether the value of a parameter is the name of a file, by the last word of
// the parameter's own name.
func isFile(f *client.Field) bool {
	if f.Scalar() == "integer" || f.Scalar() == "number" {
		return false
	}
	last := strings.LastIndexFunc(f.Name, func(r rune) bool { return !unicode.IsLower(r) })
	word := strings.ToLower(strings.TrimLeft(f.Name[max(last, 0):], "_-."))
	switch strings.TrimSuffix(word, "s") {
	case "path", "file", "filename", "dir", "directory":
		return true
	}
	return false
}
