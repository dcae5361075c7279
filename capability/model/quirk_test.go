package model_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/model"
	"kernos/kernel/kerneltest"
)

const asked = `"system":"Be brief.","messages":[{"type":"input","text":"Look."}],` + tools

// play generates from a cassette, and returns how long that took. It runs in a bubble, where time
// passes as soon as all wait.
func play(t *testing.T, cassette, settings string) (*generated, time.Duration) {
	k := kerneltest.Of(t, nil, model.Module(&model.Options{Cassettes: filepath.Join("testdata", "cassettes"), Configured: map[string]json.RawMessage{
		"it": json.RawMessage(fmt.Sprintf(`{"dialect":"replay","cassette":%q%s}`, cassette, settings)),
	}}))
	begun := time.Now()
	g := generate(t, k, `{`+asked+`}`)
	return g, time.Since(begun)
}

// TestQuirks plays what servers send, and what was found in their place.
func TestQuirks(t *testing.T) {
	const (
		right = "reply: Right. | stop"
		calls = `tool-calls: Memory.Get {"key":"notes/1"};Http.Fetch {"url":"https://example.com/"}; | calls`
		hello = "reply: Hello, \"wörld\" 😀\n | stop"
	)
	for cassette, c := range map[string]struct {
		want      string
		discarded string
		waits     bool
	}{
		"openai-plain":                 {want: hello},
		"openai-pieces":                {want: hello},
		"openai-reasoning":             {want: "reasoning: Let me see. | reply: Seen. | stop"},
		"openai-calls":                 {want: calls},
		"openai-index-missing":         {want: calls},
		"openai-index-constant":        {want: calls},
		"openai-ids-missing":           {want: calls},
		"openai-index-and-ids-missing": {want: calls},
		"openai-ids-always":            {want: calls},
		"openai-call-at-once":          {want: calls},
		"openai-choices-null":          {want: right},
		"openai-pings":                 {want: right},
		"openai-no-done":               {want: right},
		"openai-not-streamed":          {want: "reply: Right. | reasoning: Hm. | stop"},
		"openai-parts":                 {want: "reasoning: Hm. | reply: Right. | stop"},
		"openai-length":                {want: "reply: Rig | length"},
		"openai-filtered":              {want: "reply: I can't. | refused"},
		"openai-arguments-broken":      {want: `tool-calls: Memory.Get "{\"key\":"; | calls`},
		"openai-error-in-stream":       {want: right, waits: true, discarded: `{"reason":"The model it failed: the provider has a problem"}`},
		"openai-cut":                   {want: right, waits: true, discarded: `{"reason":"The model it failed: the connection ended in the middle of the answer"}`},
		"openai-ended":                 {want: right, waits: true, discarded: `{"reason":"The model it failed: the stream ended in the middle"}`},
		"openai-not-json":              {want: right, waits: true, discarded: `{"reason":"The model it failed: an event isn't JSON: the text ends inside a string at position 17"}`},
		"openai-500-html":              {want: right, waits: true},
		"openai-429":                   {want: right, waits: true},
		"openai-429-long":              {want: "The model it failed: the provider takes no more requests for now, and wants to be left alone for 1h0m0s: Come back tomorrow"},
		"openai-quota":                 {want: "The model it failed: the provider account has no quota left: You exceeded your current quota"},
		"openai-too-long":              {want: "The model it failed: the conversation is longer than the model takes: This model's maximum context length is 8192 tokens"},
		"openai-key-refused":           {want: "The model it failed: the provider refuses the key: Incorrect API key provided"},
		"anthropic-plain":              {want: hello},
		"anthropic-calls":              {want: "reasoning: Let me see. | reasoning:  | reply: Looking. | " + calls},
		"anthropic-call-at-once":       {want: `tool-calls: Memory.Get {"key":"notes/1"};Http.Fetch {}; | calls`},
		"anthropic-server-tools":       {want: right},
		"anthropic-error-in-stream":    {want: right, waits: true, discarded: `{"reason":"The model it failed: the provider has a problem"}`},
		"anthropic-cut":                {want: right, waits: true, discarded: `{"reason":"The model it failed: the connection ended in the middle of the answer"}`},
		"anthropic-ended":              {want: right, waits: true, discarded: `{"reason":"The model it failed: the stream ended in the middle"}`},
		"anthropic-529":                {want: right, waits: true},
		"anthropic-length":             {want: "reply: Rig | length"},
		"anthropic-refusal":            {want: "reply: I can't. | refused"},
		"anthropic-not-streamed":       {want: `reply: Right. | tool-calls: Memory.Get {"key":"notes/1"}; | calls`},
		"anthropic-too-long":           {want: "The model it failed: the conversation is longer than the model takes: prompt is too long: 300000 tokens > 200000 maximum"},
	} {
		t.Run(cassette, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, took := play(t, cassette, "")
				if got := g.said(); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if got := strings.Join(g.discarded, " "); got != c.discarded {
					t.Errorf("discarded %s, want %s", got, c.discarded)
				}
				if (took > 0) != c.waits {
					t.Errorf("it took %v", took)
				}
				if cassette == "openai-429" && took != 7*time.Second {
					t.Errorf("it waited %v, and was told to wait 7s", took)
				}
				for _, m := range g.Messages {
					for _, call := range m.Calls {
						if !strings.HasPrefix(call.ID, "call_") || len(call.ID) != 31 {
							t.Errorf("the id %q isn't one of ours", call.ID)
						}
					}
				}
			})
		})
	}
}

func TestACassetteCanBePlayedAsFastAsItWasRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, took := play(t, "openai-plain", `,"pace":2`); took != 100*time.Millisecond {
			t.Errorf("it took %v, want 100ms: the last piece came after 200ms", took)
		}
	})
}
