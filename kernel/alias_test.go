package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// A request whose parameters came under other names is the request that was meant, and the answer names them.
func TestAnswersNameParametersThatWereRenamed(t *testing.T) {
	type input struct {
		Name string `json:"name" aliases:"type" jsonschema_description:"A name."`
		Data string `json:"payload,omitempty" aliases:"data" jsonschema_description:"Data."`
	}
	var got []input
	start := kernel.Command(kernel.Definition{Type: "Test.Start", Summary: "Start."}, func(_ context.Context, in input) (struct{}, error) {
		got = append(got, in)
		return struct{}{}, nil
	})
	k := kerneltest.New(t, &kernel.Options{}, start)
	ask := func(id, data, extra string) message.Message {
		m := message.Message{Kind: message.KindCommand, Type: "Test.Start", Data: json.RawMessage(data), Metadata: message.Metadata{ID: message.ID(id), Timestamp: 1, Extra: extra}}
		return kerneltest.Outcome(t.Context(), k, m)
	}
	for i, c := range []struct{ data, mine, note string }{
		{`{"type":"a","data":"b"}`, ``, "'type' was read as 'name'; 'data' was read as 'payload'"},
		{`{"name":"a","data":"b"}`, `kept`, "'data' was read as 'payload'"},
		{`{"name":"a","payload":"b"}`, ``, ""},
	} {
		answer := ask(fmt.Sprint("m", i), c.data, fmt.Sprintf(`"x-mine":%q`, c.mine))
		if answer.Kind != message.KindReply || answer.Metadata.Extension(kernel.Note) != c.note || answer.Metadata.Extension("x-mine") != c.mine {
			t.Errorf("%s: %+v", c.data, answer)
		}
		if in := got[len(got)-1]; in != (input{"a", "b"}) {
			t.Errorf("%s: the handler got %+v", c.data, in)
		}
	}
	if answer := ask("bad", `{"type":"a","name":"b"}`, ""); answer.Kind != message.KindError || len(got) != 3 {
		t.Errorf("both names: %+v", answer)
	}
	// An error is about what else is wrong.
	answer := ask("wrong", `{"type":"a","data":"b","tpyo":1}`, "")
	if _, text := kerneltest.ReadError(t, answer); text != "Schema validation failed: unknown field: tpyo (it may have name, payload)" {
		t.Error(text)
	}
	data, note := k.Meant("Test.Start", []byte(`{"type":"a"}`))
	if string(data) != `{"name":"a"}` || note != "'type' was read as 'name'" {
		t.Errorf("%s, %s", data, note)
	}
}
