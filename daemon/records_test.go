package daemon

import (
	"testing"

	"kernos/journal"
	"kernos/store/storetest"
)

// Every record of a command names its sender, also where they are stored with the change.
func TestRecordsOfACommandNameItsSender(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	p := console(t)
	k.as(p, "Memory.Set", `{"key":"k","value":1}`)
	k.as(p, "Echo", `{"message":"hello"}`)
	all, _, err := k.state.journal.List(t.Context(), journal.Query{Limit: 100})
	if err != nil || len(all) != 5 { // a change publishes an event
		t.Errorf("%d records, %v", len(all), err)
	}
	for _, e := range all {
		if e.Principal != p.ID() || e.Name != p.Name() || e.Wire != "ws" {
			t.Errorf("%s %s acts for %q over %q", e.Message.Kind, e.Message.Type, e.Name, e.Wire)
		}
	}
	k.stop()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
