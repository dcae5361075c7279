package model

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
)

// served is the dialect syscall: a program generates. It serves a syscall that takes what
// Model.Generate takes and replies with {finish?, messages: [{type, …}], usage?}. Its events with
// {type?, delta: {text}} are what it streams; without a type, they are the reply.
func served(ctx context.Context, m *models, g *generation, a *conversation.Answer) error {
	k, _ := kernel.Of(ctx)
	if _, ok := k.Registry().Lookup(g.Type); !ok {
		return message.Errorf(503, "No program serves %s at the moment; start the one that does", g.Type)
	}
	request, err := m.servedRequest(ctx, g)
	if err != nil {
		return err
	}
	var broken error
	reply, err := kernel.InvokeAs(ctx, kernel.NewCall{Type: g.Type, Data: []byte(request), Event: func(e message.Message) {
		if text := jsonscan.Member(jsonscan.Member(e.Data, "delta"), "text"); text != nil && broken == nil {
			kind := cmp.Or(jsonscan.Unquote(jsonscan.Member(e.Data, "type")), conversation.PartReply)
			if kind == conversation.PartReply || kind == conversation.PartReasoning {
				broken = a.Say(kind, text)
			}
		}
	}})
	if err == nil {
		err = broken
	}
	if err != nil {
		e, _ := message.ErrorOf(err)
		return &failure{err: e, again: slices.Contains([]int{429, 502, 503, 504}, e.Code)}
	}
	return takeServed(a, reply)
}

// maxDirect is how long a request to a program may be that holds all of its data.
const maxDirect = message.MaxLine / 2

// servedRequest returns the data of the request to a program: what came, without what belongs to other
// models. What doesn't fit into a line goes by pointer.
func (m *models) servedRequest(ctx context.Context, g *generation) (jsontext.Value, error) {
	in := *g.in
	in.Model, in.MaxTokens = g.Model, g.maxTokens
	in.Messages = make([]jsontext.Value, len(g.in.Messages))
	for i, text := range g.in.Messages {
		if whose := jsonscan.Unquote(jsonscan.Member(jsonscan.Member(text, "opaque"), "model")); whose != g.identity() {
			text = jsontext.Value(jsonvalue.Members([]byte(text)).Without("opaque").Text())
		}
		in.Messages[i] = text
	}
	text, err := json.Marshal(in)
	if err != nil || len(text) <= maxDirect {
		return text, err
	}
	if m.Blobs == nil {
		return nil, message.Errorf(413, "The conversation doesn't fit into a line, and this kernel has no place for blobs")
	}
	put := func(v any) (*message.BlobPointer, error) {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		p, err := m.Blobs.Put(ctx, text)
		return &p, err
	}
	if in.MessagesRef, err = put(in.Messages); err != nil {
		return nil, err
	}
	in.Messages = nil
	if text, err = json.Marshal(in); err != nil || len(text) <= maxDirect || len(in.Tools) == 0 {
		return text, err
	}
	if in.ToolsRef, err = put(in.Tools); err != nil {
		return nil, err
	}
	in.Tools = nil
	return json.Marshal(in)
}

// takeServed takes the reply of a program, which counts where it differs from what was streamed.
func takeServed(a *conversation.Answer, data []byte) error {
	var reply struct {
		Finish   conversation.Finish    `json:"finish"`
		Messages []conversation.Message `json:"messages"`
		Text     string                 `json:"text"`
		Usage    conversation.Usage     `json:"usage"`
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return &failure{err: unreadable("the program's reply isn't {finish, messages, usage}: " + err.Error())}
	}
	if reply.Messages == nil && reply.Text != "" {
		reply.Messages = []conversation.Message{{Type: conversation.PartReply, Text: reply.Text}}
	}
	used := 0 // parts that were streamed, and are whole now
	for _, s := range reply.Messages {
		text := s.Text
		switch s.Type {
		case conversation.PartReasoning:
			text = s.Summary
		case conversation.PartReply:
		case conversation.PartCalls:
			for i, c := range s.Calls {
				if err := a.Grow(a.Want(i, c.ID, string(c.Name)), jsonscan.AppendQuoted(nil, string(c.Arguments()))); err != nil {
					return err
				}
			}
			continue
		default:
			return &failure{err: unreadable("the program's reply has a message of the type " + message.Clip(s.Type, 64) + "; a model sends reasoning, reply and tool-calls")}
		}
		if n := slices.IndexFunc(a.Parts[used:], func(p conversation.Part) bool { return p.Kind == s.Type }); n >= 0 {
			used += n + 1
			a.Parts[used-1].Text = []byte(text)
		} else {
			a.Begin(s.Type)
			used = len(a.Parts)
			if err := a.Say(s.Type, jsonscan.AppendQuoted(nil, text)); err != nil {
				return err
			}
		}
		a.Parts[used-1].Title = s.Title
	}
	a.Usage, a.Finish = reply.Usage, reply.Finish
	switch a.Finish {
	case conversation.FinishStop, conversation.FinishCalls, conversation.FinishLength, conversation.FinishRefused:
	default:
		a.Finish = conversation.FinishStop
	}
	return nil
}
