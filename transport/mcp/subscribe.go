package mcp

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// watchTools calls changed each time when the tools that a caller is shown are others, until ctx ends.
func (s *Server) watchTools(ctx context.Context, caller *principal.Principal, c choice, changed func()) {
	list := func() []byte { return s.listed(caller, c, true, "") }
	next := s.k.Registry().Changed()
	for known := list(); ; {
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		next = s.k.Registry().Changed()
		if now := list(); !bytes.Equal(known, now) {
			known = now
			changed()
		}
	}
}

// watchable reports why a resource can't be watched for the caller, or returns nil.
func (x *exchange) watchable(uri string) *failure {
	kind := x.s.kindOf(uri)
	if kind == nil {
		return x.noResource(uri, "Resource not found")
	}
	if _, err := kind.read(x, uri); err != nil {
		e, _ := message.ErrorOf(err)
		if e.Code != 404 { // it may come to be
			return x.noResource(uri, e.Message)
		}
	}
	return nil
}

// watchResource calls changed each time when a resource has changed, until ctx ends. The context acts
// for the caller.
func (s *Server) watchResource(ctx context.Context, uri string, changed func()) {
	if s.opts.Watch != nil {
		s.opts.Watch(ctx, uri, changed)
	}
}

// maxSubscriptions is how many resources one client may watch.
const maxSubscriptions = 256

// listen answers subscriptions/listen: the stateless era's way to hear of changes. The response comes
// when the kernel stops; a client that wants no more cancels the request.
func listen(x *exchange) {
	wanted := member(x.params, "notifications")
	tools := string(member(wanted, "toolsListChanged")) == "true"
	var uris []string
	eachElement(member(wanted, "resourceSubscriptions"), func(value []byte) {
		if uri := textOf(value); x.s.kindOf(uri) != nil && !slices.Contains(uris, uri) && len(uris) < maxSubscriptions {
			uris = append(uris, uri)
		}
	})
	meta := append(append([]byte(`{"_meta":{"`+mcp.MetaSubscriptionID+`":`), x.id...), '}')
	ack := append(slices.Clone(meta), `,"notifications":{`...)
	if tools {
		ack = append(ack, `"toolsListChanged":true`...)
	}
	if len(uris) > 0 {
		if tools {
			ack = append(ack, ',')
		}
		ack = append(append(ack, `"resourceSubscriptions":`...), marshal(uris)...)
	}
	x.notify("notifications/subscriptions/acknowledged", append(ack, "}}"...))
	ctx, release := x.s.k.UntilStop(x.ctx)
	defer release()
	var watches sync.WaitGroup
	if tools {
		watches.Go(func() {
			x.s.watchTools(ctx, kernel.SenderIn(ctx).Principal(), x.choice, func() {
				x.notify("notifications/tools/list_changed", append(slices.Clone(meta), '}'))
			})
		})
	}
	for _, uri := range uris {
		watches.Go(func() {
			x.s.watchResource(ctx, uri, func() {
				x.notify("notifications/resources/updated", append(appendString(append(slices.Clone(meta), `,"uri":`...), uri), '}'))
			})
		})
	}
	<-ctx.Done()
	watches.Wait()
	x.mu.Lock()
	x.meta = append([]byte(`"`+mcp.MetaSubscriptionID+`":`), x.id...)
	x.mu.Unlock()
	x.respond(nil)
}

// subscribe answers resources/subscribe, of the stateful era.
func subscribe(x *exchange) {
	uri := textOf(member(x.params, "uri"))
	if bad := x.watchable(uri); bad != nil {
		x.fail(bad)
		return
	}
	n, s := x.client.session, x.s
	n.mu.Lock()
	_, there := n.subscribed[uri]
	if len(n.subscribed) >= maxSubscriptions && !there {
		n.mu.Unlock()
		x.fail(invalid("Invalid params: a session may watch 256 resources; unsubscribe from some"))
		return
	}
	if !there && !n.ended {
		ctx, cancel := context.WithCancel(kernel.ActFor(n.life, kernel.SenderIn(x.ctx)))
		n.subscribed[uri] = cancel
		n.watches.Go(func() {
			s.watchResource(ctx, uri, func() {
				n.tell(appendNotification(nil, "notifications/resources/updated", append(appendString([]byte(`{"uri":`), uri), '}')))
			})
		})
	}
	n.mu.Unlock()
	x.respond(nil)
}

// unsubscribe answers resources/unsubscribe.
func unsubscribe(x *exchange) {
	uri := textOf(member(x.params, "uri"))
	n := x.client.session
	n.mu.Lock()
	if cancel, ok := n.subscribed[uri]; ok {
		cancel()
		delete(n.subscribed, uri)
	}
	n.mu.Unlock()
	x.respond(nil)
}

// follow tells a session of changes of its tools, from when its client is ready.
func (n *session) follow(s *Server, c choice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.follows || n.ended {
		return
	}
	n.follows = true
	n.watches.Go(func() {
		s.watchTools(n.life, n.principal, c, func() { n.tell(appendNotification(nil, "notifications/tools/list_changed", nil)) })
	})
}

// eachElement goes through the elements of a list, which may be nil.
func eachElement(list []byte, visit func(value []byte)) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	jsonscan.Elements(list, 0, func(value []byte) bool {
		visit(value)
		return true
	})
}
