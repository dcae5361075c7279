package demo

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/llama/kernosdemo"
	"kernos/internal/testkit"
)

// shownTo is the prompt for a conversation, with its control tokens as signs: ‹ and ›.
func shownTo(t *testing.T, d *Model, system string, tools []conversation.Tool, messages ...string) (text string, tokens int) {
	t.Helper()
	prompt := d.prompt(request(t, system, tools, messages...))
	var b strings.Builder
	for _, token := range prompt {
		switch token {
		case d.start:
			b.WriteString("‹")
		case d.end:
			b.WriteString("›")
		default:
			b.WriteString(d.model.Text(token))
		}
	}
	return b.String(), len(prompt)
}

// request is what the model is asked, with the messages of a session.
func request(t *testing.T, system string, tools []conversation.Tool, messages ...string) *Request {
	t.Helper()
	all := make([]jsontext.Value, len(messages))
	for i, m := range messages {
		all[i] = jsontext.Value(m)
	}
	c, err := conversation.Of(t.Context(), system, all, Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Conversation: c, Tools: tools}
}

func loaded(t *testing.T) *Model {
	d := New()
	if err := d.load(); err != nil {
		t.Fatal(err)
	}
	return d
}

func asks(text string) string { return fmt.Sprintf(`{"type":"input","text":%q}`, text) }

func replies(text string) string { return fmt.Sprintf(`{"type":"reply","text":%q}`, text) }

func TestThePromptOfTheModelInside(t *testing.T) {
	d := loaded(t)
	schema := func(text string) jsontext.Value { return jsontext.Value(text) }
	tools := []conversation.Tool{
		{Name: "Memory.Set", InputSchema: schema(`{"properties":{"key":{"type":"string"},"value":{},"valueRef":{"type":"object"}},"required":["key"],"oneOf":[{"required":["value"]},{"required":["valueRef"]}]}`)},
		{Name: "Text.Shout", InputSchema: schema(`{"properties":{"text":{"type":"string"},"loud":{"type":"boolean"},"times":{"type":["integer","null"]}},"required":["text","times"]}`)},
		{Name: "Weather.Forecast", InputSchema: schema(`{"properties":{"city":{"type":"string"}},"required":["city"]}`)},
		{Name: "Memory.Get", InputSchema: schema(`{"properties":{"key":{"type":"string"},"raw":{"type":"boolean"}},"required":["key"]}`)},
		{Name: "Clock.Now", InputSchema: schema(`{}`)},
	}
	const trained = "‹system\nTools: Memory_Set(key:string,value:any) Memory_Get(key:string)"
	call := `{"type":"tool-calls","calls":[{"id":"c","name":"Memory.Get","args":{"key":"/a","raw":true}}]}`
	result := func(output string) string {
		return `{"type":"tool-results","results":[{"callId":"c","output":` + output + `}]}`
	}
	for name, test := range map[string]struct {
		system   string
		tools    []conversation.Tool
		messages []string
		want     string
	}{
		"no tools": {messages: []string{asks("hello")}, want: "‹user\nhello›\n‹assistant\n"},
		"tools it was trained with": {tools: tools, messages: []string{asks("hello")},
			want: trained + "›\n‹user\nhello›\n‹assistant\n"},
		"a tool that is named": {tools: tools, messages: []string{asks("use text.shout with text hi and times 2")},
			want: trained + " Text_Shout(text:string,times:any)›\n‹user\nuse text.shout with text hi and times 2›\n‹assistant\n"},
		"two tools, in two words and with a line": {tools: tools, messages: []string{asks("call Clock_Now, then weather forecast")},
			want: trained + " Weather_Forecast(city:string) Clock_Now()›\n‹user\ncall Clock_Now, then weather forecast›\n‹assistant\n"},
		"named earlier": {tools: tools, messages: []string{asks("use Text.Shout"), replies("I did."), asks("hello")},
			want: trained + "›\n‹user\nuse Text.Shout›\n‹assistant\nI did.›\n‹user\nhello›\n‹assistant\n"},
		"a short system message": {system: "Think aloud.", messages: []string{asks("hello")},
			want: "‹system\nThink aloud.›\n‹user\nhello›\n‹assistant\n"},
		"a long system message": {system: strings.Repeat("You are a careful assistant. ", 40), messages: []string{asks("hello")},
			want: "‹user\nhello›\n‹assistant\n"},
		"a call and its result": {messages: []string{asks("what is a?"), call, result(`{"value":1}`)},
			want: "‹user\nwhat is a?›\n‹assistant\n<tool_call>\n{\"name\": \"Memory_Get\", \"arguments\": {\"key\": \"/a\", \"raw\": true}}\n</tool_call>›\n‹tool\n{\"value\": 1}›\n‹assistant\n"},
	} {
		if got, _ := shownTo(t, d, test.system, test.tools, test.messages...); got != test.want {
			t.Errorf("%s: the prompt is\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

// TestTheOldestExchangeIsDroppedFirst lets a conversation grow: the prompt leaves room for an answer, and has
// the latest exchanges, each of them whole.
func TestTheOldestExchangeIsDroppedFirst(t *testing.T) {
	d := loaded(t)
	var messages []string
	dropped := 0
	for n := range 30 {
		exchange := []string{
			asks(fmt.Sprintf("what is number %d?", n)),
			fmt.Sprintf(`{"type":"tool-calls","calls":[{"id":"c%d","name":"Memory.Get","args":{"key":"/n-%d"}}]}`, n, n),
			fmt.Sprintf(`{"type":"tool-results","results":[{"callId":"c%d","output":"result-%d"}]}`, n, n),
			replies(fmt.Sprintf("Number %d is %d.", n, n)),
		}
		messages = append(messages, exchange...)
		text, tokens := shownTo(t, d, "", nil, append(slices.Clone(messages), asks("and now?"))...)
		if most := d.model.Length() - answerTokens; tokens > most {
			t.Fatalf("after %d exchanges the prompt has %d tokens, and leaves no room for an answer", n+1, tokens)
		}
		shown := strings.Count(text, "what is number")
		for _, part := range []string{"<tool_call>", "‹tool\n", "Number "} {
			if strings.Count(text, part) != shown {
				t.Fatalf("an exchange isn't whole: %d inputs, %d of %s\n%s", shown, strings.Count(text, part), part, text)
			}
		}
		if !strings.HasPrefix(text, fmt.Sprintf("‹user\nwhat is number %d?›", n+1-shown)) {
			t.Fatalf("after %d exchanges %d are shown, and they aren't the latest:\n%s", n+1, shown, text)
		}
		dropped = n + 1 - shown
	}
	if dropped == 0 {
		t.Error("nothing was dropped")
	}
}

func TestALongExchangeIsCut(t *testing.T) {
	d := loaded(t)
	long := strings.Repeat("many words ", 300)
	calls, results := `{"type":"tool-calls","calls":[`, `{"type":"tool-results","results":[`
	for _, id := range []string{"a", "b", "c"} {
		calls += fmt.Sprintf(`{"id":%q,"name":"Http.Fetch","args":{"url":"x"}},`, id)
		results += fmt.Sprintf(`{"callId":%q,"output":{"status":404,"body":%q}},`, id, long)
	}
	calls, results = strings.TrimSuffix(calls, ",")+"]}", strings.TrimSuffix(results, ",")+"]}"
	for name, messages := range map[string][]string{
		"an input":      {asks("remember that " + long)},
		"three results": {asks("fetch x three times"), calls, results},
	} {
		text, tokens := shownTo(t, d, "", nil, append([]string{asks("hello"), replies("Hello!")}, messages...)...)
		if tokens > d.model.Length()-answerTokens || strings.Count(text, "‹") != strings.Count(text, "›")+1 || !strings.Contains(text, "…") {
			t.Errorf("%s: %d tokens\n%s", name, tokens, text)
		}
		for _, m := range []string{"remember that many", "fetch x three times›", `"status": 404`} {
			if strings.Contains(strings.Join(messages, ""), m[:8]) && !strings.Contains(text, m) {
				t.Errorf("%s: %q isn't shown\n%s", name, m, text)
			}
		}
	}
}

func TestTheModelInsideIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		loaded := func() bool {
			<-d.turn
			defer func() { d.turn <- struct{}{} }()
			return d.model != nil || d.state != nil
		}
		for range 2 {
			done, err := d.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * keptFor)
			if d.model == nil {
				t.Fatal("the model is let go while it is used")
			}
			done()
			time.Sleep(keptFor - time.Nanosecond)
			if !loaded() {
				t.Fatal("the model is let go too early")
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if loaded() {
				t.Fatal("the model is kept")
			}
		}
	})
}

// The sizes that the model inside may have, in bytes.
const (
	mostInBinary = 6_000_000
	mostInUse    = 40_000_000
)

const childVariable = "MODEL_TEST_CHILD"

// TestSizesOfTheModelInside measures a process of its own before and while the model is used.
func TestSizesOfTheModelInside(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		before := residentBytes(t)
		if err := New().Generate(t.Context(), request(t, "", nil, asks("tell me a story")), &conversation.Answer{}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("grown by", residentBytes(t)-before)
		return
	}
	if n := len(kernosdemo.File()); n > mostInBinary {
		t.Errorf("the binary has %d bytes of the model; at most %d", n, mostInBinary)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestSizesOfTheModelInside$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.CombinedOutput()
	_, rest, found := strings.Cut(string(out), "grown by ")
	grown, _ := strconv.Atoi(strings.SplitN(rest, "\n", 2)[0])
	if err != nil || !found {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("the process has grown by %d bytes", grown)
	if grown > mostInUse && !testkit.Race {
		t.Errorf("a process that uses the model has grown by %d bytes; at most %d", grown, mostInUse)
	}
}

// TestTheFirstTokenComesSoon measures what the first token takes of a processor: loading the model, and reading
// a prompt with the tools of a new session.
func TestTheFirstTokenComesSoon(t *testing.T) {
	var tools []conversation.Tool
	for _, t := range trainedTools {
		tools = append(tools, conversation.Tool{Name: t.name, InputSchema: jsontext.Value(`{"properties":{"key":{"type":"string"},"value":{"type":"string"}},"required":["key","value"]}`)})
	}
	d, tokens := New(), 0
	cost := testkit.Cost(t, func() {
		if err := d.load(); err != nil {
			t.Fatal(err)
		}
		prompt := d.prompt(request(t, "", tools, asks("remember that the door code is 4711")))
		tokens = len(prompt)
		if _, err := d.state.Logits(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("a prompt of %d tokens took %v of a processor", tokens, cost)
	if cost > time.Second && !testkit.Race {
		t.Errorf("the first token took %v of a processor; at most a second", cost)
	}
}

// residentBytes is how much memory this process has.
func residentBytes(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
