package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"kernos/capability/model"
	"kernos/kernel"
	"kernos/message"
)

// differing are the cassettes that the official libraries read otherwise than Kernos, and how.
var differing = map[string]string{
	"openai-index-missing":         "openai-go takes two calls without an index for one",
	"openai-index-constant":        "openai-go takes two calls with the same index for one",
	"openai-index-and-ids-missing": "openai-go takes two calls without an index for one",
	"openai-ids-always":            "openai-go repeats the id and the name",
	"openai-call-at-once":          "openai-go takes two calls with the same index for one, and no object for arguments",
	"openai-parts":                 "openai-go takes no list for content",
	"openai-pings":                 "openai-go reads no carriage returns, and takes the data of pings for a chunk",
	"openai-length":                "openai-go shows a call that was cut off",
	"anthropic-length":             "anthropic-sdk-go shows a call that was cut off",
}

const cassettes = "../capability/model/testdata/cassettes"

// TestTheOfficialLibrariesAgree plays the last answer of each cassette that is a stream to the
// official libraries and to Kernos: both read the same text and the same calls, but for those that
// are known to differ, which do.
func TestTheOfficialLibrariesAgree(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cassettes, "*.jsonl"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d cassettes, %v", len(files), err)
	}
	seen := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if strings.HasSuffix(name, "-not-streamed") {
			continue
		}
		how, differs := differing[name]
		if differs {
			seen++
		}
		t.Run(name, func(t *testing.T) {
			body := lastAnswer(t, file)
			theirs, err := oracle(name, body)
			ours := kernosSays(t, name, body)
			switch {
			case differs && err == nil && ours == theirs:
				t.Errorf("it isn't true any more that %s; take it out of the list: %s", how, ours)
			case !differs && err != nil:
				t.Errorf("ours   %s\ntheirs %v", ours, err)
			case !differs && ours != theirs:
				t.Errorf("ours   %s\ntheirs %s", ours, theirs)
			}
		})
	}
	if seen != len(differing) {
		t.Errorf("%d cassettes of the %d that differ are there", seen, len(differing))
	}
}

// lastAnswer returns the body of the last answer of a cassette.
func lastAnswer(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for line := range bytes.Lines(text) {
		var p struct{ Path, Data string }
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		if p.Path != "" {
			body = nil
		}
		body = append(body, p.Data...)
	}
	return body
}

// whole is a provider that gives one body.
type whole []byte

func (b whole) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Request: q, ProtoMajor: 1, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(b))}, nil
}

// oracle returns what an official library reads.
func oracle(name string, body []byte) (string, error) {
	var said []string
	if strings.HasPrefix(name, "openai") {
		client := openai.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: whole(body)}))
		stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{Model: "test"})
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			acc.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			return "", err
		}
		if len(acc.Choices) == 0 {
			return "", errors.New("it has read no choice")
		}
		m := acc.Choices[0].Message
		said = append(said, m.Content+m.Refusal)
		for _, c := range m.ToolCalls {
			said = append(said, c.Function.Name+compact(c.Function.Arguments))
		}
		return strings.Join(said, " | "), nil
	}
	client := anthropic.NewClient(anthropicoption.WithAPIKey("none"), anthropicoption.WithHTTPClient(&http.Client{Transport: whole(body)}))
	stream := client.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{Model: "test", MaxTokens: 1})
	var acc anthropic.Message
	for stream.Next() {
		if err := acc.Accumulate(stream.Current()); err != nil {
			return "", err
		}
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	text := ""
	for _, b := range acc.Content {
		switch b.Type {
		case "text":
			text += b.Text
		case "thinking":
			said = append(said, b.Thinking+b.Signature)
		case "redacted_thinking":
			said = append(said, b.Data)
		case "tool_use":
			said = append(said, b.Name+compact(string(b.Input)))
		}
	}
	return strings.Join(slices.Insert(said, 0, text), " | "), nil
}

// kernosSays returns what Kernos reads, in the same form.
func kernosSays(t *testing.T, name string, body []byte) string {
	dialect := map[bool]string{true: "openai-chat", false: "anthropic-messages"}[strings.HasPrefix(name, "openai")]
	r, err := kernel.NewRegistry(model.Module(&model.Options{Client: &http.Client{Transport: whole(body)}, Configured: map[string]json.RawMessage{
		"it": json.RawMessage(`{"dialect":"` + dialect + `","baseUrl":"https://api.example.com/v1","model":"test","retries":0}`),
	}}))
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Messages []struct {
			Type, Text, Summary string
			Opaque              struct{ Signature, Redacted string }
			Calls               []struct {
				Name string
				Args json.RawMessage
			}
		}
	}
	request := message.Message{Kind: message.KindCommand, Type: "Model.Generate", Data: json.RawMessage(`{"model":"it","messages":[{"type":"input","text":"Hi"}]}`), Metadata: message.Metadata{ID: "a", Timestamp: 1}}
	kernel.New(r, nil).Handle(context.Background(), request, func(m message.Message) {
		if m.Kind == message.KindError {
			t.Fatalf("%s", m.Data)
		}
		if m.Kind == message.KindReply {
			if err := json.Unmarshal(m.Data, &out); err != nil {
				t.Fatal(err)
			}
		}
	})
	text, said := "", []string(nil)
	for _, m := range out.Messages {
		text += m.Text
		if m.Type == "reasoning" && strings.HasPrefix(name, "anthropic") { // openai-go doesn't read it
			said = append(said, m.Summary+m.Opaque.Signature+m.Opaque.Redacted)
		}
		for _, c := range m.Calls {
			args := string(c.Args)
			var broken string
			if json.Unmarshal(c.Args, &broken) == nil {
				args = broken
			}
			said = append(said, strings.Replace(c.Name, ".", "_", 1)+args)
		}
	}
	return strings.Join(slices.Insert(said, 0, text), " | ")
}

func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}
