package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"kernos/capability/model"
	"kernos/capability/model/modeltest"
	"kernos/internal/outbound"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// withModels returns a kernel with the models of a server, and others.
func withModels(t testing.TB, s *modeltest.Server, more map[string]json.RawMessage, syscalls ...kernel.Syscall) *kernel.Kernel {
	t.Helper()
	configured := s.Models()
	maps.Copy(configured, more)
	client := outbound.NewClient(outbound.Personal, nil)
	t.Cleanup(client.CloseIdleConnections)
	return kerneltest.Of(t, nil, model.Module(&model.Options{Configured: configured, Client: client}), kerneltest.Module("test", syscalls...))
}

// generated is the outcome of a generation in the words of a test.
type generated struct {
	Model    string
	Finish   string
	Messages []struct {
		Part                       int
		Type, Text, Title, Summary string
		Calls                      []struct {
			ID, Name string
			Args     json.RawMessage
		}
		Opaque json.RawMessage
	}
	Usage struct {
		Input, Output, Cached, Reasoning int
		Cost                             float64
	}

	streamed  []string // the text of each part
	discarded []string
	failure   *message.Error
}

// generate calls Model.Generate.
func generate(t testing.TB, k *kernel.Kernel, data string) *generated {
	t.Helper()
	g := &generated{}
	for _, m := range kerneltest.Ask(k, kerneltest.Command("a", "Model.Generate", data)) {
		switch m.Type {
		case "Model.Streamed":
			var e struct {
				Part  int
				Type  string
				Delta struct{ Text string }
				Call  *struct{ ID, Name string }
			}
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			for e.Part >= len(g.streamed) {
				g.streamed = append(g.streamed, e.Type+": ")
			}
			if e.Call != nil {
				g.streamed[e.Part] += e.Call.Name + " "
			}
			g.streamed[e.Part] += e.Delta.Text
		case "Model.Discarded":
			g.discarded = append(g.discarded, string(m.Data))
			g.streamed = nil
		default:
			if m.Kind == message.KindError {
				g.failure = m.Failure()
			} else if err := json.Unmarshal(m.Data, g); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g
}

// said is what a model said, in short.
func (g *generated) said() string {
	if g.failure != nil {
		return g.failure.Error()
	}
	var all []string
	for _, m := range g.Messages {
		text := m.Text + m.Summary
		for _, c := range m.Calls {
			text += fmt.Sprintf("%s %s;", c.Name, c.Args)
		}
		all = append(all, m.Type+": "+text)
	}
	return strings.Join(all, " | ") + " | " + g.Finish
}

const tools = `"tools":[{"name":"Memory.Get","description":"Get a value.","inputSchema":{"type":"object","properties":{"key":{"type":"string"}}}},{"name":"Http.Fetch"}]`

func TestWhatAModelSaysIsStreamedAndThenWhole(t *testing.T) {
	s := modeltest.Serve(t, modeltest.Answer{
		Reasoning: "**Looking**\nThe user asks for \"two\" things.", Text: "I'll look: grüße.",
		Calls: []modeltest.Call{{Name: "Memory.Get", Args: `{"key": "notes/1"}`}, {Name: "Http.Fetch", Args: `{"url":"https://example.com/"}`}},
	})
	k := withModels(t, s, nil)
	for _, name := range []string{"openai", "anthropic"} {
		g := generate(t, k, `{"model":"`+name+`","system":"Be brief.","messages":[{"type":"input","text":"Look."}],`+tools+`}`)
		want := `reasoning: **Looking**` + "\n" + `The user asks for "two" things. | reply: I'll look: grüße. | tool-calls: Memory.Get {"key":"notes/1"};Http.Fetch {"url":"https://example.com/"}; | calls`
		if got := g.said(); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
			continue
		}
		if g.Messages[0].Title != "Looking" || g.Model != name || g.Usage.Input != 100 || g.Usage.Cached != 40 || g.Usage.Output != 20 {
			t.Errorf("%s: %+v", name, g)
		}
		streamed := strings.Join(g.streamed, " | ")
		if streamed != `reasoning: **Looking**`+"\n"+`The user asks for "two" things. | reply: I'll look: grüße. | tool-calls: Memory.Get {"key": "notes/1"}Http.Fetch {"url":"https://example.com/"}` {
			t.Errorf("%s: streamed %s", name, streamed)
		}
	}
}
