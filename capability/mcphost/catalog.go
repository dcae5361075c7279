package mcphost

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/mcphost/client"
	"kernos/capability/script"
	"kernos/internal/mcp"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

// Limits of what a server may offer. What exceeds them is left out, and Mcp.Show reports it.
const (
	maxTools       = 1000
	maxResources   = 1000
	maxTemplates   = 100
	maxPrompts     = 200
	maxSkills      = 200
	maxListBytes   = 4 << 20 // bytes of each list
	maxDescription = 1000    // bytes of a description
	maxName        = 128
	maxLeftOut     = 20
)

// folderOfPrompts is where the prompts of a server are, beside its resources.
const folderOfPrompts = "prompts"

// A reading is what a server offers now.
type reading struct {
	r       *record
	tools   map[string]*offer // offers by tool name
	order   []string
	leftOut []leftOut
}

func (x *reading) omit(name, format string, args ...any) {
	if len(x.leftOut) < maxLeftOut {
		x.leftOut = append(x.leftOut, leftOut{visible.Short(name, maxName), visible.Short(fmt.Sprintf(format, args...), 300)})
	}
}

// readOffers asks a server what it offers. The record has all but its tools.
func readOffers(ctx context.Context, c *client.Conn, before *record) (*reading, error) {
	next := *before
	x := &reading{r: &next, tools: make(map[string]*offer)}
	about := c.About()
	next.Spoken = about.Revision
	next.Title, next.Version, next.Instructions = visible.Short(about.Name, maxName), visible.Short(about.Version, maxName), visible.Short(about.Instructions, maxDescription)
	next.Resources, next.Templates, next.Prompts = nil, nil, nil
	for _, list := range []struct {
		offered bool
		method  string
		member  string
		most    int
		take    func(jsontext.Value) error
	}{
		{about.Tools, "tools/list", "tools", maxTools, x.tool},
		{about.Resources, "resources/list", "resources", maxResources, x.resource},
		{about.Resources, "resources/templates/list", "resourceTemplates", maxTemplates, x.template},
		{about.Prompts, "prompts/list", "prompts", maxPrompts, x.prompt},
		{about.Skills, "skills/list", "skills", maxSkills, x.skill},
	} {
		if !list.offered {
			continue
		}
		items, more, err := c.List(ctx, list.method, list.member, list.most, maxListBytes)
		if _, refused := err.(*client.Error); refused && list.method != "tools/list" {
			continue // the server doesn't serve what it has announced
		}
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if err := list.take(item); err != nil {
				x.omit(list.member, "one isn't what the protocol requires: %v", err)
			}
		}
		if more {
			x.omit(list.member, "there are more than %d, or than %d bytes; the rest is left out", list.most, maxListBytes)
		}
	}
	slices.SortFunc(next.Resources, func(a, b resource) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(next.Prompts, func(a, b prompt) int { return strings.Compare(a.File, b.File) })
	return x, nil
}

func (x *reading) tool(item jsontext.Value) error {
	var t struct {
		Name        string         `json:"name"`
		Title       string         `json:"title"`
		Description string         `json:"description"`
		Input       jsontext.Value `json:"inputSchema"`
		Output      jsontext.Value `json:"outputSchema"`
		Annotations struct {
			ReadOnly   bool `json:"readOnlyHint"`
			Idempotent bool `json:"idempotentHint"`
		} `json:"annotations"`
		Execution struct {
			Task string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(item, &t); err != nil {
		return err
	}
	o := &offer{Description: visible.Short(cmp.Or(t.Description, t.Title), maxDescription), ReadOnly: t.Annotations.ReadOnly, Idempotent: t.Annotations.Idempotent, Task: t.Execution.Task == "required"}
	var err error
	switch {
	case t.Name == "" || len(t.Name) > maxName:
		x.omit(t.Name, "its name has %d bytes, and may have from 1 to %d", len(t.Name), maxName)
		return nil
	case x.tools[t.Name] != nil:
		x.omit(t.Name, "there are two tools of this name; the first is used")
		return nil
	}
	if t.Input == nil {
		t.Input = jsontext.Value(`{"type":"object"}`)
	}
	if o.Input, err = readSchema("inputSchema", t.Input); err == nil && t.Output != nil && t.Output.Kind() != 'n' {
		o.Output, err = readSchema("outputSchema", t.Output)
	}
	if err == nil && x.r.URL != "" {
		o.Mirrored, err = mcp.Mirrors(o.Input)
	}
	if err != nil {
		x.omit(t.Name, "%v", err)
		return nil
	}
	x.tools[t.Name], x.order = o, append(x.order, t.Name)
	return nil
}

// readSchema checks a schema, and returns it in its canonical form, with its texts on one line each.
func readSchema(field string, text jsontext.Value) (jsontext.Value, error) {
	_, canonical, err := script.ReadSchema(field, text)
	if err != nil {
		return nil, err
	}
	var root any
	if err := json.Unmarshal(canonical, &root); err != nil || !untidy(root) {
		return canonical, err
	}
	return json.Marshal(root, json.Deterministic(true))
}

// untidy cleans the descriptions of a schema, and reports whether there was something to clean.
func untidy(value any) (changed bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if text, ok := one.(string); ok && (key == "description" || key == "title") {
				if tidy := visible.Short(text, maxDescription); tidy != text {
					v[key], changed = tidy, true
				}
			} else if untidy(one) {
				changed = true
			}
		}
	case []any:
		for _, one := range v {
			changed = untidy(one) || changed
		}
	}
	return changed
}

func (x *reading) resource(item jsontext.Value) error {
	var r struct {
		URI   string `json:"uri"`
		Name  string `json:"name"`
		Title string `json:"title"`
		Size  int64  `json:"size"`
	}
	if err := json.Unmarshal(item, &r); err != nil {
		return err
	}
	at, ok := pathOf(r.URI)
	switch {
	case !ok:
		x.omit(r.URI, "its URI can't be a path")
	case slices.ContainsFunc(x.r.Resources, func(other resource) bool { return other.Path == at }):
		x.omit(r.URI, "another resource has the path %s", at)
	default:
		x.r.Resources = append(x.r.Resources, resource{Path: at, URI: r.URI, Title: visible.Short(cmp.Or(r.Title, r.Name), maxName), Size: max(0, r.Size)})
	}
	return nil
}

// skill takes the files of a skill, which are read when they are needed and checked then.
func (x *reading) skill(item jsontext.Value) error {
	var s struct {
		URI         string         `json:"uri"`
		Frontmatter jsontext.Value `json:"frontmatter"`
		Resources   []struct {
			URI    string `json:"uri"`
			Digest string `json:"digest"`
			Size   int64  `json:"size"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(item, &s); err != nil {
		return err
	}
	for _, f := range s.Resources {
		at, ok := pathOf(f.URI)
		if !ok || len(x.r.Resources) >= maxResources || f.Digest == "" {
			x.omit(f.URI, "its URI can't be a path, it has no digest, or there are more than %d resources", maxResources)
			continue
		}
		one := resource{Path: at, URI: f.URI, Size: max(0, f.Size), Digest: visible.Short(f.Digest, maxName)}
		if f.URI == s.URI {
			if err := s.Frontmatter.Canonicalize(); err != nil {
				return err
			}
			one.Front = s.Frontmatter
		}
		if i := slices.IndexFunc(x.r.Resources, func(other resource) bool { return other.Path == at }); i >= 0 {
			one.Title = x.r.Resources[i].Title
			x.r.Resources[i] = one
		} else {
			x.r.Resources = append(x.r.Resources, one)
		}
	}
	return nil
}

// pathOf returns where a resource is below the folder of its server: file:///a/b is file/a/b.
func pathOf(uri string) (string, bool) {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || scheme == "" || len(uri) > 1024 || strings.ContainsAny(scheme, "/?#.") || scheme == folderOfPrompts {
		return "", false
	}
	if decoded, err := url.PathUnescape(rest); err == nil && !strings.ContainsAny(rest, "?#") {
		rest = decoded
	}
	rest = strings.Trim(path.Clean("/"+rest), "/")
	if rest == "" || visible.Text(rest) != rest || strings.Contains(rest, `\`) {
		return "", false
	}
	return scheme + "/" + rest, true
}

func (x *reading) template(item jsontext.Value) error {
	var t struct {
		Template string `json:"uriTemplate"`
	}
	if err := json.Unmarshal(item, &t); err != nil {
		return err
	}
	if t.Template != "" && len(t.Template) <= 1024 {
		x.r.Templates = append(x.r.Templates, t.Template)
	}
	return nil
}

func (x *reading) prompt(item jsontext.Value) error {
	var p struct {
		Name        string     `json:"name"`
		Title       string     `json:"title"`
		Description string     `json:"description"`
		Arguments   []argument `json:"arguments"`
	}
	if err := json.Unmarshal(item, &p); err != nil {
		return err
	}
	file := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, p.Name)
	file = strings.Trim(file, ".-") + ".md"
	switch {
	case file == ".md" || len(p.Name) > maxName || len(p.Arguments) > 32:
		x.omit(p.Name, "its name can't be that of a file, or it has too many arguments")
		return nil
	case slices.ContainsFunc(x.r.Prompts, func(other prompt) bool { return other.File == file }):
		x.omit(p.Name, "another prompt has the name %s", file)
		return nil
	}
	one := prompt{File: file, Name: p.Name, Description: visible.Short(cmp.Or(p.Description, p.Title), maxDescription)}
	for _, a := range p.Arguments {
		one.Arguments = append(one.Arguments, argument{visible.Short(a.Name, maxName), visible.Short(a.Description, 200), a.Required})
	}
	x.r.Prompts = append(x.r.Prompts, one)
	return nil
}

// A change is in what the tools of a server have become other ones.
type change struct{ added, changed, removed []message.Type }

func (c *change) empty() bool { return len(c.added)+len(c.changed)+len(c.removed) == 0 }

// maxTold is how many names an event has of each kind.
const maxTold = 30

// encode returns the data of the event about a change.
func (c *change) encode(name string) []byte {
	few := func(types []message.Type) []message.Type { return types[:min(len(types), maxTold)] }
	text, _ := json.Marshal(struct { // texts
		Name    string         `json:"name"`
		Added   []message.Type `json:"added,omitzero"`
		Changed []message.Type `json:"changed,omitzero"`
		Removed []message.Type `json:"removed,omitzero"`
		More    int            `json:"more,omitzero"`
	}{name, few(c.added), few(c.changed), few(c.removed), max(0, len(c.added)-maxTold) + max(0, len(c.changed)-maxTold) + max(0, len(c.removed)-maxTold)})
	return text
}

// merge returns the record of a server after a reading, and what has changed. A tool that is described
// in another way keeps its earlier description, until the owner accepts the new one. taken reports why
// a name can't be had.
func (x *reading) merge(before *record, taken func(message.Type) string) (*record, change) {
	next, c := x.r, change{}
	next.Tools = nil
	names := make(map[string]string) // names of tools by their RPC names
	for _, name := range x.order {
		fresh := x.tools[name]
		t := tool{Name: name, Type: message.Type(next.Domain + "." + pascal(name)), offer: *fresh}
		i := slices.IndexFunc(before.Tools, func(old tool) bool { return old.Name == name })
		if i >= 0 {
			t = before.Tools[i]
			t.Task = fresh.Task // how it is called, which changes nothing of what it does
			switch {
			case t.equal(fresh):
				t.Next = nil
			case t.Next == nil || !t.Next.equal(fresh):
				t.Next = fresh
				c.changed = append(c.changed, t.Type)
			}
		}
		_, method := kernel.Method(t.Type)
		reason := taken(t.Type)
		if other := names[method]; other != "" {
			reason = fmt.Sprintf("its name and that of %s become the same syscall name", other)
		}
		if reason != "" {
			x.omit(name, "%s", reason)
			continue
		}
		if i < 0 {
			c.added = append(c.added, t.Type)
		}
		names[method] = name
		next.Tools = append(next.Tools, t)
	}
	for _, old := range before.Tools {
		if !slices.ContainsFunc(next.Tools, func(t tool) bool { return t.Name == old.Name }) {
			c.removed = append(c.removed, old.Type)
		}
	}
	slices.SortFunc(next.Tools, func(a, b tool) int { return cmp.Compare(a.Type, b.Type) })
	next.LeftOut = x.leftOut
	return next, c
}

// pascal makes a name that can be a part of a type: create_issue is CreateIssue.
func pascal(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	text := strings.Join(words, "")
	if text == "" || text[0] >= '0' && text[0] <= '9' {
		text = "Tool" + text
	}
	return text
}
