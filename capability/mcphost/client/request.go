package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/backoff"
	"kernos/internal/mcp"
)

// A Request is what a server is asked for.
type Request struct {
	Method    string
	Name      string         // params.name: a tool or a prompt
	URI       string         // params.uri: a resource
	Arguments jsontext.Value // params.arguments
	Cursor    string         // params.cursor: the next page of a list

	// Meta is added to params._meta.
	Meta map[string]string

	// Params are headers of the request: parameters of a tool that are mirrored there.
	Params http.Header

	// Progress takes the server's progress. Nil means that the server isn't asked for any.
	Progress func(note string, fraction float64)

	// Task asks for a task in place of the result, which is followed until it has the result: some tools want that.
	Task bool

	params jsontext.Value // all of them, in place of the others
}

// params are the parameters that all requests have.
type params struct {
	Name          string                    `json:"name,omitzero"`
	URI           string                    `json:"uri,omitzero"`
	Arguments     jsontext.Value            `json:"arguments,omitzero"`
	Cursor        string                    `json:"cursor,omitzero"`
	Responses     map[string]jsontext.Value `json:"inputResponses,omitzero"`
	State         *string                   `json:"requestState,omitzero"`
	Notifications map[string]bool           `json:"notifications,omitzero"`
	Task          map[string]any            `json:"task,omitzero"`
	TaskID        string                    `json:"taskId,omitzero"`
	Meta          map[string]any            `json:"_meta,omitzero"`
}

// result is what results have in common.
type result struct {
	Type     string        `json:"resultType"`
	Requests inputRequests `json:"inputRequests"`
	State    *string       `json:"requestState"`
}

// inputRequests are what a server wants of its client, by names.
type inputRequests map[string]struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// Do sends a request and decodes its result.
func (c *Conn) Do(ctx context.Context, r Request, into any) error {
	text, err := c.Request(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &broken{fmt.Errorf("it sent a malformed result for %s: %w", r.Method, err)}
	}
	return nil
}

// Request sends a request and returns its result. The error is an *[Error] of the server, a
// *[broken], a *[NotAuthorized], or that of ctx, whose end cancels the request.
func (c *Conn) Request(ctx context.Context, r Request) (jsontext.Value, error) {
	p := params{Name: r.Name, URI: r.URI, Arguments: r.Arguments, Cursor: r.Cursor}
	if r.Task && !c.stateless {
		p.Task = map[string]any{}
	}
	for range maxRounds {
		text, err := c.request(ctx, &r, &p)
		if err != nil && !r.Task && c.wantsTask(err) {
			r.Task = true
			text, err = c.request(ctx, &r, &p)
		}
		if err == nil && r.Task && !c.stateless {
			return c.followLegacy(ctx, &r, text)
		}
		if err != nil || !c.stateless {
			return text, err
		}
		var of result
		if err := json.Unmarshal(text, &of); err != nil {
			return nil, &broken{fmt.Errorf("it has answered %s with what isn't a result: %w", r.Method, err)}
		}
		switch of.Type {
		case "", "complete":
			return text, nil
		case "input_required":
		case "task":
			return c.follow(ctx, &r, text)
		default:
			return nil, &broken{fmt.Errorf("it has answered %s with a result of the type %.32q, which isn't known", r.Method, of.Type)}
		}
		p.State = of.State
		if p.Responses, err = c.respond(of.Requests); err != nil {
			return nil, err
		}
	}
	return nil, &broken{fmt.Errorf("it wanted input more than %d times for one %s", maxRounds, r.Method)}
}

// respond answers what a server wants of its client.
func (c *Conn) respond(requests inputRequests) (map[string]jsontext.Value, error) {
	responses := make(map[string]jsontext.Value, len(requests))
	for key, one := range requests {
		answer, refusal := c.answer(one.Method, one.Params)
		if refusal != nil {
			return nil, &broken{fmt.Errorf("it wants %.64q of its client, which this host doesn't serve", one.Method)}
		}
		responses[key] = answer
	}
	return responses, nil
}

// request sends a request once.
func (c *Conn) request(ctx context.Context, r *Request, p *params) (jsontext.Value, error) {
	id := c.next.Add(1)
	p.Meta = make(map[string]any)
	for key, value := range r.Meta {
		p.Meta[key] = value
	}
	if r.Progress != nil {
		p.Meta["progressToken"] = id
	}
	if c.stateless {
		p.Meta[mcp.MetaVersion], p.Meta[mcp.MetaClientInfo], p.Meta[mcp.MetaCapabilities] = c.about.Revision, c.info(), c.capabilities(r.Task)
	}
	out := frame{Version: "2.0", ID: jsontext.Value(strconv.FormatInt(id, 10)), Method: r.Method, Params: r.params}
	var err error
	if out.Params == nil {
		if out.Params, err = json.Marshal(p, json.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(&out)
	if err != nil {
		return nil, err
	}
	waiting := &pending{answer: make(chan *frame, 1), progress: r.Progress}
	c.mu.Lock()
	c.pending[id] = waiting
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}()
	name := cmp.Or(p.URI, p.TaskID, p.Name)
	err = c.wire.request(ctx, &outgoing{id: id, text: text, method: r.Method, name: name, params: r.Params}, waiting)
	select {
	case f := <-waiting.answer:
		if f.Error != nil {
			return nil, f.Error
		}
		return f.Result, nil
	default:
	}
	if err == nil {
		err = &broken{fmt.Errorf("it has not answered %s", r.Method)}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, err
}

// maxPages is how many pages a list may have.
const maxPages = 1000

// List returns the items of a list, of all its pages, and whether there are more than the limits
// allow: items limits their number, and bytes their size.
func (c *Conn) List(ctx context.Context, method, member string, items, bytes int) (all []jsontext.Value, more bool, err error) {
	cursor := ""
	for range maxPages {
		var page map[string]jsontext.Value
		if err := c.Do(ctx, Request{Method: method, Cursor: cursor}, &page); err != nil {
			return nil, false, err
		}
		var some []jsontext.Value
		if err := json.Unmarshal(page[member], &some); err != nil {
			return nil, false, &broken{fmt.Errorf("it has answered %s without a list of %s", method, member)}
		}
		for _, one := range some {
			if bytes -= len(one); bytes < 0 || len(all) == items {
				return all, true, nil
			}
			all = append(all, one)
		}
		before := cursor
		cursor = ""
		if next := page["nextCursor"]; next != nil {
			if err := json.Unmarshal(next, &cursor); err != nil && next.Kind() != 'n' {
				return nil, false, &broken{fmt.Errorf("it has answered %s with a nextCursor that isn't text", method)}
			}
		}
		if cursor == "" {
			return all, false, nil
		}
		if cursor == before {
			return all, true, nil
		}
	}
	return all, true, nil
}

// subscribe follows the changes of lists in the stateless era: with a request that lasts.
func (c *Conn) subscribe() {
	wanted := make(map[string]bool)
	for name := range c.about.listChanges {
		wanted[name+"ListChanged"] = true
	}
	pauses := backoff.Backoff{First: time.Second, Longest: time.Minute, Jitter: true}
	for {
		_, err := c.request(c.life, &Request{Method: "subscriptions/listen"}, &params{Notifications: wanted})
		refused := errors.As(err, new(*Error)) || errors.As(err, new(*NotAuthorized))
		if c.life.Err() != nil || refused || !pauses.Wait(c.life.Done()) {
			return
		}
		c.opts.Changed() // changes may have been missed meanwhile
	}
}
