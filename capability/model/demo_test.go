package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/model"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
)

// TestTheModelInside asks the model inside in the forms that it was trained for.
func TestTheModelInside(t *testing.T) {
	k := kerneltest.Of(t, nil, model.Module(nil))
	tools := `[{"name":"Memory.Set","inputSchema":{"type":"object","properties":{"key":{"type":"string"},"value":{}},"required":["key"],"oneOf":[{"required":["value"]},{"required":["valueRef"]}]}},
		{"name":"Memory.Get","inputSchema":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}},
		{"name":"Job.Start","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"payload":{},"steps":{"type":"array"}},"oneOf":[{"required":["name"]},{"required":["steps"]}]}},
		{"name":"Syscall.Call","inputSchema":{"type":"object","properties":{"type":{"type":"string"},"data":{}},"required":["type"]}},
		{"name":"Text.Shout","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]`
	for name, test := range map[string]struct{ system, messages, want string }{
		"a call": {messages: `[{"type":"input","text":"remember that the door code is 4711"}]`,
			want: `calls Memory.Set {"key":"/door-code","value":"4711"}`},
		"two calls": {messages: `[{"type":"input","text":"what is my dentist and the wifi password?"}]`,
			want: `calls Memory.Get {"key":"/dentist"} Memory.Get {"key":"/wifi-password"}`},
		"a tool it has never seen": {messages: `[{"type":"input","text":"use Text.Shout with text hello"}]`,
			want: `calls Text.Shout {"text":"hello"}`},
		"a tool that isn't offered": {messages: `[{"type":"input","text":"use Mail.Send with to ada@example.com, subject hello"}]`,
			want: `calls Syscall.Call {"type":"Mail.Send","data":{"to":"ada@example.com","subject":"hello"}}`},
		"its result": {messages: `[{"type":"input","text":"use Mail.Send with to ada"},{"type":"tool-calls","calls":[{"id":"c","name":"Syscall.Call","args":{"type":"Mail.Send","data":{"to":"ada"}}}]},{"type":"tool-results","results":[{"callId":"c","output":"delivered"}]}]`,
			want: `stop Mail_Send answered: delivered`},
		"a time in words": {messages: `[{"type":"input","text":"remind me in five minutes to call Ada"}]`,
			want: `calls Job.Start {"name":"Notify.Send","payload":{"text":"call Ada"},"delay":"5m"}`},
		"half an hour": {messages: `[{"type":"input","text":"remind me in half an hour to call Ada"}]`,
			want: `calls Job.Start {"name":"Notify.Send","payload":{"text":"call Ada"},"delay":"30m"}`},
		"a schedule": {messages: `[{"type":"input","text":"every 5 minutes fetch http://example.com/health"}]`,
			want: `calls Job.Start {"name":"Http.Fetch","payload":{"url":"http://example.com/health"},"schedule":"*/5 * * * *"}`},
		"a job": {messages: `[{"type":"input","text":"every 5 minutes fetch http://example.com/health"},{"type":"tool-calls","calls":[{"id":"c","name":"Job.Start","args":{"name":"Http.Fetch","payload":{"url":"http://example.com/health"},"schedule":"*/5 * * * *"}}]},{"type":"tool-results","results":[{"callId":"c","output":{"process":{"id":"01M7HS23BN31FY42X00KKA16TK","type":"job","status":"pending"}}}]}]`,
			want: `stop Job 01M7HS23BN31FY42X00KKA16TK will do that every 5 minutes.`},
		"a result": {messages: `[{"type":"input","text":"what is the door code?"},{"type":"tool-calls","calls":[{"id":"c","name":"Memory.Get","args":{"key":"/door-code"}}]},{"type":"tool-results","results":[{"callId":"c","output":"4711"}]}]`,
			want: `stop The door code is 4711.`},
		"an error": {messages: `[{"type":"input","text":"what is the door code?"},{"type":"tool-calls","calls":[{"id":"c","name":"Memory.Get","args":{"key":"/door-code"}}]},{"type":"tool-results","results":[{"callId":"c","error":{"code":404,"message":"Key not found: /door-code"}}]}]`,
			want: `stop I don't know the door code. I know only what you have told me.`},
		"an outcome that isn't known": {messages: `[{"type":"input","text":"fetch http://example.com/"},{"type":"tool-calls","calls":[{"id":"c","name":"Http.Fetch","args":{"url":"http://example.com/"}}]},{"type":"tool-results","results":[{"callId":"c","error":{"code":409,"message":"The outcome is not known (the command with the idempotency key \"session/01M7HS23BN31FY42X00KKA16TK/c\" had begun, and was not done in time). It may have happened; look"}}]}]`,
			want: `stop I don't know whether that happened, so I did not repeat it: The outcome is not known`},
		"what was found": {messages: `[{"type":"input","text":"search for door code"},{"type":"tool-calls","calls":[{"id":"c","name":"Message.Search","args":{"query":"door code"}}]},{"type":"tool-results","results":[{"callId":"c","output":{"messages":[{"id":"1","kind":"command","type":"Memory.Set","data":{"key":"/door-code"}}],"total":17,"more":true}}]}]`,
			want: `stop I found 17 messages about door code.`},
		"aloud": {system: "Think aloud.", messages: `[{"type":"input","text":"use Text.Shout with text hello"}]`,
			want: `calls (The user wants Text_Shout. I will call it.) Text.Shout {"text":"hello"}`},
		"itself": {messages: `[{"type":"input","text":"who are you?"}]`,
			want: `stop I am a demonstration model, small enough to live inside Kernos. I remember, look up, fetch, read, schedule and call tools. For real work, connect a real model: kernos model detect, then kernos model add NAME.`},
		"a long conversation": {messages: "[" + strings.Repeat(`{"type":"input","text":"hello there, how do you do on this fine day of spring?"},{"type":"reply","text":"Hello! What can I do for you?"},`, 60) + `{"type":"input","text":"remember that the door code is 4711"}]`,
			want: `calls Memory.Set {"key":"/door-code","value":"4711"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := insideSays(t, k, test.system, test.messages, tools); got != test.want {
				t.Errorf("it answers %s; want %s", got, test.want)
			}
		})
	}
}

// insideSays returns what the model inside does: how its answer ends, its reasoning, its texts and its calls.
func insideSays(t *testing.T, k *kernel.Kernel, system, messages, tools string) string {
	t.Helper()
	data, _ := json.Marshal(map[string]any{"system": system, "messages": json.RawMessage(messages), "tools": json.RawMessage(tools)})
	out := generate(t, k, string(data))
	got := out.Finish
	if out.Model != "demo" {
		t.Errorf("%s answers", out.Model)
	}
	for _, m := range out.Messages {
		if m.Type != "tool-calls" && out.streamed[m.Part] != m.Type+": "+m.Text+m.Summary {
			t.Errorf("%q was streamed, and %q came whole", out.streamed[m.Part], m.Text+m.Summary)
		}
		if m.Summary != "" {
			got += " (" + m.Summary + ")"
		}
		if m.Text != "" {
			got += " " + m.Text
		}
		for _, c := range m.Calls {
			got += " " + c.Name + " " + string(c.Args)
		}
	}
	return got
}

// TestResultsForTheModelInside gives the model inside results of all shapes: it reports what they say.
func TestResultsForTheModelInside(t *testing.T) {
	k := kerneltest.Of(t, nil, model.Module(nil))
	var tools []string
	for _, name := range []string{"Memory.Get", "Memory.List", "Memory.Search", "Http.Fetch", "VFS.List", "Job.List", "Job.Cancel", "Syscall.Call"} {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	for name, test := range map[string]struct{ says, call, args, output, failure, want string }{
		"data of an MCP server": {says: "use Weather.Now with city Rome", call: "Weather.Now", args: `{"city":"Rome"}`,
			output: `{"content":[{"type":"text","text":"{\"sky\":\"clear\"}"}],"structuredContent":{"sky":"clear","degrees":21}}`, want: `stop Weather_Now answered: {"sky": "clear", "degrees": 21}`},
		"texts of an MCP server": {says: "use Weather.Now with city Rome", call: "Weather.Now", args: `{"city":"Rome"}`,
			output: `{"content":[{"type":"text","text":"clear sky"},{"type":"image","data":"AAAA"}]}`, want: "stop Weather_Now answered: clear sky"},
		"JSON in a text": {says: "use Weather.Now with city Rome", call: "Weather.Now", args: `{"city":"Rome"}`,
			output: `{"content":[{"type":"text","text":"{\"sky\": \"clear\"}"}]}`, want: `stop Weather_Now answered: {"sky": "clear"}`},
		"what is deep": {says: "use Map.Find with city Rome", call: "Map.Find", args: `{"city":"Rome"}`,
			output: `{"name":"Rome","place":{"north":41}}`, want: `stop Map_Find answered: {"name": "Rome", "place": "…"}`},
		"HTML": {says: "fetch https://example.com/", call: "Http.Fetch", args: `{"url":"https://example.com/"}`,
			output: `{"status":200,"headers":{},"body":"<html><style>p {}</style><h1>Fresh bread</h1><p>every&nbsp;day</p>"}`, want: "stop The server answered 200: Fresh bread every day"},
		"a status that it doesn't know": {says: "fetch https://example.com/", call: "Http.Fetch", args: `{"url":"https://example.com/"}`,
			output: `{"status":401,"body":"no"}`, want: "stop That did not work: The server answered 401 Unauthorized"},
		"more keys than it is shown": {says: "what do you know?", call: "Memory.List", args: `{"prefix":"/"}`,
			output: `{"keys":["a","b","c","d","e","f","g"]}`, want: "stop I know /a, /b, /c, /d, /e and 2 more."},
		"names of files": {says: "list my files", call: "VFS.List", args: `{"uri":"os://"}`,
			output: `{"entries":[{"uri":"os://a.md","name":"a.md","kind":"file"},{"uri":"os://notes","name":"notes","kind":"folder"}]}`, want: "stop os:// has a.md, notes."},
		"jobs": {says: "what jobs are running?", call: "Job.List", args: `{}`,
			output: `{"jobs":[{"id":"01M7HS23BN31FY42X00KKA16TK","name":"Echo","status":"pending"}]}`, want: "stop There are these jobs: Echo (pending)."},
		"an error with its next step": {says: "cancel the job 01M7HS23BN31FY42X00KKA16TK", call: "Job.Cancel", args: `{"jobId":"01M7HS23BN31FY42X00KKA16TK"}`,
			failure: `{"code":404,"message":"Job not found: 01M7HS23BN31FY42X00KKA16TK (Job.List names the jobs; finished ones are forgotten)"}`, want: "stop That did not work: Job not found"},
		"a key that doesn't exist": {says: "what is the code?", call: "Memory.Get", args: `{"key":"/door-code"}`,
			failure: `{"code":404,"message":"Key not found: /door-code"}`, want: `calls Memory.Search {"query":"door code"}`},
		"facts that are near": {says: "what do you know about the door?", call: "Memory.Search", args: `{"query":"door"}`,
			output: `{"hits":[{"key":"door-code","value":"4711","score":2,"why":{"words":["door"],"near":0.9}},{"key":"tea","value":"green","score":0.5,"why":{"near":0.2}}],"total":2}`, want: "stop I know this: /door-code is 4711."},
		"facts that are far": {says: "what do you know about the door?", call: "Memory.Search", args: `{"query":"door"}`,
			output: `{"hits":[{"key":"tea","value":"green","score":0.5,"why":{"near":0.2}}],"total":1}`, want: "stop I know nothing about the door."},
	} {
		t.Run(name, func(t *testing.T) {
			result := `"output":` + test.output
			if test.failure != "" {
				result = `"error":` + test.failure
			}
			messages := fmt.Sprintf(`[{"type":"input","text":%q},{"type":"tool-calls","calls":[{"id":"c","name":%q,"args":%s}]},{"type":"tool-results","results":[{"callId":"c",%s}]}]`, test.says, test.call, test.args, result)
			if got := insideSays(t, k, "", messages, "["+strings.Join(tools, ",")+"]"); got != test.want {
				t.Errorf("it answers %s; want %s", got, test.want)
			}
		})
	}
	t.Run("a search in place of a key", func(t *testing.T) {
		messages := `[{"type":"input","text":"what is the code?"},{"type":"tool-calls","calls":[{"id":"a","name":"Memory.Get","args":{"key":"/code"}}]},{"type":"tool-results","results":[{"callId":"a","error":{"code":404,"message":"Key not found: /code"}}]},
			{"type":"tool-calls","calls":[{"id":"b","name":"Memory.Search","args":{"query":"code"}}]},{"type":"tool-results","results":[{"callId":"b","output":{"hits":[{"key":"door-code","value":"4711","why":{"words":["code"]}}]}}]}]`
		if got := insideSays(t, k, "", messages, "["+strings.Join(tools, ",")+"]"); got != "stop I know this: /door-code is 4711." {
			t.Errorf("it answers %s", got)
		}
	})
}

// TestTheModelInsideStopsAtRepetition makes the model inside repeat itself: it doesn't do so until its context is full, and
// a call that isn't complete isn't shown.
func TestTheModelInsideStopsAtRepetition(t *testing.T) {
	k := kerneltest.Of(t, nil, model.Module(nil))
	tools := `[{"name":"Echo","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}]`
	says, _ := json.Marshal([]any{map[string]string{"type": "input", "text": "echo" + strings.Repeat(" la", 16)}})
	if got := insideSays(t, k, "", string(says), tools); !strings.HasPrefix(got, "length I am only a demonstration model, and have lost my way.") {
		t.Errorf("it answers %s", got)
	}
}
