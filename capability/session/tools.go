package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A tool is what a model is offered: syscalls that a pattern names or, with a schema, something
// that runs elsewhere, whose result Session.Append brings.
type tool struct {
	Name        string         `json:"name" jsonschema_description:"A syscall, a pattern such as Memory.*, or the name of a tool that runs elsewhere."`
	Description string         `json:"description,omitzero" jsonschema_description:"What a tool that runs elsewhere is for."`
	InputSchema jsontext.Value `json:"inputSchema,omitzero" jsonschema_description:"The JSON Schema of its arguments."`
}

func (t *tool) elsewhere() bool { return len(t.InputSchema) > 0 }

// checkPattern returns a 422 for a pattern that would never match: a rule to deny would let everything
// through.
func checkPattern(ctx context.Context, field, pattern string) error {
	if err := principal.CheckPattern(field, pattern); err != nil {
		return err
	}
	k, _ := kernel.Of(ctx)
	return k.Registry().CheckNames([]string{pattern})
}

// readTools reads tools as a caller writes them: a name, or an object. It returns nil if none are
// given, and an empty list if the list is.
func (x *Sessions) readTools(ctx context.Context, given []jsontext.Value) (all []tool, err error) {
	if given != nil {
		all = []tool{}
	}
	for i, text := range given {
		var t tool
		if text.Kind() == '"' {
			err = json.Unmarshal(text, &t.Name)
		} else {
			err = json.Unmarshal(text, &t)
		}
		if err != nil || t.Name == "" || len(t.Name) > 128 {
			return nil, invalid(fmt.Sprintf("tools/%d", i), "expected the name of a syscall, or {name, description, inputSchema}")
		}
		if t.elsewhere() {
			if _, err := x.parsed(t.InputSchema); err != nil {
				return nil, invalid(fmt.Sprintf("tools/%d/inputSchema", i), "%v", err)
			}
		} else if err := checkPattern(ctx, fmt.Sprintf("tools/%d", i), t.Name); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// defaultTools are the tools of a session that names none.
var defaultTools = []tool{
	{Name: "Memory.Get"}, {Name: "Memory.Set"}, {Name: "Memory.Delete"}, {Name: "Memory.List"}, {Name: "Memory.Search"}, {Name: "VFS.List"}, {Name: "VFS.Read"}, {Name: "VFS.Write"},
	{Name: "Http.Fetch"}, {Name: "Job.Start"}, {Name: "Message.Search"},
	{Name: "Syscall.Search"}, {Name: "Syscall.Describe"}, {Name: string(kernel.ThroughType)},
}

// offers reports whether a syscall is one of the session's tools.
func (h *head) offers(t message.Type) bool {
	return slices.ContainsFunc(h.Tools, func(o tool) bool { return !o.elsewhere() && principal.Matches(o.Name, t) })
}

// A toolOffer is a tool as Model.Generate gets it.
type toolOffer struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

// reaches reports whether the sessions that have asked a session for something may call a syscall
// too: as one of their tools, or with Syscall.Call.
func (x *Sessions) reaches(h *head, t message.Type) bool {
	for h.Parent != nil {
		parent, err := x.load(h.Parent.Session)
		if err != nil || !parent.offers(t) && !parent.offers(kernel.ThroughType) {
			return false
		}
		h = &parent.head
	}
	return true
}

// offered describes the tools of a session to a model: of the syscalls those that its principal may
// call and that don't belong to a connection.
func (x *Sessions) offered(k *kernel.Kernel, s *session, from kernel.Sender) (all []toolOffer) {
	seen := make(map[string]bool)
	add := func(o toolOffer) {
		if !seen[o.Name] {
			seen[o.Name] = true
			all = append(all, o)
		}
	}
	for _, t := range s.Tools {
		if t.elsewhere() {
			add(toolOffer(t))
			continue
		}
		for _, name := range k.Registry().All().Types() {
			known, ok := k.Registry().Lookup(name)
			if !ok || !principal.Matches(t.Name, name) || known.Runs == kernel.Endless || known.Effect == kernel.Transient || from.Principal().May(known.Target()) != nil || !x.reaches(&s.head, name) && name != kernel.ThroughType {
				continue
			}
			add(toolOffer{string(name), known.Summary, jsontext.Value(known.Input.JSON())})
		}
	}
	return all
}
