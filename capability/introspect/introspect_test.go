package introspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

func TestSyscallsAnswer(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	summaries := make(map[message.Type]string)
	for _, s := range introspect.Module(nil).Syscalls {
		summaries[s.Type] = s.Summary
	}
	for _, c := range []struct {
		kind       message.Kind
		name       message.Type
		data, want string
	}{
		{message.KindCommand, "Echo", `{"message":"hello"}`, `{"echo":"hello"}`},
		{message.KindCommand, "Echo", `{"message":""}`, `{"echo":""}`},
		{message.KindCommand, "Echo", `{"message":"\u00e4\n\"😀"}`, `{"echo":"ä\n\"😀"}`},
		{message.KindQuery, "Ping", `{"payload":null}`, `{"payload":null}`},
		{message.KindCommand, "Ping", `{"payload":1}`, `{"payload":1}`},
		{message.KindQuery, "Syscall.Ping", `{"payload":1}`, `{"payload":1}`},
		// Nothing of a ping is decoded: neither numbers nor escapes nor order change.
		{message.KindQuery, "Ping", `{ "payload" : {"z":1.0,"a":1e999999999,"s":"\u0041\/" , "n":12345678901234567890123} }`,
			`{ "payload" : {"z":1.0,"a":1e999999999,"s":"\u0041\/" , "n":12345678901234567890123} }`},
		{message.KindQuery, "Syscall.List", `{}`, `{"syscalls":["Echo","Ping","Syscall.Call","Syscall.Describe","Syscall.List","Syscall.Search"],"summaries":{"Echo":"` + summaries["Echo"] + `","Ping":"` + summaries["Ping"] +
			`","Syscall.Call":"` + summaries["Syscall.Call"] + `","Syscall.Describe":"` + summaries["Syscall.Describe"] + `","Syscall.List":"` + summaries["Syscall.List"] + `","Syscall.Search":"` + summaries["Syscall.Search"] + `"}}`},
	} {
		if _, got := kerneltest.Exchange(k, kerneltest.Request(c.kind, "req-1", c.name, c.data)); got.Kind != message.KindReply || string(got.Data) != c.want {
			t.Errorf("%s %s: got %s %s", c.name, c.data, got.Kind, got.Data)
		}
	}
}

func TestSyscallsRefuse(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	for _, c := range []struct {
		kind message.Kind
		name message.Type
		data string
		code int
		text string
	}{
		{message.KindCommand, "Echo", `{}`, 422, "Schema validation failed: missing required field: message (a string: Message to echo back)"},
		{message.KindCommand, "Echo", `{"message":1}`, 422, "Schema validation failed: message: expected a string, got the number 1"},
		{message.KindCommand, "Echo", `{"message":"a","to":"b"}`, 422, "Schema validation failed: unknown field: to (it may have message)"},
		{message.KindQuery, "Echo", `{"message":"a"}`, 422, "Echo is a command and was sent as a query, which may not change anything; send it with kind command"},
		{message.KindQuery, "Ping", `{}`, 422, "Schema validation failed: missing required field: payload (Any JSON value)"},
		{message.KindQuery, "Ping", `1`, 422, "Schema validation failed: data: expected an object, got the number 1"},
		{message.KindQuery, "Syscall.List", `{"all":true}`, 422, "Schema validation failed: unknown field: all (there are none)"},
		{message.KindQuery, "Syscall.Describe", `{"name":"ecko"}`, 404, `No syscall is named "ecko": did you mean Echo?`},
		{message.KindQuery, "Syscall.Describe", `{"name":"Syscall.Descrybe"}`, 404, `No syscall is named "Syscall.Descrybe": did you mean Syscall.Describe?`},
		{message.KindQuery, "Syscall.Describe", `{"name":"Manual.Help"}`, 404, `No syscall is named "Manual.Help": for help there is Syscall.Describe, Syscall.List.`},
		{message.KindQuery, "Syscall.Describe", `{"name":"Quantum.Entangle"}`, 404, `No syscall is named "Quantum.Entangle": Syscall.List lists all syscalls.`},
		{message.KindQuery, "Syscall.Describe", `{"name":""}`, 422, "Schema validation failed: name: expected a string that is not empty, got an empty string"},
		{message.KindQuery, "Syscall.Describe", `{"name":"` + strings.Repeat("x", 1000) + `"}`, 404, `No syscall is named "` + strings.Repeat("x", 61) + `…": Syscall.List lists all syscalls.`},
	} {
		got := kerneltest.Answer(t, k, kerneltest.Request(c.kind, "req-1", c.name, c.data))
		e, err := message.ParseError(got.Data)
		if got.Kind != message.KindError || err != nil {
			t.Errorf("%s %.80s: got %s %s", c.name, c.data, got.Kind, got.Data)
			continue
		}
		if e.Code != c.code || e.Message != c.text {
			t.Errorf("%s %.80s: got %d %s", c.name, c.data, e.Code, e.Message)
		}
	}
}

// Appendix D of the specification shows this answer, up to the output.
// A syscall is described in whichever spelling it is named, and an alias under its own name.
func TestDescribeTakesEverySpelling(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	for given, want := range map[string]string{
		"Syscall.List": "Syscall.List", "syscall.list": "Syscall.List", "syscall_list": "Syscall.List", "Syscall_List": "Syscall.List",
		"syscall list": "Syscall.List", "echo": "Echo", "kernel_echo": "Echo", "Syscall.Ping": "Syscall.Ping",
	} {
		got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, given)))
		if !strings.HasPrefix(string(got.Data), fmt.Sprintf(`{"name":%q,`, want)) {
			t.Errorf("%s: got %s, want %s", given, got.Data, want)
		}
	}
}

func TestDescribeAnswersAsTheSpecificationDoes(t *testing.T) {
	const want = `{"name":"Echo","kind":"command",` +
		`"input":{"type":"object","properties":{"message":{"type":"string","description":"Message to echo back. Any string value is accepted."}},"required":["message"],"additionalProperties":false},` +
		`"output":{"type":"object","properties":{"echo":{"type":"string","description":"The echoed message, identical to input."}},"required":["echo"],"additionalProperties":false},` +
		`"summary":"Return a message unchanged.","example":{"message":"hello"}}`
	if got := kerneltest.Answer(t, kerneltest.Around(t, nil, introspect.Module), kerneltest.Query("req-1", "Syscall.Describe", `{"name":"Echo"}`)); string(got.Data) != want {
		t.Errorf("got %s", got.Data)
	}
}

// A caller that knows nothing asks for this first.
func TestDescribeWithoutANameDescribesMessages(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	data := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Describe", `{}`)).Data
	s, _ := k.Registry().Lookup("Syscall.Describe")
	if err := s.Output.Validate(data); err != nil {
		t.Errorf("the description breaks its own schema: %v", err)
	}
	var d struct{ Message, Example, Error json.RawMessage }
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	form, err := schema.Parse(d.Message)
	if err == nil {
		err = form.Validate(d.Example)
	}
	if err != nil {
		t.Errorf("the example isn't a request by the schema beside it: %v", err)
	}
	for _, line := range []json.RawMessage{d.Example, d.Error} {
		if _, err := new(message.Decoder).Decode(line); err != nil {
			t.Errorf("%s isn't a message: %v", line, err)
		}
	}
	for _, word := range []string{"correlation", "causation", "idempotencyKey", "dataRef", "Blob.Read", "Syscall.List", "text/event-stream", "499"} {
		if !strings.Contains(string(data), word) {
			t.Errorf("nothing is said about %s", word)
		}
	}
}

// Several syscalls are described at once, and what their schemas share is given once.
func TestDescribeSeveral(t *testing.T) {
	form := func(t message.Type, key string) kernel.Syscall {
		text := `{"type":"object","properties":{"at":{"$ref":"#/$defs/Place"}},"$defs":{"Place":{"type":"object","properties":{"` + key + `":{"$ref":"#/$defs/Name"}},"required":["` + key + `"]},"Name":{"type":"string"}}}`
		return kernel.Query(kernel.Definition{Type: t, Summary: "Find a place.", Input: schema.Written(text)}, func(context.Context, struct{}) (string, error) { return "", nil })
	}
	k := kerneltest.Around(t, nil, introspect.Module, form("Place.First", "city"), form("Place.Second", "city"), form("Place.Third", "street"))
	data := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Describe", `{"names":["echo","Place.First","Place.Second","Place.Third","Syscall.List"]}`)).Data
	s, _ := k.Registry().Lookup("Syscall.Describe")
	if err := s.Output.Validate(data); err != nil {
		t.Errorf("the descriptions break their schema: %v", err)
	}
	var got struct {
		Syscalls []struct {
			Name          string
			Input, Output json.RawMessage
		}
		Definitions json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(data, &got); err != nil || len(got.Syscalls) != 5 || got.Syscalls[0].Name != "Echo" {
		t.Fatalf("%v: %s", err, data)
	}
	for part, want := range map[string]int{"In place of a large reply": 1, `"city":`: 1, `"street":`: 1, `"Name":`: 1} {
		if n := strings.Count(string(data), part); n != want {
			t.Errorf("%s is there %d times: %s", part, n, data)
		}
	}
	for i, want := range map[int]string{1: `{"at":{"city":"Rome"}}`, 2: `{"at":{"city":"Rome"}}`, 3: `{"at":{"street":"Via Appia"}}`} {
		whole := strings.TrimSuffix(string(got.Syscalls[i].Input), "}") + `,"$defs":` + string(got.Definitions) + "}"
		input, err := schema.Parse(json.RawMessage(whole))
		if err != nil || input.Validate(json.RawMessage(want)) != nil || input.Validate(json.RawMessage(`{"at":{}}`)) == nil {
			t.Errorf("%s: %v: %s", got.Syscalls[i].Name, err, whole)
		}
	}

	e := kerneltest.Answer(t, k, kerneltest.Query("req-2", "Syscall.Describe", `{"names":["Echo","Quantum.Entangle","Syscall.Lst"]}`))
	const want = `No syscall is named "Quantum.Entangle": Syscall.List lists all syscalls; No syscall is named "Syscall.Lst": did you mean Syscall.List?`
	if code, text := kerneltest.ReadError(t, e); code != 404 || text != want {
		t.Errorf("got %d %s", code, text)
	}
}

func TestDescribeSaysTypeUnderItsOlderName(t *testing.T) {
	_, got := kerneltest.Exchange(kerneltest.Around(t, nil, introspect.Module), kerneltest.Query("req-1", "Sys.Describe", `{"name":"Ping"}`))
	if !strings.HasPrefix(string(got.Data), `{"name":"Ping","type":"query","input":{`) {
		t.Errorf("got %s", got.Data)
	}
}

func TestDescribeKnowsAliases(t *testing.T) {
	got := kerneltest.Answer(t, kerneltest.Around(t, nil, introspect.Module), kerneltest.Query("req-1", "Syscall.Describe", `{"name":"Syscall.Ping"}`))
	if !strings.HasPrefix(string(got.Data), `{"name":"Syscall.Ping","kind":"query","input":{`) {
		t.Errorf("got %s", got.Data)
	}
}

// Callers decide from descriptions alone what to send, so they must be complete, and
// the schemas must be such that any library takes them.
func TestDescribeIsCompleteForEveryBuiltIn(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	for _, name := range k.Registry().All().Types() {
		t.Run(string(name), func(t *testing.T) {
			data := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, name))).Data
			var d struct {
				Name, Kind, Summary    string
				Input, Output, Example json.RawMessage
			}
			if err := json.Unmarshal(data, &d); err != nil {
				t.Fatal(err)
			}
			if d.Name != string(name) || d.Kind != "command" && d.Kind != "query" {
				t.Errorf("got %s", data)
			}
			syscall, _ := k.Registry().Lookup(name)
			if d.Summary == "" || syscall.Input.Validate(d.Example) != nil {
				t.Errorf("no summary, or an example that isn't valid: %s", data)
			}
			for side, text := range map[string]json.RawMessage{"input": d.Input, "output": d.Output} {
				if _, err := schema.Parse(text); err != nil {
					t.Errorf("%s: %v", side, err)
				}
				complete(t, side, text)
			}
			// The description must fit what describes it.
			s, _ := k.Registry().Lookup("Syscall.Describe")
			if err := s.Output.Validate(data); err != nil {
				t.Errorf("the description breaks its own schema: %v", err)
			}
		})
	}
}

// complete checks that an object is closed, says what is required, and describes its
// properties.
func complete(t *testing.T, side string, text json.RawMessage) {
	t.Helper()
	var s struct {
		Type                 string
		Properties           map[string]struct{ Description string }
		Required             []string
		AdditionalProperties json.RawMessage
		AnyOf, OneOf         []json.RawMessage
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	for _, form := range slices.Concat(s.AnyOf, s.OneOf) {
		complete(t, side, form)
	}
	if s.AnyOf != nil || s.OneOf != nil || string(text) == "{}" {
		return
	}
	if s.Type != "object" || s.Properties == nil || s.Required == nil || string(s.AdditionalProperties) != "false" {
		t.Errorf("%s: %s is no closed object with properties and required", side, text)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s: %s has no description", side, name)
		}
	}
	for _, name := range s.Required {
		if _, ok := s.Properties[name]; !ok {
			t.Errorf("%s: %s is required and not there", side, name)
		}
	}
}

func TestListFollowsTheRegistry(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	more := kernel.Module{Name: "more", Version: "1.0.0", Summary: "More.", Syscalls: []kernel.Syscall{
		kernel.Query(kernel.Definition{Type: "More.Get", Summary: "Get more."}, func(context.Context, struct{}) (int, error) { return 1, nil }),
	}}
	list := func() []string {
		var l struct{ Syscalls []string }
		if err := json.Unmarshal(kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.List", `{}`)).Data, &l); err != nil {
			t.Fatal(err)
		}
		return l.Syscalls
	}
	if err := k.Registry().Add(more); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Contains(got, "More.Get") || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
	k.Registry().RemoveSyscall("More.Get")
	if got := list(); slices.Contains(got, "More.Get") {
		t.Errorf("got %v", got)
	}
}
