package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/rpc"
)

// TestGuidanceOfTheServerIsKnown keeps Guidance equal to what transport/rpc writes.
func TestGuidanceOfTheServerIsKnown(t *testing.T) {
	input := schema.Written(`{"type":"object","properties":{"id":{"type":"string","description":"An id."}},"required":["id"]}`)
	d := &kernel.Definition{Type: "Test.Get", Kind: message.KindQuery, Input: input, Output: schema.Any}
	for data, action := range map[string]string{`{}`: TryMethod, `{"id":1}`: Custom} {
		var got struct {
			Guidance
			MethodSchema json.RawMessage `json:"method_schema"` // clients read it from the module's schema
		}
		read := json.NewDecoder(bytes.NewReader(rpc.Guide(d, "get", json.RawMessage(data), &message.Error{Code: 422})))
		read.DisallowUnknownFields()
		if err := read.Decode(&got); err != nil || got.ErrorKind != InvalidParams || got.Action != action || got.Method != "get" || got.Reason == "" || got.SuggestedMethod != "get" {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
		if (got.Message != "") != (action == Custom) {
			t.Errorf("%s: %+v", data, got)
		}
	}

	next := make(chan int)
	close(next)
	c, err := Dial(testContext(t), Target{URL: "ws://" + serveCounting(t, next) + "/ws"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for method, want := range map[string][2]string{
		"test_cuont":            {MethodNotFound, TryMethod},
		"test_zzzzzz":           {MethodNotFound, CallModuleSchema},
		"weather_x":             {ModuleNotFound, CallServiceSchema},
		"service_module_schema": {InvalidParams, CallServiceSchema},
	} {
		_, err := c.Call(testContext(t), method, struct{}{})
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Guidance == nil || f.Guidance.ErrorKind != want[0] || f.Guidance.Action != want[1] {
			t.Errorf("%s: %v, with %+v; want %v", method, err, f, want)
		}
	}
}
