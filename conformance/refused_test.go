package conformance

import (
	"context"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
)

// TestRefusedLinesAreRecorded sends lines that are no valid messages. Of each whose kind, type
// and id can be read there is a record, which does not say what the line said.
func TestRefusedLinesAreRecorded(t *testing.T) {
	w, err := openWhole(t.TempDir(), around{engine: engines["pebble"]})
	if err != nil {
		t.Fatal(err)
	}
	conn := w.connect()
	for id, c := range map[message.ID]struct {
		line string
		kind message.Kind // "" if there is nothing to record
	}{
		"stamp":  {`{"kind":"query","type":"Ping","data":{"payload":"hunter2"},"metadata":{"id":"stamp"}}`, message.KindQuery},
		"extra":  {`{"kind":"command","type":"Echo","data":{"message":"hunter2"},"extra":"hunter2","metadata":{"id":"extra","timestamp":1,"correlation":"flow"}}`, message.KindCommand},
		"cut":    {`{"kind":"event","type":"Sky.Fallen","metadata":{"id":"cut","timestamp":1},"data":{"with":"hunter2"`, message.KindEvent},
		"answer": {`{"kind":"reply","type":"Echo","data":"hunter2","metadata":{"id":"answer","timestamp":-1,"causation":"c"}}`, message.KindReply},
		"fault":  {`{"kind":"error","type":"Echo","data":{"code":400,"message":"hunter2"},"metadata":{"id":"fault","timestamp":-1,"causation":"c"}}`, message.KindError},
		"long":   {`{"kind":"command","type":"Echo","metadata":{"id":"long","timestamp":1},"data":{"message":"` + strings.Repeat("hunter2 ", 3000) + `"}}`, message.KindCommand},
		"older":  {`{"type":"response","name":"Echo","payload":"hunter2","metadata":{"id":"older","timestamp":"hunter2"}}`, message.KindReply},
		"none":   {`{"kind":"shout","type":"Echo","data":"hunter2","metadata":{"id":"none","timestamp":1}}`, ""},
		"name":   {`{"kind":"command","type":"echo.it","data":"hunter2","metadata":{"id":"name","timestamp":1}}`, ""},
	} {
		answer, err := conn.ask(c.line)
		if err != nil || !strings.Contains(answer, `"`+string(id)+`"`) || !strings.Contains(answer, `error`) {
			t.Errorf("%s is answered with %s, %v", id, answer, err)
		}
		e, err := w.journal.Get(context.Background(), id)
		if c.kind == "" {
			if err == nil {
				t.Errorf("%s is recorded as %s", id, message.Append(nil, &e.Message))
			}
			continue
		}
		if err != nil || e.Message.Kind != c.kind || string(e.Message.Data) != kernel.RefusedData || e.Way != kernel.In || !e.Redacted {
			t.Errorf("%s is recorded as %+v, %v", id, e, err)
		}
		if id == "extra" && e.Message.Metadata.Correlation != "flow" {
			t.Errorf("it belongs to the workflow %q", e.Message.Metadata.Correlation)
		}
	}
	if err := conn.in.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
