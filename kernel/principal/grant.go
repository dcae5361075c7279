package principal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"kernos/message"
)

// A Grant is what the owner has given a token.
type Grant struct {
	Preset   Preset   `json:"preset,omitzero" jsonschema:"enum=agent,enum=handler,enum=viewer,enum=console" jsonschema_description:"What the token may do to begin with. Default: agent; or nothing, if allow is given."`
	Allow    []string `json:"allow,omitzero" jsonschema:"maxItems=256,format=word" jsonschema_description:"Patterns of syscalls that the token may call besides what its preset allows: Memory.*, *.Get, Http.Fetch."`
	Deny     []string `json:"deny,omitzero" jsonschema:"maxItems=256,format=word" jsonschema_description:"Patterns of syscalls that the token may not call, whatever else allows them."`
	ReadOnly bool     `json:"readOnly,omitzero" jsonschema_description:"Whether the token may call queries only."`
	Memory   []string `json:"memory,omitzero" jsonschema:"maxItems=256,format=word" jsonschema_description:"Prefixes of the keys that the token reaches. Default: all."`
	Files    []string `json:"files,omitzero" jsonschema:"maxItems=256,format=word" jsonschema_description:"URIs of the tree that the token reaches, with all below them; :ro behind one means that it only reads there. Default: all."`
	Expires  int64    `json:"expires,omitzero" jsonschema:"minimum=0" jsonschema_extras:"format=unix-ms" jsonschema_description:"When the token ends, in milliseconds since 1970. Default: never."`
	Rate     float64  `json:"rate,omitzero" jsonschema:"minimum=0" jsonschema_description:"How many requests per second the token may send. Default: any number."`
}

// A Preset is a set of rights with a name.
type Preset string

// The presets. The owner's can't be given to a token.
const (
	Owner   Preset = "owner"
	Agent   Preset = "agent"
	Handler Preset = "handler"
	Viewer  Preset = "viewer"
	Console Preset = "console"
	Bare    Preset = "" // nothing but what is allowed by name
)

// Presets are the presets that a token can have.
var Presets = []Preset{Agent, Handler, Viewer, Console}

// An Access is which presets include a syscall. It is a part of the syscall's definition.
type Access byte

const (
	ForAgents   Access = iota // agent, console, and viewer if the syscall is a query
	ForHandlers               // these, and handler
	ForPeople                 // console, and viewer if the syscall is a query: a person decides
	ByName                    // no preset: the owner, and tokens that are allowed it by a pattern
	OwnerOnly                 // no token, whatever its grant has: making tokens, running programs with the owner's rights
	ForAll                    // every token, whatever its grant has: a caller finds out what it may do
)

// A preset is what a principal may call, and what it reaches.
type preset struct {
	includes []Access
	queries  bool // may send queries only
	history  bool // sees the messages of all principals
	settings bool // may change settings of the kernel
	serves   bool // may serve requests of other principals over its connections
	code     bool // may register code
}

var presets = map[Preset]preset{
	Owner:   {history: true, settings: true, serves: true, code: true}, // no rule holds for the owner
	Agent:   {includes: []Access{ForAgents, ForHandlers}, code: true},
	Handler: {includes: []Access{ForHandlers}, serves: true},
	Viewer:  {includes: []Access{ForAgents, ForHandlers, ForPeople}, queries: true, history: true},
	Console: {includes: []Access{ForAgents, ForHandlers, ForPeople}, history: true, settings: true, serves: true, code: true},
}

var patternForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\*|[A-Z][A-Za-z0-9]*|([A-Z][A-Za-z0-9]*|\*)\.([A-Z][A-Za-z0-9]*|\*))$`)
})

// CheckPattern returns a 422 for an invalid pattern, which [Matches] no type. The field is
// where it stands.
func CheckPattern(field, pattern string) error {
	if patternForm().MatchString(pattern) {
		return nil
	}
	hint := ""
	if meant := message.Repair(pattern); meant != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", meant)
	}
	return message.Invalid(field, "%s: expected a syscall or a pattern such as Memory.* or *.Get, got %q%s", field, message.Clip(pattern, 64), hint)
}

// check returns what makes no sense.
func (g *Grant) check() error {
	if g.Preset != Bare && !slices.Contains(Presets, g.Preset) {
		return message.Invalid("preset", "preset: expected agent, handler, viewer or console, got %q", message.Clip(string(g.Preset), 64))
	}
	for field, patterns := range map[string][]string{"allow": g.Allow, "deny": g.Deny} {
		for _, p := range patterns {
			if err := CheckPattern(field, p); err != nil {
				return err
			}
		}
	}
	for i, prefix := range g.Memory {
		g.Memory[i] = strings.Trim(prefix, "/")
		if g.Memory[i] == "" || !norm.NFC.IsNormalString(prefix) {
			return message.Invalid("memory", "memory: expected the beginning of keys, such as notes or agents/ci, got %q", message.Clip(prefix, 64))
		}
	}
	for _, f := range g.Files {
		if scope := parseFileScope(f); !strings.Contains(scope.uri, "://") || strings.Contains(scope.uri, "/../") {
			return message.Invalid("files", "files: expected a URI of the tree, such as os://docs or os://docs:ro, got %q", message.Clip(f, 200))
		}
	}
	return nil
}

// A fileScope is a URI of the tree, and all below it.
type fileScope struct {
	uri      string
	readOnly bool
}

func parseFileScope(text string) fileScope {
	uri, readOnly := strings.CutSuffix(text, ":ro")
	return fileScope{strings.TrimRight(uri, "/"), readOnly}
}

func (s fileScope) holds(uri string) bool {
	rest, ok := strings.CutPrefix(uri, s.uri)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(s.uri, ":"))
}

// within reports whether a key is one of the prefixes, or below one.
func within(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(key, prefix)
		return ok && (rest == "" || rest[0] == '/')
	})
}

func list(texts []string) string { return message.Clip(strings.Join(texts, ", "), 200) }
