package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/mcp/jsonrpc"
)

// Module returns the module, whose tasks belong to the server.
func Module(t *Tasks) kernel.Module {
	return kernel.Module{
		Name:     "mcpclient",
		Version:  "1.0.0",
		Summary:  "The client of the Model Context Protocol that a call came from.",
		Domains:  []string{"Mcp"},
		Syscalls: []kernel.Syscall{ask.Bind(t.askClient), describeClient.Bind(clientOf)},
	}
}

type askInput struct {
	Requests map[string]askRequest `json:"requests" jsonschema:"minProperties=1,maxProperties=16" jsonschema_description:"What to ask, by names of your own. All of it is asked at once."`
}

type askRequest struct {
	Method string          `json:"method" jsonschema:"enum=elicitation/create,enum=sampling/createMessage,enum=roots/list" jsonschema_description:"elicitation/create: ask the person. sampling/createMessage: ask the client's model. roots/list: ask for the client's folders."`
	Params json.RawMessage `json:"params,omitempty" jsonschema_description:"As the protocol defines them for the method."`
}

type askOutput struct {
	Responses map[string]json.RawMessage `json:"responses" jsonschema_description:"The client's results, by the names of the requests."`
}

var ask = kernel.DefineQuery[askInput, askOutput](kernel.Definition{
	Type:    "Mcp.Ask",
	Summary: "Ask the client of the Model Context Protocol that the current call came from, or the person who uses it.",
	Input:   schema.Input[askInput]().Example(`{"requests":{"name":{"method":"elicitation/create","params":{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}}`),
	Presentation: kernel.Presentation{
		Title: "Ask the person at the MCP client",
		Words: "elicit, form, prompt a person, ask the user, let the person fill in a form, get input from the user, question to the human, show a dialog",
		Errors: []kernel.ErrorDefinition{
			{Code: 409, When: "the call didn't come from a client of the Model Context Protocol"},
			{Code: 501, When: "the client can't do what is asked"}, {Code: 502, When: "the client answers with an error, or has left"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow, Effect: kernel.Transient, Timeout: maxWait},
})

type clientOutput struct {
	Version      string          `json:"version" jsonschema_description:"The revision of the protocol."`
	Capabilities json.RawMessage `json:"capabilities" jsonschema_description:"What the client says that it can do, as the protocol defines it."`
}

var describeClient = kernel.DefineQuery[struct{}, clientOutput](kernel.Definition{
	Type:    "Mcp.Client",
	Summary: "Describe the client of the Model Context Protocol that the current call came from.",
	Presentation: kernel.Presentation{
		Title: "Describe the MCP client",
		Words: "who asks, which client, who is calling me, which app is connected over mcp, which program the user has, features of the client",
		Errors: []kernel.ErrorDefinition{
			{Code: 409, When: "the call didn't come from a client of the Model Context Protocol"},
		},
	},
})

var errNoClient = &message.Error{Code: 409, Message: "The call didn't come from a client of the Model Context Protocol, so there is no client to ask"}

func clientOf(ctx context.Context, _ struct{}) (clientOutput, error) {
	x := exchangeIn(ctx)
	if x == nil {
		return clientOutput{}, errNoClient
	}
	_, c := x.latest()
	capabilities := c.capabilities
	if len(capabilities) == 0 {
		capabilities = emptyObject
	}
	return clientOutput{c.version, capabilities}, nil
}

// askClient answers Mcp.Ask.
func (t *Tasks) askClient(ctx context.Context, in askInput) (askOutput, error) {
	x := exchangeIn(ctx)
	if x == nil {
		responses, err := t.ask(ctx, in.Requests)
		return askOutput{responses}, err
	}
	for _, r := range in.Requests {
		if err := x.able(r.Method); err != nil {
			return askOutput{}, err
		}
	}
	ctx, release := x.s.k.UntilStop(ctx)
	defer release()
	responses, err := x.ask(ctx, in.Requests)
	return askOutput{responses}, err
}

// ask asks the client of the exchange, and waits for its answers.
func (x *exchange) ask(ctx context.Context, requests map[string]askRequest) (map[string]json.RawMessage, error) {
	x.asking.Lock() // one question at a time: the client has one place for the answer
	defer x.asking.Unlock()
	switch _, c := x.latest(); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.modern:
		return x.askModern(ctx, requests)
	}
	return x.askLegacy(ctx, requests)
}

// capabilityOf are the capabilities that requests to a client need.
var capabilityOf = map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

// able returns the error for a request that the client can't answer. In the stateless era it is also
// the outcome of the call, if that fails.
func (x *exchange) able(method string) error {
	capability := capabilityOf[method]
	_, c := x.latest()
	if c.can(capability) {
		return nil
	}
	if c.modern {
		x.mu.Lock()
		x.lacks = &jsonrpc.Failure{Code: mcp.MissingCapability, Text: "The call needs a client that can do " + method, Data: required(map[string]any{capability: struct{}{}})}
		x.mu.Unlock()
	}
	return message.Errorf(501, "The client can't answer %s: it hasn't declared the capability %s", method, capability)
}

// required returns the data of the error about a client that lacks capabilities.
func required(capabilities map[string]any) []byte {
	return marshal(map[string]any{"requiredCapabilities": capabilities})
}

// askLegacy sends requests to the client, and waits for the responses.
func (x *exchange) askLegacy(ctx context.Context, requests map[string]askRequest) (map[string]json.RawMessage, error) {
	n, waits, ids := x.client.session, make(map[string]chan jsonrpc.Frame), []string(nil)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		r := requests[name]
		id, response := n.expect()
		defer n.forget(id)
		waits[name], ids = response, append(ids, id)
		text := marshal(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			askRequest
		}{"2.0", json.RawMessage(id), r})
		x.mu.Lock()
		x.out.notify(text)
		x.mu.Unlock()
	}
	responses := make(map[string]json.RawMessage)
	for name, response := range waits {
		select {
		case f, ok := <-response:
			if !ok {
				return nil, message.Errorf(502, "The client has left before it answered %s", requests[name].Method)
			}
			if f.Failed != nil {
				return nil, message.Errorf(502, "The client answers %s with an error: %s", requests[name].Method, message.Clip(jsonscan.Unquote(jsonscan.Member(f.Failed, "message")), 300))
			}
			responses[name] = bytes.Clone(f.Result)
		case <-ctx.Done():
			for _, id := range ids {
				x.notify("notifications/cancelled", jsonrpc.CancelParams(id))
			}
			return nil, context.Cause(ctx)
		}
	}
	return responses, nil
}

// askModern answers the request with what is asked, and waits until the client has sent it again with
// all that was missing. The call continues where it was: what it has done before isn't done again.
func (x *exchange) askModern(ctx context.Context, requests map[string]askRequest) (map[string]json.RawMessage, error) {
	responses := make(map[string]json.RawMessage)
	for {
		x.mu.Lock()
		given := jsonscan.Member(x.Params, "inputResponses")
		x.mu.Unlock()
		missing := make(map[string]askRequest)
		for name, r := range requests {
			if responses[name] == nil && r.answeredBy(jsonscan.Member(given, name)) {
				responses[name] = bytes.Clone(jsonscan.Member(given, name))
			}
			if responses[name] == nil {
				missing[name] = r
			}
		}
		if len(missing) == 0 {
			return responses, nil
		}
		if err := x.s.waiting.wait(ctx, x, missing); err != nil {
			return nil, err
		}
	}
}

// answeredBy reports whether a response has the shape that the request asks for.
func (r *askRequest) answeredBy(response []byte) bool {
	if len(response) == 0 || response[0] != '{' {
		return false
	}
	switch r.Method {
	case "roots/list":
		return len(jsonscan.Member(response, "roots")) > 0
	case "sampling/createMessage":
		return len(jsonscan.Member(response, "content")) > 0
	}
	switch jsonscan.Unquote(jsonscan.Member(response, "action")) {
	case "decline", "cancel":
		return true
	case "accept":
		wanted, err := schema.Parse(bytes.Clone(jsonscan.Member(r.Params, "requestedSchema")))
		content := jsonscan.Member(response, "content")
		return err != nil || len(content) > 0 && wanted.Validate(content) == nil
	}
	return false
}

// waitingCalls are the calls that wait for their clients to come back, by what the clients have to show.
type waitingCalls struct {
	mu  sync.Mutex
	all map[string]*exchange
}

// maxWaiting is how many calls may wait for their clients.
const maxWaiting = 1000

// waitTime is how long a call waits for its client.
const waitTime = 5 * time.Minute

// wait answers the request of an exchange with what is missing, and returns when another request
// continues it.
func (w *waitingCalls) wait(ctx context.Context, x *exchange, missing map[string]askRequest) error {
	state, again := rand.Text(), make(chan struct{})
	w.mu.Lock()
	if w.all == nil {
		w.all = make(map[string]*exchange)
	}
	if len(w.all) >= maxWaiting {
		w.mu.Unlock()
		return message.Errorf(503, "%d calls wait for answers of clients, and no more are taken; try again later", maxWaiting)
	}
	x.again = again
	w.all[state] = x
	w.mu.Unlock()
	remove := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, state)
	}
	asks := membersOf(struct {
		InputRequests map[string]askRequest `json:"inputRequests"`
		RequestState  string                `json:"requestState"`
	}{missing, state})
	if !x.pause(asks) {
		remove()
		return message.Errorf(409, "The call has its outcome, and can no longer ask")
	}
	late := time.NewTimer(waitTime)
	defer late.Stop()
	var err error
	select {
	case <-again:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		err = message.Errorf(504, "The client has not answered within %v", waitTime)
	}
	remove()
	return err
}

// resume continues the exchange that a request names in requestState, and reports whether it names one.
// A request that continues nothing fails.
func (x *exchange) resume() bool {
	value := jsonscan.Member(x.Params, "requestState")
	if value == nil || !x.client.modern {
		return false
	}
	waiting, state := &x.s.waiting, jsonscan.Unquote(value)
	waiting.mu.Lock()
	y := waiting.all[state]
	if y == nil || kernel.SenderIn(y.ctx).Principal().ID() != kernel.SenderIn(x.ctx).Principal().ID() || y.Method != x.Method ||
		!bytes.Equal(jsonscan.Member(y.Params, "name"), jsonscan.Member(x.Params, "name")) || !bytes.Equal(jsonscan.Member(y.Params, "arguments"), jsonscan.Member(x.Params, "arguments")) {
		waiting.mu.Unlock()
		x.fail(jsonrpc.Invalid("Invalid params: requestState isn't that of a request which waits for an answer; send the request again without it"))
		return true
	}
	defer waiting.mu.Unlock()
	delete(waiting.all, state)
	if x.session != nil {
		x.session.done(x)
	}
	y.mu.Lock()
	y.Frame, y.client, y.out, y.over, y.paused, y.session = x.Frame, x.client, x.out, false, false, x.session
	outcome := y.outcome
	y.mu.Unlock()
	if y.session != nil {
		y.session.begin(y)
	}
	close(y.again)
	if outcome != nil {
		y.emit(*outcome)
	}
	return true
}

// maxWait is how long a call waits for what it has asked of the client.
const maxWait = 10 * time.Minute
