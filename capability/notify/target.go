package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// The kinds of targets.
const (
	kindWebhook = "webhook"
	kindNtfy    = "ntfy"
)

// A target is one as it is stored.
type target struct {
	Kind    string `json:"kind"`
	Address string `json:"address"` // sealed
}

// opens is what addresses are sealed for.
var opens = sealed.Destination{string(send.Type)}

type addInput struct {
	Name string `json:"name" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]*$,maxLength=64" jsonschema_description:"What Notify.Send calls the target."`
	Kind string `json:"kind" jsonschema:"enum=ntfy,enum=webhook" jsonschema_description:"ntfy: the text is published to a topic. webhook: a JSON object {text, title?, from, at} is posted."`
	URL  string `json:"url" jsonschema:"format=password,writeOnly=true,minLength=1,maxLength=2048" jsonschema_description:"Its address: https://ntfy.sh/TOPIC, or that of the webhook. It is kept sealed, and never shown."`
}

type addOutput struct {
	Name string `json:"name" jsonschema_description:"The name to give as to."`
	Host string `json:"host" jsonschema_description:"The host of its address."`
}

var add = kernel.DefineCommand[addInput, addOutput](kernel.Definition{
	Type:    "Notify.Add",
	Summary: "Configure a target of notifications outside: a webhook, or a topic of ntfy. Its address is kept sealed.",
	Input:   schema.Input[addInput]().Example(`{"name":"phone","kind":"ntfy","url":"https://ntfy.sh/a-topic-that-is-hard-to-guess"}`),
	Presentation: kernel.Presentation{
		Title: "Configure a target of notifications",
		Words: "ntfy, webhook, push, phone, slack, send notifications to my phone, get alerts on my phone, deliver alerts to slack, " +
			"post notifications to a url, add a webhook, set up push notifications, where alerts should go",
		Result:    "Notifications can go to {name}, at {host}: kernos notify send TEXT --to {name}",
		Arguments: []string{"name", "kind", "url"},
		Errors: []kernel.ErrorDefinition{
			{Code: 409, When: "a target of this name is configured"},
			{Code: 422, When: "the address isn't one of http or https"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow, Reaches: []kernel.Reach{kernel.ToSettings}},
	Access:   principal.OwnerOnly,
})

func (n *Notifications) add(ctx context.Context, in addInput) (out addOutput, err error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return out, message.Invalid("url", "url: expected an address such as https://ntfy.sh/TOPIC")
	}
	if in.Kind == kindNtfy && strings.Trim(u.Path, "/") == "" {
		return out, message.Invalid("url", "url: the topic is missing; expected an address such as https://ntfy.sh/TOPIC")
	}
	at := key(keyTarget, in.Name)
	e, err := n.opts.Store.Get(at)
	if err != nil {
		return out, err
	}
	if e.Revision != 0 {
		return out, message.Errorf(409, "A target %s is configured already; remove it first (Notify.Remove), or choose another name", in.Name)
	}
	t := target{Kind: in.Kind}
	if t.Address, err = n.opts.Seal(ctx, in.URL, opens); err != nil {
		return out, err
	}
	var b store.Batch
	b.IfAbsent(at)
	b.Set(at, jsonvalue.Marshal(t))
	return addOutput{in.Name, u.Host}, kernel.Stage(ctx, &b)
}

type targetsOutput struct {
	Targets []listed `json:"targets" jsonschema_description:"The targets, by name."`
}

type listed struct {
	Name string `json:"name" jsonschema_description:"The name to give as to."`
	Kind string `json:"kind" jsonschema:"enum=ntfy,enum=webhook" jsonschema_description:"ntfy or webhook."`
}

var targets = kernel.DefineQuery[struct{}, targetsOutput](kernel.Definition{
	Type:    "Notify.Targets",
	Summary: "List the targets of notifications outside that the owner has configured, without their addresses.",
	Presentation: kernel.Presentation{
		Title: "List targets of notifications",
		Words: "webhooks, ntfy topics, where do notifications go, which phones are set up, list webhooks, which targets are set up, who gets notifications, " +
			"where are alerts sent",
		Columns: []string{"NAME {name}", "KIND {kind}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (n *Notifications) targets(context.Context, struct{}) (targetsOutput, error) {
	out := targetsOutput{Targets: []listed{}}
	prefix := key(keyTarget)
	for e, err := range n.opts.Store.Scan(store.Prefix(prefix)) {
		if err != nil {
			return out, err
		}
		var t target
		if err := jsonv2.Unmarshal(e.Value, &t); err != nil {
			return out, err
		}
		out.Targets = append(out.Targets, listed{string(e.Key[len(prefix):]), t.Kind})
	}
	return out, nil
}

type removeInput struct {
	Name string `json:"name" jsonschema:"minLength=1,maxLength=64,example=phone" jsonschema_description:"The target, as Notify.Targets lists it."`
}

type removeOutput struct {
	Removed bool `json:"removed" jsonschema_description:"Always true."`
}

var remove = kernel.DefineCommand[removeInput, removeOutput](kernel.Definition{
	Type:    "Notify.Remove",
	Summary: "Remove a target of notifications, with its address. Jobs that send to it fail from then on.",
	Presentation: kernel.Presentation{
		Title: "Remove a target of notifications",
		Words: "delete a target, disconnect ntfy, remove a webhook, stop sending, no more alerts on my phone, stop notifications to slack, " +
			"turn off push notifications, delete the webhook, forget an ntfy topic",
		Result: "Notifications can't go to {request.name} any more",
		Errors: []kernel.ErrorDefinition{{Code: 404, When: "no target has this name"}},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToSettings}, Destroys: true, Repeat: kernel.Idempotent},
	Access:   principal.OwnerOnly,
})

func (n *Notifications) remove(ctx context.Context, in removeInput) (removeOutput, error) {
	_, revision, err := n.target(in.Name)
	if err != nil {
		return removeOutput{}, err
	}
	at := key(keyTarget, in.Name)
	var b store.Batch
	b.IfRevision(at, revision)
	b.Delete(at)
	return removeOutput{Removed: true}, kernel.Stage(ctx, &b)
}

// target returns the target of a name, or a 404 that lists those that are configured.
func (n *Notifications) target(name string) (t target, revision store.Revision, err error) {
	e, err := n.opts.Store.Get(key(keyTarget, name))
	if err != nil {
		return t, 0, err
	}
	if e.Revision == 0 {
		all, err := n.targets(context.Background(), struct{}{})
		if err != nil {
			return t, 0, err
		}
		var names []string
		for _, l := range all.Targets {
			names = append(names, l.Name)
		}
		known := "none is configured, and the owner can add one with Notify.Add; without to, open chats and consoles show it"
		if len(names) > 0 {
			known = cmp.Or(nearest.Hint(name, names), "there is "+message.Clip(strings.Join(names, ", "), 300))
		}
		return t, 0, message.Errorf(404, "No target %q: %s", message.Clip(name, 64), known)
	}
	return t, e.Revision, jsonv2.Unmarshal(e.Value, &t)
}

// deliver sends a notification to a target.
func (n *Notifications) deliver(ctx context.Context, name string, note *Notification) error {
	t, _, err := n.target(name)
	if err != nil {
		return err
	}
	if err := kernel.Reaching(ctx, kernel.ToNetwork, reachOf(name)); err != nil {
		return err
	}
	address, _, err := n.opts.Open(ctx, t.Address, sealed.Use{Syscall: string(send.Type)})
	if err != nil {
		return err
	}
	request, err := t.request(ctx, string(address), note)
	if err != nil {
		return message.Errorf(500, "The address of the target %s can't be used; remove the target, and add it again", name)
	}
	client := http.Client{Transport: n.opts.Client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the owner has named one host, and no other
	}}
	response, err := client.Do(request)
	if err != nil {
		return unreachable(name, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // the connection can be used again
	_ = response.Body.Close()
	if status := response.StatusCode; status < 200 || status > 299 {
		return refusedBy(name, status)
	}
	return nil
}

// request returns the request that gives a notification to a target.
func (t *target) request(ctx context.Context, address string, note *Notification) (*http.Request, error) {
	body, kind := []byte(note.Text), "text/plain; charset=utf-8"
	if t.Kind == kindWebhook {
		var err error
		if body, err = json.Marshal(Webhook{note.Text, note.Title, note.From, time.UnixMilli(note.At).UTC()}); err != nil {
			return nil, err
		}
		kind = "application/json"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", "kernos")
	if t.Kind == kindNtfy && note.Title != "" {
		r.Header.Set("Title", mime.BEncoding.Encode("utf-8", note.Title))
	}
	return r, nil
}

// unreachable returns the error for a request without an answer. The text of err has the address, which isn't shown.
func unreachable(name string, err error) error {
	if refused, ok := errors.AsType[*outbound.Refused](err); ok {
		return message.Errorf(403, "The policy for connections refuses the target %s: %s", name, refused.Reason)
	}
	code, _ := outbound.Explain(err, "target", "")
	if code == 504 {
		return message.Errorf(504, "The target %s has not answered in time", name)
	}
	return message.Errorf(code, "The target %s can't be reached", name)
}

// refusedBy returns the error for an answer that isn't a success. A target that may take the notification later gets a
// code that jobs retry.
func refusedBy(name string, status int) error {
	switch {
	case status == 429 || status == 503 || status == 504:
		return message.Errorf(status, "The target %s takes no notifications for now: it answers %d", name, status)
	case status >= 300 && status < 400:
		return message.Errorf(502, "The target %s answers with a redirect, which is not followed; add it again with its present address", name)
	}
	return message.Errorf(502, "The target %s refuses the notification: it answers %d", name, status)
}
