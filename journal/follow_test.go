package journal

import (
	"fmt"
	"testing"
	"time"

	"kernos/message"
)

// A loop that is slow does not keep what retention drops: it is told, and goes on.
func TestFollowGoesOnBehindWhatIsDroppedMeanwhile(t *testing.T) {
	j := open(t, memory(t), &Options{Retention: Retention{MaxAge: time.Hour}})
	record := func(n int) {
		for range n {
			j.Record(in(query("a", "Ping", `1`)))
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	record(1)
	next := uint64(1)
	var gaps []string
	for e, err := range j.Follow(t.Context(), 0, Filter{Type: "Ping"}) {
		if missed, ok := err.(*Missed); ok {
			gaps = append(gaps, fmt.Sprint(missed.From, "-", missed.To))
			if missed.From != next {
				t.Errorf("missed %d to %d after %d", missed.From, missed.To, next-1)
			}
			next = missed.To + 1
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next {
			t.Fatalf("%d after %d", e.Seq, next-1)
		}
		next++
		if e.Seq == 1 { // while the loop is here, others are recorded and dropped
			record(2000)
			if _, err := j.Trim(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
				t.Fatal(err)
			}
			record(3)
		}
		if e.Seq == 2004 {
			break
		}
	}
	if fmt.Sprint(gaps) != "[2-2001]" {
		t.Errorf("missed %v", gaps)
	}
}

// Portions join without gap or repeat, whatever the filter.
func TestFollowJoinsPortions(t *testing.T) {
	j := open(t, memory(t), nil)
	const n = 3*portion + 17
	for i := range n {
		typ := message.Type("Ping")
		if i%5 == 0 {
			typ = "Echo"
		}
		j.Record(in(query("a", typ, `1`)))
	}
	for typ, step := range map[string]uint64{"": 1, "Echo": 5} {
		want := uint64(1)
		for e, err := range j.Follow(t.Context(), 0, Filter{Type: typ}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq != want {
				t.Fatalf("%q: got %d, want %d", typ, e.Seq, want)
			}
			if want += step; want > n {
				break
			}
		}
	}
}
