// Package conversation is what a model is shown and what it says, in a form that all dialects translate: a
// [Conversation] is made of the messages of a session, and an [Answer] grows as the model speaks.
package conversation

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// A Message is a cognitive message, as far as models are shown it.
type Message struct {
	Type    string               `json:"type"`
	Text    string               `json:"text"`
	TextRef *message.BlobPointer `json:"textRef"`
	Files   []File               `json:"files"`
	Title   string               `json:"title"`
	Summary string               `json:"summary"`
	Calls   []Call               `json:"calls"`
	Results []Result             `json:"results"`
	Opaque  *Opaque              `json:"opaque"`
}

// A File is a file of an input.
type File struct {
	Data     string               `json:"data"` // base64
	DataRef  *message.BlobPointer `json:"dataRef"`
	Filename string               `json:"filename"`
	MimeType string               `json:"mimeType"`
}

// A Call is a call that a model has made.
type Call struct {
	ID   string         `json:"id"`
	Name message.Type   `json:"name"`
	Args jsontext.Value `json:"args,omitzero"`
}

// A Result is the outcome of a call, by the id of the call.
type Result struct {
	CallID string         `json:"callId"`
	Name   string         `json:"name"`
	Output jsontext.Value `json:"output"`
	Error  jsontext.Value `json:"error"`
}

// Opaque is what one model only understands of a message that it has made.
type Opaque struct {
	Model     string   `json:"model"`              // the identity of the model
	Signature string   `json:"signature,omitzero"` // signature of a text of reasoning
	Redacted  string   `json:"redacted,omitzero"`  // reasoning that is shown to its model only
	CallIDs   []string `json:"callIds,omitzero"`   // the model's ids of the calls, in their order: a session gives calls other ids than ours
}

// A Turn is what one side says before the other does. The sides alternate, the user's is the first
// and the last, and the results of calls stand at the beginning of the turn that follows them: each
// dialect accepts that.
type Turn struct {
	User   bool
	Blocks []Block
}

// A Block is a part of a turn: exactly one of its fields is set.
type Block struct {
	Text      string
	File      *File
	Reasoning *Message
	Call      *Call
	Result    *Answered
}

// Answered is the result of a call, as a model is shown it.
type Answered struct {
	ID      string // id of the call
	Text    string
	IsError bool
}

// A Conversation is what a model is shown.
type Conversation struct {
	System string
	Turns  []Turn
}

// A Resolver returns what a pointer in a message points to.
type Resolver func(context.Context, message.BlobPointer) ([]byte, error)

// Texts that stand where a conversation has a gap that providers don't accept.
const (
	textBegin   = "(The conversation begins here.)"
	textGoOn    = "Continue."
	textPending = "(There is no result yet.)"
	textEmpty   = "(There is no output.)"
)

// Of makes a conversation for a model out of messages. The identity is that of the model.
func Of(ctx context.Context, system string, all []jsontext.Value, identity string, resolve Resolver) (*Conversation, error) {
	b := builder{identity: identity, calls: make(map[string]bool), results: make(map[string]*Result), ids: make(map[string]bool)}
	messages := make([]Message, len(all))
	for i, text := range all {
		if err := messages[i].read(ctx, text, resolve); err != nil {
			e, _ := message.ErrorOf(err)
			return nil, &message.Error{Code: e.Code, Message: fmt.Sprintf("The message %d of the conversation can't be read", i), Field: fmt.Sprintf("messages[%d]", i), Cause: e}
		}
		for j := range messages[i].Calls {
			b.calls[messages[i].Calls[j].ID] = true
		}
		for j := range messages[i].Results {
			r := &messages[i].Results[j]
			b.results[r.CallID] = r
		}
	}
	b.System = system
	for i := range messages {
		b.add(&messages[i])
	}
	if len(b.Turns) == 0 {
		return nil, message.Invalid("messages", "messages: the conversation has nothing that a model could answer; give a message such as {\"type\":\"input\",\"text\":\"…\"}")
	}
	return b.close(), nil
}

// read reads a message, with what it points to.
func (s *Message) read(ctx context.Context, text jsontext.Value, resolve Resolver) error {
	if err := json.Unmarshal(text, s); err != nil {
		return message.Errorf(422, "It isn't a message: %s", message.Clip(err.Error(), 200))
	}
	if s.TextRef != nil {
		data, err := resolve(ctx, *s.TextRef)
		if err != nil {
			return err
		}
		s.Text = string(data)
	}
	for i := range s.Files {
		if f := &s.Files[i]; f.DataRef != nil {
			data, err := resolve(ctx, *f.DataRef)
			if err != nil {
				return err
			}
			f.Data = base64.StdEncoding.EncodeToString(data)
		}
	}
	return nil
}

// A builder puts a conversation together.
type builder struct {
	Conversation
	identity string
	calls    map[string]bool    // the ids of all calls
	results  map[string]*Result // last result of each call, by the call's id
	ids      map[string]bool    // ids by which the model knows calls
}

// put appends a block to the turn of a side.
func (b *builder) put(user bool, k Block) {
	if n := len(b.Turns); n == 0 || b.Turns[n-1].User != user {
		b.Turns = append(b.Turns, Turn{User: user})
	}
	last := &b.Turns[len(b.Turns)-1]
	last.Blocks = append(last.Blocks, k)
}

func (b *builder) say(user bool, text string) {
	if strings.TrimSpace(text) != "" { // providers refuse empty texts
		b.put(user, Block{Text: text})
	}
}

func (b *builder) add(s *Message) {
	switch s.Type {
	case "system":
		if len(b.Turns) == 0 {
			b.System = strings.Trim(b.System+"\n\n"+s.Text, "\n")
			return
		}
		if strings.TrimSpace(s.Text) != "" { // later, only users may speak
			b.say(true, "<system>\n"+s.Text+"\n</system>")
		}
	case "input":
		b.say(true, s.Text)
		for i := range s.Files {
			b.addFile(&s.Files[i])
		}
	case "summary":
		if strings.TrimSpace(s.Text) != "" {
			b.say(true, "<summary>\n"+s.Text+"\n</summary>")
		}
	case "reply":
		b.say(false, s.Text)
	case "reasoning":
		if s.Opaque != nil && s.Opaque.Model == b.identity {
			b.put(false, Block{Reasoning: s})
		}
	case "tool-calls":
		b.addCalls(s)
	case "tool-results":
		for i := range s.Results {
			if r := &s.Results[i]; !b.calls[r.CallID] {
				text, _ := r.text()
				b.say(true, "<result name=\""+r.Name+"\">\n"+text+"\n</result>")
			}
		}
	}
}

// addCalls puts calls into the assistant's turn and their results into the user's next one,
// wherever they stand in the session: a call without a result isn't accepted.
func (b *builder) addCalls(s *Message) {
	var all []Answered
	for i := range s.Calls {
		c := s.Calls[i]
		a := Answered{Text: textPending}
		if r := b.results[c.ID]; r != nil {
			a.Text, a.IsError = r.text()
		}
		c.ID = b.callID(s, i)
		a.ID = c.ID
		b.put(false, Block{Call: &c})
		all = append(all, a)
	}
	for i := range all {
		b.put(true, Block{Result: &all[i]})
	}
}

// callID returns the id by which the model knows a call of a message: its own, or else a number. Some
// providers accept ids of nine letters and digits only, and none accepts an id twice; some give no ids,
// or the same ones in each answer. Numbers make the same conversation the same request, which a
// cassette finds.
func (b *builder) callID(s *Message, call int) string {
	own := ""
	if s.Opaque != nil && s.Opaque.Model == b.identity && call < len(s.Opaque.CallIDs) {
		own = s.Opaque.CallIDs[call]
	}
	for n := len(b.ids); own == "" || b.ids[own]; n++ {
		own = fmt.Sprintf("call%05d", n)
	}
	b.ids[own] = true
	return own
}

// text returns what a model is shown of a result.
func (r *Result) text() (text string, isError bool) {
	value := r.Output
	if len(r.Error) > 0 && string(r.Error) != "null" {
		value, isError = r.Error, true
	}
	text = string(value)
	if value.Kind() == '"' {
		_ = json.Unmarshal(value, &text)
	}
	if strings.TrimSpace(text) == "" || text == "null" {
		text = textEmpty
	}
	return text, isError
}

// addFile puts a file into the user's turn: images and documents as such, text as text.
func (b *builder) addFile(f *File) {
	kind, _, _ := strings.Cut(strings.ToLower(f.MimeType), ";")
	data, err := base64.StdEncoding.DecodeString(f.Data)
	switch {
	case err != nil || len(data) == 0:
		b.say(true, fmt.Sprintf("<file name=%q>\n(The file can't be read.)\n</file>", f.Filename))
	case kind == "image/png", kind == "image/jpeg", kind == "image/gif", kind == "image/webp", kind == "application/pdf":
		shown := *f
		shown.MimeType = kind
		b.put(true, Block{File: &shown})
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "":
		b.say(true, fmt.Sprintf("<file name=%q>\n%s\n</file>", f.Filename, strings.ToValidUTF8(string(data), "\uFFFD")))
	default:
		b.say(true, fmt.Sprintf("<file name=%q>\n(%d bytes of %s, which can't be shown.)\n</file>", f.Filename, len(data), kind))
	}
}

// close makes sure of what the dialects ask for: reasoning stands at the beginning of a turn and
// is followed by something, sides alternate, and the user has the first and the last word.
func (b *builder) close() *Conversation {
	if strings.TrimSpace(b.System) == "" {
		b.System = ""
	}
	old := b.Turns
	b.Turns = nil
	for _, t := range old {
		if !t.User {
			t.Blocks = orderedReasoning(t.Blocks)
		}
		for _, k := range t.Blocks {
			b.put(t.User, k)
		}
	}
	if len(b.Turns) == 0 || !b.Turns[0].User {
		b.Turns = append([]Turn{{User: true, Blocks: []Block{{Text: textBegin}}}}, b.Turns...)
	}
	if !b.Turns[len(b.Turns)-1].User {
		b.say(true, textGoOn)
	}
	return &b.Conversation
}

// orderedReasoning drops reasoning that doesn't stand at the beginning, or that nothing follows.
func orderedReasoning(blocks []Block) (kept []Block) {
	begun := false
	for _, k := range blocks {
		if k.Reasoning == nil {
			begun = true
		} else if begun {
			continue
		}
		kept = append(kept, k)
	}
	if !begun {
		return nil
	}
	return kept
}

// Name returns the name of the file, which every file has at providers.
func (f *File) Name() string { return cmp.Or(f.Filename, "file") }

// Arguments returns the arguments of the call as an object, which all providers want.
func (c *Call) Arguments() []byte {
	switch {
	case len(c.Args) == 0 || string(c.Args) == "null":
		return []byte(`{}`)
	case c.Args.Kind() != '{':
		return append(append([]byte(`{"value":`), c.Args...), '}')
	}
	return jsonscan.AppendCompact(nil, c.Args)
}
