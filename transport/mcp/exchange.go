package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// An exchange is one request of a client and its one response.
type exchange struct {
	s    *Server
	work *transport.Server // a drain of which waits for what the exchange does
	jsonrpc.Frame
	client *client
	choice choice      // the tools to list
	header http.Header // headers of a stateless request over HTTP; otherwise nil
	ctx    context.Context

	run     func(message.Message, kernel.Emit) // sends a message to the kernel, whose answers may come later
	tool    *tool                              // the tool that is called, or nil
	data    json.RawMessage                    // the tool's arguments
	replied bool                               // the reply names a job, which the client follows
	asked   message.ID                         // id of the message that calls the tool, or ""
	cancel  func()                             // nil for an exchange that doesn't wait; guarded by mu
	session *session                           // the session that knows the exchange by its id; nil if none

	asking sync.Mutex    // the client is asked one thing at a time
	again  chan struct{} // closed when the client has come back with an answer; guarded by the mutex of waitingCalls

	mu     sync.Mutex
	out    outlet
	over   bool             // the response is sent
	paused bool             // the client was asked, and is to come back with another request
	meta   []byte           // members of the response's _meta
	lacks  *jsonrpc.Failure // names what the call needs and the client can't do, or nil

	outcome   *message.Message              // an outcome that came while the exchange was paused
	approvals map[string]context.CancelFunc // approvals that the client is asked for or told of, by the calls that wait
}

// An outlet is where the messages of an exchange go. Its methods are called one at a time.
type outlet interface {
	// notify sends a notification, or a request to the client, before the response. The outlet doesn't keep it.
	notify(frame []byte)

	// respond sends the response, which is an error if there is a failure. The outlet doesn't keep it.
	respond(frame []byte, f *jsonrpc.Failure)
}

// latest returns the _meta of the last request of the exchange, and the client that has sent it: a client that
// comes back with an answer does so with another request, while the call continues.
func (x *exchange) latest() (meta []byte, c *client) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Frame.Meta, x.client
}

// respond answers with a result, of which it gets the members.
func (x *exchange) respond(members []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sendResult(append(x.beginResult(resultComplete, len(members)), members...))
}

// respondFor is respond with a result that the client may keep for a time. It is for the caller alone, as everything is.
func (x *exchange) respondFor(fresh time.Duration, members []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	dst := append(x.beginResult(resultComplete, len(members)), members...)
	if x.client.modern {
		dst = strconv.AppendInt(append(dst, `,"ttlMs":`...), fresh.Milliseconds(), 10)
		dst = append(dst, `,"cacheScope":"private"`...)
	}
	x.sendResult(dst)
}

// membersOf returns the members of a Go value that is an object in JSON.
func membersOf(object any) []byte {
	text := marshal(object)
	return text[1 : len(text)-1]
}

// marshal returns a Go value as JSON. It is for what a person waits for; calls of tools are written by hand.
func marshal(v any) []byte {
	text, _ := json.Marshal(v) // never fails: the values are strings, numbers, JSON, and lists and objects of them
	return text
}

// Types of a result, which clients of the stateless era are told.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

// beginResult returns the beginning of a response, with room for that many bytes of members; sendResult sends it. Both
// are called with mu held.
func (x *exchange) beginResult(resultType string, size int) []byte {
	dst := make([]byte, 0, size+len(x.s.info)+len(x.meta)+len(x.ID)+256)
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), x.ID...), `,"result":{`...)
	if x.client.modern {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
	}
	return dst
}

// sendResult appends _meta and the end of a response, and sends it.
func (x *exchange) sendResult(dst []byte) {
	if x.client.modern || len(x.meta) > 0 {
		if c := dst[len(dst)-1]; c != '{' && c != ',' {
			dst = append(dst, ',')
		}
		dst = append(dst, `"_meta":{`...)
		dst = append(dst, x.meta...)
		if x.client.modern {
			if len(x.meta) > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, `"`+mcp.MetaServerInfo+`":`...), x.s.info...)
		}
		dst = append(dst, '}')
	}
	x.send(append(dst, "}}"...), nil)
}

// pause sends a result after which the client comes back with another request. It reports whether it
// could be sent.
func (x *exchange) pause(members []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.paused = !x.over
	x.sendResult(append(x.beginResult(resultInputRequired, len(members)), members...))
	return x.paused
}

// fail answers with an error of the protocol.
func (x *exchange) fail(f *jsonrpc.Failure) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.send(nil, f)
}

// send sends the response, or the failure in its place. It is called with mu held.
func (x *exchange) send(response []byte, f *jsonrpc.Failure) {
	if !x.over {
		x.over = true
		for _, withdraw := range x.approvals {
			withdraw()
		}
		if x.session != nil {
			x.session.done(x)
		}
		if f != nil {
			response = jsonrpc.AppendFailure(nil, x.ID, f)
		}
		x.out.respond(response, f)
	}
}

// notify sends a notification that belongs to the request.
func (x *exchange) notify(method string, params []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.out.notify(jsonrpc.AppendNotification(nil, method, params))
	}
}

// How long a client may keep a result.
const (
	never = 0
	soon  = 5 * time.Second
	hour  = time.Hour
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

// unanswered answers a call that has ended, if it had no outcome.
func (x *exchange) unanswered(err error) {
	x.mu.Lock()
	answered := x.over
	x.mu.Unlock()
	if answered {
		return
	}
	if err == nil {
		err = context.Canceled
	}
	e, _ := message.ErrorOf(err)
	x.fail(&jsonrpc.Failure{Code: mcp.InternalError, Text: e.Message})
}

// abandon cancels the exchange: the client no longer wants a response.
func (x *exchange) abandon() {
	x.mu.Lock()
	x.over = true
	x.session.done(x)
	if e, ok := x.out.(*eventStream); ok {
		e.leave()
	}
	cancel := x.cancel
	x.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
