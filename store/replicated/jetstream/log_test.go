package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"kernos/store/replicated"
)

func TestWhatIsAppendedIsFollowed(t *testing.T) {
	log := alone(t, Options{}).Log(origin)
	if last, err := log.Last(patient(t)); err != nil || !reflect.DeepEqual(last, replicated.Entry{}) {
		t.Fatalf("the last entry of an empty log: %+v, %v", last, err)
	}
	want := []replicated.Entry{entry(1, 1, 0), entry(1, 1, 3), entry(1, 4, 1), entry(2, 5, 0), entry(2, 5, 2)}
	after := uint64(0)
	for i := range want {
		after = mustAppend(t, log, after, want[i])
		want[i].Sequence = after
	}
	last := want[len(want)-1]
	last.Groups = make([][]byte, len(last.Groups))
	if got, err := log.Last(patient(t)); err != nil || !reflect.DeepEqual(got, last) {
		t.Errorf("the last entry: %+v, %v", got, err)
	}
	for i := range want {
		before := uint64(0)
		if i > 0 {
			before = want[i-1].Sequence
		}
		if got := take(t, log, before, len(want)-i); !reflect.DeepEqual(got, want[i:]) {
			t.Errorf("after %d: %+v", before, got)
		}
	}
}

func TestFollowWaitsForMore(t *testing.T) {
	log := alone(t, Options{}).Log(origin)
	first := mustAppend(t, log, 0, entry(1, 1, 1))
	seen := make(chan replicated.Entry)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- log.Follow(ctx, 0, func(e replicated.Entry) error {
			seen <- e
			return nil
		})
	}()
	<-seen
	mustAppend(t, log, first, entry(1, 2, 1))
	if e := <-seen; e.First != 2 {
		t.Errorf("got %+v", e)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
}

func TestOneOwnerOfManyBeginsAnEpoch(t *testing.T) {
	stream := alone(t, Options{})
	after := mustAppend(t, stream.Log(origin), 0, entry(1, 1, 0))
	// All begin the same epoch, so that their entries differ in nothing that a caller chose.
	errs := make([]error, 8)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { _, errs[i] = stream.Log(origin).Append(patient(t), after, entry(2, 1, 0)) })
	}
	wait.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else if !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("got %v; want ErrDeposed", err)
		}
	}
	if accepted != 1 {
		t.Errorf("%d of 8 owners began the epoch", accepted)
	}
}

func TestALogThatLostEntriesIsADivergence(t *testing.T) {
	log := alone(t, Options{}).Log(origin)
	after := mustAppend(t, log, 0, entry(1, 1, 1))
	if _, err := log.Append(patient(t), after+100, entry(1, 2, 1)); !errors.Is(err, replicated.ErrDiverged) {
		t.Errorf("Append: %v; want ErrDiverged", err)
	}
	if err := log.Follow(patient(t), after+100, nil); !errors.Is(err, replicated.ErrDiverged) {
		t.Errorf("Follow: %v; want ErrDiverged", err)
	}
}

func TestAGapIsAnError(t *testing.T) {
	stream := alone(t, Options{})
	log := stream.Log(origin)
	first := mustAppend(t, log, 0, entry(1, 1, 1))
	second := mustAppend(t, log, first, entry(1, 2, 1))
	mustAppend(t, log, second, entry(1, 3, 1))
	err := stream.stream.Purge(patient(t), jetstream.WithPurgeSubject(stream.Subject("origin", origin.Folder())), jetstream.WithPurgeSequence(second+1))
	if err != nil {
		t.Fatal(err)
	}
	seen := func(e replicated.Entry) error { return fmt.Errorf("an entry was seen: %+v", e) }
	for _, after := range []uint64{0, first} {
		if err := log.Follow(patient(t), after, seen); !errors.Is(err, ErrGap) {
			t.Errorf("after %d: %v; want ErrGap", after, err)
		}
	}
	if got := take(t, log, second, 1); got[0].First != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestLargeEntriesAreInTheObjectStore(t *testing.T) {
	for name, message := range map[string]int{"as large as the server takes": 0, "smaller": 10 << 10} {
		t.Run(name, func(t *testing.T) {
			stream := alone(t, Options{Message: message})
			log, random := stream.Log(origin), rand.NewChaCha8([32]byte{1})
			var want []replicated.Entry
			after := uint64(0)
			for i, size := range []int{100, 8 << 10, 11 << 10, 1<<20 - headers - 8, 1 << 20, 5<<20 + 1} {
				e := replicated.Entry{Epoch: 1, First: uint64(2*i + 1), Groups: [][]byte{make([]byte, size/2), make([]byte, size-size/2)}}
				for _, g := range e.Groups {
					_, _ = random.Read(g)
				}
				after = mustAppend(t, log, after, e)
				e.Sequence = after
				want = append(want, e)
			}
			got := take(t, log, 0, len(want))
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Errorf("entry %d differs", i)
				}
			}
			objects := 0
			if err := stream.Objects().Names(patient(t), "entry/", func(string, int64) bool { objects++; return true }); err != nil {
				t.Fatal(err)
			}
			if large := map[int]int{0: 2, 10 << 10: 4}[message]; objects != large {
				t.Errorf("%d entries are objects; want %d", objects, large)
			}
		})
	}
}

func TestBodiesThatAreDamagedAreRefused(t *testing.T) {
	groups := [][]byte{[]byte("one"), {}, []byte("three")}
	b := body(groups)
	e := replicated.Entry{Epoch: 3, First: 7, Groups: groups}
	m := Message{Sequence: 9, Header: headerOf(e, b)}
	got, count, sum, err := entryOf(m)
	if err != nil || got.Epoch != 3 || got.First != 7 || got.Sequence != 9 || count != 3 {
		t.Fatalf("got %+v, %d groups, %v", got, count, err)
	}
	if back, err := groupsOf(b, count, sum); err != nil || len(back) != 3 || !bytes.Equal(back[2], groups[2]) {
		t.Errorf("got %q, %v", back, err)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1
		if _, err := groupsOf(damaged, count, sum); !errors.Is(err, errDamaged) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	if _, err := groupsOf(b[:len(b)-1], count, sum); !errors.Is(err, errDamaged) {
		t.Error("a body that is cut off is accepted")
	}
	m.Header.Set(headerEntry, "3 7")
	if _, _, _, err := entryOf(m); !errors.Is(err, errDamaged) {
		t.Error("a header that is cut off is accepted")
	}
}

func TestAnEntryThatIsAppendedAgainIsTheSame(t *testing.T) {
	stream := alone(t, Options{})
	log := stream.Log(origin)
	first := mustAppend(t, log, 0, entry(1, 1, 0))
	if again := mustAppend(t, log, 0, entry(1, 1, 0)); again != first {
		t.Errorf("the entry is at %d, and at %d", first, again)
	}
	mark := mustAppend(t, log, first, entry(1, 1, 0))
	if again := mustAppend(t, log, first, entry(1, 1, 0)); again != mark || mark == first {
		t.Errorf("the second entry is at %d and at %d, after %d", mark, again, first)
	}
	for _, e := range []replicated.Entry{entry(1, 1, 1), entry(2, 1, 0), entry(1, 2, 0)} {
		if _, err := log.Append(patient(t), first, e); !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("%+v: %v; want ErrDeposed", e, err)
		}
	}
	if _, err := stream.Log(origin).Append(patient(t), first, entry(1, 1, 0)); !errors.Is(err, replicated.ErrDeposed) {
		t.Errorf("another owner: %v; want ErrDeposed", err)
	}
}
