package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/capability/session"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a kernel with sessions over a store in memory, and a model that answers as a script
// says.
type world struct {
	t     *testing.T
	store *storetest.Memory
	*session.Sessions
	kernel *kernel.Kernel
	stop   func()

	mu       sync.Mutex
	tokens   map[principal.ID]*principal.Principal
	script   func(asked generateInput) answer // what the model does
	asked    []generateInput
	seen     []string // what was done outside of the store
	agent    string   // the text of os://agents/writer.md
	room     int      // how many tokens a conversation may have; asking for it panics if it is negative
	messages []message.Message
}

// generateInput is what Model.Generate is asked, as far as tests look at it.
type generateInput struct {
	Model    string           `json:"model,omitempty"`
	System   string           `json:"system,omitempty"`
	Messages []shown          `json:"messages"`
	Tools    []map[string]any `json:"tools,omitempty"`
	Tokens   int64            `json:"maxTokens,omitempty"`
	Session  string           `json:"session"`
	raw      json.RawMessage
}

type shown struct {
	ID      string           `json:"id"`
	Seq     uint64           `json:"seq"`
	Parent  uint64           `json:"parent"`
	Turn    string           `json:"turn"`
	Type    string           `json:"type"`
	Text    string           `json:"text"`
	Summary string           `json:"summary"`
	Partial bool             `json:"partial"`
	Call    string           `json:"call"`
	Name    string           `json:"name"`
	Hash    string           `json:"hash"`
	Rule    string           `json:"rule"`
	Reached []kernel.Reached `json:"reached"`
	Covers  uint64           `json:"covers"`
	Calls   []struct {
		ID, Name string
		Args     json.RawMessage
	} `json:"calls"`
	Results []struct {
		CallID string          `json:"callId"`
		Output json.RawMessage `json:"output"`
		Error  *struct {
			Code    int
			Message string
		} `json:"error"`
	} `json:"results"`
}

// An answer is what the model does once: it streams deltas of a reply, and then replies or fails.
type answer struct {
	deltas []string
	holds  []chan struct{} // before each delta
	hold   <-chan struct{} // it waits for this, or for its end, after the deltas
	text   string          // of the reply
	calls  []string        // Type {args}
	fail   *message.Error
	cost   float64
	again  bool // it withdraws what it has streamed, and says it again
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: storetest.NewMemory(), tokens: map[principal.ID]*principal.Principal{principal.OwnerID: principal.TheOwner()}}
	w.script = func(generateInput) answer { return answer{text: "fine"} }
	w.open()
	return w
}

type keyData struct {
	Key   string `json:"key" jsonschema_description:"A key."`
	Value string `json:"value,omitzero" jsonschema_description:"A value."`
	N     int    `json:"n,omitzero" jsonschema_description:"Anything."`
}

// outsideOf opens a pointer to a file that isn't a blob.
func outsideOf(ctx context.Context, p message.BlobPointer) ([]byte, error) {
	return []byte("a file of the owner"), kernel.Reaching(ctx, kernel.ToFile, p.Path)
}

// count counts a key in the store.
func (w *world) count(ctx context.Context, in keyData) (keyData, error) {
	key := []byte("m" + in.Key)
	e, err := w.store.Get(key)
	if err != nil {
		return in, err
	}
	in.N = len(e.Value) + 1
	var b store.Batch
	b.IfRevision(key, e.Revision)
	b.Set(key, []byte(strings.Repeat("x", in.N)))
	return in, kernel.Stage(ctx, &b)
}

// open starts a kernel over the store, as another process would.
func (w *world) open() {
	w.t.Helper()
	w.Sessions = session.New(&session.Options{Store: w.store, Find: w.find, Open: outsideOf, ContextTokens: func(model string) (int, error) {
		if model == "nope" {
			return 0, message.Errorf(404, "The model isn't configured")
		}
		if w.room < 0 {
			panic("a defect")
		}
		return w.room, nil
	}})
	// In the store: counts a key.
	count := kernel.Command(kernel.Definition{Type: "Test.Count", Summary: "Count."}, w.count)
	// Outside of the store: notes a key.
	outside := kernel.Command(kernel.Definition{Type: "Test.Outside", Summary: "Act.", Behavior: kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow}}, func(ctx context.Context, in keyData) (keyData, error) {
		seen := in.Key + in.Value
		if blobs.RemoteOf(ctx) != nil {
			seen += " for a remote caller"
		}
		w.mu.Lock()
		w.seen = append(w.seen, seen)
		w.mu.Unlock()
		if in.Key == "hang" {
			<-ctx.Done()
			return in, ctx.Err()
		}
		return in, nil
	})
	look := kernel.Query(kernel.Definition{Type: "Test.Look", Summary: "Look.", Presentation: kernel.Presentation{Aliases: []message.Type{"Old.Look"}}}, func(_ context.Context, in keyData) (keyData, error) { return in, nil })
	// Code that calls another syscall.
	code := kernel.Command(kernel.Definition{Type: "Test.Code", Summary: "Call."}, func(ctx context.Context, in keyData) (keyData, error) {
		_, err := kernel.Invoke(ctx, message.Type(in.Key), []byte(`{"key":"code"}`))
		return in, err
	})
	type hydrateIn struct {
		URI       string `json:"uri" jsonschema_description:"The file."`
		Checksums bool   `json:"checksums,omitzero" jsonschema_description:"Checksums."`
	}
	hydrate := kernel.Query(kernel.Definition{Type: "Content.Hydrate", Summary: "Hydrate."}, func(_ context.Context, in hydrateIn) (any, error) {
		text := w.agent
		return map[string]any{"content": text, "metadata": map[string]any{
			"uri": in.URI, "checksum": fmt.Sprint("sha256:", len(text)), "dependencies": map[string]any{
				"skills": []any{map[string]any{"uri": "os://skills/pdf.md", "name": "pdf", "description": "Reads PDF."}},
				"tools":  []any{map[string]any{"uri": "Test.Look"}, map[string]any{"uri": "Bash"}},
			}}}, nil
	})
	generate := kernel.DefineCommand[generateInput, any](kernel.Definition{
		Type:     "Model.Generate",
		Summary:  "Generate.",
		Emits:    []kernel.EventDefinition{{Type: "Model.Streamed", Unrecorded: true}, {Type: "Model.Discarded"}},
		Behavior: kernel.Behavior{Effect: kernel.External, Repeat: kernel.Retried, Runs: kernel.Slow, Timeout: time.Hour},
	}).BindStream(w.generate)
	generate.Input = nil
	d := generate.Definition
	d.Input = anyObject
	generate.Definition = d
	k := kerneltest.Of(w.t, &kernel.Options{Store: w.store, Rules: w.Rules(), Recorder: w}, w.Module(), kerneltest.Module("test", append(w.reachers(), count, outside, look, code, hydrate, generate)...))
	if err := k.Registry().Add(introspect.Module(k.Registry())); err != nil {
		w.t.Fatal(err)
	}
	w.kernel = k
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx, k); close(ended) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
	w.t.Cleanup(w.stop)
	synctest.Wait()
}

// generate is the model.
func (w *world) generate(ctx context.Context, in generateInput, s *kernel.Stream) (any, error) {
	in.raw = slices.Clone(kernel.RequestOf(ctx).Data)
	w.mu.Lock()
	w.asked = append(w.asked, in)
	script := w.script
	w.mu.Unlock()
	a := script(in)
	say := func() {
		for i, d := range a.deltas {
			if i < len(a.holds) {
				<-a.holds[i]
			}
			_ = s.Emit("Model.Streamed", map[string]any{"part": 0, "type": "reply", "delta": map[string]any{"text": d}})
		}
	}
	say()
	if a.again {
		time.Sleep(time.Second)
		_ = s.Emit("Model.Discarded", map[string]any{"reason": "the provider ended"})
		time.Sleep(time.Second)
		say()
	}
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if a.fail != nil {
		return nil, a.fail
	}
	text := strings.Join(a.deltas, "") + a.text
	var messages []any
	if text != "" {
		messages = append(messages, map[string]any{"type": "reply", "text": text})
	}
	finish := "stop"
	if len(a.calls) > 0 {
		finish = "calls"
		var calls []any
		for _, c := range a.calls {
			name, args, _ := strings.Cut(c, " ")
			calls = append(calls, map[string]any{"id": "x", "name": name, "args": json.RawMessage(args)})
		}
		messages = append(messages, map[string]any{"type": "tool-calls", "calls": calls})
	}
	return map[string]any{"model": "fake", "finish": finish, "messages": messages, "usage": map[string]any{"input": 10, "output": 5, "cost": a.cost}}, nil
}

// Record implements [kernel.Recorder].
func (w *world) Record(r kernel.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := r.Message.Clone()
	data, _ := kernel.Redact(r)
	m.Data, _ = r.Brief(data)
	w.messages = append(w.messages, m)
}

// RecordWith implements [kernel.Recorder].
func (w *world) RecordWith(b *store.Batch, rs []kernel.Record, apply func() error) error {
	if err := apply(); err != nil {
		return err
	}
	for _, r := range rs[1:] {
		w.Record(r)
	}
	return nil
}

func (w *world) find(id principal.ID) (*principal.Principal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokens[id], nil
}

// scripted makes the model answer with these in order, and then with "fine".
func (w *world) scripted(answers ...answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = func(generateInput) answer {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(answers) == 0 {
			return answer{text: "fine"}
		}
		a := answers[0]
		answers = answers[1:]
		return a
	}
}

// slowly makes the model wait before each delta.
func (w *world) slowly(deltas []string, holds []chan struct{}) {
	w.scripted(answer{deltas: deltas, holds: holds})
}

func (w *world) callAs(p *principal.Principal, t message.Type, data string, out any) *message.Error {
	w.t.Helper()
	return w.callWith(kernel.ActFor(w.t.Context(), kernel.From(p, "")), t, data, nil, out)
}

func (w *world) callWith(ctx context.Context, t message.Type, data string, event func(message.Message), out any) *message.Error {
	w.t.Helper()
	m := message.Message{Kind: message.KindCommand, Type: t, Data: json.RawMessage(data)}
	if s, ok := w.kernel.Registry().Lookup(t); ok {
		m.Kind = s.Kind
	}
	w.kernel.Stamp(&m)
	var answer message.Message
	w.kernel.Handle(ctx, m, func(m message.Message) {
		if m.Kind.Answers() {
			answer = m.Clone()
		} else if event != nil {
			event(m)
		}
	})
	if answer.Kind != message.KindReply {
		return answer.Failure()
	}
	if out != nil {
		if err := json.Unmarshal(answer.Data, out); err != nil {
			w.t.Fatalf("%s replied %s: %v", t, answer.Data, err)
		}
	}
	return nil
}

func (w *world) must(t message.Type, data string, out any) {
	w.t.Helper()
	if e := w.callAs(nil, t, data, out); e != nil {
		w.t.Fatalf("%s %s: %d %v", t, data, e.Code, e)
	}
}

// wants checks the code of an error.
func (w *world) wants(code int, e *message.Error, text string) {
	w.t.Helper()
	if e == nil || e.Code != code || !strings.Contains(e.Error(), text) {
		w.t.Errorf("got %v, want %d with %q", e, code, text)
	}
}

func (w *world) create(data string) string {
	w.t.Helper()
	var out struct{ Session string }
	w.must("Session.Create", data, &out)
	return out.Session
}

type turn struct {
	Session, Turn, Status, Text string
	Seq                         uint64
	Error                       *struct {
		Code    int
		Message string
	}
}

func (w *world) send(id, text string) turn {
	w.t.Helper()
	var out turn
	w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q}`, id, text), &out)
	return out
}

// say sends, and waits until the turn has ended.
func (w *world) say(id, text string) turn {
	w.t.Helper()
	var out turn
	w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q,"wait":true}`, id, text), &out)
	return out
}

type info struct {
	Session, Status, Turn string
	Pending               []string
	Queued                int
	Seq, Leaf             uint64
	Last                  *struct {
		Turn, Status string
		Error        *struct{ Code int }
	}
	Used  struct{ Steps, Tokens, Calls int }
	Agent *struct{ Hash, Now string }
	Tools []struct{ Name string }
}

func (w *world) get(id string) (i info) {
	w.t.Helper()
	w.must("Session.Get", fmt.Sprintf(`{"session":%q}`, id), &i)
	return i
}

func (w *world) all(id string) (all []shown) {
	w.t.Helper()
	for {
		var out struct {
			Messages []shown
			More     bool
		}
		after := uint64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		w.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d}`, id, after), &out)
		all = append(all, out.Messages...)
		if !out.More {
			return all
		}
	}
}

// brief is a session as one line.
func (w *world) brief(id string) string {
	w.t.Helper()
	var words []string
	for _, m := range w.all(id) {
		word := m.Type
		if m.Partial {
			word += "…"
		}
		switch {
		case m.Text != "":
			word += "=" + m.Text
		case len(m.Calls) > 0:
			for _, c := range m.Calls {
				word += " " + c.Name
			}
		case len(m.Results) > 0:
			for _, r := range m.Results {
				if r.Error != nil {
					word += fmt.Sprint(" ", r.Error.Code)
				} else {
					word += " " + string(r.Output)
				}
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

// check checks the invariants of a session that can be seen in its messages.
func (w *world) check(id string) {
	w.t.Helper()
	last, results := "", make(map[string]int)
	var calls []string
	for i, m := range w.all(id) {
		if m.Seq != uint64(i+1) || m.ID <= last {
			w.t.Errorf("T4: message %d has seq %d and id %s after %s", i+1, m.Seq, m.ID, last)
		}
		last = m.ID
		for _, c := range m.Calls {
			if strings.HasPrefix(c.ID, "call_") { // else the test has made it
				calls = append(calls, c.ID)
			}
		}
		for _, r := range m.Results {
			if results[r.CallID]++; (r.Output == nil) != (r.Error != nil) {
				w.t.Errorf("the result of %s has the output %s and the error %v", r.CallID, r.Output, r.Error)
			}
		}
	}
	w.mu.Lock()
	for _, asked := range w.asked {
		ids := make(map[string]bool)
		for _, m := range asked.Messages {
			if m.ID == "" || ids[m.ID] {
				w.t.Errorf("the model was shown a second message with the id %q, a %s", m.ID, m.Type)
			}
			ids[m.ID] = true
		}
	}
	w.mu.Unlock()
	pending := w.get(id).Pending
	for _, c := range calls {
		if n := results[c]; n != 1 && !slices.Contains(pending, c) && w.get(id).Status == "idle" || n > 1 {
			w.t.Errorf("T2: the call %s has %d results", c, n)
		}
	}
}

func (w *world) counted(key string) int {
	e, err := w.store.Get([]byte("m" + key))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(e.Value)
}

func (w *world) outside() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

func (w *world) token(name string, g principal.Grant) *principal.Principal {
	w.t.Helper()
	p := kerneltest.Principal(w.t, principal.ID(name), name, g)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[p.ID()] = p
	return p
}

func test(t *testing.T, name string, f func(*testing.T, *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
	})
}
