package daemon

import (
	"encoding/json"
	"fmt"
	"testing"

	"kernos/capability/lifecycle"
	"kernos/message"
)

// A kernel that isn't asked by meaning holds no vectors in memory, however many there are in its home.
func TestVectorsAreReadWhenTheyAreAskedFor(t *testing.T) {
	home := t.TempDir()
	open := func() *Daemon {
		d, err := Open(&Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	call := func(d *Daemon, kind message.Kind, what message.Type, data string) json.RawMessage {
		t.Helper()
		out, err := d.Call(t.Context(), message.Message{Kind: kind, Type: what, Data: json.RawMessage(data)}, nil)
		if err != nil || out.Kind != message.KindReply {
			t.Fatalf("%s: %s, %v", what, out.Data, err)
		}
		return out.Data
	}
	meaning := func(d *Daemon) lifecycle.Meaning {
		var s lifecycle.Status
		if err := json.Unmarshal(call(d, message.KindQuery, "Kernel.Status", `{}`), &s); err != nil {
			t.Fatal(err)
		}
		return s.Meaning
	}
	d := open()
	for i := range 700 { // with their replies, more than an index keeps outside of its blocks
		call(d, message.KindCommand, "Echo", fmt.Sprintf(`{"message":"the giraffe number %d eats leaves"}`, i))
	}
	for m := meaning(d); m.Entries < 1400 || m.Behind > 0; m = meaning(d) {
		if err := d.Journal().Flush(); err != nil || t.Context().Err() != nil {
			t.Fatal(err, m)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer func() { _ = d.Close() }()
	call(d, message.KindQuery, "Message.Search", `{"query":"giraffe","mode":"words"}`)
	if m := meaning(d); m.Entries < 1400 || m.Bytes != 0 {
		t.Errorf("before a search by meaning: %+v", m)
	}
	call(d, message.KindQuery, "Message.Search", `{"query":"tall animal","mode":"meaning"}`)
	if m := meaning(d); m.Bytes == 0 {
		t.Errorf("after a search by meaning: %+v", m)
	}
}
