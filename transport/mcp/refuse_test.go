package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kernos/message"
)

// A request that fails is recorded as the call that it stands for. What stands for none isn't recorded.
func TestRequestsThatFailAreRecorded(t *testing.T) {
	d, _ := serve(t, nil)
	c := connect(t, d, nil, "core")
	c.ask(1, "initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}`)
	for _, r := range [][2]string{
		{"resources/read", `"uri":"os://no-such.md"`}, {"resources/read", `"uri":5`}, {"resources/read", `"uri":"no://such"`},
		{"prompts/get", `"name":"no-such"`}, {"tools/call", `"name":"No_Such"`}, {"no/such", ``},
	} {
		if got := c.ask(2, r[0], r[1]); !strings.Contains(got, `"error":{`) {
			t.Errorf("%s: %s", r[0], got)
		}
	}
	list := message.Message{Kind: message.KindQuery, Type: "Message.List", Data: json.RawMessage(`{"kind":"error"}`), Metadata: message.Metadata{ID: "list", Timestamp: 1}}
	answer, err := d.Call(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var errs struct{ Messages []struct{ Type string } }
	if err := json.Unmarshal(answer.Data, &errs); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, m := range errs.Messages {
		if m.Type != "Content.Index" { // prompts are looked for where there may be none
			types = append(types, m.Type)
		}
	}
	if want := strings.Fields("VFS.Read VFS.Read VFS.Read Content.Hydrate No.Such"); !slices.Equal(types, want) {
		t.Errorf("recorded are %q, want %q: %s", types, want, answer.Data)
	}
}
