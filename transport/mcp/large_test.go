package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// A result is what tools/call answers with.
type result struct {
	Result struct {
		Content []struct {
			Type, Text, URI, Name, Data string
			Size                        int
		}
		StructuredContent json.RawMessage
	}
}

func (c *peer) callTool(id int, members string) (r result, size int) {
	c.t.Helper()
	text := c.ask(id, "tools/call", members)
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Result.Content) == 0 {
		c.t.Fatalf("%v: %.500s", err, text)
	}
	return r, len(text)
}

// A model gets the beginning of a large reply, and the client can read the rest; what is structured fits the listed schema.
func TestLargeReplies(t *testing.T) {
	big := strings.Repeat("0123456789 ", 10_000)
	replies := map[message.Type][2]string{ // an output schema, and a reply
		"Fixture.Page":   {`{"type":"object","properties":{"status":{"type":"integer"},"body":{"type":"string"},"bodyRef":{"type":"object"}},"required":["status"],"additionalProperties":false}`, `{"status":200,"body":"` + big + `"}`},
		"Fixture.List":   {`{"type":"object","properties":{"all":{"type":"array","items":{"type":"string"}}},"required":["all"],"additionalProperties":false}`, `{"all":["` + big + `"]}`},
		"Fixture.Text":   {`{"type":"string"}`, `"` + big + `"`},
		"Fixture.Secret": {`{"type":"object"}`, `{"password":"hunter22","all":"` + big + `"}`},
		"Fixture.Image":  {`{"type":"object","title":"MCP content"}`, `{"content":[{"type":"image","data":"` + strings.Repeat("AAAA", 20_000) + `","mimeType":"image/png"}]}`},
		"Fixture.Story":  {`{"type":"object","title":"MCP content"}`, `{"content":[{"type":"text","text":"` + big + `"}]}`},
		"Fixture.Plain":  {`{"type":"object","title":"MCP content"}`, `{"text":"` + big + `"}`},
	}
	d, _ := serve(t, func(o *daemon.Options) {
		var all []kernel.Syscall
		for name, of := range replies {
			all = append(all, kernel.Definition{Type: name, Kind: message.KindQuery, Summary: "A fixture.", Input: schema.Written(`{"type":"object"}`), Output: schema.Written(of[0])}.
				BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(json.RawMessage(of[1]))) }))
		}
		o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: all})
	})
	core := connect(t, d, agent(t, principal.Grant{Preset: principal.Agent, Allow: []string{"Fixture.*"}}), "core")
	core.initialize(`{}`) // its list has no output schemas: what is structured would hide the excerpt
	if got, _ := core.callTool(1, `"name":"Fixture.Page","arguments":{}`); got.Result.StructuredContent != nil || !strings.Contains(got.Result.Content[0].Text, "bodyBeginning") {
		t.Errorf("a large reply has %s beside its excerpt", got.Result.StructuredContent)
	}
	for era, meta := range map[string]string{"2025-11-25": "", "2026-07-28": "," + modernMeta} {
		t.Run(era, func(t *testing.T) {
			c := connect(t, d, agent(t, principal.Grant{Preset: principal.Agent, Allow: []string{"Fixture.*"}}), "all")
			c.initialize(`{}`)
			var list struct {
				Result struct {
					Tools []struct {
						Title        string
						OutputSchema json.RawMessage
					}
				}
			}
			if err := json.Unmarshal([]byte(c.ask(1, "tools/list", strings.TrimPrefix(meta, ","))), &list); err != nil {
				t.Fatal(err)
			}
			for i, one := range []struct {
				tool    message.Type
				moved   string // the member that is shown in part; "" means that all of it is passed on
				content string // of the blob
			}{
				{"Fixture.Page", "body", big}, {"Fixture.List", "data", replies["Fixture.List"][1]}, {"Fixture.Text", "data", replies["Fixture.Text"][1]},
				{"Fixture.Secret", "", ""}, {"Fixture.Image", "", ""}, {"Fixture.Story", "data", replies["Fixture.Story"][1]},
				{"Fixture.Plain", "data", replies["Fixture.Plain"][1]},
			} {
				got, size := c.callTool(10*i+2, fmt.Sprintf(`"name":%q,"arguments":{}%s`, one.tool, meta))
				content := got.Result.Content
				if one.moved == "" {
					if size < 70_000 || len(content) != 1 {
						t.Errorf("%s: %d bytes, %d blocks", one.tool, size, len(content))
					}
					continue
				}
				var shown map[string]json.RawMessage
				if err := json.Unmarshal([]byte(content[0].Text), &shown); err != nil || size > 12_000 {
					t.Fatalf("%s: %d bytes: %v: %.500s", one.tool, size, err, content[0].Text)
				}
				var begin, note string
				_ = json.Unmarshal(shown[one.moved+"Beginning"], &begin)
				_ = json.Unmarshal(shown["note"], &note)
				if want := fmt.Sprintf("%s has %d bytes, and %[1]sBeginning the first %[3]d; Blob.Read {ref: %[1]sRef, offset: %[3]d} reads on.", one.moved, len(one.content), len(begin)); note != want || len(begin) < 3900 || !strings.HasPrefix(one.content, begin) {
					t.Errorf("%s: the note is %q, and the beginning %.50q", one.tool, note, begin)
				}
				if structured := string(got.Result.StructuredContent); !strings.Contains(structured, `"`+one.moved+`Beginning":"`) || !strings.Contains(structured, `"note":"`) {
					t.Errorf("%s: clients that prefer what is structured lose the excerpt: %s", one.tool, structured)
				}
				for _, listed := range list.Result.Tools {
					if listed.Title == string(one.tool) && listed.OutputSchema != nil {
						if err := schema.Written(string(listed.OutputSchema)).Validate(got.Result.StructuredContent); err != nil {
							t.Errorf("%s: %s doesn't fit %s: %v", one.tool, got.Result.StructuredContent, listed.OutputSchema, err)
						}
					}
				}
				if len(content) != 2 || content[1].Type != "resource_link" || content[1].Name != one.moved || content[1].Size != len(one.content) {
					t.Fatalf("%s: %+v", one.tool, content[1:])
				}
				if whole, _ := c.read(3, content[1].URI, meta); whole != one.content {
					t.Errorf("%s: the link leads to %.100q", one.tool, whole)
				}
				rest := begin
				for next := len(begin); next > 0; {
					var part string
					part, next = c.read(4, fmt.Sprintf("%s?offset=%d", content[1].URI, next), meta)
					rest += part
				}
				if rest != one.content {
					t.Errorf("%s: its parts are %d bytes", one.tool, len(rest))
				}
				check(t, "no part", c.ask(5, "resources/read", fmt.Sprintf(`"uri":"%s?offset=x"%s`, content[1].URI, meta)), `"code":-32`, "offset must be a number")
			}
		})
	}
	c := connect(t, d, nil, "all")
	c.ask(0, "initialize", `"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"test","version":"1"}`)
	if got, _ := c.callTool(1, `"name":"Fixture_Page"`); len(got.Result.Content) != 1 {
		t.Errorf("a client that doesn't know links gets %+v", got.Result.Content[1:])
	}
}

// read reads a resource, and returns its text and where the next part begins, or 0.
func (c *peer) read(id int, uri, meta string) (text string, next int) {
	c.t.Helper()
	answer := c.ask(id, "resources/read", fmt.Sprintf(`"uri":%q%s`, uri, meta))
	var got struct {
		Result struct {
			Contents []struct {
				Text string
				Meta struct {
					Next int `json:"kernos/next"`
				} `json:"_meta"`
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Result.Contents) != 1 {
		c.t.Fatalf("%s: %.300s", uri, answer)
	}
	return got.Result.Contents[0].Text, got.Result.Contents[0].Meta.Next
}

// A model of a session is shown the same.
func TestLargeResultsInASession(t *testing.T) {
	w := newTurner(t)
	c, session := w.client(`{}`, principal.Grant{Preset: principal.Agent})
	value := strings.Repeat("0123456789 ", 3000)
	c.callTool(2, `"name":"Memory_Set","arguments":{"key":"long","value":"`+value+`"}`)
	c.callTool(3, fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Look now","wait":true}`, session))
	got := w.call("Session.Messages", fmt.Sprintf(`{"session":%q}`, session))
	check(t, "the messages", got, fmt.Sprintf(`"dataBeginning":"\"%s`, value[:3000]), `"note":"data has 33002 bytes, and dataBeginning the first 3999; Blob.Read {ref: dataRef, offset: 3999} reads on."`)
	ref := regexp.MustCompile(`"dataRef":(\{[^}]*\})`).FindStringSubmatch(got)
	if ref == nil {
		t.Fatal(got)
	}
	check(t, "the next part", c.ask(4, "tools/call", `"name":"Blob_Read","arguments":{"ref":`+ref[1]+`,"offset":3999}`), `"size":33002`)
}
