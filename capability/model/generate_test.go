package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"kernos/capability/model"
	"kernos/capability/model/modeltest"
	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

const hi = `"messages":[{"type":"input","text":"Hi"}]`

func TestAnEventOfAMegabyteIsRead(t *testing.T) {
	long := strings.Repeat("long ", 1<<18)
	for _, dialect := range modeltest.Dialects {
		name, _, _ := strings.Cut(dialect, "-")
		whole := modeltest.Answer{Text: "short"}
		s := modeltest.Serve(t, modeltest.Answer{Raw: strings.ReplaceAll(whole.Stream(dialect), "short", long)})
		g := generate(t, withModels(t, s, nil), `{"model":"`+name+`",`+hi+`}`)
		if g.failure != nil || g.Messages[0].Text != long || g.streamed[0] != "reply: "+long {
			t.Errorf("%s: %v", dialect, g.failure)
		}
	}
}

// TestCancelClosesTheConnection: the provider sees at once that nothing waits for it any more.
func TestCancelClosesTheConnection(t *testing.T) {
	left := make(chan struct{})
	s := modeltest.Serve(t, modeltest.Answer{Text: strings.Repeat("word ", 20), Hold: left})
	k := withModels(t, s, nil)
	for _, name := range []string{"openai", "anthropic"} {
		ctx, cancel := context.WithCancel(t.Context())
		var outcome message.Message
		k.Handle(ctx, kerneltest.Command("a", "Model.Generate", `{"model":"`+name+`",`+hi+`}`), func(m message.Message) {
			if m.Kind.Answers() {
				outcome = m
			}
			cancel() // when the first delta is there
		})
		if outcome.Kind != message.KindError {
			t.Errorf("%s: got %s", name, outcome.Data)
		}
		testkit.Until(t, "the provider is left", func() bool { return s.Open() == 0 })
	}
}

// TestReasoningGoesBackToItsModelOnly, and so do the ids of a provider.
func TestReasoningGoesBackToItsModelOnly(t *testing.T) {
	answer := modeltest.Answer{Reasoning: "I look.", Text: "Looking.", Calls: []modeltest.Call{{Name: "Memory.Get", Args: `{"key":"a"}`}}}
	s, other := modeltest.Serve(t, answer), modeltest.Serve(t, answer)
	k := withModels(t, s, map[string]json.RawMessage{
		"other":  json.RawMessage(other.Settings(modeltest.Anthropic, "")),
		"sends":  json.RawMessage(s.Settings(modeltest.OpenAI, `"quirks":["send-reasoning"]`)),
		"sends2": json.RawMessage(other.Settings(modeltest.OpenAI, `"quirks":["send-reasoning"]`)),
	})
	for _, c := range []struct {
		by, to string
		has    []string
		hasNot []string
	}{
		{"anthropic", "anthropic", []string{`"signature":"c2lnbmVk"`, `"thinking":"I look."`, `"id":"toolu_0"`, `"tool_use_id":"toolu_0"`}, nil},
		{"anthropic", "other", []string{`"text":"Looking."`, `"name":"Memory_Get"`}, []string{"c2lnbmVk", "I look.", "toolu_0"}},
		{"anthropic", "openai", []string{`"content":"Looking."`}, []string{"c2lnbmVk", "I look.", "api.example"}},
		{"openai", "openai", []string{`"id":"theirs_0"`, `"tool_call_id":"theirs_0"`}, []string{"I look."}},
		{"sends", "sends", []string{`"reasoning_content":"I look."`}, nil},
		{"sends", "sends2", []string{`"content":"Looking."`}, []string{"I look.", "theirs_0"}},
	} {
		var said struct{ Messages []json.RawMessage }
		first := kerneltest.Ask(k, kerneltest.Command("a", "Model.Generate", `{"model":"`+c.by+`",`+hi+`}`))
		if err := json.Unmarshal(first[len(first)-1].Data, &said); err != nil || len(said.Messages) != 3 {
			t.Fatalf("%s", first[len(first)-1].Data)
		}
		messages, _ := json.Marshal(append([]json.RawMessage{json.RawMessage(`{"type":"input","text":"Hi"}`)}, said.Messages...))
		messages = regexp.MustCompile(`call_[0-9A-Z]{26}`).ReplaceAll(messages, []byte("call_of_a_session"))
		if g := generate(t, k, `{"model":"`+c.to+`","messages":`+string(messages)+`}`); g.failure != nil {
			t.Fatal(g.failure)
		}
		asked := s
		if c.to == "other" || c.to == "sends2" {
			asked = other
		}
		all := asked.Requests()
		body := string(all[len(all)-1])
		for _, part := range c.has {
			if !strings.Contains(body, part) {
				t.Errorf("%s to %s: %s isn't in %s", c.by, c.to, part, body)
			}
		}
		for _, part := range c.hasNot {
			if strings.Contains(body, part) {
				t.Errorf("%s to %s: %s is in %s", c.by, c.to, part, body)
			}
		}
	}
}

// TestWhatIsRecordedIsPlayed: and what was never recorded is refused, with what is different.
func TestWhatIsRecordedIsPlayed(t *testing.T) {
	dir := t.TempDir()
	s := modeltest.Serve(t, modeltest.Answer{Text: "Wrong.", Cut: true}, modeltest.Answer{Text: "Hello, grüße."}, modeltest.Answer{Text: "Again."})
	client := outbound.NewClient(outbound.Personal, nil)
	t.Cleanup(client.CloseIdleConnections)
	k := kerneltest.Of(t, nil, model.Module(&model.Options{Cassettes: dir, Client: client, Configured: map[string]json.RawMessage{
		"live": json.RawMessage(s.Settings(modeltest.OpenAI, `"record":"tape"`)), "tape": json.RawMessage(`{"dialect":"replay","cassette":"tape"}`),
		"none": json.RawMessage(`{"dialect":"replay","cassette":"none"}`),
	}}))
	ask := func(name, rest string) string {
		g := generate(t, k, `{"model":"`+name+`",`+rest+`}`)
		return strings.Join(g.discarded, "") + g.said()
	}
	live := []string{ask("live", hi), ask("live", hi)}
	if !strings.HasSuffix(live[0], "Hello, grüße. | stop") || !strings.Contains(live[0], "reason") || live[1] != "reply: Again. | stop" {
		t.Fatalf("live: %q", live)
	}
	for i, want := range append(live, live[1]) { // the last answer again
		if got := ask("tape", hi); got != strings.ReplaceAll(want, "model live", "model tape") {
			t.Errorf("%d: played %s, recorded %s", i, got, want)
		}
	}
	asked := len(s.Requests())
	for rest, want := range map[string]string{
		`"system":"Be brief.","messages":[{"type":"input","text":"Ho"}]`: `It differs from the nearest one that was recorded: /messages/0/content: recorded "Hi", sent "Be brief."; /messages/0/role: recorded "user", sent "system"; /messages/1: recorded nothing, sent {"content":"Ho","role":"user"}`,
		`"messages":[{"type":"input","text":"Ho"}],"temperature":0`:      `/messages/0/content: recorded "Hi", sent "Ho"; /temperature: recorded nothing, sent 0`,
	} {
		if got := ask("tape", rest); !strings.Contains(got, "The model tape failed: the cassette tape has no answer to this request") || !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := ask("none", hi); !strings.Contains(got, "there is no cassette none in "+dir) {
		t.Errorf("got %s", got)
	}
	if now := len(s.Requests()); now != asked {
		t.Errorf("the provider was asked %d times while its answers were played", now-asked)
	}
}

// TestAProgramIsAModel: a syscall that is shaped like Model.Generate.
func TestAProgramIsAModel(t *testing.T) {
	var got []string
	replies := map[string]string{
		"":        `{"finish":"stop","messages":[{"type":"reasoning","title":"T","summary":"Hm."},{"type":"reply","text":"Hello."}],"usage":{"input":3,"output":2,"cost":0.5}}`,
		"calls":   `{"messages":[{"type":"reply","text":"Hello."},{"type":"tool-calls","calls":[{"id":"x","name":"Memory.Get","args":{"key":"a"}}]}]}`,
		"text":    `{"text":"Hello."}`,
		"wrong":   `{"messages":[{"type":"input","text":"x"}]}`,
		"invalid": `{"messages":7}`,
	}
	llama := kerneltest.Raw("Llama.Generate", func(_ context.Context, m message.Message, emit kernel.Emit) {
		got = append(got, string(m.Data))
		var in struct{ Model string }
		_ = json.Unmarshal(m.Data, &in)
		if in.Model == "fails" {
			emit(m.Fail(message.Errorf(400, "No such weights")))
			return
		}
		emit(m.Event("Llama.Said", json.RawMessage(`{"delta":{"text":"Hel"}}`)))
		emit(m.Event("Llama.Said", json.RawMessage(`{"type":"reply","delta":{"text":"lo."}}`)))
		emit(m.Reply(json.RawMessage(replies[in.Model])))
	})
	llama.Emits, llama.Output = []kernel.EventDefinition{{Type: "Llama.Said"}}, schema.Any
	configured := map[string]json.RawMessage{"gone": json.RawMessage(`{"dialect":"syscall","type":"Gone.Generate"}`)}
	for _, name := range []string{"", "calls", "text", "wrong", "invalid", "fails"} {
		configured["m"+name] = json.RawMessage(fmt.Sprintf(`{"dialect":"syscall","type":"Llama.Generate","model":%q}`, name))
	}
	k := kerneltest.Of(t, nil, model.Module(&model.Options{Configured: configured}), kerneltest.Module("llama", llama))
	for name, want := range map[string]string{
		"m":        "reasoning: Hm. | reply: Hello. | stop",
		"mcalls":   `reply: Hello. | tool-calls: Memory.Get {"key":"a"}; | calls`,
		"mtext":    "reply: Hello. | stop",
		"mwrong":   "a model sends reasoning, reply and tool-calls",
		"minvalid": "the program's reply isn't {finish, messages, usage}",
		"mfails":   "The model mfails failed: no such weights",
		"gone":     "No program serves Gone.Generate",
	} {
		g := generate(t, k, `{"model":"`+name+`","messages":[{"type":"input","text":"Hi"},{"type":"reasoning","summary":"x","opaque":{"model":"other","signature":"s"}}],`+tools+`}`)
		if said := g.said(); !strings.Contains(strings.ToLower(said), strings.ToLower(want)) {
			t.Errorf("%s: got %s, want %s", name, said, want)
		}
		if name == "m" && g.Messages[0].Title+g.Messages[1].Title != "T" {
			t.Errorf("the title of the program's reasoning isn't in %+v", g.Messages)
		}
		if name == "m" && (g.streamed[0] != "reply: Hello." || g.Usage.Cost != 0.5) {
			t.Errorf("streamed %v, %+v", g.streamed, g.Usage)
		}
	}
	if all := strings.Join(got, ""); strings.Contains(all, "opaque") || !strings.Contains(all, `"name":"Memory.Get"`) {
		t.Errorf("the program was sent %s", all)
	}
}

func TestModelsAreListedAndChecked(t *testing.T) {
	s := modeltest.Serve(t, modeltest.Answer{Text: "ready"})
	k := withModels(t, s, map[string]json.RawMessage{
		"default": json.RawMessage(`"openai"`), "lost": json.RawMessage(`"nothing"`), "twice": json.RawMessage(`"default"`), "itself": json.RawMessage(`"itself"`),
		"priced": json.RawMessage(s.Settings(modeltest.OpenAI, `"price":{"input":2,"output":10,"cached":0.5},"contextWindow":1000`)),
		"wrong":  json.RawMessage(`{"dialect":"openai-chat","baseUrl":"https://user:secret@a.example","model":"x"}`), "odd": json.RawMessage(`{"dialog":1}`),
	})
	list := string(kerneltest.Answer(t, k, kerneltest.Query("a", "Model.List", `{}`)).Data)
	for _, want := range []string{
		`{"name":"default","model":"openai","source":"config"}`, `{"name":"lost","model":"nothing","source":"config","problem":"it stands for nothing: the model \"nothing\" isn't configured`,
		`{"name":"twice","model":"default","source":"config"}`, `"name":"itself","model":"itself","source":"config","problem":"it stands for itself: the model itself stands for itself;`,
		`"contextWindow":1000,"input":2,"output":10`, `"name":"wrong","source":"config","problem":"baseUrl: expected a URL`, `"problem":"the member dialog is unknown or has the wrong type`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("%s isn't in %s", want, list)
		}
	}
	if strings.Contains(list, "secret") {
		t.Errorf("a password is in %s", list)
	}
	var checked struct {
		Model        string
		First, Total int64
		Usage        struct{ Cost float64 }
	}
	if err := json.Unmarshal(kerneltest.Answer(t, k, kerneltest.Command("a", "Model.Check", `{"model":"priced"}`)).Data, &checked); err != nil || checked.Model != "priced" || checked.First < 0 || checked.First > checked.Total {
		t.Errorf("checked %+v, %v", checked, err)
	}
	if want := (60*2 + 40*0.5 + 20*10) / 1e6; checked.Usage.Cost != want {
		t.Errorf("it costs %v, want %v", checked.Usage.Cost, want)
	}
	for name, want := range map[string]string{"opnai": "did you mean openai?", "wrong": "models/wrong: baseUrl", "lost": "The model \"nothing\" isn't configured", "": ""} {
		g := generate(t, k, `{"model":"`+name+`",`+hi+`}`)
		if want != "" && (g.failure == nil || !strings.Contains(g.failure.Error(), want)) || want == "" && g.Model != "openai" {
			t.Errorf("%q: got %s, want %s", name, g.said(), want)
		}
	}
	if g := generate(t, k, `{"messages":[{"type":"log","text":"x"}]}`); g.failure == nil || g.failure.Code != 422 {
		t.Errorf("nothing to answer: %s", g.said())
	}
}

// TestSettingsThatCantBeUsed asks models whose settings their owner has to change: the kernel has not failed.
func TestSettingsThatCantBeUsed(t *testing.T) {
	key := func(to ...string) string {
		c, err := sealed.NewCipher(bytes.Repeat([]byte{7}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return `{"dialect":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1","model":"m","key":"` + c.Seal(sealed.Kid{Source: sealed.Agent}, []byte("hunter2"), "", to) + `"}`
	}
	settings := map[string]struct{ text, want string }{
		"odd":     {`{"dialog":1}`, "models/odd: the member dialog is unknown"},
		"dialect": {`{"dialect":"latin"}`, "dialect: expected"},
		"circle":  {`"circle"`, "The model circle stands for itself"},
		"silent":  {`{"dialect":"replay","cassette":"none"}`, "there is no cassette none"},
		"plain":   {`{"dialect":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1","model":"m","key":"hunter2"}`, "kernos crypto seal --for 127.0.0.1:11434"},
		"free":    {key("Http.Fetch"), "kernos crypto seal --for 127.0.0.1:11434"},
		"foreign": {key("127.0.0.1"), "kernos crypto seal --for 127.0.0.1:11434"},
	}
	configured := make(map[string]json.RawMessage)
	for name, one := range settings {
		configured[name] = json.RawMessage(one.text)
	}
	k := withModels(t, modeltest.Serve(t), configured)
	for name, one := range settings {
		for _, request := range []message.Message{kerneltest.Command("a", "Model.Generate", `{"model":"`+name+`",`+hi+`}`), kerneltest.Command("a", "Model.Check", `{"model":"`+name+`"}`)} {
			if code, text := kerneltest.Failure(t, k, request); code != 422 || !strings.Contains(text, one.want) {
				t.Errorf("%s of %s: got %d %s, want a 422 with %s", request.Type, name, code, text, one.want)
			}
		}
	}
}
