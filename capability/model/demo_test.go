package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/capability/model"
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
		"a schedule": {messages: `[{"type":"input","text":"every 5 minutes fetch http://example.com/health"}]`,
			want: `calls Job.Start {"name":"Http.Fetch","payload":{"url":"http://example.com/health"},"schedule":"*/5 * * * *"}`},
		"a job": {messages: `[{"type":"input","text":"every 5 minutes fetch http://example.com/health"},{"type":"tool-calls","calls":[{"id":"c","name":"Job.Start","args":{"name":"Http.Fetch","payload":{"url":"http://example.com/health"},"schedule":"*/5 * * * *"}}]},{"type":"tool-results","results":[{"callId":"c","output":{"process":{"id":"01M7HS23BN31FY42X00KKA16TK","type":"job","status":"pending"}}}]}]`,
			want: `stop Job 01M7HS23BN31FY42X00KKA16TK will do that every 5 minutes.`},
		"a result": {messages: `[{"type":"input","text":"what is the door code?"},{"type":"tool-calls","calls":[{"id":"c","name":"Memory.Get","args":{"key":"/door-code"}}]},{"type":"tool-results","results":[{"callId":"c","output":"4711"}]}]`,
			want: `stop The door code is 4711.`},
		"an error": {messages: `[{"type":"input","text":"what is the door code?"},{"type":"tool-calls","calls":[{"id":"c","name":"Memory.Get","args":{"key":"/door-code"}}]},{"type":"tool-results","results":[{"callId":"c","error":{"code":404,"message":"Key not found: /door-code"}}]}]`,
			want: `stop I don't know the door code. I know only what you have told me.`},
		"an outcome that isn't known": {messages: `[{"type":"input","text":"fetch http://example.com/"},{"type":"tool-calls","calls":[{"id":"c","name":"Http.Fetch","args":{"url":"http://example.com/"}}]},{"type":"tool-results","results":[{"callId":"c","error":{"code":409,"message":"The outcome of the command with the idempotency key \"session/01M7HS23BN31FY42X00KKA16TK/c\" is not known: it had begun, and was not done in time; look"}}]}]`,
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
			data, _ := json.Marshal(map[string]any{"system": test.system, "messages": json.RawMessage(test.messages), "tools": json.RawMessage(tools)})
			out := generate(t, k, string(data))
			got := out.Finish
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
			if out.Model != "demo" || got != test.want {
				t.Errorf("%s answers %s; want %s", out.Model, got, test.want)
			}
		})
	}
}
