package notify

import (
	"context"
	"encoding/json"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// maxWaiting is how many notifications of one principal may wait.
const maxWaiting = 100

// sentEvent reports a notification that waits to be seen.
const sentEvent message.Type = "Notify.Sent"

type sendInput struct {
	Text  string `json:"text" aliases:"content" jsonschema:"minLength=1,maxLength=2000" jsonschema_description:"What the person is told."`
	Title string `json:"title,omitzero" jsonschema:"maxLength=200" jsonschema_description:"A heading of a few words."`
	To    string `json:"to,omitzero" jsonschema:"maxLength=64" jsonschema_description:"The name of a target outside that the owner has configured; Notify.Targets lists them. Default: open chats and consoles show it."`
}

type sendOutput struct {
	ID string `json:"id,omitzero" jsonschema_description:"The notification, which waits until Notify.Seen."`
	To string `json:"to,omitzero" jsonschema_description:"The target that has taken it."`
}

// send's changes are InStore: what goes to a target is a reach of its own, and a call that was cut off may be made again,
// since a notification that comes twice is better than one that doesn't come.
var send = kernel.DefineCommand[sendInput, sendOutput](kernel.Definition{
	Type:    "Notify.Send",
	Summary: "Notify a person: open chats and consoles show the text, and it is listed until it was seen; or it goes to a configured target. A reminder is a job that runs it: Job.Start with the name Notify.Send, payload {text}, and at.",
	Input:   schema.Input[sendInput]().Example(`{"text":"Call mum"}`),
	Emits:   []kernel.EventDefinition{{Type: sentEvent, Summary: "A notification waits to be seen: {id, text, title?, from, at}. It is sent to watchers, not to the caller."}},
	Presentation: kernel.Presentation{
		Title: "Notify a person",
		Words: "remind, reminder, alert, tell me, let me know, text me, send a message to a person, send a notification, push, ping me, inform the user, " +
			"drop me a line, give me a heads up, let a person know, alert me, tell a person that something happened, pop up a message",
		Result:    "Sent to {to} | Sent; it is listed until it was seen: kernos notify seen {id}",
		Arguments: []string{"text"}, Stdin: "text",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the policy for connections refuses the target"},
			{Code: 404, When: "no target has this name"},
			{Code: 429, When: "100 notifications of the caller wait to be seen, or the target takes no more for now"},
			{Code: 502, When: "the target can't be reached, or refuses the notification"},
			{Code: 503, When: "the target isn't available"},
			{Code: 504, When: "the target hasn't answered in time"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow, Volatile: []string{"id"}},
})

// foreseen returns what a call with this data reaches, or a 404 if it names no target.
func (n *Notifications) foreseen(data json.RawMessage) ([]kernel.Reached, error) {
	to := jsonscan.Unquote(jsonscan.Member(data, "to"))
	if to == "" {
		return nil, nil
	}
	_, _, err := n.target(to)
	return []kernel.Reached{{Reach: kernel.ToNetwork, Target: reachOf(to)}}, err
}

// reachOf names a target where rules and people decide about it. Its address isn't theirs to know.
func reachOf(target string) string { return "notify/" + target }

// A Notification is a text that waits to be seen.
type Notification struct {
	ID    string `json:"id" jsonschema_description:"The notification."`
	Text  string `json:"text" jsonschema_description:"The text for the person."`
	Title string `json:"title,omitzero" jsonschema_description:"Its heading."`
	From  string `json:"from" jsonschema_description:"The name of the principal that has sent it."`
	At    int64  `json:"at" jsonschema_description:"When it was sent, in milliseconds since 1970."`
}

func (n *Notifications) send(ctx context.Context, in sendInput) (out sendOutput, err error) {
	who, now := kernel.PrincipalOf(ctx), n.opts.Now()
	note := Notification{Text: in.Text, Title: in.Title, From: who.Name(), At: now.UnixMilli()}
	if in.To != "" {
		return sendOutput{To: in.To}, n.deliver(ctx, in.To, &note)
	}
	waiting := 0
	for _, err := range n.opts.Store.Scan(store.Prefix(waitingOf(who.ID()))) {
		if err != nil {
			return out, err
		}
		waiting++
	}
	if waiting >= maxWaiting {
		return out, message.Errorf(429, "%d notifications of %s wait to be seen already; Notify.Seen marks some as seen", waiting, who.Name())
	}
	note.ID = n.ids.Next(now)
	text := jsonvalue.Marshal(note)
	var b store.Batch
	b.Set(append(waitingOf(who.ID()), note.ID...), text)
	if err := kernel.Publish(ctx, sentEvent, text); err != nil {
		return out, err
	}
	return sendOutput{ID: note.ID}, kernel.Stage(ctx, &b)
}

// waitingOf returns what the keys of a principal's notifications begin with.
func waitingOf(id principal.ID) []byte { return key(keyWaiting, string(id), "\x00") }

// Webhook is the body of a request to a webhook.
type Webhook struct {
	Text  string    `json:"text"`
	Title string    `json:"title,omitzero"`
	From  string    `json:"from"` // the name of the principal that has sent it
	At    time.Time `json:"at"`
}
