package introspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

type describeInput struct {
	Name  string   `json:"name,omitempty" aliases:"type" jsonschema:"minLength=1" jsonschema_description:"Type of a syscall, such as Memory.Get, in any spelling: memory_get. Without it, the reply describes messages."`
	Names []string `json:"names,omitempty" jsonschema:"minItems=1,maxItems=32" jsonschema_description:"Several types, described at once."`
}

// description is what callers decide from what to send. The first four members are those of the
// specification, in its order.
type description struct {
	Name    string         `json:"name" jsonschema_description:"The type, or the other name that was asked for."`
	Kind    message.Kind   `json:"kind" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not."`
	Input   jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the request's data."`
	Output  jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the reply's data."`
	Summary string         `json:"summary" jsonschema_description:"What the syscall does."`
	Emits   []event        `json:"emits,omitempty" jsonschema_description:"The events that may come before the reply."`
	Errors  []failure      `json:"errors,omitempty" jsonschema_description:"The errors that it gives beside those of all syscalls, which a description without a name lists."`
	Example jsontext.Value `json:"example,omitzero" jsonschema_description:"Data of a request."`
	Timeout int64          `json:"timeout,omitzero" jsonschema_description:"How long a reply may take, in milliseconds, if that isn't the kernel's default."`

	For     string `json:"for,omitzero" jsonschema:"enum=owner only" jsonschema_description:"Left out if the caller may call it."`
	Command string `json:"command,omitzero" jsonschema_description:"Of one that is for the owner only: what a person types in a terminal of the machine. Other members of input are written --NAME VALUE."`

	Sessions []string `json:"sessions,omitempty" jsonschema_description:"The sessions that its code came from: their rules decide about what the code calls, until Syscall.Adopt."`
}

// descriptions are of several syscalls.
type descriptions struct {
	Syscalls    []description  `json:"syscalls"`
	Definitions jsontext.Value `json:"$defs,omitzero"`
}

// severalSchema is the schema of the above.
const severalSchema = `{
	"type": "object",
	"description": "With names: several descriptions.",
	"properties": {
		"syscalls": {"type": "array", "items": {"type": "object"}, "description": "The descriptions, in the order of names."},
		"$defs": {"type": "object", "description": "What their schemas share: a reference such as #/$defs/Reference is one to here."}
	},
	"required": ["syscalls"],
	"additionalProperties": false
}`

type event struct {
	Type        message.Type `json:"type" jsonschema_description:"The event's type."`
	Description string       `json:"description,omitempty" jsonschema_description:"What the event means."`
}

type failure struct {
	Code int    `json:"code" jsonschema_description:"The code of the error."`
	When string `json:"when" jsonschema_description:"When it is given."`
}

var describe = kernel.DefineQuery[describeInput, kernel.Raw](kernel.Definition{
	Type:    "Syscall.Describe",
	Summary: "Describe a syscall: its kind, its input and output as JSON Schema, its events and errors, an example. Without a name: describe messages.",
	Input:   schema.Input[describeInput]().Example(`{"name":"Memory.Get"}`),
	Output:  schema.Output[description]().Or(severalSchema).Or(envelopeSchema),
	Presentation: kernel.Presentation{
		Title: "Describe a syscall",
		Words: "help, man, docs, documentation, schema, introspect, usage, how to use a tool, parameters, arguments, what it takes, explain, " +
			"how do i use this command, which arguments does it need, what does this tool do, input of a tool, explain a command, details of a syscall, " +
			"what does it return, options of a command, example of a call",
		Arguments: []string{"name"}, Errors: []kernel.ErrorDefinition{{Code: 404, When: "no syscall has this name"}},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.ForAll,
})

func (c catalog) describe(ctx context.Context, in describeInput) (kernel.Raw, error) {
	switch {
	case in.Name != "" && in.Names != nil:
		return nil, message.Invalid("names", "only one of name, names may be given")
	case in.Names != nil:
		return c.describeAll(ctx, in.Names)
	case in.Name == "":
		return kernel.Raw(envelope), nil
	}
	d, err := c.description(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	return kernel.Raw(text), err
}

func (c catalog) description(ctx context.Context, name string) (description, error) {
	caller := kernel.PrincipalOf(ctx)
	s, described, ok := c.lookup(name)
	if !ok || forWhom(caller, s) == "" {
		var err error
		if s, described, err = c.find(ctx, name); err != nil {
			return description{}, err
		}
	}
	d := newDescription(described, s)
	if d.For = forWhom(caller, s); d.For != "" {
		d.Command = commandLine(s)
	}
	if caller.Sees(s.Author.ID) {
		d.Sessions = s.Sessions
	}
	return d, nil
}

// commandLine returns the command line of a call of a syscall, with what it needs in capitals.
func commandLine(s *kernel.Syscall) string {
	module, method := kernel.Method(s.Type)
	line := "kernos " + module + " " + strings.ReplaceAll(method, "_", "-")
	var required []string
	_ = json.Unmarshal(jsonscan.Member(s.Input.JSON(), "required"), &required)
	for _, name := range s.Arguments {
		line += " " + strings.ToUpper(name)
	}
	for _, name := range required {
		if !slices.Contains(s.Arguments, name) {
			line += " --" + name + " " + strings.ToUpper(name)
		}
	}
	return line
}

// describeAll describes several syscalls. The error is about all that can't be described.
func (c catalog) describeAll(ctx context.Context, names []string) (kernel.Raw, error) {
	var all descriptions
	var defs shared
	var failed *message.Error
	for _, name := range names {
		d, err := c.description(ctx, name)
		if err != nil {
			if e, _ := message.ErrorOf(err); failed == nil {
				failed = e
			} else {
				failed = message.Errorf(failed.Code, "%s; %s", strings.TrimSuffix(failed.Message, "."), e.Message)
			}
			continue
		}
		d.Input, d.Output = defs.take(d.Input), defs.takeReply(d.Output)
		all.Syscalls = append(all.Syscalls, d)
	}
	if failed != nil {
		return nil, failed
	}
	if len(defs.definitions) > 0 {
		all.Definitions = jsontext.Value(defs.definitions.Text())
	}
	text, err := json.Marshal(all)
	return kernel.Raw(text), err
}

func newDescription(name string, s *kernel.Syscall) description {
	d := description{
		Name: name, Kind: s.Kind, Input: jsontext.Value(s.Input.JSON()), Output: jsontext.Value(s.Reply()),
		Summary: s.Summary, Timeout: s.Timeout.Milliseconds(),
	}
	for _, e := range s.Emits {
		d.Emits = append(d.Emits, event{e.Type, e.Summary})
	}
	for _, e := range s.Errors {
		d.Errors = append(d.Errors, failure{e.Code, e.When})
	}
	if s.Provider == kernel.Program {
		d.Errors = append(d.Errors, failure{502, "the program that serves it has left, or its reply breaks the output schema"})
	}
	if example, ok := schema.ExampleOf(s.Input); ok {
		d.Example = jsontext.Value(example)
	}
	return d
}

// olderDescription is a description in the form of the older specification, in which
// the kind was called type.
type olderDescription struct {
	Name   string         `json:"name" jsonschema_description:"The type that was asked for."`
	Type   message.Kind   `json:"type" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not."`
	Input  jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the request's data."`
	Output jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the reply's data."`
}

type olderInput struct {
	Name string `json:"name" jsonschema_description:"Type of the syscall to describe, for example 'Echo' or 'Memory.Get'. Syscall.List names them all."`
}

// olderDescribe is Syscall.Describe under its older name and in its older form. It isn't an alias,
// since the older form has type where the current one has kind.
var olderDescribe = kernel.DefineQuery[olderInput, olderDescription](kernel.Definition{
	Type:         "Sys.Describe",
	Summary:      "Describe a syscall in the form of the older specification.",
	Presentation: kernel.Presentation{Visibility: kernel.Hidden, Replaced: "Syscall.Describe"},
	Journaled:    kernel.Journaled{Recording: kernel.InWorkflows},
	Access:       principal.ForAll,
})

func (c catalog) olderDescribe(ctx context.Context, in olderInput) (olderDescription, error) {
	s, name, err := c.find(ctx, in.Name)
	if err != nil {
		return olderDescription{}, err
	}
	return olderDescription{name, s.Kind, jsontext.Value(s.Input.JSON()), jsontext.Value(s.Reply())}, nil
}

// lookup finds a syscall by its type or an alias, or by another spelling of its type: memory.get, memory_get, memory get. It
// returns the name that describes it: the alias that was given, or else its type.
func (c catalog) lookup(name string) (*kernel.Syscall, string, bool) {
	if s, ok := c.registry.Lookup(message.Type(name)); ok {
		return s, name, true
	}
	if t, ok := c.registry.LookupFold(strings.NewReplacer("_", ".", " ", ".").Replace(name)); ok {
		s, ok := c.registry.Lookup(t)
		return s, string(t), ok
	}
	route, ok := c.registry.LookupMethod(strings.ToLower(strings.NewReplacer(".", "_", " ", "_").Replace(name)))
	if !ok {
		return nil, "", false
	}
	return route.Syscall, string(route.Type), true
}

// find looks a syscall up that the caller may call, with the name that describes it. The error is the 403 that a call would
// get, or a 404 that names the syscalls that may have been meant.
func (c catalog) find(ctx context.Context, name string) (*kernel.Syscall, string, error) {
	caller := kernel.PrincipalOf(ctx)
	if s, described, ok := c.lookup(name); ok {
		if no := caller.May(s.Target()); no != nil {
			return nil, "", no
		}
		return s, described, nil
	}
	if k, ok := kernel.Of(ctx); ok {
		if why := k.Absent(message.Type(name), caller); why != "" {
			return nil, "", message.Errorf(404, "%s isn't served: %s", message.Clip(name, 64), why)
		}
	}
	var names []string
	seen := c.registry.For(caller)
	for _, t := range seen.Types() {
		names = append(names, string(t))
	}
	hint := nearest.Hint(name, names)
	if other := seen.Instead(message.Type(name), Needs); hint == "" && other != "" {
		hint = other + "."
	}
	hint = cmp.Or(hint, "Syscall.List lists all syscalls.")
	return nil, "", message.Errorf(404, "No syscall is named %q: %s", message.Clip(name, 64), hint)
}
