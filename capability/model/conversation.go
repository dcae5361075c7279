package model

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/message"
)

// A spoken is a cognitive message, as far as models are shown it.
type spoken struct {
	Type    string               `json:"type"`
	Text    string               `json:"text"`
	TextRef *message.BlobPointer `json:"textRef"`
	Files   []file               `json:"files"`
	Title   string               `json:"title"`
	Summary string               `json:"summary"`
	Calls   []call               `json:"calls"`
	Results []result             `json:"results"`
	Opaque  *opaque              `json:"opaque"`
}

type file struct {
	Data     string               `json:"data"` // base64
	DataRef  *message.BlobPointer `json:"dataRef"`
	Filename string               `json:"filename"`
	MimeType string               `json:"mimeType"`
}

type call struct {
	ID   string         `json:"id"`
	Name message.Type   `json:"name"`
	Args jsontext.Value `json:"args,omitzero"`
}

type result struct {
	CallID string         `json:"callId"`
	Name   string         `json:"name"`
	Output jsontext.Value `json:"output"`
	Error  jsontext.Value `json:"error"`
}

// opaque is what one model only understands of a message that it has made.
type opaque struct {
	Model     string   `json:"model"`              // whose it is; see provider.identity
	Signature string   `json:"signature,omitzero"` // of a text of reasoning
	Redacted  string   `json:"redacted,omitzero"`  // reasoning that is shown to its model only
	CallIDs   []string `json:"callIds,omitzero"`   // the model's ids of the calls, in their order: a session gives calls other ids than ours
}

// A turn is what one side says before the other does. The sides alternate, the user's is the first
// and the last, and the results of calls stand at the beginning of the turn that follows them: each
// dialect accepts that.
type turn struct {
	user   bool
	blocks []block
}

// A block is a part of a turn: exactly one of its fields is set.
type block struct {
	text      string
	file      *file
	reasoning *spoken
	call      *call
	result    *answered
}

// answered is a call with its result.
type answered struct {
	id      string
	text    string
	isError bool
}

// A conversation is what a model is shown.
type conversation struct {
	system string
	turns  []turn
}

// Texts that stand where a conversation has a gap that providers don't accept.
const (
	textBegin   = "(The conversation begins here.)"
	textGoOn    = "Continue."
	textPending = "(There is no result yet.)"
	textEmpty   = "(There is no output.)"
)

// converse makes a conversation for a model out of messages. The identity is that of the model.
func (m *models) converse(ctx context.Context, system string, all []jsontext.Value, identity string) (*conversation, error) {
	b := builder{identity: identity, calls: make(map[string]bool), results: make(map[string]*result), ids: make(map[string]bool)}
	messages := make([]spoken, len(all))
	for i, text := range all {
		if err := m.readSpoken(ctx, text, &messages[i]); err != nil {
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
	b.system = system
	for i := range messages {
		b.add(&messages[i])
	}
	if len(b.turns) == 0 {
		return nil, message.Invalid("messages", "messages: the conversation has nothing that a model could answer; give a message such as {\"type\":\"input\",\"text\":\"…\"}")
	}
	return b.close(), nil
}

// readSpoken reads one message, with what it points to.
func (m *models) readSpoken(ctx context.Context, text jsontext.Value, s *spoken) error {
	if err := json.Unmarshal(text, s); err != nil {
		return message.Errorf(422, "It isn't a message: %s", message.Clip(err.Error(), 200))
	}
	if s.TextRef != nil {
		data, err := m.resolve(ctx, *s.TextRef)
		if err != nil {
			return err
		}
		s.Text = string(data)
	}
	for i := range s.Files {
		if f := &s.Files[i]; f.DataRef != nil {
			data, err := m.resolve(ctx, *f.DataRef)
			if err != nil {
				return err
			}
			f.Data = base64.StdEncoding.EncodeToString(data)
		}
	}
	return nil
}

func (m *models) resolve(ctx context.Context, p message.BlobPointer) ([]byte, error) {
	if m.Resolve != nil {
		return m.Resolve(ctx, p)
	}
	_, data, err := p.Inline()
	return data, err
}

// A builder puts a conversation together.
type builder struct {
	conversation
	identity string
	calls    map[string]bool    // the ids of all calls
	results  map[string]*result // by the ids of their calls, the last of each
	ids      map[string]bool    // by which the model knows calls
}

// put appends a block to the turn of a side.
func (b *builder) put(user bool, k block) {
	if n := len(b.turns); n == 0 || b.turns[n-1].user != user {
		b.turns = append(b.turns, turn{user: user})
	}
	last := &b.turns[len(b.turns)-1]
	last.blocks = append(last.blocks, k)
}

func (b *builder) say(user bool, text string) {
	if strings.TrimSpace(text) != "" { // providers refuse empty texts
		b.put(user, block{text: text})
	}
}

func (b *builder) add(s *spoken) {
	switch s.Type {
	case "system":
		if len(b.turns) == 0 {
			b.system = strings.Trim(b.system+"\n\n"+s.Text, "\n")
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
			b.put(false, block{reasoning: s})
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
func (b *builder) addCalls(s *spoken) {
	var all []answered
	for i := range s.Calls {
		c := s.Calls[i]
		a := answered{text: textPending}
		if r := b.results[c.ID]; r != nil {
			a.text, a.isError = r.text()
		}
		c.ID = b.callID(s, i)
		a.id = c.ID
		b.put(false, block{call: &c})
		all = append(all, a)
	}
	for i := range all {
		b.put(true, block{result: &all[i]})
	}
}

// callID is the id by which the model knows a call of a message: its own, or else a number. Some
// providers accept ids of nine letters and digits only, and none accepts an id twice.
func (b *builder) callID(s *spoken, call int) string {
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
func (r *result) text() (text string, isError bool) {
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
func (b *builder) addFile(f *file) {
	kind, _, _ := strings.Cut(strings.ToLower(f.MimeType), ";")
	data, err := base64.StdEncoding.DecodeString(f.Data)
	switch {
	case err != nil || len(data) == 0:
		b.say(true, fmt.Sprintf("<file name=%q>\n(The file can't be read.)\n</file>", f.Filename))
	case kind == "image/png", kind == "image/jpeg", kind == "image/gif", kind == "image/webp", kind == "application/pdf":
		shown := *f
		shown.MimeType = kind
		b.put(true, block{file: &shown})
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "":
		b.say(true, fmt.Sprintf("<file name=%q>\n%s\n</file>", f.Filename, strings.ToValidUTF8(string(data), "\uFFFD")))
	default:
		b.say(true, fmt.Sprintf("<file name=%q>\n(%d bytes of %s, which can't be shown.)\n</file>", f.Filename, len(data), kind))
	}
}

// close makes sure of what the dialects ask for: reasoning stands at the beginning of a turn and
// is followed by something, sides alternate, and the user has the first and the last word.
func (b *builder) close() *conversation {
	if strings.TrimSpace(b.system) == "" {
		b.system = ""
	}
	old := b.turns
	b.turns = nil
	for _, t := range old {
		if !t.user {
			t.blocks = orderedReasoning(t.blocks)
		}
		for _, k := range t.blocks {
			b.put(t.user, k)
		}
	}
	if len(b.turns) == 0 || !b.turns[0].user {
		b.turns = append([]turn{{user: true, blocks: []block{{text: textBegin}}}}, b.turns...)
	}
	if !b.turns[len(b.turns)-1].user {
		b.say(true, textGoOn)
	}
	return &b.conversation
}

// orderedReasoning drops reasoning that doesn't stand at the beginning, or that nothing follows.
func orderedReasoning(blocks []block) (kept []block) {
	begun := false
	for _, k := range blocks {
		if k.reasoning == nil {
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
