package conversation

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// The types of parts: those of the messages that they become.
const (
	PartReasoning = "reasoning"
	PartReply     = "reply"
	PartCalls     = "tool-calls"
)

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 64 << 20

// An Answer is what a model says, as it comes. A dialect adds to it, and what it adds is streamed
// to the caller.
type Answer struct {
	Stream func(event []byte) // takes the data of each event until it returns; nil means that nothing is streamed
	Tools  Names
	Parts  []Part
	Calls  []Wanted
	Usage  Usage
	Finish Finish // "" until the model has ended its answer
	Shown  bool   // something was streamed
	Key    []byte // the provider's key, which answers must not repeat

	size  int
	event []byte // the last one that was streamed
}

// A Part is a part of an answer.
type Part struct {
	Kind      string // one of the types of parts
	Title     string // title of reasoning; "" if the model gives none
	Text      []byte
	Signature []byte // the signature of reasoning
	Redacted  []byte // reasoning that is shown to its model only
}

// Wanted is a call that a model wants.
type Wanted struct {
	Key    int    // the provider's number of the call
	Theirs string // the call's id at the provider, or ""
	Name   string // the tool's name at the provider
	Args   []byte

	id    string
	shown bool
}

// Usage is what an answer took.
type Usage struct {
	Input     int     `json:"input" jsonschema_description:"Tokens of the conversation, those from a cache among them."`
	Output    int     `json:"output" jsonschema_description:"Tokens of the answer, those of its reasoning among them."`
	Cached    int     `json:"cached,omitzero" jsonschema_description:"Tokens of the conversation that came from a cache."`
	Reasoning int     `json:"reasoning,omitzero" jsonschema_description:"Tokens of the reasoning, if the provider counts them."`
	Cost      float64 `json:"cost,omitzero" jsonschema_description:"The cost, by the prices in the model's settings."`

	Written int `json:"-"` // tokens of the conversation that were written to a cache
}

// Finish is why an answer ends.
type Finish string

// The reasons for which an answer ends.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "calls"
	FinishLength  Finish = "length"
	FinishRefused Finish = "refused"
)

// Say adds to the text of a part: to the last one, if that is of the kind. The token is a JSON
// string, as the provider has sent it.
func (a *Answer) Say(kind string, token []byte) error {
	if len(token) < 2 || token[0] != '"' || len(token) == 2 {
		return nil
	}
	n := len(a.Parts) - 1
	if n < 0 || a.Parts[n].Kind != kind {
		a.Begin(kind)
		n++
	}
	p := &a.Parts[n]
	before := len(p.Text)
	p.Text = append(p.Text, jsonscan.Content(token)...)
	if err := a.grown(p.Text, before); err != nil {
		return err
	}
	a.show(n, token, nil)
	return nil
}

// grown adds the growth of a text, which had before bytes, to the size of the answer, and checks the limit.
func (a *Answer) grown(text []byte, before int) error {
	if a.size += len(text) - before; a.size > maxAnswer {
		return errLongAnswer
	}
	if len(a.Key) > 0 && bytes.Contains(text[max(before-len(a.Key), 0):], a.Key) {
		return ErrEcho
	}
	return nil
}

// Errors of an answer that grows.
var (
	ErrEcho       = message.Errorf(502, "The provider has sent the key back, and is not to be trusted with it")
	errLongAnswer = message.Errorf(502, "The answer of the model is longer than 64 MB")
)

// Begin begins a part.
func (a *Answer) Begin(kind string) *Part {
	a.Parts = append(a.Parts, Part{Kind: kind})
	return &a.Parts[len(a.Parts)-1]
}

// Last returns the last part, which is of a kind: a new one if it isn't.
func (a *Answer) Last(kind string) *Part {
	if n := len(a.Parts); n > 0 && a.Parts[n-1].Kind == kind {
		return &a.Parts[n-1]
	}
	return a.Begin(kind)
}

// Want begins a call.
func (a *Answer) Want(key int, theirs, name string) *Wanted {
	a.Calls = append(a.Calls, Wanted{Key: key, Theirs: theirs, Name: name, id: "call_" + ulid.Make().String()})
	return &a.Calls[len(a.Calls)-1]
}

// Grow adds to the arguments of a call. The token is a JSON string with a piece of their text.
func (a *Answer) Grow(c *Wanted, token []byte) error {
	before := len(c.Args)
	if len(token) > 2 {
		c.Args = append(c.Args, jsonscan.Content(token)...)
	} else if c.shown {
		return nil
	}
	if err := a.grown(c.Args, before); err != nil {
		return err
	}
	n := len(a.Parts) - 1
	for n >= 0 && a.Parts[n].Kind != PartCalls {
		n--
	}
	if n < 0 {
		a.Begin(PartCalls)
		n = len(a.Parts) - 1
	}
	begun := c
	if c.shown {
		begun = nil
	}
	c.shown = true
	a.show(n, token, begun)
	return nil
}

// show streams a piece of a part. Begun is the call that begins with it, or nil.
func (a *Answer) show(n int, token []byte, begun *Wanted) {
	a.Shown = true
	if a.Stream == nil {
		return
	}
	e := a.event[:0]
	e = strconv.AppendInt(append(e, `{"part":`...), int64(n), 10)
	e = append(append(append(e, `,"type":"`...), a.Parts[n].Kind...), '"')
	if begun != nil {
		e = jsonscan.AppendQuoted(append(e, `,"call":{"id":`...), begun.id)
		e = jsonscan.AppendQuoted(append(e, `,"name":`...), string(a.Tools.Syscall(begun.Name)))
		e = append(e, '}')
	}
	a.event = append(append(append(e, `,"delta":{"text":`...), token...), "}}"...)
	a.Stream(a.event)
}

// Messages returns the messages of the model when the answer is whole, and decides about its finish. The identity is that of
// the model.
func (a *Answer) Messages(identity string) (messages []jsontext.Value, err error) {
	messages = []jsontext.Value{}
	add := func(s *answerMessage) error {
		text, err := json.Marshal(s, json.Deterministic(true))
		messages = append(messages, text)
		return err
	}
	calls := make([]Call, 0, len(a.Calls))
	ids, named := Opaque{Model: identity}, false
	for i := range a.Calls {
		w := &a.Calls[i]
		args := bytes.TrimSpace(w.Args)
		switch {
		case len(args) == 0:
			args = []byte(`{}`)
		case jsonscan.Valid(args):
			args = jsonscan.AppendCompact(nil, args)
		case a.Finish == FinishLength && i == len(a.Calls)-1:
			continue // the last call is cut off
		default:
			args = jsonscan.AppendQuoted(nil, string(args)) // the syscall will report what is wrong
		}
		calls = append(calls, Call{ID: w.id, Name: a.Tools.Syscall(w.Name), Args: jsontext.Value(args)})
		theirs := w.Theirs
		if a.repeated(theirs) {
			theirs = ""
		}
		ids.CallIDs, named = append(ids.CallIDs, theirs), named || theirs != ""
	}
	var last *answerMessage
	for i := range a.Parts {
		s := answerMessage{Part: i, Type: a.Parts[i].Kind}
		text := string(a.Parts[i].Text)
		switch s.Type {
		case PartReasoning:
			title := cmp.Or(a.Parts[i].Title, titleOf(text))
			s.Title, s.Summary = &title, &text
			s.Opaque = &Opaque{Model: identity, Signature: string(a.Parts[i].Signature), Redacted: string(a.Parts[i].Redacted)}
		case PartCalls:
			if s.Calls = calls; named {
				s.Opaque = &ids
			}
			last = &s
			continue
		default:
			s.Text = &text
		}
		if err := add(&s); err != nil {
			return nil, err
		}
	}
	if last != nil && len(calls) > 0 { // calls are answered by results, and nothing comes between
		if err := add(last); err != nil {
			return nil, err
		}
		if a.Finish == FinishStop {
			a.Finish = FinishCalls
		}
	} else if a.Finish == FinishCalls {
		a.Finish = FinishStop
	}
	return messages, nil
}

func (a *Answer) repeated(theirs string) bool {
	n := 0
	for i := range a.Calls {
		if a.Calls[i].Theirs == theirs {
			n++
		}
	}
	return n > 1
}

// answerMessage is a message that a model has made.
type answerMessage struct {
	Part    int     `json:"part"`
	Type    string  `json:"type"`
	Text    *string `json:"text,omitzero"`
	Title   *string `json:"title,omitzero"`
	Summary *string `json:"summary,omitzero"`
	Calls   []Call  `json:"calls,omitzero"`
	Opaque  *Opaque `json:"opaque,omitzero"`
}

// titleOf returns the title of a text of reasoning: some models begin with one in bold letters.
func titleOf(text string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\n "), "\n")
	if title, ok := strings.CutPrefix(strings.TrimSpace(first), "**"); ok {
		if title, ok := strings.CutSuffix(title, "**"); ok && title != "" && !strings.Contains(title, "**") {
			return title
		}
	}
	return "Reasoning"
}
