package journal

import (
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// The record of a changed setting survives its age, also if the process ends at once.
func TestTrimByAgeKeepsChangesOfSettings(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, &Options{Retention: Retention{MaxAge: time.Nanosecond}})
	change := message.Message{Kind: message.KindEvent, Type: kernel.SettingChanged, Data: []byte(`{"name":"timeout"}`), Metadata: message.Metadata{ID: "change", Timestamp: 1}}
	forged := change
	forged.Metadata.ID = "forged"
	j.Record(in(query("old", "Ping", `1`)))
	j.Record(kernel.Record{Message: &change, Way: kernel.Within})
	j.Record(kernel.Record{Message: &forged, Way: kernel.In, Claim: true})
	if d, err := j.Trim(t.Context(), time.Now().Add(MinAge-time.Minute)); err != nil || d.Messages > 0 {
		t.Fatalf("dropped %+v within an hour, %v", d, err)
	}
	if d, err := j.Trim(t.Context(), time.Now().Add(2*MinAge)); err != nil || d.Messages != 3 {
		t.Fatalf("dropped %+v, %v", d, err)
	}
	again := open(t, s, nil) // nothing was written since
	for id, there := range map[message.ID]bool{"change": true, "forged": false, "old": false} {
		e, err := again.Get(t.Context(), id)
		if (err == nil) != there {
			t.Errorf("%s: %+v, %v", id, e, err)
		}
	}
	if err := again.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
