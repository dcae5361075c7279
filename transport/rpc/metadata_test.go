package rpc

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// A request carries what the message of its call says about itself, and the kernel checks it.
func TestARequestHasMetadata(t *testing.T) {
	var got message.Message
	see := kerneltest.Raw("Test.See", func(_ context.Context, m message.Message, emit kernel.Emit) {
		got = m
		emit(m.Reply([]byte("1")))
	})
	c := dial(t, newService(t, nil, see))
	say := func(metadata string) []item {
		t.Helper()
		got = message.Message{}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"test_see","metadata":%s}`, metadata)
		id, _ := strconv.Unquote(string(c.read().Result))
		return c.items(id)
	}
	if all := say(`{"id":"mine","correlation":"flow","causation":"cause","idempotencyKey":"key","other":1}`); kinds(all) != "data done" {
		t.Fatalf("got %v", all)
	}
	want := message.Metadata{ID: "mine", Correlation: "flow", Causation: "cause", IdempotencyKey: "key", Timestamp: got.Metadata.Timestamp}
	if got.Metadata != want || want.Timestamp == 0 {
		t.Errorf("got %+v", got)
	}
	if say(`{"x-tenant": "acme", "tracestate":"a=1","correlation":null}`); got.Metadata.Extra != `"x-tenant":"acme","tracestate":"a=1"` || got.Metadata.Correlation != "" {
		t.Errorf("got %+v", got)
	}
	if say(`{},"kind":"command"`); got.Kind != message.KindCommand {
		t.Errorf("got %+v", got)
	}
	if say(`{}`); got.Metadata.ID == "" || got.Metadata.Correlation != "" {
		t.Errorf("got %+v", got)
	}
	for _, metadata := range []string{
		`{"id":"` + strings.Repeat("x", message.MaxIDLength+1) + `"}`,
		`{"correlation":"` + strings.Repeat("x", message.MaxIDLength+1) + `"}`,
		`{"causation":"a\u0000b"}`,
		`{"traceparent":7}`,
	} {
		if all := say(metadata); !strings.HasSuffix(kinds(all), "error done") || all[len(all)-2].Code != 422 || got.Type != "" {
			t.Errorf("%.40s: got %v", metadata, all)
		}
	}
}
