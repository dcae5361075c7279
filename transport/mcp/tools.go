package mcp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/internal/nearest"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/mcp/jsonrpc"
)

// A tool is a syscall as the protocol shows it.
type tool struct {
	syscall  *kernel.Syscall
	name     string         // Memory_Get
	wraps    bool           // the syscall takes a value that isn't an object: the tool takes {data}
	mirrored []mcp.Mirrored // parameters that requests over HTTP repeat in headers
	builtIn  bool           // it is in a domain of a module
	content  bool           // the reply is a result of the protocol: {content, structuredContent, isError}
}

// A toolset is what one view of the registry has.
type toolset struct {
	tools  []*tool // by name
	byName map[string]*tool
	code   bool // one of the tools is registered code
}

// toolsOf returns the tools that a caller may call.
func (s *Server) toolsOf(caller *principal.Principal) (*toolset, string) {
	v := s.k.Registry().For(caller)
	hash := v.Hash()
	if t, ok := s.toolsets.Get(hash); ok {
		return t, hash
	}
	t := &toolset{byName: make(map[string]*tool)}
	for sys := range v.Syscalls() {
		name := toolName(sys.Type)
		one := &tool{syscall: sys, name: name, builtIn: s.k.Registry().BuiltIn(sys.Type)}
		text := sys.Input.JSON()
		one.wraps = sys.Input != schema.Any && !objectSchema(text)
		one.content = jsonscan.Unquote(jsonscan.Member(sys.Output.JSON(), "title")) == mcp.ContentTitle
		if mirrored, err := mcp.Mirrors(jsontext.Value(text)); err == nil { // clients refuse the others
			one.mirrored = mirrored
		}
		for _, o := range s.opts.Offers {
			if o.Type == sys.Type && o.Tool != "" {
				one.name = o.Tool
			}
		}
		t.tools = append(t.tools, one)
		t.code = t.code || sys.Provider == kernel.Code
		for _, name := range []string{one.name, name, string(sys.Type), kernel.MethodName(sys.Type)} {
			t.byName[name] = one
		}
	}
	slices.SortFunc(t.tools, func(a, b *tool) int { return cmp.Compare(a.name, b.name) })
	s.toolsets.Put(hash, t, 1)
	return t, hash
}

// maxName is how long the name of a tool may be: clients put the name of the server before it, and
// providers of models take 64 bytes in all.
const maxName = 64 - len("mcp__kernos__")

func toolName(t message.Type) string { return kernel.ToolName(t, maxName) }

// objectSchema reports whether a schema describes objects.
func objectSchema(text []byte) bool {
	return jsonscan.Unquote(jsonscan.Member(text, "type")) == "object"
}

// A choice is which tools are listed. All that the caller may call can be called, listed or not.
type choice string

const (
	coreTools choice = "core" // the everyday tools, and those that were made at run time
	allTools  choice = "all"
)

// everyday are the syscalls that coreTools lists.
var everyday = []message.Type{
	"Syscall.Search", "Syscall.Describe", "Syscall.Call",
	"Memory.Get", "Memory.Set", "Memory.List", "Memory.Search", "Memory.Delete", "Http.Fetch",
}

func (c choice) isCore() bool { return c == coreTools || c == "" }

// has reports whether a tool is listed. Any other choice is a list of patterns: Memory.*,Http.Fetch.
func (c choice) has(t *tool) bool {
	s := t.syscall
	switch c {
	case allTools:
		return true
	case coreTools, "":
		return slices.Contains(everyday, s.Type) || s.Provider == kernel.Code || s.Provider == kernel.BuiltIn && !t.builtIn
	}
	for pattern := range strings.SplitSeq(string(c), ",") {
		switch pattern = strings.TrimSpace(pattern); {
		case pattern == string(coreTools) && coreTools.has(t), pattern == string(allTools), principal.Matches(pattern, s.Type), pattern == toolName(s.Type):
			return true
		}
	}
	return false
}

// unmatched reports which patterns of a choice match no tool that the caller may call, and what was probably meant. It is "" if
// there are none. Such a pattern may be right: programs come and go.
func (s *Server) unmatched(caller *principal.Principal, c choice) string {
	var notes []string
	for pattern := range strings.SplitSeq(string(c), ",") {
		one := choice(strings.TrimSpace(pattern))
		if set, _ := s.toolsOf(caller); one == "" || one == coreTools || one == allTools || set.has(one) {
			continue
		}
		note := "No tool matches " + strconv.QuoteToASCII(message.Clip(string(one), 100))
		all, _ := s.toolsOf(principal.TheOwner())
		meant := all.patterns()
		if !strings.Contains(string(one), ".") {
			meant = append(meant, string(coreTools), string(allTools))
		}
		if all.has(one) {
			note += " of those that " + strconv.QuoteToASCII(caller.Name()) + " may call"
		} else if hint := nearest.Hint(string(one), meant); hint != "" {
			note += "; " + hint
		} else {
			note += "; kernos ls lists the syscalls"
		}
		notes = append(notes, note)
	}
	return strings.Join(notes, ". ")
}

func (t *toolset) has(c choice) bool {
	return slices.ContainsFunc(t.tools, func(one *tool) bool { return c.has(one) })
}

// patterns returns the shortest ones for some of the tools: a type, or a domain.
func (t *toolset) patterns() (all []string) {
	for _, one := range t.tools {
		all = append(all, string(one.syscall.Type))
		if domain, _, ok := strings.Cut(string(one.syscall.Type), "."); ok && !slices.Contains(all, domain+".*") {
			all = append(all, domain+".*")
		}
	}
	return all
}

// toolPage is how many tools a page of tools/list has.
const toolPage = 1000

// noTools is the list without any.
const noTools = `"tools":[]`

// listTools answers tools/list.
func listTools(x *exchange) {
	_, after, ok := x.cursor()
	if !ok {
		x.fail(jsonrpc.Invalid("Invalid params: cursor is not from tools/list"))
		return
	}
	caller := kernel.SenderIn(x.ctx).Principal()
	list := x.s.listed(caller, x.choice, x.client.modern, after)
	if err := x.s.k.AwaitFence(x.ctx); err != nil {
		x.fail(x.failedCall(err))
		return
	}
	if string(list) == noTools && after == "" {
		if note := x.s.unmatched(caller, x.choice); note != "" {
			x.fail(jsonrpc.Invalid("Invalid params: tools: " + note))
			return
		}
	}
	x.respondFor(soon, list)
}

// listed returns the tools that are listed after a name, as members of a result. It is kept for the next
// request.
func (s *Server) listed(caller *principal.Principal, c choice, modern bool, after string) []byte {
	set, hash := s.toolsOf(caller)
	key := hash + "/" + string(c) + "/" + after
	if set.code { // what is shown of code depends on who owns it
		key += "/" + string(caller.ID())
	}
	if modern {
		key += "/modern"
	}
	list, ok := s.lists.Get(key)
	if !ok {
		list = set.render(caller.ID(), c, modern, after)
		s.lists.Put(key, list, len(list))
	}
	return list
}

// codeBytes is how many bytes of coreTools the code of others may have, which can register as much as they like. What
// the kernel has itself has less than 9,000.
const codeBytes = 4000

// chosen returns the tools of a choice that are listed for a caller, by name. Of the code of others, coreTools has what fits,
// the owner's first, and Syscall.Search finds the rest.
func (t *toolset) chosen(caller principal.ID, c choice, modern bool) (all []*tool) {
	var others []*tool
	for _, one := range t.tools {
		if !c.has(one) {
			continue
		}
		all = append(all, one)
		if c.isCore() && one.foreign(caller) {
			others = append(others, one)
		}
	}
	slices.SortStableFunc(others, func(a, b *tool) int { return cmp.Compare(a.ofOthers(), b.ofOthers()) })
	size, left := 0, make(map[*tool]bool)
	for _, one := range others {
		with := size + len(one.append(nil, caller, modern, false)) + 1
		if left[one] = with > codeBytes; !left[one] {
			size = with
		}
	}
	return slices.DeleteFunc(all, func(one *tool) bool { return left[one] })
}

// ofOthers is 0 for the owner's code, and 1 for that of other principals.
func (t *tool) ofOthers() int {
	if t.syscall.Author.ID == principal.OwnerID {
		return 0
	}
	return 1
}

// foreign reports whether a tool is code that another principal has registered.
func (t *tool) foreign(caller principal.ID) bool {
	return t.syscall.Provider == kernel.Code && t.syscall.Author.ID != caller
}

// render writes the tools of a choice after a name, as a caller sees them.
func (t *toolset) render(caller principal.ID, c choice, modern bool, after string) []byte {
	page, size, more := t.tools[:0:0], 0, false
	for _, one := range t.chosen(caller, c, modern) {
		if one.name <= after {
			continue
		}
		if more = len(page) == toolPage; more {
			break
		}
		page = append(page, one)
		size += len(one.syscall.Input.JSON()) + len(one.syscall.Output.JSON()) + len(one.syscall.Summary) + 500
	}
	dst := append(make([]byte, 0, size), `"tools":[`...)
	for i, one := range page {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one.append(dst, caller, modern, !c.isCore())
	}
	dst = append(dst, ']')
	if more {
		dst = jsonscan.AppendQuoted(append(dst, `,"nextCursor":`...), newCursor(0, page[toolPage-1].name))
	}
	return dst
}

// append writes a tool. Without outputs, a model's context has more room. It is written by hand: with marshalled hints
// alone, a list of a thousand tools has a sixth more allocations.
func (t *tool) append(dst []byte, caller principal.ID, modern, outputs bool) []byte {
	s := t.syscall
	dst = jsonscan.AppendQuoted(append(dst, `{"name":`...), t.name)
	dst = jsonscan.AppendQuoted(append(dst, `,"title":`...), cmp.Or(s.Title, string(s.Type)))
	dst = jsonscan.AppendQuoted(append(dst, `,"description":`...), t.description(caller))
	dst = append(dst, `,"inputSchema":`...)
	switch {
	case t.wraps:
		dst = jsonscan.AppendCompact(append(dst, `{"type":"object","properties":{"data":`...), s.Input.JSON())
		dst = append(dst, `},"required":["data"],"additionalProperties":false}`...)
	case s.Input == schema.Any:
		dst = append(dst, `{"type":"object"}`...)
	case !t.builtIn: // the schema as its author wrote it
		dst = jsonscan.AppendCompact(dst, s.Input.JSON())
	default:
		dst = jsonscan.AppendCompact(dst, schema.Typed(schema.OfTool(schema.WithoutReferences(s.Input.JSON()))))
	}
	output := s.Output.JSON()
	says := output[0] == '{' && len(output) > len(`{}`) // true and {} describe nothing
	if object := objectSchema(output); outputs && !t.content && s.Output != schema.Any && (object || modern && says) {
		dst = append(dst, `,"outputSchema":{`...)
		reply := withExcerpt(s.Reply()) // a large reply is a reference
		if object && jsonscan.Member(reply, "type") == nil {
			dst = append(dst, `"type":"object",`...) // the stateful era wants it at the top
		}
		dst = jsonscan.AppendCompact(dst, reply[1:])
	}
	return append(append(append(dst, `,"annotations":`...), hints(s)...), '}')
}

// description returns the tool's description for a caller. What others have registered is data: it can't look like anything else.
func (t *tool) description(caller principal.ID) string {
	s := t.syscall
	switch {
	case t.foreign(caller):
		return "Registered by " + visible.Short(s.Author.Name, 100) + ": " + visible.Short(s.Summary, maxDescription)
	case s.Provider == kernel.Code || s.Provider == kernel.Program:
		return visible.Short(s.Summary, maxDescription)
	}
	return s.Summary
}

// maxDescription is how many bytes a description has that isn't the kernel's.
const maxDescription = 1000

// hints describe the effects of a call to a client. Left out, a hint means the worse.
func hints(s *kernel.Syscall) string {
	if s.Kind == message.KindQuery && s.Effect != kernel.Delegated {
		return `{"readOnlyHint":true,"openWorldHint":false}`
	}
	text := `{"readOnlyHint":false`
	inside := s.Provider == kernel.BuiltIn && (s.Effect == kernel.InStore || s.Effect == kernel.Transient)
	if inside && !s.Destroys && !s.Repeat.Has(kernel.Idempotent) { // what is idempotent takes the place of what was there
		text += `,"destructiveHint":false`
	}
	if s.Repeat.Has(kernel.Idempotent) {
		text += `,"idempotentHint":true`
	}
	if inside {
		text += `,"openWorldHint":false`
	}
	return text + "}"
}
