package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// A watch is of something that changes. It waits for the next change, and reports false when its context has
// ended; it is called until then. Changes count from when the watch was made, so that a client whose subscription was
// acknowledged hears of the next one.
type watch func() bool

// watchTools watches the tools that a caller is shown.
func (s *Server) watchTools(ctx context.Context, caller *principal.Principal, c choice) watch {
	list := func() []byte { return s.listed(caller, c, true, "") }
	changed := s.k.Registry().Changed()
	known := list()
	return func() bool {
		for {
			select {
			case <-ctx.Done():
				return false
			case <-changed:
			}
			changed = s.k.Registry().Changed()
			if now := list(); !bytes.Equal(known, now) {
				known = now
				return true
			}
		}
	}
}

// watchPrompts returns the watches of what prompts are made of. The context acts for the caller.
func (s *Server) watchPrompts(ctx context.Context) (all []watch) {
	for _, root := range contentRoots {
		all = append(all, s.watchResource(ctx, root+"/"))
	}
	return all
}

// watchResources returns the watches of what changes the list of resources: the names of keys, agents and skills. Files elsewhere
// in the tree aren't watched, of which there may be very many.
func (s *Server) watchResources(ctx context.Context) []watch {
	return append(s.watchPrompts(ctx), s.watchResource(ctx, memoryScheme))
}

// watchable reports why a resource of a kind can't be watched for the caller, or returns nil.
func (x *exchange) watchable(uri string) *jsonrpc.Failure {
	kind := x.s.kindOf(uri)
	if _, err := kind.read(x, uri); err != nil {
		e, _ := message.ErrorOf(err)
		if e.Code != 404 || kind.fixed { // others may come to be
			return x.noResource(uri, e.Message)
		}
	}
	return nil
}

// watchResource watches a resource. The context acts for the caller.
func (s *Server) watchResource(ctx context.Context, uri string) watch {
	if s.opts.Watch == nil {
		return func() bool {
			<-ctx.Done()
			return false
		}
	}
	return s.opts.Watch(ctx, uri)
}

// each calls changed after each change.
func (w watch) each(changed func()) {
	for w() {
		changed()
	}
}

// maxSubscriptions is how many resources one client may watch.
const maxSubscriptions = 256

// heard are the changes that a client wants to hear of, or will hear of.
type heard struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	List      bool     `json:"resourcesListChanged,omitzero"`
	Resources []string `json:"resourceSubscriptions,omitzero"`
}

// heardParams are the parameters of a notification that belongs to subscriptions/listen.
type heardParams struct {
	Meta          map[string]json.RawMessage `json:"_meta"`
	URI           string                     `json:"uri,omitzero"`           // the resource that has changed
	Notifications *heard                     `json:"notifications,omitzero"` // in the acknowledgement only
}

// subscriptionsListen answers subscriptions/listen: the stateless era's way to hear of changes. The response comes
// when the kernel stops; a client that wants no more cancels the request.
func subscriptionsListen(x *exchange) (rest func()) {
	wanted := jsonscan.Member(x.Params, "notifications")
	ctx, release := x.s.k.UntilStop(x.ctx)
	meta := map[string]json.RawMessage{mcp.MetaSubscriptionID: x.ID}
	var accepted heard
	var hear []func() // one per watch
	notifyOf := func(method, uri string, all ...watch) {
		params := marshal(heardParams{Meta: meta, URI: uri})
		for _, w := range all {
			w = x.session.missed(w)
			hear = append(hear, func() { w.each(func() { x.notify(method, params) }) })
		}
	}
	wants := func(name string) bool { return string(jsonscan.Member(wanted, name)) == "true" }
	if accepted.Tools = wants("toolsListChanged"); accepted.Tools {
		notifyOf(toolsChanged, "", x.s.watchTools(ctx, kernel.SenderIn(ctx).Principal(), x.choice))
	}
	if accepted.Prompts = wants("promptsListChanged"); accepted.Prompts {
		notifyOf(promptsChanged, "", x.s.watchPrompts(ctx)...)
	}
	if accepted.List = wants("resourcesListChanged"); accepted.List {
		notifyOf(resourcesChanged, "", x.s.watchResources(ctx)...)
	}
	jsonscan.Elements(jsonscan.Member(wanted, "resourceSubscriptions"), 0, func(value []byte) bool {
		if uri := jsonscan.Unquote(value); x.s.kindOf(uri) != nil && !slices.Contains(accepted.Resources, uri) && len(accepted.Resources) < maxSubscriptions {
			accepted.Resources = append(accepted.Resources, uri)
			notifyOf(resourceChanged, uri, x.s.watchResource(ctx, uri))
		}
		return true
	})
	return func() {
		defer release()
		x.notify("notifications/subscriptions/acknowledged", marshal(heardParams{Meta: meta, Notifications: &accepted}))
		var watches sync.WaitGroup
		for _, one := range hear {
			watches.Go(one)
		}
		<-ctx.Done()
		watches.Wait()
		x.mu.Lock()
		x.meta = membersOf(meta)
		x.mu.Unlock()
		x.respond(nil)
	}
}

// The notifications of changes.
const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	resourceChanged  = "notifications/resources/updated"
)

// subscribe answers resources/subscribe, of the stateful era.
func subscribe(x *exchange) (rest func()) {
	uri, bad := x.text("uri")
	if bad == nil && x.s.kindOf(uri) == nil {
		bad = x.noResource(uri, "Resource not found")
	}
	if bad == nil && !x.client.session.watch(x, uri) {
		bad = jsonrpc.Invalid("Invalid params: a session may watch 256 resources; unsubscribe from some")
	}
	return func() {
		if bad == nil {
			if bad = x.watchable(uri); bad != nil {
				x.client.session.unwatch(uri)
			}
		}
		if bad != nil {
			x.fail(bad)
			return
		}
		x.respond(nil)
	}
}

// watch notifies the client of changes of a resource. It reports false if the client watches too many.
func (n *session) watch(x *exchange, uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, there := n.subscribed[uri]
	if there || n.ended {
		return true
	}
	if len(n.subscribed) >= maxSubscriptions {
		return false
	}
	ctx, cancel := context.WithCancel(kernel.ActFor(n.life, kernel.SenderIn(x.ctx)))
	n.subscribed[uri] = cancel
	n.hear(x.s.watchResource(ctx, uri), resourceChanged, aboutURI(uri))
	return true
}

// unwatch ends watch.
func (n *session) unwatch(uri string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cancel, ok := n.subscribed[uri]; ok {
		cancel()
		delete(n.subscribed, uri)
	}
}

// unsubscribe answers resources/unsubscribe.
func unsubscribe(x *exchange) {
	x.client.session.unwatch(jsonscan.Unquote(jsonscan.Member(x.Params, "uri")))
	x.respond(nil)
}

// follow notifies a session of changes of its lists, from when its client is ready.
func (n *session) follow(s *Server, c choice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.follows || n.ended {
		return
	}
	n.follows = true
	n.hear(s.watchTools(n.life, n.principal, c), toolsChanged, nil)
	ctx := kernel.ActFor(n.life, kernel.From(n.principal, "mcp"))
	for _, w := range s.watchPrompts(ctx) {
		n.hear(w, promptsChanged, nil)
	}
	for _, w := range s.watchResources(ctx) {
		n.hear(w, resourcesChanged, nil)
	}
}

// missed returns a watch that begins with a change, if one may have been missed.
func (n *session) missed(w watch) watch {
	if n == nil || !n.resumed {
		return w
	}
	begun := false
	return func() bool {
		first := !begun
		begun = true
		return first || w()
	}
}

// hear notifies the client of each change.
func (n *session) hear(w watch, method string, params []byte) {
	w = n.missed(w)
	n.work.Go(func() {
		w.each(func() { n.notify(jsonrpc.AppendNotification(nil, method, params)) })
	})
}
