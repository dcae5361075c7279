package session

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

type compactInput struct {
	sessionInput
	Keep int `json:"keep,omitzero" jsonschema:"minimum=1,maximum=10000,default=10" jsonschema_description:"How many of the last messages stay as they are."`
}

type compactOutput struct {
	Session string `json:"session" jsonschema_description:"The session."`
	Covers  uint64 `json:"covers,omitzero" jsonschema_description:"The summary stands for the messages up to this seq. Absent if there was nothing to summarize."`
	Seq     uint64 `json:"seq,omitzero" jsonschema_description:"The summary."`
}

var compact = kernel.DefineCommand[compactInput, compactOutput](kernel.Definition{
	Type:    "Session.Compact",
	Summary: "Let the model summarize the earlier messages of a session, and continue from the summary. Nothing is deleted.",
	Emits:   append(slices.Clone(events[:1]), kernel.EventDefinition{Type: "Model.Streamed", Summary: "The summary grows.", Unrecorded: true}),
	Presentation: kernel.Presentation{
		Title: "Summarize a session",
		Words: "shorten, make shorter, compress a conversation, the chat is too long, the context is full, condense a chat, sum up a conversation, " +
			"out of context, reduce tokens, recap a chat",
		Result: "Summarized {session} up to the message {covers} | {session} has nothing to summarize",
		Errors: []kernel.ErrorDefinition{notFoundError, {Code: 409, When: "a turn is open"}, {Code: 503, When: "this kernel runs no sessions"}},
	},
	Behavior:  kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow, Timeout: generateTimeout},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) compact(ctx context.Context, in compactInput) (out compactOutput, err error) {
	if _, err := x.running(); err != nil {
		return out, err
	}
	s, err := x.idle(ctx, in.Session)
	if err != nil {
		return out, err
	}
	out.Session = s.ID
	path, err := x.path(ctx, &s.head)
	if err != nil {
		return out, err
	}
	in.Keep = cmp.Or(in.Keep, 10)
	cut := boundary(path, len(path)-in.Keep)
	if cut == 0 {
		return out, nil
	}
	reply, err := kernel.InvokeAs(ctx, kernel.NewCall{Type: generateType, Data: jsonvalue.Marshal(x.summaryOf(s, path, cut)), Event: func(message.Message) {}})
	if err != nil {
		return out, err
	}
	var made generated
	if err := json.Unmarshal(reply, &made); err != nil {
		return out, err
	}
	said := made.reply()
	if said == "" {
		return out, message.Errorf(502, "The model has given no summary; nothing has changed")
	}
	out.Covers = path[cut-1].Seq
	var b store.Batch
	c := x.change(ctx, s, &b)
	stored, err := c.append(Message{Type: typeSummary, Text: &said, Covers: out.Covers, Model: made.Model})
	if err != nil {
		return out, err
	}
	s.Used.add(made.used())
	out.Seq = stored.Seq
	return out, c.stage()
}

const summarize = "Summarize the conversation so far for yourself, so that you can go on without it: what was asked, what was found out and decided, which names, numbers and files matter, and what is left to do. Reply with the summary only."

// summaryOf returns the request for a summary of the first messages of a path.
func (x *Sessions) summaryOf(s *session, path []Message, cut int) *generation {
	earlier := slices.Clone(path[:cut])
	if i := slices.IndexFunc(path[cut:], func(m Message) bool { return m.Type == typeSummary }); i >= 0 {
		earlier = append(earlier, path[cut+i]) // the messages that the summary covers must not be lost
	}
	g := &generation{Model: s.Model, Session: s.ID}
	g.System, g.Messages = arrange(earlier, func() string { return x.ids.Next(x.opts.Now()) })
	text := summarize
	g.Messages = append(g.Messages, Message{ID: x.ids.Next(x.opts.Now()), Timestamp: x.opts.Now().UnixMilli(), Type: typeInput, Text: &text})
	return g
}

// boundary returns the greatest number of messages, at most n, that can be cut off a path without
// separating a call from its result.
func boundary(path []Message, n int) int {
	open := make(map[string]bool)
	best := 0
	for i, m := range path[:max(n, 0)] {
		for _, c := range m.Calls {
			open[c.ID] = true
		}
		for _, r := range m.Results {
			delete(open, r.CallID)
		}
		if len(open) == 0 && m.Type != typeSystem {
			best = i + 1
		}
	}
	return best
}

// excess returns how many of the first messages of a path a summary is to stand for, so that a
// request fits into the model: half of the room is left to the last messages. It is 0 if all of it
// fits, or if nothing can be done about it.
func (x *Sessions) excess(s *session, g *generation, path []Message) int {
	if s.Compact == neverCompact || len(path) == 0 {
		return 0
	}
	room, fixed, size := 0, len(g.System)/bytesPerToken, 0
	if x.opts.ContextTokens != nil {
		room, _ = x.opts.ContextTokens(s.Model) // if it fails, so does the generation
	}
	for _, t := range g.Tools {
		fixed += (len(t.Name) + len(t.Description) + len(t.InputSchema)) / bytesPerToken
	}
	for i := range path {
		size += path[i].tokens()
	}
	keep := size / 2
	if !s.turn.Long {
		if room <= fixed || fixed+size <= room {
			return 0
		}
		keep = (room - fixed) / 2
	}
	n := len(path) - 1 // the last message is what the model answers
	for kept := path[n].tokens(); n > 0; n-- {
		if kept += path[n-1].tokens(); kept > keep {
			break
		}
	}
	cut := boundary(path, n)
	if !slices.ContainsFunc(path[:cut], func(m Message) bool { return m.Type != typeSystem && m.Type != typeSummary }) {
		return 0 // a summary of the summary would not be shorter
	}
	return cut
}

const (
	// bytesPerToken is rather too small than too large, so that a conversation is not found to be
	// longer than the model takes only by the model.
	bytesPerToken = 3

	// tokensOfAnImage is about what providers count, whatever its bytes.
	tokensOfAnImage = 1500
)

// tokens estimates how many tokens a message is for a model.
func (m *Message) tokens() int {
	n, images := 16, 0 // 16 tokens for the role and the frame of the message
	for _, text := range []*string{m.Text, m.Summary} {
		if text != nil {
			n += len(*text)
		}
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f.MimeType, "image/") {
			images++
		} else {
			n += len(f.Data)
		}
	}
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		n += len(r.Output) + len(r.Error)
	}
	return n/bytesPerToken + images*tokensOfAnImage
}

// leftOut is the summary of messages that the model can't summarize, since they are too long too.
const leftOut = "(Earlier messages were left out: they are longer than the model takes.)"

// compact puts a summary in the place of the first messages of a path, before the next generation.
func (r *runner) compact(s *session, path []Message, cut int) {
	covers := path[cut-1].Seq
	r.generate(s, r.x.summaryOf(s, path, cut), nil, func(c *change, outcome *message.Message) error {
		m := Message{Type: typeSummary, Covers: covers}
		said := ""
		if outcome.Kind == message.KindError {
			if e := outcome.Failure(); e.Code != tooLong {
				return r.failed(c, e)
			}
		} else {
			made, err := r.readGenerated(outcome.Data)
			if err != nil {
				return err
			}
			said, m.Model = made.reply(), made.Model
			c.s.turn.Used.add(made.used())
		}
		said = cmp.Or(said, leftOut)
		m.Text = &said
		c.s.turn.Long = false
		_, err := c.append(m)
		return err
	})
}
