package demo

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/message"
)

var (
	requests  = flag.Bool("requests", false, "try all requests of people, not one in 10")
	modelFile = flag.String("model", "", "try this GGUF `file` in place of the model inside")
)

// usualTools are the tools of a new session, with their required parameters.
var usualTools = []struct {
	name     message.Type
	required string
}{
	{"Memory.Get", "key"}, {"Memory.Set", "key value"}, {"Memory.Delete", "key"}, {"Memory.List", ""}, {"Memory.Search", "query"}, {"VFS.List", "uri"}, {"VFS.Read", "uri"}, {"VFS.Write", "uri"},
	{"Http.Fetch", "url"}, {"Job.Start", ""}, {"Message.Search", "query"}, {"Syscall.Search", "query"}, {"Syscall.Describe", ""}, {"Syscall.Call", "type"},
}

// TestRequestsOfPeople tries requests that the training doesn't have, in the words of people.
func TestRequestsOfPeople(t *testing.T) {
	text, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := New()
	if *modelFile != "" {
		if d.file, err = os.ReadFile(*modelFile); err != nil {
			t.Fatal(err)
		}
	}
	all, wrong := 0, 0
	for line := range strings.Lines(string(text)) {
		says, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok || line[0] == '#' {
			continue
		}
		if all++; !*requests && all%10 != 0 {
			continue
		}
		tool, parts, _ := strings.Cut(want, ":")
		if got := firstStep(t, d, says); !isStep(got, tool, parts) {
			wrong++
			t.Logf("%s\n\twant %s\n\tgot  %s", says, want, got)
		}
	}
	t.Logf("%d wrong", wrong)
	if all < 150 || wrong > all/10 {
		t.Errorf("%d of %d requests are wrong", wrong, all)
	}
}

// isStep reports whether a step is a call of a tool, or a reply, that has all of these parts.
func isStep(got, tool, parts string) bool {
	name, rest, _ := strings.Cut(got, ":")
	if name != tool {
		return false
	}
	for part := range strings.SplitSeq(parts, "&") {
		if !strings.Contains(strings.ToLower(rest), strings.ToLower(strings.TrimSpace(part))) {
			return false
		}
	}
	return true
}

// firstStep is what the model does first: the calls that it makes, or what it replies.
func firstStep(t *testing.T, d *Model, says string) string {
	t.Helper()
	var tools []conversation.Tool
	names := make(conversation.Names)
	for _, one := range usualTools {
		schema := `{"properties":{`
		for i, p := range strings.Fields(one.required) {
			schema += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`%q:{"type":"string"}`, p)
		}
		schema += `},"required":["` + strings.Join(strings.Fields(one.required), `","`) + `"]}`
		if one.required == "" {
			schema = "{}"
		}
		tools = append(tools, conversation.Tool{Name: one.name, InputSchema: jsontext.Value(schema)})
		names[conversation.ToolName(one.name)] = one.name
	}
	a := &conversation.Answer{Tools: names}
	if err := d.Generate(t.Context(), request(t, "", tools, asks(says)), a); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, c := range a.Calls {
		name, args := unwrap(a.Tools.Syscall(c.Name), jsontext.Value(c.Args))
		_ = args.Compact()
		steps = append(steps, fmt.Sprintf("%s: %s", name, args))
	}
	if len(steps) > 0 {
		return strings.Join(steps, " ")
	}
	for _, p := range a.Parts {
		steps = append(steps, string(p.Text))
	}
	return "reply: " + strings.Join(steps, " ")
}
