package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/llama"
	"kernos/internal/llama/kernosdemo"
	"kernos/kernel"
	"kernos/message"
)

// demoName is the name of the model that is inside Kernos, and of its dialect. It needs no settings.
const demoName = "demo"

// demoAbout is what every list of models has about it.
const demoAbout = "A demonstration model of 5 million parameters, inside of Kernos: it remembers, looks up, fetches, schedules and calls tools by name, and knows nothing else. Connect a real one: kernos model detect, kernos model add."

// demo is the dialect demo: the model inside, which runs in this process. It is loaded when it is asked, kept
// until it hasn't been asked for a while, and reads one conversation at a time.
type demo struct {
	turn  chan struct{} // holds a value while the model isn't used
	idle  *time.Timer   // lets go of the model
	model *llama.Model  // nil until it is loaded
	state *llama.State

	start, end, call, callEnd, think, thinkEnd llama.Token
}

// demoIdle is how long the model is kept without being asked. It is loaded in a tenth of a second.
const demoIdle = 5 * time.Minute

// What a prompt may take of the context, in tokens. The rest is for the conversation.
const (
	demoSystem = 64  // a system message that is longer isn't shown: the model doesn't follow it anyway
	demoTools  = 200 // those that the last input is about
	demoText   = 200 // of one text; less if the last exchange doesn't fit
	demoResult = 128 // of one result
	demoAnswer = 160
)

// demoFound is how many elements the model is shown of a list of messages or keys. It was trained with five at most.
const demoFound = 5

func newDemo() *demo {
	d := &demo{turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	d.idle = time.AfterFunc(demoIdle, d.release)
	d.idle.Stop()
	return d
}

// take waits until no other conversation is read, and loads the model. The caller calls done.
func (d *demo) take(ctx context.Context) (done func(), err error) {
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
		d.idle.Reset(demoIdle)
		d.turn <- struct{}{}
	}, err
}

// release lets go of the model, unless it is used.
func (d *demo) release() {
	select {
	case <-d.turn:
		d.model, d.state = nil, nil
		d.turn <- struct{}{}
	default:
	}
}

func (d *demo) load() (err error) {
	if d.model, err = llama.Open(kernosdemo.File()); err != nil {
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

// inside is the dialect: the model inside answers.
func inside(ctx context.Context, m *models, g *generation, a *answer) error {
	d := m.demo
	done, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	prompt := d.prompt(g)
	a.usage.Input = len(prompt)
	most := d.model.Length() - len(prompt)
	if g.maxTokens > 0 {
		most = min(most, g.maxTokens)
	}
	w := demoWriter{demo: d, answer: a}
	for range most {
		logits, err := d.state.Logits(ctx, prompt)
		if err != nil {
			return err
		}
		t := likeliest(logits)
		a.usage.Output++
		if t == d.end {
			a.finish = finishStop
			return w.close()
		}
		if err := w.write(t); err != nil {
			return err
		}
		prompt = append(prompt, t)
	}
	a.finish = finishLength
	return w.close()
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

// demoWriter turns the tokens of the model into parts of an answer.
type demoWriter struct {
	*demo
	answer *answer
	kind   llama.Token // what the tokens are in: call, think, or 0 for the reply
	text   []byte      // not yet said: a part of a character, or the call so far
}

func (w *demoWriter) write(t llama.Token) error {
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

// say says the text so far. White space between calls isn't a reply.
func (w *demoWriter) say() error {
	kind := partReply
	if w.kind == w.think {
		kind = partReasoning
	}
	begun := len(w.answer.parts) > 0 && w.answer.parts[len(w.answer.parts)-1].kind == kind
	if !begun {
		w.text = bytes.TrimLeft(w.text, "\n ")
	}
	if len(w.text) == 0 {
		return nil
	}
	err := w.answer.say(kind, jsonscan.AppendQuoted(nil, strings.ToValidUTF8(string(w.text), "\uFFFD")))
	w.text = w.text[:0]
	return err
}

// close ends a part: of a call, the name and the arguments are known now.
func (w *demoWriter) close() error {
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
		if text == "" {
			return nil
		}
		return w.answer.say(partReply, jsonscan.AppendQuoted(nil, text))
	}
	c.Name, c.Arguments = w.wrap(c.Name, c.Arguments)
	begun := w.answer.want(len(w.answer.calls), "", c.Name)
	return w.answer.grow(begun, jsonscan.AppendQuoted(nil, string(c.Arguments)))
}

// wrap turns a call of a tool that isn't offered into one of Syscall.Call, if that is: the model knows no way to
// look for a tool, and calls it by the name that the user gave.
func (w *demoWriter) wrap(name string, args jsontext.Value) (string, jsontext.Value) {
	through := toolName(kernel.ThroughType)
	if w.answer.tools[name] != "" || w.answer.tools[through] == "" {
		return name, args
	}
	object := jsonscan.AppendQuoted([]byte(`{"type":`), string(w.answer.tools.syscall(name)))
	return through, slices.Concat(object, []byte(`,"data":`), args, []byte("}"))
}

// unwrap is the reverse of wrap: the model is shown what it has written.
func unwrap(name message.Type, args jsontext.Value) (message.Type, jsontext.Value) {
	inner := jsonscan.Member(args, "type")
	if name != kernel.ThroughType || inner == nil {
		return name, args
	}
	return message.Type(jsonscan.Unquote(inner)), jsonscan.Member(args, "data")
}

// prompt is the conversation in the form that the model was trained with. What doesn't fit is dropped, from
// the oldest whole exchange on. If the last one alone is too long, its texts are cut.
func (d *demo) prompt(g *generation) []llama.Token {
	var head []llama.Token
	if system := d.model.Tokens(g.conversation.system); len(system) > 0 && len(system) <= demoSystem {
		head = d.message(head, "system", g.conversation.system)
	}
	if tools := d.tools(g.in.Tools, lastInput(g.conversation)); tools != "" {
		head = d.message(head, "system", tools)
	}
	tail := append([]llama.Token{d.start}, d.model.Tokens("assistant\n")...)
	room := d.model.Length() - demoAnswer - len(head) - len(tail)
	exchanges := d.exchanges(g.conversation, demoText)
	for most := demoText; len(exchanges) > 0 && len(exchanges[len(exchanges)-1]) > room && most > 1; {
		most /= 2
		exchanges = d.exchanges(g.conversation, most)
	}
	from := len(exchanges)
	for from > 0 && len(exchanges[from-1]) <= room {
		from--
		room -= len(exchanges[from])
	}
	return slices.Concat(head, slices.Concat(exchanges[from:]...), tail)
}

// message appends a message of a role.
func (d *demo) message(to []llama.Token, role, text string) []llama.Token {
	to = append(append(to, d.start), d.model.Tokens(role+"\n"+text)...)
	return append(append(to, d.end), d.model.Tokens("\n")...)
}

// exchanges are the tokens of the conversation, apart where the user speaks. Each text has at most so many tokens.
func (d *demo) exchanges(c *conversation, most int) (all [][]llama.Token) {
	add := func(role, text string, begins bool) {
		text = d.short(text, most)
		if begins || len(all) == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = d.message(all[len(all)-1], role, text)
	}
	called := make(map[string]message.Type)
	for _, t := range c.turns {
		var said []string
		for _, k := range t.blocks {
			switch {
			case k.result != nil:
				add("tool", d.result(called[k.result.id], k.result), false)
			case k.call != nil:
				name, args := unwrap(k.call.Name, k.call.Args)
				called[k.call.ID] = name
				said = append(said, "<tool_call>\n{\"name\": \""+toolName(name)+"\", \"arguments\": "+spaced(args)+"}\n</tool_call>")
			case t.user && k.text != "":
				add("user", plainly(k.text), true)
			case k.text != "":
				said = append(said, k.text)
			}
		}
		if len(said) > 0 {
			add("assistant", strings.Join(said, "\n"), false)
		}
	}
	return all
}

// demoCapital are the beginnings with a capital letter that the model was trained with.
var demoCapital = []string{"Remember:", "Please note", "What is ", "What was "}

// plainly is an input as the model was trained to read it: requests begin with a small letter, with few exceptions,
// and don't end with a full stop.
func plainly(text string) string {
	text = strings.TrimRight(strings.TrimSpace(text), ".!")
	trained := slices.ContainsFunc(demoCapital, func(begin string) bool { return strings.HasPrefix(text, begin) })
	if !trained && len(text) > 1 && 'A' <= text[0] && text[0] <= 'Z' && 'a' <= text[1] && text[1] <= 'z' {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

func lastInput(c *conversation) string {
	for _, t := range slices.Backward(c.turns) {
		for _, k := range slices.Backward(t.blocks) {
			if t.user && k.text != "" {
				return k.text
			}
		}
	}
	return ""
}

// demoTrained are the tools that the model was trained with: the parameters that it was shown, if they aren't
// the required ones, and the members of the results, if not all.
var demoTrained = map[message.Type]struct {
	parameters string
	shown      []string
}{
	"Memory.Set":       {},
	"Memory.Get":       {},
	"Memory.Delete":    {},
	"Memory.List":      {parameters: "prefix:string", shown: []string{"keys"}},
	"Echo":             {},
	"Http.Fetch":       {shown: []string{"status", "body"}},
	"VFS.Read":         {shown: []string{"uri", "content"}},
	"VFS.Write":        {shown: []string{"uri", "size"}},
	"Message.Search":   {shown: []string{"messages", "total"}},
	"Job.Start":        {parameters: "name:string,payload:any", shown: []string{"jobId", "status"}},
	"Syscall.Describe": {parameters: "name:string"},
}

// tools is the line that tells of the tools that the input is about, as far as there is room: those that the
// model was trained with, which it finds by what the input asks for, and any other that the input names. The
// former come first, so that most prompts begin alike.
func (d *demo) tools(all []tool, input string) string {
	input = strings.ToLower(input)
	var trained, named []string
	for _, t := range all {
		known, ok := demoTrained[t.Name]
		shown := " " + toolName(t.Name) + "(" + cmp.Or(known.parameters, parameters(t.InputSchema)) + ")"
		if ok {
			trained = append(trained, shown)
		} else if isNamed(input, t.Name) {
			named = append(named, shown)
		}
	}
	room := demoTools
	fits := func(shown []string) (line string) {
		for _, one := range shown {
			if room -= len(d.model.Tokens(one)); room < 0 {
				break
			}
			line += one
		}
		return line
	}
	last := fits(named)
	if line := fits(trained) + last; line != "" {
		return "Tools:" + line
	}
	return ""
}

// isNamed reports whether an input in small letters names a tool, as Domain.Action, Domain_Action or in two words.
func isNamed(input string, tool message.Type) bool {
	domain, action, _ := strings.Cut(strings.ToLower(string(tool)), ".")
	return slices.ContainsFunc([]string{".", "_", " "}, func(between string) bool { return strings.Contains(input, domain+between+action) })
}

// parameters are the required parameters of a tool, with their types: name:type,…
func parameters(schema jsontext.Value) string {
	type object struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
		OneOf    []struct {
			Required []string `json:"required"`
		} `json:"oneOf"`
	}
	var o object
	if json.Unmarshal(schema, &o) != nil {
		return ""
	}
	required := o.Required
	if len(o.OneOf) > 0 {
		for _, name := range o.OneOf[0].Required {
			if !slices.Contains(required, name) {
				required = append(required, name)
			}
		}
	}
	var all []string
	for _, name := range required {
		kind, ok := o.Properties[name].Type.(string)
		if !ok {
			kind = "any"
		}
		all = append(all, name+":"+kind)
	}
	return strings.Join(all, ",")
}

// result is what the model is shown of a result: of a known tool the members that it was trained with.
func (d *demo) result(name message.Type, r *answered) string {
	value := jsontext.Value(r.text)
	if !jsonscan.Valid(value) {
		return d.short(r.text, demoResult)
	}
	if r.isError {
		return d.short(demoError(value), demoResult)
	}
	if p := jsonscan.Member(value, "process"); p != nil { // a job, as a session keeps it
		value = fmt.Appendf(nil, `{"jobId":%s,"status":%s}`, cmp.Or(string(jsonscan.Member(p, "id")), "null"), cmp.Or(string(jsonscan.Member(p, "status")), "null"))
	}
	if members := demoTrained[name].shown; members != nil {
		value = keep(value, members)
	}
	return d.short(spaced(value), demoResult)
}

// demoError is what the model is shown of an error: what has failed, without the next step, which it can't take.
func demoError(failure jsontext.Value) string {
	code := cmp.Or(string(jsonscan.Member(failure, "code")), "500")
	var text string
	_ = json.Unmarshal(jsonscan.Member(failure, "message"), &text)
	text, _, _ = strings.Cut(text, "; ")
	if code == "409" && strings.Contains(text, "not known") {
		text = "The outcome is not known"
	}
	return `{"error": {"code": ` + code + `, "message": ` + string(jsonscan.AppendQuoted(nil, text)) + `}}`
}

// short returns the beginning of a text that is longer than so many tokens.
func (d *demo) short(text string, most int) string {
	tokens := d.model.Tokens(text)
	if len(tokens) <= most {
		return text
	}
	var b strings.Builder
	for _, t := range tokens[:most-1] {
		b.WriteString(d.model.Text(t))
	}
	return strings.ToValidUTF8(b.String(), "") + "…"
}

// keep returns an object with some of its members, in the order of the names.
func keep(object jsontext.Value, names []string) jsontext.Value {
	if object.Kind() != '{' {
		return object
	}
	out := []byte("{")
	for _, name := range names {
		value := jsonscan.Member(object, name)
		if value == nil {
			continue
		}
		switch name {
		case "messages":
			value = elements(value, demoFound, func(m []byte) []byte { return keep(m, []string{"id", "type"}) })
		case "keys":
			value = elements(value, demoFound, func(key []byte) []byte { return append([]byte(`"/`), key[1:]...) })
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonscan.AppendQuoted(out, name), ':'), value...)
	}
	return append(out, '}')
}

// elements returns the first elements of a list, each changed to the form that the model was trained with.
func elements(list jsontext.Value, most int, change func([]byte) []byte) jsontext.Value {
	var all [][]byte
	jsonscan.Elements(list, 0, func(one []byte) bool {
		all = append(all, change(one))
		return len(all) < most
	})
	return slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]"))
}

// spaced writes JSON with a space after each comma and colon, as the model was trained with.
func spaced(value jsontext.Value) string {
	if len(value) == 0 {
		return "{}"
	}
	text, err := jsontext.AppendFormat(nil, value, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return string(value)
	}
	return string(text)
}
