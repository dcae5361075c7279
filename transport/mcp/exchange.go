package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

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
	approvals map[string]context.CancelFunc // approvals that the client is asked for or notified of, by the calls that wait
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

// exchangeKey is the key under which the context of a call finds its exchanges.
type exchangeKey struct{}

// A conversation finds the exchange that has sent a message.
type conversation interface{ exchangeOf(message.ID) *exchange }

// exchangeOf implements [conversation] for a wire that carries one call.
func (x *exchange) exchangeOf(message.ID) *exchange { return x }

// exchangeIn returns the exchange that has caused the call of ctx, or nil.
func exchangeIn(ctx context.Context) *exchange {
	c, ok := kernel.CallOf(ctx)
	talk, there := ctx.Value(exchangeKey{}).(conversation)
	if !ok || !there {
		return nil
	}
	return talk.exchangeOf(c.Root().Request().Metadata.ID)
}
