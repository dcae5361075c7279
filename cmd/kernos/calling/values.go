package calling

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"kernos/client"
	"kernos/daemon"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

// listed returns the values of a parameter that a server has, if it runs: those that begin
// like word. Names that end with a slash are folders, and one that is the only value is
// looked into.
func (c *call) listed(ctx context.Context, f *client.Field, word string) (found []string) {
	lister := c.lister(ctx, f)
	if lister == "" || c.conn == nil && !c.consult(ctx) {
		return nil
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
		data, err := c.conn.Call(ctx, lister, params)
		if err != nil {
			return found
		}
		members := jsonvalue.Members(data)
		found = append(found, beginning(texts(members.Get(f.Name+"s")), word)...)
		params["cursor"], _ = jsonvalue.String(members.Get("cursor"))
		found = slices.DeleteFunc(found, func(v string) bool { return visible.Text(v) != v })
		if params["cursor"] == "" || len(found) >= maxUsed {
			return found
		}
	}
}

// lister returns the method of the module that lists the values of a parameter, or "": a
// query that is known here, for others may do anything. It takes a prefix, requires nothing,
// and answers with the plural of the parameter.
func (c *call) lister(ctx context.Context, f *client.Field) string {
	module := c.catalog.Module(c.module)
	if module == nil || f.Sensitive || c.method.Find(f.Name) != f {
		return ""
	}
	r, err := daemon.Definitions()
	if err != nil {
		return ""
	}
	for _, name := range module.Methods {
		route, ok := r.LookupMethod(module.Namespace + "_" + name)
		if !ok || route.Syscall.Kind != message.KindQuery || route.Syscall.Runs != kernel.Inline {
			continue
		}
		m, err := c.catalog.Method(ctx, module.Namespace, name)
		if err != nil || m.Find("prefix") == nil || slices.ContainsFunc(m.Fields, func(f *client.Field) bool { return f.Required }) {
			continue
		}
		var output struct{ Properties map[string]json.RawMessage }
		if json.Unmarshal(route.Syscall.Output.JSON(), &output) == nil && output.Properties[f.Name+"s"] != nil {
			return m.Call()
		}
	}
	return ""
}

// withUsed adds values that were used before to those that a server lists, if it does: but
// for folders, and what is in a folder that is listed.
func withUsed(listed, used []string) []string {
	if listed == nil {
		return used
	}
	all := listed
	for _, v := range used {
		within := func(name string) bool { return name == v || !complete(name) && strings.HasPrefix(v, name) }
		if complete(v) && !slices.ContainsFunc(listed, within) {
			all = append(all, v)
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
