package mcp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// A prompt is one that a list names.
type prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []promptArgument `json:"arguments,omitempty"`

	uri  string       // URI of the agent or the skill
	from message.Type // the syscall that makes the prompt, or ""
}

// request is the argument of the prompts of agents and skills, which don't declare any.
var request = []promptArgument{{Name: "request", Description: "What to do, in your own words. Left out: the instructions alone."}}

type promptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// prompts returns those of the caller: what embedding programs offer, agents, and skills. A name that is
// taken has its kind before it.
func (x *exchange) prompts() (all []prompt, err error) {
	view := x.s.k.Registry().For(kernel.SenderIn(x.ctx).Principal())
	for _, o := range x.s.opts.Offers {
		s, ok := x.s.k.Registry().Lookup(o.Type)
		if o.Prompt == "" || !ok || !slices.Contains(view.Types(), o.Type) {
			continue
		}
		p := prompt{Name: o.Prompt, Title: o.Title, Description: s.Summary, from: o.Type}
		var required []string
		_ = json.Unmarshal(jsonscan.Member(s.Input.JSON(), "required"), &required)
		jsonscan.Members(jsonscan.Member(s.Input.JSON(), "properties"), 0, func(token, value []byte) bool {
			name := jsonscan.Unquote(token)
			p.Arguments = append(p.Arguments, promptArgument{name, jsonscan.Unquote(jsonscan.Member(value, "description")), slices.Contains(required, name)})
			return true
		})
		all = append(all, p)
	}
	taken := make(map[string]bool)
	for _, p := range all {
		taken[p.Name] = true
	}
	entries, err := x.indexContent()
	for _, e := range entries {
		name := cmp.Or(e.Name, strings.TrimPrefix(e.URI, fileScheme))
		if taken[name] {
			name = e.Kind + "-" + name
		}
		if !taken[name] {
			taken[name] = true
			all = append(all, prompt{Name: name, Title: e.Kind + " " + name, Description: e.Description, Arguments: request, uri: e.URI})
		}
	}
	return all, err
}

// listPrompts answers prompts/list.
func listPrompts(x *exchange) {
	from, _, ok := x.cursor()
	all, err := x.prompts()
	switch {
	case !ok || from > len(all):
		x.fail(jsonrpc.Invalid("Invalid params: cursor is not from prompts/list"))
		return
	case err != nil:
		x.fail(x.failedCall(err))
		return
	}
	end := min(len(all), from+pageSize)
	page := struct {
		Prompts    []prompt `json:"prompts"`
		NextCursor string   `json:"nextCursor,omitempty"`
	}{Prompts: append([]prompt{}, all[from:end]...)}
	if end < len(all) {
		page.NextCursor = newCursor(end, "")
	}
	x.respondFor(soon, membersOf(page))
}

// getPrompt answers prompts/get.
func getPrompt(x *exchange) {
	if x.resume() {
		return
	}
	name := jsonscan.Unquote(jsonscan.Member(x.Params, "name"))
	all, err := x.prompts()
	i := slices.IndexFunc(all, func(p prompt) bool { return p.Name == name })
	switch {
	case err != nil:
		x.fail(x.failedCall(err))
		return
	case i < 0:
		x.refuse("Content.Hydrate", jsonrpc.Invalid("Unknown prompt: "+message.Clip(name, 100)+"; prompts/list names those that exist"))
		return
	case all[i].from != "":
		arguments := json.RawMessage(jsonscan.Member(x.Params, "arguments"))
		if len(arguments) == 0 {
			arguments = emptyObject
		}
		reply, err := x.invoke(all[i].from, arguments, nil)
		if err != nil {
			x.fail(x.failedCall(err))
			return
		}
		x.respond(reply[1 : len(reply)-1])
		return
	}
	text, _, err := x.readBy("Content.Hydrate", all[i].uri)
	if err != nil {
		x.fail(x.failedCall(err))
		return
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type said struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	}
	messages := []said{{"user", content{"text", string(text)}}}
	if wanted := jsonscan.Unquote(jsonscan.Member(jsonscan.Member(x.Params, "arguments"), "request")); wanted != "" {
		messages = append(messages, said{"user", content{"text", wanted}})
	}
	x.respond(membersOf(struct {
		Description string `json:"description"`
		Messages    []said `json:"messages"`
	}{all[i].Description, messages}))
}
