package osevent_test

import (
	"reflect"
	"testing"

	"kernos/message"
	"kernos/message/osevent"
)

// FuzzTranslate: what is a message of the older dialect is one of the current
// dialect when translated, and stays the same on the way back.
func FuzzTranslate(f *testing.F) {
	for _, s := range []string{
		`{"type":"command","name":"Echo","payload":{"message":"hello"},"metadata":{"id":"abc123","timestamp":1735000000000}}`,
		`{"type":"response","name":"Echo","payload":{"echo":"hello"},"metadata":{"id":"def456","timestamp":1735000001000,"causation":"abc123"}}`,
		`{"type":"event","name":"Job.Completed","payload":null,"metadata":{"id":"a","timestamp":0,"correlation":"w","idempotencyKey":"k","schemaVersion":"0.3"}}`,
		`{"name":"Validation.Failed"}`,
		oldError(`{"message":"Missing required field: type","code":"SCHEMA_VIOLATION","details":{"field":"type","expected":"string"}}`),
		oldError(`{"message":"m","code":"INTERNAL_ERROR","details":{"status":502,"cause":{"code":404,"message":"c","cause":{"code":400,"message":"\u00e9"}}}}`),
		oldError(`{"message":"m","code":"UNAUTHORIZED","details":{"status":401}}`), oldError(`{"message":1,"code":2,"details":3,"stack":"s"}`),
		oldError(`"oops"`), oldError(`null`), oldError(`{}`), oldError(`{"details":{"status":4e2,"cause":null}}`), oldError(`{ "c\u006fde" : "INVALID_JSON" , "details" : { } }`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		_ = osevent.NewEither(false, nil).Hear(message.SalvageLine(line))
		d := message.Decoder{Dialect: osevent.Dialect}
		m, err := d.Decode(line)
		if err != nil {
			return
		}
		current, lost := osevent.Translate(m)
		got, err := message.Decode(message.Append(nil, &current))
		if err != nil || !reflect.DeepEqual(got, current) {
			t.Fatalf("translated to %+v, read back as %+v, %v", current, got, err)
		}
		if m.Kind != message.KindError && (lost != nil || !reflect.DeepEqual(m, current)) {
			t.Fatalf("a message that is no error changed from %+v to %+v", m, current)
		}
		// The other way: what the current dialect says, the older one can say too.
		back, err := d.Decode(osevent.Append(nil, &current))
		if err != nil {
			t.Fatalf("it can't be said in the older dialect: %v", err)
		}
		again, lost := osevent.Translate(back)
		if lost != nil || !reflect.DeepEqual(again, current) {
			t.Fatalf("there and back again it is %+v, want %+v", again, current)
		}
	})
}
