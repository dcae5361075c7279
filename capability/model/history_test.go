package model_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"kernos/capability/model/modeltest"
)

// TestEveryHistoryIsAccepted: whatever is in a session, in whatever order, strict providers of both
// dialects accept what is made of it.
func TestEveryHistoryIsAccepted(outer *testing.T) {
	t := outer
	s := modeltest.Serve(t, modeltest.Answer{Text: "Right."})
	k := withModels(t, s, map[string]json.RawMessage{
		"thinking":  json.RawMessage(s.Settings(modeltest.Anthropic, `"extra":{"thinking":{"type":"enabled","budget_tokens":1024}}`)),
		"reasoning": json.RawMessage(s.Settings(modeltest.OpenAI, `"quirks":["send-reasoning","developer-role"]`)),
	})
	host := s.URL[len("http://"):]
	rapid.Check(t, func(t *rapid.T) {
		h := history{T: t, identities: []string{host + "/test", host + "/test", "api.example.com/other"}}
		messages, _ := json.Marshal(h.messages())
		asked, _ := json.Marshal(map[string]any{
			"model": rapid.SampledFrom([]string{"openai", "anthropic", "thinking", "reasoning"}).Draw(t, "model"), "system": h.text("system"),
			"messages": append([]json.RawMessage{}, elements(messages)...), "temperature": rapid.Float64Range(0, 2).Draw(t, "temperature"),
			"tools": []map[string]any{{"name": "Memory.Get", "inputSchema": map[string]any{"oneOf": []any{}, "type": "object"}}, {"name": "Tool.WithANameThatIsLongerThanTheSixtyFourCharactersThatProvidersAcceptForTools"}, {"name": "Ping"}},
		})
		g := generate(outer, k, string(asked))
		if g.failure != nil && g.failure.Code == 422 {
			return // nothing in it is for a model
		}
		if p := s.Problems(); p != nil || g.failure != nil {
			t.Fatalf("%v\n%v\nmade of %s", g.failure, p, asked)
		}
	})
}

func elements(text []byte) (all []json.RawMessage) {
	_ = json.Unmarshal(text, &all)
	return all
}

// history makes sessions.
type history struct {
	*rapid.T
	identities []string
	calls      []string
}

func (h *history) text(name string) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", " ", "\n", "Hello.", "null", "<system>", "ü\u0000\"\\"}), rapid.String()).Draw(h.T, name)
}

func (h *history) messages() (all []map[string]any) {
	for range rapid.IntRange(0, 12).Draw(h.T, "count") {
		kind := rapid.SampledFrom([]string{"input", "reply", "reply", "reasoning", "reasoning", "reasoning", "tool-calls", "tool-calls", "tool-results", "tool-results", "system", "summary", "log", "approval-request", "own-type"}).Draw(h.T, "type")
		m := map[string]any{"id": fmt.Sprint(len(all)), "timestamp": 1, "seq": len(all), "type": kind}
		switch kind {
		case "input":
			m["text"] = h.text("text")
			m["files"] = h.files()
		case "reasoning":
			m["title"], m["summary"] = "Reasoning", h.text("summary")
			m["opaque"] = h.opaque()
		case "tool-calls":
			m["calls"] = h.newCalls(m)
		case "tool-results":
			m["results"] = h.results()
		default:
			m["text"] = h.text("text")
		}
		all = append(all, m)
	}
	return all
}

func (h *history) opaque() any {
	switch rapid.IntRange(0, 5).Draw(h.T, "opaque") {
	case 0:
		return nil
	case 1:
		return map[string]any{"model": rapid.SampledFrom(h.identities).Draw(h.T, "whose"), "redacted": "cmVk"}
	case 2:
		return map[string]any{"model": rapid.SampledFrom(h.identities).Draw(h.T, "whose")} // it was cut off before it was signed
	}
	return map[string]any{"model": rapid.SampledFrom(h.identities).Draw(h.T, "whose"), "signature": "c2ln"}
}

func (h *history) newCalls(m map[string]any) (calls []map[string]any) {
	var ids []string
	for range rapid.IntRange(0, 3).Draw(h.T, "calls") {
		id := rapid.SampledFrom([]string{"", "a", "a", fmt.Sprint("call_", len(h.calls)), "with blank"}).Draw(h.T, "id")
		if rapid.Bool().Draw(h.T, "known") { // else there are fewer than calls
			ids = append(ids, rapid.SampledFrom([]string{"", "theirs", "toolu_1", "call00001"}).Draw(h.T, "theirs"))
		}
		h.calls = append(h.calls, id)
		calls = append(calls, map[string]any{
			"id": id, "name": rapid.SampledFrom([]string{"Memory.Get", "Nothing", "", "Ö.x y", "Tool.WithANameThatIsLongerThanTheSixtyFourCharactersThatProvidersAcceptForTools"}).Draw(h.T, "name"),
			"args": rapid.SampledFrom([]any{nil, map[string]any{"key": "a"}, "broken {", []any{1}, 7}).Draw(h.T, "args"),
		})
	}
	m["opaque"] = map[string]any{"model": rapid.SampledFrom(h.identities).Draw(h.T, "whose"), "callIds": ids}
	return calls
}

func (h *history) results() (results []map[string]any) {
	for range rapid.IntRange(0, 3).Draw(h.T, "results") {
		r := map[string]any{"callId": rapid.SampledFrom(append([]string{"nothing", ""}, h.calls...)).Draw(h.T, "callId"), "name": "Memory.Get"}
		switch rapid.IntRange(0, 2).Draw(h.T, "result") {
		case 0:
			r["output"] = h.text("output")
		case 1:
			r["output"] = map[string]any{"process": map[string]any{"id": "1", "status": "running"}}
		case 2:
			r["error"] = map[string]any{"code": 404, "message": "Key not found"}
		}
		results = append(results, r)
	}
	return results
}

func (h *history) files() (files []map[string]any) {
	for range rapid.IntRange(0, 2).Draw(h.T, "files") {
		files = append(files, map[string]any{
			"data":     rapid.SampledFrom([]string{"", "aGVsbG8=", "not base64"}).Draw(h.T, "data"),
			"filename": h.text("filename"),
			"mimeType": rapid.SampledFrom([]string{"", "image/png", "IMAGE/JPEG; x=y", "image/tiff", "application/pdf", "text/plain;charset=utf-8", "application/zip"}).Draw(h.T, "mimeType"),
		})
	}
	return files
}
