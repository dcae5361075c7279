package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/cmd/kernos/server"
	"kernos/internal/backoff"
	"kernos/internal/exit"
	"kernos/message"
)

// A client calls the syscalls of sessions. It is safe for concurrent use.
type client struct {
	ctx  context.Context // ends with the client
	stop func()

	// What streams has its own connection: while an event is read, the call that fetches its text is answered.
	calls, watches server.Caller
	done           []func() error
}

func dial(ctx context.Context, open server.Opener) (*client, error) {
	c := new(client)
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, to := range []*server.Caller{&c.calls, &c.watches} {
		call, done, err := open(c.ctx)
		if err != nil {
			_ = c.close()
			return nil, exit.Wrap(err)
		}
		*to, c.done = call, append(c.done, done)
	}
	return c, nil
}

// close ends the calls that are under way, and the connections.
func (c *client) close() (err error) {
	c.stop()
	for _, done := range c.done {
		err = errors.Join(err, done())
	}
	return exit.Wrap(err)
}

// over returns a caller over a connection, whose calls end with the client.
func (c *client) over(call server.Caller) server.Caller {
	return func(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		return call(ctx, m, event)
	}
}

func (c *client) call(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
	return c.over(c.calls)(ctx, m, event)
}

// within returns a caller whose messages are of the workflow of a session: kernos graph SESSION draws
// all of it.
func (c *client) within(session string) server.Caller {
	return func(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
		m.Metadata.ID, m.Metadata.Correlation = message.ID(ulid.Make().String()), session
		return c.call(ctx, m, event)
	}
}

// An entry is a message of a session, as far as it is shown.
type entry struct {
	ID, Type, Turn       string
	Model                string
	Seq, Parent          uint64
	Timestamp            int64
	Partial              bool
	Text, Title, Summary string
	TextRef, SummaryRef  json.RawMessage
	Files                []file
	Calls                []call
	Results              []result

	// Of approval-request and approval-response.
	Call, Name, Rule, Decision, Remember, Reason, By string
	Args                                             json.RawMessage

	raw   json.RawMessage
	child string // the session that asks for an approval, if an agent that this one has asked does
}

type call struct {
	ID, Name string
	Args     json.RawMessage
}

type result struct {
	CallID, Name  string
	Output, Error json.RawMessage
}

// A file goes with an input.
type file struct {
	Data     string               `json:"data,omitzero"`
	DataRef  *message.BlobPointer `json:"dataRef,omitzero"`
	Filename string               `json:"filename,omitzero"`
	MimeType string               `json:"mimeType,omitzero"`
}

// readMessage reads a message, and fetches its text if that is elsewhere.
func (c *client) readMessage(ctx context.Context, data json.RawMessage) (m entry, err error) {
	err = server.Decode("Session.Messages", data, &m)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return m, err // otherwise a registered type uses a member for something else, and the rest was read
	}
	m.raw = data
	for _, part := range []struct {
		ref json.RawMessage
		to  *string
	}{{m.TextRef, &m.Text}, {m.SummaryRef, &m.Summary}} {
		if len(part.ref) > 0 {
			if *part.to, err = c.blob(ctx, part.ref); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// blob reads a text that a message points to.
func (c *client) blob(ctx context.Context, ref json.RawMessage) (string, error) {
	var b strings.Builder
	for at := int64(0); ; {
		var part struct {
			Text *string
			Next int64
		}
		if err := server.Read(ctx, c.call, message.KindQuery, "Blob.Read", map[string]any{"ref": ref, "offset": at}, &part); err != nil {
			return "", err
		}
		if part.Text != nil {
			b.WriteString(*part.Text)
		}
		if at = part.Next; at == 0 {
			return b.String(), nil
		}
	}
}

// info is the reply of Session.Get.
type info struct {
	Session, Title, Model, Status, Turn string
	Seq, Leaf                           uint64
	Turns                               int
	Created                             int64
	Pending                             []string
	Tools                               []struct{ Name, Description string }
	Used                                struct {
		Steps, Calls int
		Tokens       int64
		Cost         float64
	}
	Last *ending
}

// An ending is how a turn has ended.
type ending struct {
	Turn, Status string
	Error        json.RawMessage
}

// err returns the error of a turn that hasn't ended well, or nil.
func (e *ending) err() error {
	if e == nil || e.Status == "done" || e.Status == "" {
		return nil
	}
	text := "the turn was " + e.Status
	if e.Status == "failed" {
		text = "the turn has failed"
	}
	if failure, err := message.ParseError(e.Error); err == nil {
		text = fmt.Sprintf("%s: %d %v", text, failure.Code, failure)
	}
	return errors.New(text)
}

func (c *client) get(ctx context.Context, session string) (i info, err error) {
	err = server.Read(ctx, c.call, message.KindQuery, "Session.Get", map[string]any{"session": session}, &i)
	return i, err
}

// create begins a session.
func (c *client) create(ctx context.Context, agent, model, title string) (string, error) {
	in := map[string]any{}
	for name, value := range map[string]string{"agent": agent, "model": model, "title": title} {
		if value != "" {
			in[name] = value
		}
	}
	var out struct{ Session string }
	err := server.Read(ctx, c.call, message.KindCommand, "Session.Create", in, &out)
	return out.Session, err
}

// input is one input of the person.
type input struct {
	Session string `json:"session"`
	Text    string `json:"text,omitzero"`
	Files   []file `json:"files,omitzero"`
	Model   string `json:"model,omitzero"`
}

// turn is what an input has begun.
type turn struct{ Session, Turn string }

func (c *client) send(ctx context.Context, in input) (t turn, err error) {
	err = server.Read(ctx, c.within(in.Session), message.KindCommand, "Session.Send", in, &t)
	return t, err
}

// do calls a command of a session whose reply is of no interest.
func (c *client) do(ctx context.Context, t message.Type, session string, in map[string]any) error {
	in["session"] = session
	_, err := server.Send(ctx, c.within(session), message.KindCommand, t, in, nil)
	return err
}

// An event is one of Session.Watch: a message is complete, one grows, some are withdrawn, or a call begins or ceases to wait
// for an approval.
type event struct {
	Message     json.RawMessage
	ID          string
	MessageType string
	Offset      int
	Delta       struct{ Text string }
	IDs         []string

	Session, Call, Name, Rule string
	Args                      json.RawMessage

	complete *entry
}

// approval returns what an agent that the session has asked states about an approval, as a message; nil if it is anything else: the
// session's own come as messages.
func (e *event) approval(session string, data json.RawMessage) *entry {
	if e.Call == "" || e.Session == session {
		return nil
	}
	m := &entry{Type: "approval-request", Call: e.Call, Name: e.Name, Rule: e.Rule, Args: e.Args, child: e.Session, raw: data}
	if e.Name == "" {
		m.Type = "approval-response"
	}
	return m
}

// maxAttempts is how often a turn is followed again after its connection has broken, without a message in between.
const maxAttempts = 8

// follow reports what happens in a session after a seq, until a turn has ended. It returns how the
// turn has ended, if the session still reports that.
func (c *client) follow(ctx context.Context, session string, after uint64, until string, report func(event)) (*ending, error) {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: 3 * time.Second, Jitter: true}
	for attempt := 0; ; attempt++ {
		_, err := server.Send(ctx, c.over(c.watches), message.KindQuery, "Session.Watch", map[string]any{"session": session, "after": after, "until": until}, func(data json.RawMessage) error {
			var e event
			if err := server.Decode("Session.Watch", data, &e); err != nil {
				return err
			}
			if len(e.Message) > 0 {
				m, err := c.readMessage(ctx, e.Message)
				if err != nil {
					return err
				}
				after, attempt, e.complete = m.Seq, 0, &m
			}
			if e.Call != "" {
				e.complete = e.approval(session, data)
			}
			if e.Call == "" || e.complete != nil {
				report(e)
			}
			return nil
		})
		var i info
		if err == nil {
			if i, err = c.get(ctx, session); err == nil && i.Turn != until {
				if i.Last != nil && i.Last.Turn == until {
					return i.Last, nil
				}
				return nil, nil
			}
		}
		if lost := err == nil || exit.Status(err) == exit.Unreachable; !lost || attempt == maxAttempts || !pause.Wait(ctx.Done()) {
			return nil, err
		}
		// The next call goes to the next kernel, which continues the turn.
	}
}

// load returns a session with the messages from its root to its leaf, out of what Session.Export replies.
func (c *client) load(ctx context.Context, exported json.RawMessage) (i info, path []entry, err error) {
	var all struct {
		Info     info
		Messages []json.RawMessage
	}
	if err = server.Decode("Session.Export", exported, &all); err == nil {
		path, err = c.path(ctx, all.Messages, all.Info.Leaf)
	}
	return all.Info, path, err
}

// last returns the messages up to the leaf of a session, out of the last ones.
func (c *client) last(ctx context.Context, i *info, most uint64) ([]entry, error) {
	var all []json.RawMessage
	for after, more := i.Seq-min(i.Seq, most), true; more; {
		var page struct {
			Messages []json.RawMessage
			More     bool
		}
		if err := server.Read(ctx, c.call, message.KindQuery, "Session.Messages", map[string]any{"session": i.Session, "after": after}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Messages...)
		after += uint64(len(page.Messages)) // seq has no gaps
		more = page.More
	}
	return c.path(ctx, all, i.Leaf)
}

// path returns the messages that lead to a leaf, in their order.
func (c *client) path(ctx context.Context, messages []json.RawMessage, leaf uint64) (path []entry, err error) {
	bySeq := make(map[uint64]entry, len(messages))
	for _, data := range messages {
		m, err := c.readMessage(ctx, data)
		if err != nil {
			return nil, err
		}
		bySeq[m.Seq] = m
	}
	for m, ok := bySeq[leaf]; ok; m, ok = bySeq[m.Parent] {
		path = append(path, m)
	}
	slices.Reverse(path)
	return path, nil
}

// listed is a session in a list.
type listed struct {
	Session, Title string
	Updated        int64
}

// list returns the sessions for which keep reports true, the latest first; most limits their number.
func list(ctx context.Context, call server.Caller, most int, keep func(*listed) bool) (found []listed, err error) {
	for cursor := ""; ; {
		in := map[string]any{"limit": 200}
		if cursor != "" {
			in["cursor"] = cursor
		}
		var page struct {
			Sessions []listed
			Cursor   string
		}
		if err := server.Read(ctx, call, message.KindQuery, "Session.List", in, &page); err != nil {
			return nil, err
		}
		for _, s := range page.Sessions {
			if keep(&s) {
				found = append(found, s)
			}
		}
		if cursor = page.Cursor; cursor == "" || len(found) >= most {
			return found[:min(len(found), most)], nil
		}
	}
}
