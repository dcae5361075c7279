package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/journal/words"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

func wordsOf(m message.Message) []string {
	var all []string
	t := words.Tokenizer{Emit: func(w []byte) { all = append(all, string(w)) }}
	t.Message([]byte(m.Type), m.Data)
	return all
}

// searchAll searches when all words are indexed. A search waits for the index for a second at
// most, and on a busy machine the index takes longer.
func searchAll(t *testing.T, j *Journal, q SearchQuery) (r SearchResult, err error) {
	t.Helper()
	for range 120 {
		if r, err = j.Search(t.Context(), q); err != nil || r.Behind == 0 {
			return r, err
		}
	}
	t.Fatalf("%d messages are not indexed", r.Behind)
	return r, err
}

func find(t *testing.T, j *Journal, q SearchQuery) []string {
	t.Helper()
	r, err := searchAll(t, j, q)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range r.Hits {
		all = append(all, string(h.Message.Metadata.ID))
	}
	return all
}

func TestSearchRanksMessagesWithAllWordsFirst(t *testing.T) {
	j := open(t, memory(t), nil)
	for i, text := range []string{
		"the quick brown fox", "the lazy dog", "fox fox fox fox fox", "a quick note that goes on and on about nothing and then some, with a fox in it",
		"the quick brown fox", "nothing",
	} {
		data, _ := json.Marshal(text)
		j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", string(data))))
	}
	for _, test := range []struct {
		words string
		want  string
	}{
		{"quick fox", "4 0 3 2"}, // those with both, the shorter ones and the newer ones first
		{"FOX", "2 4 0 3"},
		{"dog", "1"},
		{"unicorn", ""},
		{"unicorn lazy", "1"},
		{"quick quick fox", "4 0 3 2"},
		{"ping", "5 1 4 0 2 3"},
	} {
		if got := strings.Join(find(t, j, SearchQuery{Words: test.words}), " "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.words, got, test.want)
		}
	}
	if got := find(t, j, SearchQuery{Words: "ping", Limit: 2, Offset: 3}); !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("got %v", got)
	}
	if got := find(t, j, SearchQuery{Words: "ping", Offset: 100}); got != nil {
		t.Errorf("got %v", got)
	}
	for _, q := range []SearchQuery{{Words: " ,. "}, {}, {Words: "a", Offset: math.MaxInt}} {
		_, err := j.Search(t.Context(), q)
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 422 {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// Who sorts by score gets the order of the answer.
func TestOrderIsThatOfTheScores(t *testing.T) {
	j := open(t, memory(t), nil)
	for i := range 300 {
		text := strings.Repeat("rare ", i%7) + strings.Repeat("common ", i%3) + strings.Repeat("other ", i%11)
		j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", fmt.Sprintf("%q", text))))
	}
	for _, words := range []string{"rare", "rare common", "common other", "rare common other", "rare unicorn", "ping rare"} {
		r, err := searchAll(t, j, SearchQuery{Words: words, Limit: 300})
		if err != nil || len(r.Hits) == 0 {
			t.Fatalf("%s: %d, %v", words, len(r.Hits), err)
		}
		has := func(h Hit) (n int) {
			for _, w := range strings.Fields(words) {
				if strings.Contains(strings.ToLower(string(h.Message.Type)+string(h.Message.Data)), w) {
					n++
				}
			}
			return n
		}
		most := len(strings.Fields(words))
		for i := range r.Hits[1:] {
			a, b := r.Hits[i], r.Hits[i+1]
			if a.Score < b.Score || a.Score == b.Score && a.Seq < b.Seq {
				t.Errorf("%s: message %d with %v comes before %d with %v", words, a.Seq, a.Score, b.Seq, b.Score)
			}
			if has(a) < most && has(b) == most {
				t.Errorf("%s: message %d has not all words, and comes before %d, which has", words, a.Seq, b.Seq)
			}
		}
	}
}

// Pages of a search show each message once, however many are recorded between them.
func TestSearchGoesOnWithinItsHorizon(t *testing.T) {
	for _, before := range []int{50, 2 * spanMessages} {
		j := open(t, memory(t), nil)
		record := func(from, n int) {
			for i := from; i < from+n; i++ {
				text := strings.Repeat("rare ", i%5) + strings.Repeat("common ", 1+i%9)
				j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", fmt.Sprintf("%q", text))))
			}
		}
		record(0, before)
		whole, err := searchAll(t, j, SearchQuery{Words: "rare common", Limit: 40})
		if err != nil || len(whole.Hits) != 40 || whole.Total != before {
			t.Fatalf("%d of %d, %v", len(whole.Hits), whole.Total, err)
		}
		q := SearchQuery{Words: "rare common", Limit: 10}
		for page := range 4 {
			r, err := searchAll(t, j, q)
			if err != nil || r.Total != before || r.Horizon != whole.Horizon {
				t.Fatalf("page %d: %d in all up to %v, %v", page, r.Total, r.Horizon, err)
			}
			for i, h := range r.Hits {
				if want := whole.Hits[q.Offset+i]; h.Seq != want.Seq || h.Score != want.Score {
					t.Errorf("page %d has message %d with %v; want %d with %v", page, h.Seq, h.Score, want.Seq, want.Score)
				}
			}
			q.Offset += len(r.Hits)
			q.Horizon = r.Horizon
			record(before+page*1500, 1500) // also to the span that was the last one
		}
		if r, err := searchAll(t, j, SearchQuery{Words: "rare common"}); err != nil || r.Total != before+4*1500 {
			t.Errorf("without a horizon: %d in all, %v", r.Total, err)
		}
		q.Horizon = Horizon{Seq: math.MaxUint64}
		if r, err := searchAll(t, j, q); err != nil || r.Total != before+4*1500 {
			t.Errorf("behind the end: %d in all, %v", r.Total, err)
		}
	}
}

func TestScoreIsBM25(t *testing.T) {
	j := open(t, memory(t), nil)
	j.Record(in(query("a", "Ping", `"fox fox dog"`))) // 4 words with ping
	j.Record(in(query("b", "Ping", `"dog"`)))         // 2
	r, err := searchAll(t, j, SearchQuery{Words: "fox"})
	if err != nil || len(r.Hits) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	idf := math.Log(1 + (2-1+0.5)/(1+0.5))
	want := idf * 2 * 2.2 / (2 + 1.2*(1-0.75+0.75*4/3)) / (idf * 2.2) // as a part of the highest score
	if got := r.Hits[0].Score; math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A word finds the other forms of it, after itself, and the words that put the request count for nothing. What is written as a name or a code is meant as it stands.
func TestWordsFindTheirForms(t *testing.T) {
	j := open(t, memory(t), nil)
	for i, text := range []string{"nothing here", "the seal is broken", "sealing failed", "sealed twice", "errors", "an error", "seal_ed"} {
		j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", fmt.Sprintf("%q", text))))
	}
	j.Record(in(query("7", "Crypto.Seal", "{}")))
	j.Record(in(query("8", "Ping", `"a show that is related"`)))
	for words, want := range map[string]string{
		"sealing":        "2 7 6 3 1",
		"sealed":         "3 7 6 2 1",
		"error":          "5 4",
		"sealing errors": "4 5 2 7 6 3 1",
		"sealing_errors": "4 2",
		"seal_ed":        "6 7 1",
		// Words that put the request aren't searched for; elsewhere they are.
		"show me all errors related to sealing": "4 5 2 7 6 3 1",
		"a related show":                        "8",
		"show me":                               "8",
	} {
		if got := strings.Join(find(t, j, SearchQuery{Words: words}), " "); got != want {
			t.Errorf("%s: got %s, want %s", words, got, want)
		}
	}
}

func TestSearchOverSpansAndFilters(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	all := conversation(j, 5000)
	if n := len(all); n < 2*spanMessages {
		t.Fatalf("%d messages are not enough", n)
	}
	said := make([][]string, len(all))
	for i := range all {
		said[i] = wordsOf(all[i])
	}
	for round := range 2 {
		for _, test := range []struct {
			words string
			f     Filter
		}{
			{"word", Filter{}}, {"word", Filter{Type: "Memory.*"}}, {"word", Filter{Type: "Http.Fetch"}}, {"ok", Filter{Correlation: "c3"}},
			{"word text", Filter{Kinds: []message.Kind{message.KindQuery}}}, {"no", Filter{Codes: []int{404}}}, {"4999", Filter{}}, {"completed", Filter{Kinds: []message.Kind{message.KindEvent}}},
			{"completed", Filter{Correlation: "q17"}}, {"ok", Filter{Causation: "q18"}}, {"word", Filter{Type: "Nothing.*"}},
			{"word ok", Filter{Kinds: []message.Kind{message.KindQuery, message.KindEvent}}}, {"word ok", Filter{Type: "Http.Fetch,Ping"}}, {"word", Filter{Words: []string{"4999"}}},
		} {
			var want []uint64
			for i := range all {
				has := 0
				for _, w := range strings.Fields(test.words) {
					if slices.Contains(said[i], w) {
						has++
					}
				}
				if has > 0 && wants(test.f, &all[i]) {
					want = append(want, uint64(i+1))
				}
			}
			r, err := searchAll(t, j, SearchQuery{Words: test.words, Filter: test.f, Limit: MaxLimit})
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for _, h := range r.Hits {
				got = append(got, h.Seq)
			}
			slices.Sort(got)
			if r.Total != len(want) || !slices.Equal(got, want) {
				t.Errorf("round %d: %s %+v: %d and %d, want %d", round, test.words, test.f, r.Total, len(got), len(want))
			}
		}
		check(t, j)
		if n := count(t, s, spaceSpans); n < 3 {
			t.Errorf("%d spans", n)
		}
		// The same after a restart, which reads the last span again, and more messages.
		_ = j.Close()
		j = open(t, s, nil)
		m := query("more", "Ping", `{"text":"word ok no 4999 completed"}`)
		j.Record(in(m))
		all, said = append(all, m), append(said, wordsOf(m))
	}
}

func TestWhatIsRedactedIsNotFound(t *testing.T) {
	j := open(t, memory(t), nil)
	r := in(query("a", "Http.Fetch", `{"headers":{"Authorization":"Bearer hunter2"},"url":"x"}`))
	j.Record(r)
	refused := in(query("b", "No.Such", `"hunter2"`))
	refused.Refused = true
	j.Record(refused)
	for _, w := range []string{"hunter2", "bearer", "redacted", "refused"} {
		if got := find(t, j, SearchQuery{Words: w}); got != nil {
			t.Errorf("%s is found in %v", w, got)
		}
	}
	if got := find(t, j, SearchQuery{Words: "authorization"}); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	for _, e := range list(t, j, Query{}) {
		if !e.Redacted {
			t.Errorf("%s does not say that it is redacted", e.Message.Metadata.ID)
		}
	}
}

func TestTrimDropsWhatIsOldAndAllThatRefersToIt(t *testing.T) {
	s := memory(t)
	start := time.Now()
	j := open(t, s, &Options{Retention: Retention{MaxAge: time.Hour}})
	all := conversation(j, 5000)
	if d, err := j.Trim(t.Context(), start.Add(time.Minute)); err != nil || d != (Dropped{}) {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err := j.Trim(t.Context(), time.Now().Add(2*time.Hour))
	if err != nil || d.Messages != uint64(len(all)) || d.Seq != d.Messages || d.Why != "age" {
		t.Fatalf("%+v, %v; there were %d", d, err, len(all))
	}
	check(t, j)
	for _, space := range []byte{spacePages, spaceNames, spaceBlocks, spaceSpans, spaceWords} {
		if n := count(t, s, space); n != 0 {
			t.Errorf("%d keys are left in %c", n, space)
		}
	}
	_, err = j.Get(t.Context(), "q1")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("retention has dropped the %d messages", len(all))) {
		t.Errorf("got %v", err)
	}
	exchange(j, query("next", "Ping", `"word"`), `1`)
	if e, err := j.Get(t.Context(), "next"); err != nil || e.Seq != uint64(len(all)+1) {
		t.Errorf("%d, %v", e.Seq, err)
	}
	if got := find(t, j, SearchQuery{Words: "word"}); !slices.Equal(got, []string{"next"}) {
		t.Errorf("got %v", got)
	}
	check(t, j)
	_ = j.Close()
	again := open(t, s, nil)
	if st, err := again.Stats(); err != nil || st.Messages != 2 || st.FirstSeq != uint64(len(all)+1) || st.FirstAt == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if got, err := again.Dropped(); err != nil || got != d {
		t.Errorf("%+v, %v", got, err)
	}
}

// Messages keep coming, and those that are too old go.
func TestTrimByAgeWhileMessagesCome(t *testing.T) {
	const age = 10 * time.Hour
	for _, every := range []time.Duration{time.Minute, 30 * time.Minute, 3 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			j := open(t, memory(t), &Options{Retention: Retention{MaxAge: age}})
			dropped := uint64(0)
			for i := range int(40 * time.Hour / every) {
				j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", `"a word"`)))
				time.Sleep(every)
				d, err := j.Trim(t.Context(), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				dropped += d.Messages
			}
			s, err := j.Stats()
			if err != nil {
				t.Fatal(err)
			}
			// A tenth of the age is the grain, and an hour at most.
			if oldest := time.Since(time.UnixMilli(s.FirstAt)); oldest > age+time.Hour+every || oldest < age-every {
				t.Errorf("a message every %v: the oldest is of %v ago", every, oldest)
			}
			if s.FirstSeq != dropped+1 || dropped == 0 {
				t.Errorf("a message every %v: %d were dropped, and the first one is %d", every, dropped, s.FirstSeq)
			}
			if err := j.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A journal that is smaller than a span by itself has a size, too.
func TestTrimBySizeOfASmallJournal(t *testing.T) {
	for _, most := range []int64{5, 2_000, 60_000} {
		s := memory(t)
		j := open(t, s, nil)
		conversation(j, 1000)
		if err := j.catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		// It is set while there is a span that is larger already.
		for range 2 {
			j.SetRetention(Retention{MaxBytes: most})
			if _, err := j.Trim(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			st, err := j.Stats()
			if err != nil || st.Bytes > uint64(most) {
				t.Errorf("of at most %d bytes there are %d, %v", most, st.Bytes, err)
			}
			if err := j.Check(t.Context()); err != nil {
				t.Error(err)
			}
			conversation(j, 1000)
		}
		if most == 60_000 {
			if _, err := j.Trim(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			if st, err := j.Stats(); err != nil || st.Bytes < uint64(most)/2 {
				t.Errorf("of %d bytes there are only %d, %v", most, st.Bytes, err)
			}
		}
		// It goes on after it was opened again.
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, s, &Options{Retention: Retention{MaxBytes: most}})
		conversation(again, 100)
		if _, err := again.Trim(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := again.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestTrimKeepsTheNewestBytes(t *testing.T) {
	j := open(t, memory(t), &Options{Retention: Retention{MaxBytes: 300_000}})
	conversation(j, 8000)
	before, err := j.Stats()
	if err != nil {
		t.Fatal(err)
	}
	d, err := j.Trim(t.Context(), time.Now())
	if err != nil || d.Why != "bytes" {
		t.Fatalf("%+v, %v", d, err)
	}
	check(t, j)
	st, err := j.Stats()
	if err != nil || st.Bytes > 300_000 || st.Bytes < 10_000 || st.Bytes+d.Bytes != before.Bytes || st.LastSeq != before.LastSeq || st.FirstSeq != d.Seq+1 {
		t.Errorf("before %+v, then %+v: %v", before, st, err)
	}
	if got := list(t, j, Query{Limit: MaxLimit}); uint64(len(got)) != st.Messages || got[0].Seq != st.FirstSeq {
		t.Errorf("%d messages", len(got))
	}
}

func TestFollowShowsWhatIsDurableOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		j := New(s, &Options{Log: quiet})
		record := func(n int, typ message.Type) {
			for range n {
				j.Record(in(query("a", typ, `1`)))
			}
		}
		record(30, "Ping")
		var got []uint64
		var ended error
		go func() {
			for e, err := range j.Follow(context.Background(), 10, Filter{Type: "Ping"}) {
				if ended = err; err == nil {
					got = append(got, e.Seq)
				}
			}
		}()
		expect := func(first, last uint64) {
			t.Helper()
			var want []uint64
			for ; first <= last; first++ {
				want = append(want, first)
			}
			if synctest.Wait(); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			got = nil
		}
		sync := func() {
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		}
		expect(1, 0) // they are not durable
		sync()
		expect(11, 30)
		record(1, "Echo")
		record(29, "Ping")
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		expect(1, 0)
		sync()
		expect(32, 60)
		record(1, "Ping")
		time.Sleep(time.Second) // the flusher writes it
		sync()
		expect(61, 61)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); !errors.Is(ended, store.ErrClosed) {
			t.Errorf("it ended with %v", ended)
		}
	})
}

func TestFollowSaysThatItsPlaceIsGone(t *testing.T) {
	j := open(t, memory(t), &Options{Retention: Retention{MaxAge: time.Hour}})
	for i := range 30 {
		j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", `1`)))
	}
	if _, err := j.Trim(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	j.Record(in(query("new", "Ping", `1`)))
	for after, want := range map[uint64]string{
		0:  "[0 the messages from 1 to 30 have been dropped 31 <nil>]", // no reader has seen them
		7:  "[0 the messages from 8 to 30 have been dropped 31 <nil>]",
		30: "[31 <nil>]",
	} {
		var got []string
		for e, err := range j.Follow(t.Context(), after, Filter{}) {
			got = append(got, fmt.Sprint(e.Seq, " ", err))
			if err == nil {
				break
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("after %d: got %v, want %s", after, got, want)
		}
	}
	if e, _ := message.ErrorOf(&Missed{From: 8, To: 30}); e.Code != 410 || e.Message != "The messages from 8 to 30 have been dropped; continue after 30" {
		t.Errorf("got %v", e)
	}
}

func TestWhatASyscallRecallsIsNotRecordedAgain(t *testing.T) {
	j := open(t, memory(t), nil)
	recall := &kernel.Syscall{Definition: kernel.Definition{Type: "Event.Search", Journaled: kernel.Journaled{Answers: kernel.FromJournal}}}
	m := query("a", "Event.Search", `{"words":"x"}`)
	for _, r := range []kernel.Record{in(m), out(made(m.Event("Event.Found", json.RawMessage(`{"x":1}`)))), out(made(m.Reply(json.RawMessage(`{"x":1}`))))} {
		r.Syscall = recall
		j.Record(r)
	}
	all := list(t, j, Query{})
	if len(all) != 2 || string(all[0].Message.Data) != `{"words":"x"}` || string(all[1].Message.Data) != kernel.OmittedData || !all[1].Redacted {
		t.Errorf("got %+v", all)
	}
}

func TestRecordsOfWhatIsKeptElsewhereAreBrief(t *testing.T) {
	j := open(t, memory(t), nil)
	brief := &kernel.Syscall{Definition: kernel.Definition{Type: "Zoo.Tell", Journaled: kernel.Journaled{Brief: func(json.RawMessage) json.RawMessage { return json.RawMessage(`{"in":"zoo/1"}`) }}}}
	m := command("a", "Zoo.Tell", `{"story":"long"}`)
	for _, r := range []kernel.Record{in(m), out(made(m.Event("Zoo.Told", json.RawMessage(`{"x":1}`)))), out(made(m.Reply(json.RawMessage(`{"story":"longer"}`))))} {
		r.Syscall = brief
		j.Record(r)
	}
	for i, want := range []string{`{"in":"zoo/1"} true`, `{"x":1} false`, `{"in":"zoo/1"} true`} {
		if e := list(t, j, Query{})[i]; fmt.Sprint(string(e.Message.Data), " ", e.Redacted) != want {
			t.Errorf("%d: got %s %v, want %s", i, e.Message.Data, e.Redacted, want)
		}
	}
}
