package mcp

import (
	"kernos/internal/mcp"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// A method answers one kind of request. It responds once, before it returns or later.
type method struct {
	answer func(*exchange)
	in     eras

	// quick methods never wait: a connection reads on after them.
	quick bool
}

type eras byte

const (
	both eras = iota
	legacy
	modern
)

var methods = map[string]method{
	"initialize":      {initialize, legacy, true},
	"ping":            {func(x *exchange) { x.respond(nil) }, legacy, true},
	"server/discover": {discover, modern, true},
	"tools/list":      {listTools, both, true},
	"tools/call":      {callTool, both, true},

	"logging/setLevel": {setLevel, legacy, true},

	"resources/list":           {listResources, both, false},
	"resources/templates/list": {listTemplates, both, true},
	"resources/read":           {readResource, both, false},
	"resources/directory/read": {readDirectory, both, false},
	"prompts/list":             {listPrompts, both, false},
	"prompts/get":              {getPrompt, both, false},
	"completion/complete":      {complete, both, false},
	"skills/list":              {listSkills, both, false},
	"skills/get":               {getSkill, both, false},
	"resources/subscribe":      {subscribe, legacy, false},
	"resources/unsubscribe":    {unsubscribe, legacy, true},
	"subscriptions/listen":     {subscriptionsListen, modern, false},
	"tasks/get":                {getTask, modern, false},
	"tasks/update":             {updateTask, modern, false},
	"tasks/cancel":             {cancelTask, modern, false},
}

// find returns the method that a request asks for.
func (c *client) find(name string) (method, *jsonrpc.Failure) {
	m, ok := methods[name]
	if !ok || m.in == legacy && c.modern || m.in == modern && !c.modern {
		return m, &jsonrpc.Failure{Code: mcp.MethodNotFound, Text: "Method not found: " + message.Clip(name, 100)}
	}
	return m, nil
}
