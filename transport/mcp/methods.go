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

	// watch takes the place of answer where the client hears of changes that its next request makes: a connection reads on
	// when watch has returned the rest of the answer.
	watch func(*exchange) (rest func())
}

// begin begins the answer of a method that isn't quick, and returns the rest.
func (m method) begin(x *exchange) (rest func()) {
	if m.watch != nil {
		return m.watch(x)
	}
	return func() { m.answer(x) }
}

type eras byte

const (
	both eras = iota
	legacy
	modern
)

var methods = map[string]method{
	"initialize":      {answer: initialize, in: legacy, quick: true},
	"ping":            {answer: func(x *exchange) { x.respond(nil) }, in: legacy, quick: true},
	"server/discover": {answer: discover, in: modern, quick: true},
	"tools/list":      {answer: listTools, in: both, quick: true},
	"tools/call":      {answer: callTool, in: both, quick: true},

	"logging/setLevel": {answer: setLevel, in: legacy, quick: true},

	"resources/list":           {answer: listResources, in: both},
	"resources/templates/list": {answer: listTemplates, in: both, quick: true},
	"resources/read":           {answer: readResource, in: both},
	"resources/directory/read": {answer: readDirectory, in: both},
	"prompts/list":             {answer: listPrompts, in: both},
	"prompts/get":              {answer: getPrompt, in: both},
	"completion/complete":      {answer: complete, in: both},
	"skills/list":              {answer: listSkills, in: both},
	"skills/get":               {answer: getSkill, in: both},
	"resources/subscribe":      {watch: subscribe, in: legacy},
	"resources/unsubscribe":    {answer: unsubscribe, in: legacy, quick: true},
	"subscriptions/listen":     {watch: subscriptionsListen, in: modern},
	"tasks/get":                {answer: getTask, in: modern},
	"tasks/update":             {answer: updateTask, in: modern},
	"tasks/cancel":             {answer: cancelTask, in: modern},
}

// find returns the method that a request asks for.
func (c *client) find(name string) (method, *jsonrpc.Failure) {
	m, ok := methods[name]
	if !ok || m.in == legacy && c.modern || m.in == modern && !c.modern {
		return m, &jsonrpc.Failure{Code: mcp.MethodNotFound, Text: "Method not found: " + message.Clip(name, 100)}
	}
	return m, nil
}
