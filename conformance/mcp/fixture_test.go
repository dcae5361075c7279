//go:build linux && amd64

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	server "kernos/transport/mcp"
)

// What the protocol's own suite expects a server to have, as syscalls of a program that embeds Kernos.

const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// text is a result with one text.
func text(format string, args ...any) json.RawMessage {
	quoted, err := json.Marshal(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err) // texts are texts
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, quoted)
}

// A fixture is a syscall of the suite.
type fixture struct {
	name   message.Type
	input  string // its schema; "" means an empty object
	output string // "" means content
	answer answer
	offer  server.Offer // how it is offered beside, or instead of, its usual name
}

// An answer is what a fixture does.
type answer = func(ctx context.Context, data json.RawMessage, emit func(t message.Type, data string)) (json.RawMessage, error)

// always answers with one result.
func always(result string) answer {
	return func(context.Context, json.RawMessage, func(message.Type, string)) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

// asks answers with the text of what the client says to requests.
func asks(requests string) answer {
	return func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
		return asked(ctx, requests)
	}
}

func asked(ctx context.Context, requests string) (json.RawMessage, error) {
	responses, err := kernel.Invoke(ctx, "Mcp.Ask", json.RawMessage(`{"requests":`+requests+`}`))
	if err != nil {
		return nil, err
	}
	return text("state-ok %s", responses), nil
}

// elicit is a request for the fields of a form.
func elicit(key, message, fields string) string {
	return fmt.Sprintf(`{%q:{"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{%s},"required":[]}}}}`, key, message, fields)
}

const (
	sample = `{"capital_question":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"What is the capital of France?"}}],"maxTokens":100}}}`
	roots  = `{"client_roots":{"method":"roots/list","params":{}}}`
	three  = `{"user_name":{"method":"elicitation/create","params":{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},` +
		`"greeting":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Generate a greeting"}}],"maxTokens":50}},` +
		`"client_roots":{"method":"roots/list","params":{}}}`
)

// textIn is a text in the data of a request.
func textIn(data json.RawMessage, name string) string {
	var members map[string]any
	if json.Unmarshal(data, &members) != nil {
		return ""
	}
	return fmt.Sprint(members[name])
}

var mcpFixtures = []fixture{
	{name: "Test.SimpleText", answer: always(`{"content":[{"type":"text","text":"This is a simple text response for testing."}]}`)},
	{name: "Test.ImageContent", answer: always(`{"content":[{"type":"image","data":"` + pixel + `","mimeType":"image/png"}]}`)},
	{name: "Test.AudioContent", answer: always(`{"content":[{"type":"audio","data":"` + sound + `","mimeType":"audio/wav"}]}`)},
	{name: "Test.EmbeddedResource", answer: always(`{"content":[{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}]}`)},
	{name: "Test.MultipleContentTypes", answer: always(`{"content":[{"type":"text","text":"Multiple content types test:"},{"type":"image","data":"` + pixel + `","mimeType":"image/png"},` +
		`{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}]}`)},
	{name: "Test.ErrorHandling", answer: func(context.Context, json.RawMessage, func(message.Type, string)) (json.RawMessage, error) {
		return nil, message.Errorf(500, "This tool intentionally returns an error for testing")
	}},
	{name: "Test.ToolWithLogging", answer: logs},
	{name: "Test.LoggingTool", answer: logs},
	{name: "Test.ToolWithProgress", answer: func(_ context.Context, _ json.RawMessage, emit func(message.Type, string)) (json.RawMessage, error) {
		for _, part := range []string{"0", "0.5", "1"} {
			emit(kernel.Progressed, `{"message":"`+part+` of it is done","percentage":`+part+`}`)
		}
		return text("It is done."), nil
	}},
	{name: "Test.Reconnection", answer: always(`{"content":[{"type":"text","text":"It has come after all."}]}`)},

	// What is asked of the client during a call.
	{name: "Test.Sampling", input: `{"type":"object","properties":{"prompt":{"type":"string","description":"What to ask the model."}},"required":["prompt"]}`, answer: asks(sample)},
	{name: "Test.Elicitation", input: `{"type":"object","properties":{"message":{"type":"string","description":"What to ask the person."}},"required":["message"]}`,
		answer: func(ctx context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			return asked(ctx, elicit("response", textIn(data, "message"), `"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}`))
		}},
	{name: "Test.ElicitationSep1034Defaults", answer: asks(elicit("form", "Please review and update the form fields with defaults",
		`"name":{"type":"string","description":"User name","default":"John Doe"},"age":{"type":"integer","description":"User age","default":30},`+
			`"score":{"type":"number","description":"User score","default":95.5},"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},`+
			`"verified":{"type":"boolean","description":"Verification status","default":true}`))},
	{name: "Test.ElicitationSep1330Enums", answer: asks(elicit("form", "Please select options from the enum fields",
		`"untitledSingle":{"type":"string","description":"Select one option","enum":["option1","option2","option3"]},`+
			`"titledSingle":{"type":"string","description":"Select one option with titles","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},`+
			`"legacyEnum":{"type":"string","description":"Select one option (legacy)","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},`+
			`"untitledMulti":{"type":"array","description":"Select multiple options","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},`+
			`"titledMulti":{"type":"array","description":"Select multiple options with titles","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}`))},
	{name: "Test.InputRequiredResultElicitation", answer: asks(elicit("user_name", "What is your name?", `"name":{"type":"string"}`))},
	{name: "Test.InputRequiredResultSampling", answer: asks(sample)},
	{name: "Test.InputRequiredResultListRoots", answer: asks(roots)},
	{name: "Test.InputRequiredResultRequestState", answer: asks(elicit("confirm", "Please confirm", `"ok":{"type":"boolean"}`))},
	{name: "Test.InputRequiredResultTamperedState", answer: asks(elicit("confirm", "Please confirm", `"ok":{"type":"boolean"}`))},
	{name: "Test.InputRequiredResultMultipleInputs", answer: asks(three)},
	{name: "Test.InputRequiredResultMultiRound", answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
		if _, err := asked(ctx, elicit("step1", "Step 1: What is your name?", `"name":{"type":"string"}`)); err != nil {
			return nil, err
		}
		return asked(ctx, elicit("step2", "Step 2: What is your favorite color?", `"color":{"type":"string"}`))
	}},
	{name: "Test.InputRequiredResultCapabilities", answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
		client, err := kernel.Invoke(ctx, "Mcp.Client", json.RawMessage(`{}`))
		if err != nil {
			return nil, err
		}
		var about struct{ Capabilities map[string]json.RawMessage }
		if err := json.Unmarshal(client, &about); err != nil {
			return nil, err
		}
		if _, can := about.Capabilities["elicitation"]; can {
			return asked(ctx, elicit("confirm", "Please confirm", `"ok":{"type":"boolean"}`))
		}
		return asked(ctx, sample)
	}},
	{name: "Test.MissingCapability", answer: asks(sample)},
	{name: "Test.StreamingElicitation", answer: func(ctx context.Context, _ json.RawMessage, emit func(message.Type, string)) (json.RawMessage, error) {
		emit(kernel.Progressed, `{"message":"One moment.","percentage":0.5}`)
		return asked(ctx, elicit("confirm", "Please confirm", `"ok":{"type":"boolean"}`))
	}},

	// Lists that change.
	{name: "Test.TriggerToolChange", answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
		data := fmt.Appendf(nil, `{"name":"Made.At%d","description":"It has just been made.","kind":"query","inputSchema":{"type":"object"},"outputSchema":{},"code":"export const handler = () => ({});"}`, time.Now().UnixNano())
		if _, err := kernel.Invoke(ctx, "Syscall.Register", data); err != nil {
			return nil, err
		}
		return text("The tools have changed."), nil
	}},

	{name: "Test.TriggerPromptChange", answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
		data := fmt.Appendf(nil, `{"uri":"os://agents/made-%d.md","content":"---\nname: made\ndescription: It has just been made.\n---\n"}`, time.Now().UnixNano())
		if _, err := kernel.Invoke(ctx, "VFS.Write", data); err != nil {
			return nil, err
		}
		return text("The prompts have changed."), nil
	}},

	// Schemas reach the client as they are.
	{name: "Test.JSONSchema", offer: server.Offer{Tool: "json_schema_2020_12_tool"}, input: `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
		`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},` +
		`"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
		answer: always(`{"content":[{"type":"text","text":"fine"}]}`)},

	// Parameters that headers repeat.
	{name: "Test.Region", input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`, answer: always(`{"content":[{"type":"text","text":"fine"}]}`)},

	// Resources.
	{name: "Test.StaticText", offer: server.Offer{Resource: "test://static-text", Name: "static-text", MimeType: "text/plain"}, output: "{}",
		answer: always(`{"contents":[{"uri":"test://static-text","mimeType":"text/plain","text":"This is the content of the static text resource."}]}`)},
	{name: "Test.StaticBinary", offer: server.Offer{Resource: "test://static-binary", Name: "static-binary", MimeType: "image/png"}, output: "{}",
		answer: always(`{"contents":[{"uri":"test://static-binary","mimeType":"image/png","blob":"` + pixel + `"}]}`)},
	{name: "Test.WatchedResource", offer: server.Offer{Resource: "test://watched-resource", Name: "watched-resource", MimeType: "text/plain"}, output: "{}",
		answer: always(`{"contents":[{"uri":"test://watched-resource","mimeType":"text/plain","text":"Watched resource content"}]}`)},
	{name: "Test.Template", offer: server.Offer{Resource: "test://template/{id}/data", Name: "template", MimeType: "application/json"}, output: "{}",
		input: `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`,
		answer: func(_ context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, textIn(data, "id"), textIn(data, "id")), nil
		}},

	// Prompts.
	{name: "Test.SimplePrompt", offer: server.Offer{Prompt: "test_simple_prompt"}, output: "{}",
		answer: always(`{"messages":[{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]}`)},
	{name: "Test.PromptWithArguments", offer: server.Offer{Prompt: "test_prompt_with_arguments"}, output: "{}",
		input: `{"type":"object","properties":{"arg1":{"type":"string","description":"First test argument"},"arg2":{"type":"string","description":"Second test argument"}},"required":["arg1","arg2"]}`,
		answer: func(_ context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"messages":[{"role":"user","content":{"type":"text","text":"Prompt with arguments: arg1='%s', arg2='%s'"}}]}`, textIn(data, "arg1"), textIn(data, "arg2")), nil
		}},
	{name: "Test.PromptWithEmbeddedResource", offer: server.Offer{Prompt: "test_prompt_with_embedded_resource"}, output: "{}",
		input: `{"type":"object","properties":{"resourceUri":{"type":"string","description":"URI of the resource to embed"}},"required":["resourceUri"]}`,
		answer: func(_ context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":%q,"mimeType":"text/plain","text":"Embedded resource content for testing."}}},{"role":"user","content":{"type":"text","text":"Please process the embedded resource above."}}]}`, textIn(data, "resourceUri")), nil
		}},
	{name: "Test.PromptWithImage", offer: server.Offer{Prompt: "test_prompt_with_image"}, output: "{}",
		answer: always(`{"messages":[{"role":"user","content":{"type":"image","data":"` + pixel + `","mimeType":"image/png"}},{"role":"user","content":{"type":"text","text":"Please analyze the image above."}}]}`)},
	{name: "Test.InputRequiredResultPrompt", offer: server.Offer{Prompt: "test_input_required_result_prompt"}, output: "{}",
		answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			if _, err := asked(ctx, elicit("user_context", "What context should the prompt use?", `"context":{"type":"string"}`)); err != nil {
				return nil, err
			}
			return json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"Prompt with context."}}]}`), nil
		}},

	// Tasks.
	{name: "Test.Greet", offer: server.Offer{Tool: "greet"}, input: `{"type":"object","properties":{"name":{"type":"string"}}}`,
		answer: func(_ context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			return text("Hello, %s!", textIn(data, "name")), nil
		}},
	{name: "Slow.Compute", offer: server.Offer{Task: server.TaskOptional}, input: `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`,
		answer: func(ctx context.Context, data json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			var in struct{ Seconds float64 }
			if err := json.Unmarshal(data, &in); err != nil {
				return nil, err
			}
			select { // the suite looks at it while it runs
			case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
				return text("computed %s", textIn(data, "label")), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}},
	{name: "Failing.Job", offer: server.Offer{Task: server.TaskRequired}, answer: func(context.Context, json.RawMessage, func(message.Type, string)) (json.RawMessage, error) {
		return nil, message.Errorf(422, "It fails, as it was meant to")
	}},
	{name: "Protocol.ErrorJob", offer: server.Offer{Task: server.TaskOptional}, answer: func(context.Context, json.RawMessage, func(message.Type, string)) (json.RawMessage, error) {
		return nil, message.Errorf(500, "It breaks, as it was meant to")
	}},
	{name: "Confirm.Delete", offer: server.Offer{Task: server.TaskOptional}, input: `{"type":"object","properties":{"filename":{"type":"string"}}}`,
		answer: asks(elicit("confirm", "Really?", `"confirm":{"type":"boolean"}`))},
	{name: "Multi.Input", offer: server.Offer{Task: server.TaskOptional}, answer: asks(`{"first":{"method":"elicitation/create","params":{"message":"First?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}},` +
		`"second":{"method":"elicitation/create","params":{"message":"Second?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}}}`)},
	{name: "Test.ToolWithTask", offer: server.Offer{Task: server.TaskReplied}, output: "{}",
		answer: func(ctx context.Context, _ json.RawMessage, _ func(message.Type, string)) (json.RawMessage, error) {
			responses, err := asked(ctx, elicit("user_name", "What is your name?", `"name":{"type":"string"}`))
			if err != nil {
				return nil, err
			}
			data, err := json.Marshal(map[string]any{"name": "Echo", "payload": map[string]string{"message": string(responses)}})
			if err != nil {
				return nil, err
			}
			return kernel.Invoke(ctx, "Job.Start", data)
		}},
}

func logs(_ context.Context, _ json.RawMessage, emit func(message.Type, string)) (json.RawMessage, error) {
	for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		emit("Test.Logged", `"`+line+`"`)
	}
	return text("It has been logged."), nil
}

// mcpModule has the fixtures as syscalls, and the offers of those that aren't tools with their own names.
func mcpModule() (m kernel.Module, offers []server.Offer) {
	m = kernel.Module{Name: "test", Version: "1.0.0", Summary: "What the protocol's suite wants."}
	for _, f := range mcpFixtures {
		if f.offer != (server.Offer{}) {
			f.offer.Type = f.name
			offers = append(offers, f.offer)
		}
		d := kernel.Definition{
			Type:     f.name,
			Kind:     message.KindCommand,
			Summary:  "A fixture of the suite: " + string(f.name) + ".",
			Input:    schema.Written(`{"type":"object","additionalProperties":false}`),
			Output:   schema.Written(mcp.ContentSchema),
			Emits:    []kernel.EventDefinition{{Type: "Test.Logged", Summary: "A line of a log."}},
			Behavior: kernel.Behavior{Runs: kernel.Slow, Effect: kernel.External},
		}
		if f.input != "" {
			d.Input = schema.Written(f.input)
		}
		if f.output != "" {
			d.Output = schema.Written(f.output)
		}
		m.Syscalls = append(m.Syscalls, kernel.Syscall{Definition: d, Handler: func(ctx context.Context, in message.Message, emit kernel.Emit) {
			reply, err := f.answer(ctx, in.Data, func(t message.Type, data string) { emit(in.Event(t, json.RawMessage(data))) })
			if err != nil {
				failure, _ := message.ErrorOf(err)
				emit(in.Fail(failure))
				return
			}
			emit(in.Reply(reply))
		}})
	}
	return m, offers
}
