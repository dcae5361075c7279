package message_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"kernos/message"
)

func TestValidateHasTheRulesOfDecode(t *testing.T) {
	ok := func() message.Message {
		return message.Message{Kind: message.KindQuery, Type: "Memory.Get", Data: json.RawMessage(`{}`), Metadata: message.Metadata{ID: "a", Timestamp: 1}}
	}
	for _, test := range []struct {
		name   string
		change func(*message.Message)
		field  string // at fault, "" if the message is fine
	}{
		{"nothing", func(*message.Message) {}, ""},
		{"no data is null", func(m *message.Message) { m.Data = nil }, ""},
		{"data with space around", func(m *message.Message) { m.Data = json.RawMessage(" 1 ") }, ""},
		{"all metadata", func(m *message.Message) {
			m.Metadata.Correlation, m.Metadata.Causation, m.Metadata.IdempotencyKey, m.Metadata.SchemaVersion = "c", "p", "k", "0.3"
		}, ""},
		{"a workflow that its cause belongs to", func(m *message.Message) { m.Metadata.Causation, m.Metadata.Inherited = "p", "w" }, ""},
		{"an id of 256 bytes", func(m *message.Message) { m.Metadata.ID = message.ID(strings.Repeat("x", 256)) }, ""},
		{"no kind", func(m *message.Message) { m.Kind = "" }, "kind"},
		{"other kind", func(m *message.Message) { m.Kind = "response" }, "kind"},
		{"no type", func(m *message.Message) { m.Type = "" }, "type"},
		{"other type", func(m *message.Message) { m.Type = "memory.get" }, "type"},
		{"no id", func(m *message.Message) { m.Metadata.ID = "" }, "metadata.id"},
		{"long id", func(m *message.Message) { m.Metadata.ID = message.ID(strings.Repeat("x", 257)) }, "metadata.id"},
		{"control character", func(m *message.Message) { m.Metadata.ID = "a\n" }, "metadata.id"},
		{"long correlation", func(m *message.Message) { m.Metadata.Correlation = strings.Repeat("x", 257) }, "metadata.correlation"},
		{"long causation", func(m *message.Message) { m.Metadata.Causation = message.ID(strings.Repeat("x", 257)) }, "metadata.causation"},
		{"long key", func(m *message.Message) { m.Metadata.IdempotencyKey = strings.Repeat("x", 257) }, "metadata.idempotencyKey"},
		{"long version", func(m *message.Message) { m.Metadata.SchemaVersion = strings.Repeat("x", 257) }, "metadata.schemaVersion"},
		{"negative time", func(m *message.Message) { m.Metadata.Timestamp = -1 }, "metadata.timestamp"},
		{"data that is no JSON", func(m *message.Message) { m.Data = json.RawMessage(`{`) }, "data"},
		{"two values as data", func(m *message.Message) { m.Data = json.RawMessage(`1 2`) }, "data"},
		{"data that would reach into the envelope", func(m *message.Message) { m.Data = json.RawMessage(`1,"metadata":{"id":"b","timestamp":1}`) }, "data"},
		{"data with a repeated name", func(m *message.Message) { m.Data = json.RawMessage(`{"a":1,"a":1}`) }, "data"},
		{"reply without causation", func(m *message.Message) { m.Kind = message.KindReply }, "metadata.causation"},
		{"reply with causation", func(m *message.Message) { m.Kind, m.Metadata.Causation = message.KindReply, "b" }, ""},
		{"error without error data", func(m *message.Message) { m.Kind = message.KindError }, "data"},
		{"error", func(m *message.Message) {
			m.Kind, m.Data = message.KindError, json.RawMessage(`{"code":404,"message":""}`)
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := ok()
			test.change(&m)
			err := m.Validate()
			if test.field == "" {
				if err != nil {
					t.Fatalf("got %v, want it accepted", err)
				}
				if _, err := message.Decode(message.Append(nil, &m)); err != nil {
					t.Errorf("Decode refuses what Validate accepts: %v", err)
				}
				return
			}
			var e *message.Error
			if !errors.As(err, &e) || e.Code != 422 || e.Field != test.field || e.Message == "" {
				t.Errorf("got %#v, want a 422 about %s", err, test.field)
			}
			if _, err := message.Decode(message.Append(nil, &m)); err == nil {
				t.Error("Decode accepts what Validate refuses")
			}
		})
	}
}
