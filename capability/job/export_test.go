package job

import (
	"testing"
	"time"

	"kernos/internal/jsonvalue"
	"kernos/store"
)

// Times returns the times of a schedule after from and until to.
func Times(t *testing.T, expression, zone string, from, to time.Time) (times []time.Time) {
	t.Helper()
	s, err := readSchedule(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	for at := s.next(from); !at.IsZero() && !at.After(to); at = s.next(at) {
		times = append(times, at)
	}
	return times
}

// AddCompleted adds to a batch a job that has ended well, as it is stored.
func AddCompleted(b *store.Batch, id string) {
	r := record{spec: spec{ID: id, Name: "Test.Count"}, state: state{Status: statusCompleted}}
	b.Set(key(keySpec, id), jsonvalue.Marshal(&r.spec))
	r.store(b)
}

// Looked is how many jobs one page of a list looks at.
const Looked = maxLooked
