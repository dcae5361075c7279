package model

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// The types of parts.
const (
	partReasoning = "reasoning"
	partReply     = "reply"
	partCalls     = "tool-calls"
)

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 64 << 20

// An answer is what a model says, as it comes. A dialect adds to it, and what it adds is streamed
// to the caller.
type answer struct {
	stream *kernel.Stream // nil means that nothing is streamed
	tools  names
	parts  []part
	calls  []wanted
	usage  usage
	finish finish // "" until the model has ended its answer
	shown  bool   // something was streamed
	size   int
	key    []byte // the provider's key, which answers must not repeat
	event  []byte // the last one that was streamed
}

type part struct {
	kind      string
	text      []byte
	signature []byte // the signature of reasoning
	redacted  []byte // reasoning that is shown to its model only
}

// wanted is a call that a model wants.
type wanted struct {
	key    int    // the provider's number of the call
	theirs string // its id at the provider, or ""
	id     string
	name   string // as the provider knows it
	args   []byte
	shown  bool
}

// say adds to the text of a part: to the last one, if that is of the kind. The token is a JSON
// string, as the provider has sent it.
func (a *answer) say(kind string, token []byte) error {
	if len(token) < 2 || token[0] != '"' || len(token) == 2 {
		return nil
	}
	n := len(a.parts) - 1
	if n < 0 || a.parts[n].kind != kind {
		a.begin(kind)
		n++
	}
	p := &a.parts[n]
	before := len(p.text)
	p.text = append(p.text, jsonscan.Content(token)...)
	if err := a.grown(p.text, before); err != nil {
		return err
	}
	a.show(n, token, nil)
	return nil
}

// grown checks a text that had so many bytes before.
func (a *answer) grown(text []byte, before int) error {
	if a.size += len(text) - before; a.size > maxAnswer {
		return errLongAnswer
	}
	if len(a.key) > 0 && bytes.Contains(text[max(before-len(a.key), 0):], a.key) {
		return errEcho
	}
	return nil
}

var errLongAnswer = message.Errorf(502, "The answer of the model is longer than 64 MB")

// begin begins a part.
func (a *answer) begin(kind string) *part {
	a.parts = append(a.parts, part{kind: kind})
	return &a.parts[len(a.parts)-1]
}

// last returns the last part, which is of a kind: a new one if it isn't.
func (a *answer) last(kind string) *part {
	if n := len(a.parts); n > 0 && a.parts[n-1].kind == kind {
		return &a.parts[n-1]
	}
	return a.begin(kind)
}

// want begins a call.
func (a *answer) want(key int, theirs, name string) *wanted {
	a.calls = append(a.calls, wanted{key: key, theirs: theirs, name: name, id: "call_" + ulid.Make().String()})
	return &a.calls[len(a.calls)-1]
}

// grow adds to the arguments of a call. The token is a JSON string with a piece of their text.
func (a *answer) grow(c *wanted, token []byte) error {
	before := len(c.args)
	if len(token) > 2 {
		c.args = append(c.args, jsonscan.Content(token)...)
	} else if c.shown {
		return nil
	}
	if err := a.grown(c.args, before); err != nil {
		return err
	}
	n := len(a.parts) - 1
	for n >= 0 && a.parts[n].kind != partCalls {
		n--
	}
	if n < 0 {
		a.begin(partCalls)
		n = len(a.parts) - 1
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
func (a *answer) show(n int, token []byte, begun *wanted) {
	a.shown = true
	if a.stream == nil {
		return
	}
	e := a.event[:0]
	e = strconv.AppendInt(append(e, `{"part":`...), int64(n), 10)
	e = append(append(append(e, `,"type":"`...), a.parts[n].kind...), '"')
	if begun != nil {
		e = jsonscan.AppendQuoted(append(e, `,"call":{"id":`...), begun.id)
		e = jsonscan.AppendQuoted(append(e, `,"name":`...), string(a.tools.syscall(begun.name)))
		e = append(e, '}')
	}
	a.event = append(append(append(e, `,"delta":{"text":`...), token...), "}}"...)
	a.stream.EmitText(Streamed, a.event)
}

// reply returns the answer when it is whole.
func (a *answer) reply(p *provider, out *generateOutput) error {
	calls := make([]call, 0, len(a.calls))
	ids, named := opaque{Model: p.identity()}, false
	for i := range a.calls {
		w := &a.calls[i]
		args := bytes.TrimSpace(w.args)
		switch {
		case len(args) == 0:
			args = []byte(`{}`)
		case jsonscan.Valid(args):
			args = jsonscan.AppendCompact(nil, args)
		case a.finish == finishLength && i == len(a.calls)-1:
			continue // it is cut off
		default:
			args = jsonscan.AppendQuoted(nil, string(args)) // the syscall will say what is wrong
		}
		calls = append(calls, call{ID: w.id, Name: a.tools.syscall(w.name), Args: jsontext.Value(args)})
		theirs := w.theirs
		if a.repeated(theirs) {
			theirs = ""
		}
		ids.CallIDs, named = append(ids.CallIDs, theirs), named || theirs != ""
	}
	var last *said
	for i := range a.parts {
		s := said{Part: i, Type: a.parts[i].kind}
		text := string(a.parts[i].text)
		switch s.Type {
		case partReasoning:
			title := titleOf(text)
			s.Title, s.Summary = &title, &text
			s.Opaque = &opaque{Model: p.identity(), Signature: string(a.parts[i].signature), Redacted: string(a.parts[i].redacted)}
		case partCalls:
			if s.Calls = calls; named {
				s.Opaque = &ids
			}
			last = &s
			continue
		default:
			s.Text = &text
		}
		if err := out.add(&s); err != nil {
			return err
		}
	}
	if last != nil && len(calls) > 0 { // calls are answered by results, and nothing comes between
		if err := out.add(last); err != nil {
			return err
		}
		if a.finish == finishStop {
			a.finish = finishCalls
		}
	} else if a.finish == finishCalls {
		a.finish = finishStop
	}
	out.Finish, out.Usage = a.finish, p.priced(a.usage)
	return nil
}

func (a *answer) repeated(theirs string) bool {
	n := 0
	for i := range a.calls {
		if a.calls[i].theirs == theirs {
			n++
		}
	}
	return n > 1
}

// said is a message that a model has made.
type said struct {
	Part    int     `json:"part"`
	Type    string  `json:"type"`
	Text    *string `json:"text,omitzero"`
	Title   *string `json:"title,omitzero"`
	Summary *string `json:"summary,omitzero"`
	Calls   []call  `json:"calls,omitzero"`
	Opaque  *opaque `json:"opaque,omitzero"`
}

func (o *generateOutput) add(s *said) error {
	text, err := json.Marshal(s, json.Deterministic(true))
	o.Messages = append(o.Messages, text)
	return err
}

// titleOf is the title of a text of reasoning: some models begin with one in bold letters.
func titleOf(text string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\n "), "\n")
	if title, ok := strings.CutPrefix(strings.TrimSpace(first), "**"); ok {
		if title, ok := strings.CutSuffix(title, "**"); ok && title != "" && !strings.Contains(title, "**") {
			return title
		}
	}
	return "Reasoning"
}

// names are the tools of a request by the names that providers know them by.
type names map[string]message.Type

// syscall returns the syscall that a provider calls by a name.
func (n names) syscall(name string) message.Type {
	if t, ok := n[name]; ok {
		return t
	}
	return message.Type(strings.Replace(name, "_", ".", 1)) // it will be told that there is none
}

// maxName is how long the name of a tool may be at all providers.
const maxName = 64

// toolName is the name that providers know a syscall by.
func toolName(t message.Type) string { return kernel.ToolName(t, maxName) }
