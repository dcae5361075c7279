package modeltest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Stream returns the answer as the body of a stream in a dialect.
func (a *Answer) Stream(dialect string) string {
	if dialect == Anthropic {
		return a.anthropic()
	}
	return a.openAI()
}

// pieces divides a text into pieces of a few bytes, as models stream it.
func pieces(text string) (all []string) {
	for len(text) > 0 {
		n := min(len(text), 5)
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// tool returns the name that a provider knows a syscall by.
func tool(name string) string { return strings.Replace(name, ".", "_", 1) }

func (a *Answer) openAI() string {
	var b strings.Builder
	event := func(delta, finish string) {
		fmt.Fprintf(&b, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"test","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
	}
	event(`{"role":"assistant","content":""}`, "null")
	for _, p := range pieces(a.Reasoning) {
		event(`{"reasoning_content":`+quote(p)+`}`, "null")
	}
	for _, p := range pieces(a.Text) {
		event(`{"content":`+quote(p)+`}`, "null")
	}
	for i, c := range a.Calls {
		event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"theirs_%d","type":"function","function":{"name":%s,"arguments":""}}]}`, i, i, quote(tool(c.Name))), "null")
		for _, p := range pieces(c.Args) {
			event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p)), "null")
		}
	}
	finish := a.Finish
	if finish == "" {
		if finish = "stop"; len(a.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	event(`{}`, quote(finish))
	b.WriteString(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"test","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":5}}}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

func (a *Answer) anthropic() string {
	var b strings.Builder
	event := func(kind, rest string) { fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest) }
	event("message_start", `,"message":{"id":"m1","type":"message","role":"assistant","model":"test","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":60,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":1}}`)
	n := 0
	block := func(start string, deltas ...string) {
		event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, n, start))
		for _, d := range deltas {
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, n, d))
		}
		event("content_block_stop", fmt.Sprintf(`,"index":%d`, n))
		n++
	}
	deltas := func(kind, field, text string) (all []string) {
		for _, p := range pieces(text) {
			all = append(all, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, field, quote(p)))
		}
		return all
	}
	if a.Reasoning != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`, append(deltas("thinking_delta", "thinking", a.Reasoning), `{"type":"signature_delta","signature":"c2lnbmVk"}`)...)
	}
	event("ping", "")
	if a.Text != "" {
		block(`{"type":"text","text":""}`, deltas("text_delta", "text", a.Text)...)
	}
	for i, c := range a.Calls {
		block(fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%s,"input":{}}`, i, quote(tool(c.Name))), deltas("input_json_delta", "partial_json", c.Args)...)
	}
	finish := a.Finish
	if finish == "" {
		if finish = "end_turn"; len(a.Calls) > 0 {
			finish = "tool_use"
		}
	}
	event("message_delta", `,"delta":{"stop_reason":`+quote(finish)+`,"stop_sequence":null},"usage":{"output_tokens":20}`)
	event("message_stop", "")
	return b.String()
}
