// Package demo is the language model that is inside of Kernos: its prompt, the tools that it was trained with, and what it
// is shown of their results. package llama runs it. The model was trained with a few forms of signatures, results and
// errors, and doesn't understand others. Its context has 512 tokens, so it is shown the tools that it knows, and those that
// the last input names.
//
// # Goroutines
//
//   - The timer that lets go of a model which isn't used, for a moment, one.
package demo

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/llama"
	"kernos/internal/llama/kernosdemo"
	"kernos/kernel"
	"kernos/message"
)

// Name is the name of the model inside, and of its dialect. The model needs no settings.
const Name = "demo"

// About describes the model in lists of models.
const About = "A demonstration model of 5 million parameters, inside of Kernos: it remembers, looks up, fetches, schedules and calls tools by name, and knows nothing else. Connect a real one: kernos model detect, kernos model add."

// lost is what the model says in place of a call that it hasn't completed.
const lost = "I am only a demonstration model, and have lost my way. Say it in fewer words, or connect a real model: kernos model detect, then kernos model add NAME."

// A Model is the model inside, which runs in this process. It is loaded when it is asked, kept until it hasn't been
// asked for a while, and reads one conversation at a time.
type Model struct {
	file  []byte        // GGUF
	turn  chan struct{} // holds a value while the model isn't used
	idle  *time.Timer   // lets go of the model
	model *llama.Model  // nil until it is loaded
	state *llama.State

	start, end, call, callEnd, think, thinkEnd llama.Token
}

// keptFor is how long the model is kept without being asked. Loading it takes a tenth of a second.
const keptFor = 5 * time.Minute

// What the parts of a prompt may take of the context. What is left is for the conversation.
const (
	systemTokens = 64  // a system message that is longer isn't shown: the model doesn't follow it anyway
	toolTokens   = 200 // tokens of the tools that the last input is about
	textTokens   = 200 // tokens of one text; less if the last exchange doesn't fit
	resultTokens = 128 // tokens of one result
	answerTokens = 160
)

// New returns the model. It loads nothing.
func New() *Model {
	d := &Model{file: kernosdemo.File(), turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	d.idle = time.AfterFunc(keptFor, d.release)
	d.idle.Stop()
	return d
}

// take waits until no other conversation is read, and loads the model. The caller calls done.
func (d *Model) take(ctx context.Context) (done func(), err error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.idle.Stop()
	if d.model == nil {
		err = d.load()
	}
	return func() {
		d.idle.Reset(keptFor)
		d.turn <- struct{}{}
	}, err
}

// release lets go of the model, unless it is used.
func (d *Model) release() {
	select {
	case <-d.turn:
		d.model, d.state = nil, nil
		d.turn <- struct{}{}
	default:
	}
}

func (d *Model) load() (err error) {
	if d.model, err = llama.Open(d.file); err != nil {
		return err
	}
	d.state = d.model.NewState()
	d.start, _ = d.model.Control("<|im_start|>")
	d.end, _ = d.model.Control("<|im_end|>")
	for name, to := range map[string]*llama.Token{"<tool_call>": &d.call, "</tool_call>": &d.callEnd, "<think>": &d.think, "</think>": &d.thinkEnd} {
		*to = d.model.Tokens(name)[0]
	}
	return nil
}

// A Request is what the model is asked.
type Request struct {
	Conversation *conversation.Conversation
	Tools        []conversation.Tool
	MaxTokens    int // tokens of the answer; 0 means as many as fit
}

// Generate adds the answer of the model to a.
func (d *Model) Generate(ctx context.Context, q *Request, a *conversation.Answer) error {
	if done, err := searchMissed(q.Conversation, a); done || err != nil {
		return err
	}
	done, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	prompt := d.prompt(q)
	a.Usage.Input = len(prompt)
	most := d.model.Length() - len(prompt)
	if q.MaxTokens > 0 {
		most = min(most, q.MaxTokens)
	}
	w := writer{Model: d, answer: a}
	for range most {
		logits, err := d.state.Logits(ctx, prompt)
		if err != nil {
			return err
		}
		t := likeliest(logits)
		a.Usage.Output++
		if t == d.end {
			a.Finish = conversation.FinishStop
			return w.close()
		}
		if err := w.write(t); err != nil {
			return err
		}
		prompt = append(prompt, t)
		if said := len(prompt) - a.Usage.Output; repeats(prompt[said:], prompt[:said]) {
			break
		}
	}
	a.Finish = conversation.FinishLength
	return w.close()
}

// repeats reports whether an answer ends with the same four or more tokens for the third time, and more often than the
// prompt has them: a model this small may not find its way out of that.
func repeats(answer, prompt []llama.Token) bool {
	for n := 4; 3*n <= len(answer); n++ {
		from := len(answer) - n
		for from > 0 && answer[from-1] == answer[from-1+n] {
			from--
		}
		if run := answer[from:]; len(run) >= 3*n && !hasRun(prompt, run) {
			return true
		}
	}
	return false
}

func hasRun(tokens, run []llama.Token) bool {
	for ; len(tokens) >= len(run); tokens = tokens[1:] {
		if slices.Equal(tokens[:len(run)], run) {
			return true
		}
	}
	return false
}

func likeliest(logits []float32) llama.Token {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return llama.Token(best)
}

// writer turns the tokens of the model into parts of an answer.
type writer struct {
	*Model
	answer *conversation.Answer
	kind   llama.Token // the part that the tokens are in: call, think, or 0 for the reply
	text   []byte      // text not passed on yet: a part of a character, or the call so far
}

func (w *writer) write(t llama.Token) error {
	switch t {
	case w.call, w.think:
		err := w.close()
		w.kind = t
		return err
	case w.callEnd, w.thinkEnd:
		err := w.close()
		w.kind = 0
		return err
	}
	w.text = append(w.text, w.model.Text(t)...)
	if w.kind == w.call || !utf8.Valid(w.text) {
		return nil
	}
	return w.say()
}

// say adds the text so far to the answer. White space between calls isn't a reply.
func (w *writer) say() error {
	kind := conversation.PartReply
	if w.kind == w.think {
		kind = conversation.PartReasoning
	}
	begun := len(w.answer.Parts) > 0 && w.answer.Parts[len(w.answer.Parts)-1].Kind == kind
	if !begun {
		w.text = bytes.TrimLeft(w.text, "\n ")
	}
	if len(w.text) == 0 {
		return nil
	}
	err := w.answer.Say(kind, jsonscan.AppendQuoted(nil, strings.ToValidUTF8(string(w.text), "\uFFFD")))
	w.text = w.text[:0]
	return err
}

// close ends a part: of a call, the name and the arguments are known now.
func (w *writer) close() error {
	if w.kind != w.call {
		return w.say()
	}
	var c struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	text := string(bytes.TrimSpace(w.text))
	w.text = w.text[:0]
	if err := json.Unmarshal([]byte(text), &c); err != nil || c.Name == "" {
		return w.answer.Say(conversation.PartReply, jsonscan.AppendQuoted(nil, lost))
	}
	c.Name, c.Arguments = w.wrap(c.Name, notifying(c.Name, c.Arguments))
	begun := w.answer.Want(len(w.answer.Calls), "", c.Name)
	return w.answer.Grow(begun, jsonscan.AppendQuoted(nil, string(c.Arguments)))
}

// notifying makes a reminder a notification. The model was trained with reminders that are an Echo, which isn't shown to a
// person.
func notifying(name string, args jsontext.Value) jsontext.Value {
	job := jsonvalue.Members([]byte(args))
	text := jsonscan.Member(job.Get("payload"), "message")
	if name != conversation.ToolName("Job.Start") || string(job.Get("name")) != `"Echo"` || text == nil {
		return args
	}
	payload := jsonvalue.Object{}.Set("text", text).Text()
	return jsontext.Value(job.Set("name", []byte(`"Notify.Send"`)).Set("payload", payload).Text())
}

// wrap turns a call of a tool that isn't offered into one of Syscall.Call, if that is: the model knows no way to
// look for a tool, and calls it by the name that the user gave.
func (w *writer) wrap(name string, args jsontext.Value) (string, jsontext.Value) {
	through := conversation.ToolName(kernel.ThroughType)
	if w.answer.Tools[name] != "" || w.answer.Tools[through] == "" {
		return name, args
	}
	return through, jsonvalue.Marshal(struct {
		Type message.Type   `json:"type"`
		Data jsontext.Value `json:"data"`
	}{w.answer.Tools.Syscall(name), args})
}

// unwrap is the reverse of wrap: the model is shown what it has written.
func unwrap(name message.Type, args jsontext.Value) (message.Type, jsontext.Value) {
	inner := jsonscan.Member(args, "type")
	if name != kernel.ThroughType || inner == nil {
		return name, args
	}
	return message.Type(jsonscan.Unquote(inner)), jsonscan.Member(args, "data")
}

// prompt returns the conversation in the form that the model was trained with. What doesn't fit is dropped, from
// the oldest whole exchange on. If the last one alone is too long, its texts are cut.
func (d *Model) prompt(q *Request) []llama.Token {
	var head []llama.Token
	if system := d.model.Tokens(q.Conversation.System); len(system) > 0 && len(system) <= systemTokens {
		head = d.message(head, "system", q.Conversation.System)
	}
	if tools := d.tools(q.Tools, lastInput(q.Conversation)); tools != "" {
		head = d.message(head, "system", tools)
	}
	tail := append([]llama.Token{d.start}, d.model.Tokens("assistant\n")...)
	room := d.model.Length() - answerTokens - len(head) - len(tail)
	exchanges := d.exchanges(q.Conversation, textTokens)
	for most := textTokens; len(exchanges) > 0 && len(exchanges[len(exchanges)-1]) > room && most > 1; {
		most /= 2
		exchanges = d.exchanges(q.Conversation, most)
	}
	from := len(exchanges)
	for from > 0 && len(exchanges[from-1]) <= room {
		from--
		room -= len(exchanges[from])
	}
	return slices.Concat(head, slices.Concat(exchanges[from:]...), tail)
}

// message appends a message of a role.
func (d *Model) message(to []llama.Token, role, text string) []llama.Token {
	to = append(append(to, d.start), d.model.Tokens(role+"\n"+text)...)
	return append(append(to, d.end), d.model.Tokens("\n")...)
}

// exchanges returns the tokens of the conversation, apart where the user speaks. most limits the tokens of each text.
func (d *Model) exchanges(c *conversation.Conversation, most int) (all [][]llama.Token) {
	add := func(role, text string, begins bool) {
		text = d.short(text, most)
		if begins || len(all) == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = d.message(all[len(all)-1], role, text)
	}
	called := make(map[string]message.Type)
	for _, t := range withoutMissed(c.Turns) {
		var said []string
		for _, k := range t.Blocks {
			switch {
			case k.Result != nil:
				add("tool", d.result(called[k.Result.ID], k.Result), false)
			case k.Call != nil:
				name, args := unwrap(k.Call.Name, k.Call.Args)
				called[k.Call.ID] = name
				said = append(said, "<tool_call>\n{\"name\": \""+conversation.ToolName(name)+"\", \"arguments\": "+spaced(args)+"}\n</tool_call>")
			case t.User && k.Text != "":
				add("user", inDigits(k.Text), true)
			case k.Text != "":
				said = append(said, k.Text)
			}
		}
		if len(said) > 0 {
			add("assistant", strings.Join(said, "\n"), false)
		}
	}
	return all
}

// spokenTime matches how long something takes if the number is a word. The model was trained with digits.
var spokenTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|half an|half a) (second|sec|minute|min|hour)`)
})

var numerals = map[string]string{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40"}

// inDigits writes the times in a text with digits.
func inDigits(text string) string {
	return spokenTime().ReplaceAllStringFunc(text, func(found string) string {
		at := strings.LastIndexByte(found, ' ')
		number, unit := strings.ToLower(found[:at]), found[at+1:]
		switch {
		case numerals[number] != "":
			return numerals[number] + " " + unit
		case strings.EqualFold(unit, "hour"):
			return "30 minutes"
		case strings.EqualFold(unit, "minute"):
			return "30 seconds"
		}
		return found
	})
}

func lastInput(c *conversation.Conversation) string {
	for _, t := range slices.Backward(c.Turns) {
		for _, k := range slices.Backward(t.Blocks) {
			if t.User && k.Text != "" {
				return k.Text
			}
		}
	}
	return ""
}
