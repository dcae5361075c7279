package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/cmd/kernos/terminal"
)

// A result is what the definition of its syscall reports, or else what the output has.
func TestAResultIsOneSentence(t *testing.T) {
	for _, c := range []struct{ name, args, output, want string }{
		{"Memory.Set", `{"key":"/a","value":1}`, `{"success":true,"revision":3}`, "Set /a (version 3)"},
		{"Memory.Get", `{"key":"/a"}`, `"two\nlines"`, "two lines"},
		{"Memory.List", `{}`, `{"keys":[]}`, "no keys"},
		{"Memory.List", `{}`, `{"keys":["/a","/b"],"cursor":"x"}`, "2 keys: /a, /b"},
		{"Memory.Search", `{"query":"a"}`, `{"results":[{"key":"/a","value":"b","score":1}]}`, "results: /a"},
		{"Http.Fetch", `{"url":"https://example.com/"}`, `{"status":200,"headers":{"a":"b"},"body":"x"}`, `status: 200, headers: {"a":"b"}, body: x`},
		{"Syscall.Call", `{"type":"Memory.Delete","data":{"key":"/a"}}`, `{"success":true}`, "Deleted /a"},
		{"Own.Call", `{}`, `{}`, "done"},
		{"Own.Call", `{}`, `[1,2]`, "1, 2"},
	} {
		s := transcript{screen: &terminal.Screen{Width: 80}}
		s.message(&entry{Type: "tool-calls", Calls: []call{{ID: "1", Name: c.name, Args: json.RawMessage(c.args)}}})
		got := s.message(&entry{Type: "tool-results", Timestamp: 2, Results: []result{{CallID: "1", Name: c.name, Output: json.RawMessage(c.output)}}})
		if len(got) != 1 || got[0] != "  ✓ 2ms "+c.want {
			t.Errorf("%s %s: got %q, want %q", c.name, c.output, got, c.want)
		}
	}
}

// A long result goes on below its beginning, for three lines at most.
func TestALongResultHasSeveralLines(t *testing.T) {
	for words, want := range map[int]string{
		4: "  ✓ 2ms one two three one two three one\n        two three one two three",
		9: "  ✓ 2ms one two three one two three one\n        two three one two three one two\n        three one two three one two …",
	} {
		s := transcript{screen: &terminal.Screen{Width: 40}}
		s.message(&entry{Type: "tool-calls", Calls: []call{{ID: "1", Name: "Own.Call"}}})
		output, _ := json.Marshal(strings.Repeat("one two three ", words))
		got := s.message(&entry{Type: "tool-results", Timestamp: 2, Results: []result{{CallID: "1", Name: "Own.Call", Output: output}}})
		if strings.Join(got, "\n") != want {
			t.Errorf("%d times: got %q, want %q", words, got, want)
		}
	}
}
