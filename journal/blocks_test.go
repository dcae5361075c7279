package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// byHand returns a journal that writes when it is told to, so that a test says what is one
// flush.
func byHand(t testing.TB, s store.Store, opts *Options) *Journal {
	j := open(t, s, opts)
	j.flushing.started, j.indexing.started = true, true
	return j
}

func flush(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestBusyFlushWritesFewKeys(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, nil)
	for i := range 500 {
		exchange(j, query(message.ID(fmt.Sprint(i)), "Ping", `{"payload":"hello"}`), `{"pong":true}`)
	}
	flush(t, j)
	if keys, blocks := count(t, s, spaceNames), count(t, s, spaceBlocks); keys != 0 || blocks == 0 || blocks > buckets {
		t.Errorf("%d keys and %d blocks", keys, blocks)
	}
	check(t, j)
	exchange(j, query("one", "Ping", `1`), `1`)
	blocks := count(t, s, spaceBlocks)
	flush(t, j)
	if keys, more := count(t, s, spaceNames), count(t, s, spaceBlocks)-blocks; keys != 4 || more != 0 {
		t.Errorf("a flush of one exchange has written %d keys and %d blocks", keys, more)
	}
	check(t, j)
}

// mixed records busy and slow traffic in turns.
func mixed(t testing.TB, j *Journal, rounds int) (all []message.Message) {
	for i := range rounds {
		switch i % 4 {
		case 0, 1:
			all = append(all, conversation(j, 200)...)
		default:
			all = append(all, conversation(j, 3)...)
		}
		flush(t, j)
	}
	return all
}

func TestNamesAreFoundInKeysAndBlocks(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, nil)
	all := mixed(t, j, 11)
	if keys, blocks := count(t, s, spaceNames), count(t, s, spaceBlocks); keys == 0 || blocks == 0 {
		t.Fatalf("%d keys and %d blocks", keys, blocks)
	}
	check(t, j)
	for _, limit := range []int{7, 100, MaxLimit} {
		filtersFind(t, j, all, limit)
	}
	// From every message on, in both directions: a border of a flush is never in the way.
	f := Filter{Correlation: "c7"}
	var want []uint64
	for i := range all {
		if wants(f, &all[i]) {
			want = append(want, uint64(i+1))
		}
	}
	for after := uint64(1); after <= uint64(len(all)); after += 5 {
		at, found := slices.BinarySearch(want, after)
		behind := at
		if found {
			behind++
		}
		for _, reverse := range []bool{false, true} {
			rest := want[behind:]
			if reverse {
				rest = slices.Clone(want[:at])
				slices.Reverse(rest)
			}
			entries, _, err := j.List(t.Context(), Query{Filter: f, After: after, Reverse: reverse, Limit: 3})
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for _, e := range entries {
				got = append(got, e.Seq)
			}
			if !slices.Equal(got, rest[:min(3, len(rest))]) {
				t.Fatalf("after %d, reverse %v: got %v, want %v", after, reverse, got, rest[:min(3, len(rest))])
			}
		}
	}
}

// A reader who wants little does not read the blocks of the whole journal.
func TestListReadsNoMoreBlocksThanItNeeds(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, nil)
	for i := range 40 {
		for k := range 200 {
			exchange(j, query(message.ID(fmt.Sprintf("%d-%d", i, k)), "Ping", `1`), `1`)
		}
		flush(t, j)
	}
	for _, q := range []Query{{}, {Reverse: true}, {After: 8000}, {After: 8000, Reverse: true}} {
		q.Type, q.Limit = "Ping", 10
		snapshot, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		c := counting{Snapshot: snapshot}
		within := bounds{low: q.After + 1, high: 1 << 62}
		if q.Reverse && q.After > 0 {
			within = bounds{low: 1, high: q.After}
		}
		n := 0
		m := q.matcher()
		if err := each(t.Context(), &c, within, &m, q.Reverse, func(*record) bool { n++; return n < q.Limit }); err != nil {
			t.Fatal(err)
		}
		if n != q.Limit || c.blocks > 2 {
			t.Errorf("%+v: %d messages after %d blocks", q, n, c.blocks)
		}
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	}
}

// counting counts the blocks that are read.
type counting struct {
	store.Snapshot
	blocks int
}

func (c *counting) Scan(r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range c.Snapshot.Scan(r) {
			if bytes.HasPrefix(e.Key, key(spaceBlocks)) {
				c.blocks++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestNamesThatAreTheSameToABlockAreToldApart(t *testing.T) {
	const a, b = "q480700", "q1028227"
	na, nb := nameOf(tagID, []byte(a)), nameOf(tagID, []byte(b))
	if na == nb || na.short() != nb.short() || na.bucket() != nb.bucket() {
		t.Fatalf("%x and %x do not collide", uint64(na), uint64(nb))
	}
	j := byHand(t, memory(t), nil)
	j.Record(in(query(a, "Ping", `1`)))
	j.Record(in(query(b, "Ping", `2`)))
	conversation(j, 200)
	j.Record(in(query(b, "Ping", `3`)))
	flush(t, j)
	check(t, j)
	for i, id := range []message.ID{a, b} {
		if e, err := j.Get(t.Context(), id); err != nil || e.Seq != uint64(i+1) {
			t.Errorf("%s is found as %d: %v", id, e.Seq, err)
		}
	}
	if got := list(t, j, Query{Filter: Filter{Correlation: b}}); len(got) != 2 || got[1].Seq < 200 {
		t.Errorf("got %v", ids(got))
	}
}

func TestNameThatIsNotInItsBucketIsNotFound(t *testing.T) {
	seqs := []uint64{7, 20, 300}
	n := nameOf(tagID, []byte("a"))
	others := []name{n + 1, n + 2, n ^ 1<<31, nameOf(tagType, []byte("a"))}
	b := aBlock(n, n+2, n^1<<31)
	for i, o := range others {
		got, err := o.find(nil, 7, b)
		want := [][]uint64{nil, seqs[1:], seqs[2:], nil}[i]
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("name %d is on pages %v, want %v: %v", i, got, want, err)
		}
	}
}

// Retention drops spans, and spans end within flushes.
func TestRetentionCutsThroughABlock(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, &Options{Retention: Retention{MaxBytes: 150_000, MaxAge: 24 * time.Hour}})
	all := mixed(t, j, 40)
	d, err := j.Trim(t.Context(), time.Now())
	if err != nil || d.Messages == 0 || d.Messages >= uint64(len(all)) {
		t.Fatalf("%+v, %v", d, err)
	}
	check(t, j)
	straddling := 0
	for e, err := range s.Scan(store.Prefix(key(spaceBlocks))) {
		if err != nil {
			t.Fatal(err)
		}
		if keySeq(e.Key) <= d.Seq {
			straddling++
		}
	}
	if straddling == 0 || straddling > buckets {
		t.Errorf("%d blocks list pages on both sides", straddling)
	}
	filtersFind(t, j, all, 100)
	conversation(j, 300)
	check(t, j)
	if _, err := j.Trim(t.Context(), time.Now().Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(t, j)
	for _, space := range []byte{spacePages, spaceNames, spaceBlocks} {
		if n := count(t, s, space); n != 0 {
			t.Errorf("%d keys are left in %c", n, space)
		}
	}
}

func TestCheckFindsWhatIsWrongWithBlocks(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(b *store.Batch, blocks []store.Entry)
		want  string
	}{
		{"a block is missing", func(b *store.Batch, blocks []store.Entry) { b.Delete(blocks[3].Key) }, "that no key has and no block lists"},
		{"a block is damaged", func(b *store.Batch, blocks []store.Entry) { b.Set(blocks[3].Key, blocks[3].Value[1:]) }, "can't be read"},
		{"a page is listed that is not there", func(b *store.Batch, blocks []store.Entry) {
			b.Set(blockKey(nil, 5, 1<<40), aBlock(codeName(1)))
		}, "which is not there"},
		{"a name is listed twice", func(b *store.Batch, blocks []store.Entry) {
			b.Set(blockKey(nil, 5, 1), appendBlock(nil, []mention{mentionOf(codeName(1), 0)}, []uint64{1}))
		}, "P2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := memory(t)
			j := byHand(t, s, nil)
			conversation(j, 300)
			flush(t, j)
			check(t, j)
			var blocks []store.Entry
			for e, err := range s.Scan(store.Prefix(key(spaceBlocks))) {
				if err != nil {
					t.Fatal(err)
				}
				blocks = append(blocks, store.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
			}
			var b store.Batch
			test.spoil(&b, blocks)
			if _, err := s.Apply(&b); err != nil {
				t.Fatal(err)
			}
			if err := j.Check(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDamagedBlockIsAnErrorForWhoNeedsIt(t *testing.T) {
	s := memory(t)
	j := byHand(t, s, nil)
	conversation(j, 300)
	flush(t, j)
	var b store.Batch
	b.Set(blockKey(nil, nameOf(tagID, []byte("c7")).bucket(), 1), []byte("no block"))
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
	_, _, err := j.List(t.Context(), Query{Filter: Filter{Correlation: "c7"}})
	if e, ok := errors.AsType[*store.Error](err); !ok || e.Code != 500 || !errors.Is(err, errBlock) {
		t.Errorf("got %v", err)
	}
	if _, _, err := j.List(t.Context(), Query{}); err != nil {
		t.Errorf("got %v", err)
	}
}

// As TestJournalAgreesAfterACrashAtEveryCommit, with flushes that write blocks.
func TestBlocksAgreeAfterACrashAtEveryCommit(t *testing.T) {
	work := func(s *storetest.Memory) {
		j := New(s, &Options{Retention: Retention{MaxAge: time.Hour}, Log: quiet})
		j.flushing.started, j.indexing.started = true, true
		for round := range 3 {
			for i := range 25 {
				id := fmt.Sprintf("%d-%d", round, i)
				_ = set(j, s, id)
				for k := range 12 {
					exchange(j, query(message.ID(fmt.Sprintf("q%s-%d", id, k)), "Ping", `{"payload":"hello"}`), `{"pong":true}`)
				}
			}
			_ = j.Flush() // busy
			exchange(j, query(message.ID(fmt.Sprintf("slow%d", round)), "Ping", `1`), `1`)
			_ = j.Flush()
			if round == 1 {
				_, _ = j.Trim(context.Background(), time.Now().Add(2*time.Hour))
			}
		}
		_ = j.Close()
	}
	s := storetest.NewMemory()
	s.Manual()
	work(s)
	commits := s.Pending()
	if commits < 75 || count(t, s, spaceBlocks) == 0 {
		t.Fatalf("%d commits, %d blocks", commits, count(t, s, spaceBlocks))
	}
	for keep := 0; keep <= commits; keep += 4 / storetest.Sized(4) { // every commit, or with the race detector every fourth
		s := storetest.NewMemory()
		s.Manual()
		work(s)
		after := s.Crash(keep)
		j := New(after, &Options{Log: quiet})
		if err := j.Check(context.Background()); err != nil {
			t.Fatalf("after %d commits: %v", keep, err)
		}
		for e, err := range after.Scan(store.Prefix([]byte("m/"))) {
			if err != nil {
				t.Fatal(err)
			}
			id := message.ID(strings.TrimPrefix(string(e.Key), "m/"))
			d, err := j.Dropped()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(list(t, j, Query{Filter: Filter{Correlation: string(id)}})); n == 0 && d.Messages == 0 {
				t.Fatalf("after %d commits: the effect of %s has no record", keep, id)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyTailsAreRecoveredIntoBlocks(t *testing.T) {
	for _, keep := range []int{300, 50} {
		s := memory(t)
		s.Manual()
		j := byHand(t, s, nil)
		for i := range 300 {
			if err := set(j, s, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		after := s.Crash(keep)
		again := open(t, after, nil)
		check(t, again)
		for i := range keep {
			if n := len(list(t, again, Query{Filter: Filter{Causation: message.ID(fmt.Sprint(i))}})); n != 2 {
				t.Fatalf("%d of %d has %d answers", i, keep, n)
			}
		}
		if busy := count(t, after, spaceBlocks) > 0; busy != (keep == 300) {
			t.Errorf("%d tails: blocks are %v", keep, busy)
		}
	}
}
