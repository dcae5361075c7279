package memory

import (
	"fmt"
	"testing"
)

// Programs look whether a key is there as often as they read one: a miss must not cost what a listing does.
func TestAMissIsCheapAmongManyKeys(t *testing.T) {
	w := newWorld(t, Options{})
	allocations := func(key string) float64 {
		return testing.AllocsPerRun(20, func() { w.ask("Get", fmt.Sprintf(`{"key":%q}`, key)) })
	}
	before := allocations("jobs/far-away")
	for i := range 2 * maxNear {
		w.ask("Set", fmt.Sprintf(`{"key":"jobs/status-of-number-%d","value":1}`, i))
	}
	if after := allocations("jobs/far-away"); after > before+3*maxNear {
		t.Errorf("a miss allocates %v times among many keys, %v times among none", after, before)
	}
}

// Of a folder that is there, no other one is named; nor is a folder a key.
func TestNearKeys(t *testing.T) {
	w := newWorld(t, Options{})
	for _, key := range []string{"notes/milk", "nodes/bread", "notes/bred/1", "top"} {
		w.ask("Set", fmt.Sprintf(`{"key":%q,"value":1}`, key))
	}
	for key, want := range map[string]string{
		"notes/mlik":  " (did you mean notes/milk?)",
		"notes/bread": "",
		"note/milk":   " (did you mean notes/milk?)",
		"node/bread":  " (did you mean nodes/bread?)",
		"tpo":         " (did you mean top?)",
		"other/key":   "",
	} {
		w.refuse("Get", fmt.Sprintf(`{"key":%q}`, key), 404, "Key not found: "+key+want)
	}
}
