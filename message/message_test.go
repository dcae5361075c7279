package message_test

import (
	"encoding/json"
	"testing"

	"kernos/message"
)

func TestKindsEitherAskAnswerOrTell(t *testing.T) {
	for _, test := range []struct {
		kind                 message.Kind
		asks, answers, valid bool
	}{
		{message.KindCommand, true, false, true},
		{message.KindQuery, true, false, true},
		{message.KindEvent, false, false, true},
		{message.KindReply, false, true, true},
		{message.KindError, false, true, true},
		{"", false, false, false}, {"Query", false, false, false}, {"response", false, false, false},
	} {
		if k := test.kind; k.Asks() != test.asks || k.Answers() != test.answers || k.Valid() != test.valid {
			t.Errorf("%q: asks %v, answers %v, valid %v", k, k.Asks(), k.Answers(), k.Valid())
		}
	}
}

// What an answer repeats of its request is all that ties the two together. It must
// not repeat what belongs to the request alone.
func TestAnswersAndEventsCarryTheLineageOfTheirRequest(t *testing.T) {
	const data = `{"a":1}`
	failure := &message.Error{Code: 404, Message: "gone"}
	for _, test := range []struct {
		name             string
		correlation      string
		ofAnswer, ofRest string // the correlation that is expected
	}{
		{"with a workflow", "w", "w", "w"},
		{"without one, what it causes begins one", "", "", "q1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: json.RawMessage(`1`), Metadata: message.Metadata{
				ID: "q1", Timestamp: 7, Correlation: test.correlation, Causation: "parent", IdempotencyKey: "key", SchemaVersion: "3",
			}}
			answer := message.Metadata{Causation: "q1", Correlation: test.ofAnswer}
			caused := message.Metadata{Causation: "q1", Correlation: test.ofRest}

			reply := request.Reply(json.RawMessage(data))
			if reply.Kind != message.KindReply || reply.Type != "Memory.Set" || string(reply.Data) != data || reply.Metadata != answer || reply.Err != nil {
				t.Errorf("the reply is %+v", reply)
			}
			fail := request.Fail(failure)
			if fail.Kind != message.KindError || fail.Type != "Memory.Set" || string(fail.Data) != `{"code":404,"message":"gone"}` || fail.Metadata != answer || fail.Err != failure {
				t.Errorf("the error is %+v", fail)
			}
			event := request.Event("Memory.Changed", json.RawMessage(data))
			if event.Kind != message.KindEvent || event.Type != "Memory.Changed" || string(event.Data) != data || event.Metadata != caused || event.Err != nil {
				t.Errorf("the event is %+v", event)
			}
			if got := request.Caused(); got != caused {
				t.Errorf("what it causes has %+v", got)
			}
		})
	}
}

// A chain of causes keeps the workflow of its root, and each link its own parent.
func TestWorkflowReachesThroughAChain(t *testing.T) {
	root := message.Message{Kind: message.KindQuery, Type: "Ping", Metadata: message.Metadata{ID: "root"}}
	first := root.Event("A.Happened", nil)
	first.Metadata.ID = "first"
	second := first.Event("B.Happened", nil)
	if want := (message.Metadata{Correlation: "root", Causation: "first"}); second.Metadata != want {
		t.Errorf("got %+v, want %+v", second.Metadata, want)
	}
}

func TestCloneOwnsItsData(t *testing.T) {
	text := []byte(line(`"query"`, `"Ping"`, `{"payload":1}`, meta))
	m, err := message.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	clone := m.Clone()
	clear(text)
	if string(clone.Data) != `{"payload":1}` || clone.Type != m.Type || clone.Metadata != m.Metadata || clone.Kind != m.Kind {
		t.Errorf("after the line was overwritten the clone is %+v", clone)
	}
}
