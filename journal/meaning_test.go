package journal

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/internal/embed"
	"kernos/internal/ranked"
	"kernos/journal/words"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/vectors"
)

// A dictionary is a model of a few words, some of which mean the same, that remembers what it has embedded.
type dictionary struct {
	id    string
	fails error

	mu    sync.Mutex
	texts []string
}

func (d *dictionary) ID() string    { return d.id }
func (*dictionary) Dimensions() int { return 64 }

var meanings = map[string]string{"forbidden": "refused", "denied": "refused", "automobile": "car", "vehicle": "car"}

func (d *dictionary) Embed(_ context.Context, texts []string) ([][]float32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts = append(d.texts, texts...)
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, 64)
		for _, w := range strings.Fields(strings.ToLower(text)) {
			if same, ok := meanings[w]; ok {
				w = same
			}
			h := fnv.New64a()
			_, _ = h.Write([]byte(w))
			vectors[i][h.Sum64()%64]++
		}
	}
	return vectors, d.fails
}

func (d *dictionary) embedded() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.texts)
}

// embedding gives a journal a model.
func embedding(o *Options) *Options {
	o.Models, o.Vectors, o.Log = []embed.Model{&dictionary{id: "dictionary"}}, vectors.NewCache(1<<20, time.Minute), quiet
	return o
}

// grown indexes and embeds all that is recorded.
func grown(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.visible(); err != nil {
		t.Fatal(err)
	}
	if err := j.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = j.meaning.Grow(t.Context()); errors.Is(err, store.ErrConflict) {
			more = true
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// checkMeaning looks whether each message that says something has a vector, and nothing else has.
func checkMeaning(t testing.TB, j *Journal) {
	t.Helper()
	grown(t, j)
	check(t, j)
	want := 0
	for text, err := range j.texts(0) {
		if err != nil {
			t.Fatal(err)
		}
		if text.Text != "" {
			want++
		}
	}
	e, err := j.Embedded()
	if err != nil || e.Entries != want || e.Behind != 0 {
		t.Fatalf("%+v, %v; %d messages say something", e, err, want)
	}
}

func TestMessagesAreFoundByMeaning(t *testing.T) {
	j := open(t, memory(t), embedding(new(Options)))
	for id, data := range map[message.ID]string{
		"a": `{"message":"entry forbidden"}`, "b": `{"note":"the red automobile"}`, "c": `{"note":"a car was stolen"}`, "d": `{"count":17}`, "e": `{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G"}`,
	} {
		j.Record(in(query(id, "Note.Add", data)))
	}
	grown(t, j)
	for _, c := range []struct {
		query string
		mode  ranked.Mode
		want  string // ids, with the words and whether the meaning is near
	}{
		{"denied entry", ranked.ByWords, "a [entry]"},
		{"denied entry", ranked.ByMeaning, "a ~"},
		{"denied entry", "both", "a [entry]~"},
		{"denied", "", "a ~"},
		{"automobile", "", "b [automobile]~ c ~"},
		{"vehicle 01JAXV5Y2Z4B8Q0R6T7W9E3F1G", "", "e [01jaxv5y2z4b8q0r6t7w9e3f1g] b ~ c ~"},
		{"01JAXV5Y2Z4B8Q0R6T7W9E3F1G", "", "e [01jaxv5y2z4b8q0r6t7w9e3f1g]"},
		{"17", ranked.ByMeaning, ""},
		{"giraffe", "", ""},
	} {
		r, err := j.Search(t.Context(), SearchQuery{Words: c.query, Mode: c.mode})
		if err != nil || r.Unavailable != nil || r.Unembedded != 0 {
			t.Fatal(r, err)
		}
		var got []string
		for _, h := range r.Hits {
			s := string(h.Message.Metadata.ID) + " "
			if h.Why.Words != nil {
				s += fmt.Sprint(h.Why.Words)
			}
			if h.Why.Near > 0 {
				s += "~"
			}
			got = append(got, s)
		}
		if g := strings.Join(got, " "); g != c.want || r.Total != len(r.Hits) {
			t.Errorf("%s %q: got %s of %d, want %s", c.mode, c.query, g, r.Total, c.want)
		}
	}
	checkMeaning(t, j)
}

// Filters apply before the nearest are picked: of messages that few callers see, the nearest are found however
// many others are nearer.
func TestMeaningThroughFilters(t *testing.T) {
	j := open(t, memory(t), embedding(new(Options)))
	all := conversation(j, 3000)
	rare := query("rare", "Note.Add", `{"text":"a word that few may see"}`)
	r := in(rare)
	guest := kerneltest.Principal(t, "guest-1", "guest", principal.Grant{Preset: principal.Agent})
	r.Sender = kernel.From(guest, "ws")
	j.Record(r)
	all = append(all, rare)
	grown(t, j)
	for _, f := range []Filter{
		{}, {Type: "Memory.*"}, {Type: "Http.Fetch,Note.Add"}, {Kinds: []message.Kind{message.KindQuery, message.KindEvent}}, {Correlation: "c3"}, {Codes: []int{404}},
		{Type: "Note.Add"}, {Words: []string{"few may"}}, {Type: "Nothing.*"},
	} {
		for _, mode := range []ranked.Mode{ranked.ByMeaning, "both"} {
			r, err := j.Search(t.Context(), SearchQuery{Words: "text word number", Mode: mode, Filter: f, Limit: 50})
			if err != nil || r.Unavailable != nil {
				t.Fatal(r.Unavailable, err)
			}
			near := 0
			for _, h := range r.Hits {
				if !wants(f, &all[h.Seq-1]) {
					t.Fatalf("%s %+v: found %d, a %s of %s", mode, f, h.Seq, h.Message.Kind, h.Message.Type)
				}
				if h.Why.Near > 0 {
					near++
				}
			}
			want := j.nearest(t, "text word number", f, all)
			if mode == ranked.ByMeaning && len(r.Hits) != min(50, want) || want > 0 && near == 0 {
				t.Errorf("%s %+v: %d hits, %d near; want %d", mode, f, len(r.Hits), near, want)
			}
		}
	}
	own := Filter{Own: "guest-1"}
	for _, mode := range []ranked.Mode{ranked.ByMeaning, "both", ranked.ByWords} {
		r, err := j.Search(t.Context(), SearchQuery{Words: "text word number", Mode: mode, Filter: own})
		if err != nil || len(r.Hits) != 1 || r.Total != 1 || r.Hits[0].Message.Metadata.ID != "rare" {
			t.Errorf("%s: the guest finds %d of %d messages, %v; it has sent one", mode, len(r.Hits), r.Total, err)
		}
	}
}

// nearest counts the messages that a filter wants and that are near enough to a query, one by one.
func (j *Journal) nearest(t *testing.T, query string, f Filter, all []message.Message) (count int) {
	t.Helper()
	model := j.opts.Models[0]
	asked, _ := model.Embed(t.Context(), []string{query})
	for text, err := range j.texts(0) {
		if err != nil {
			t.Fatal(err)
		}
		if text.Text == "" || !wants(f, &all[text.ID-1]) {
			continue
		}
		v, _ := model.Embed(t.Context(), []string{text.Text})
		var dot, aa, bb float64
		for i, x := range v[0] {
			y := asked[0][i]
			dot, aa, bb = dot+float64(x*y), aa+float64(x*x), bb+float64(y*y)
		}
		if dot/math.Sqrt(aa*bb) >= ranked.MinNear {
			count++
		}
	}
	return count
}

// A search for an id, a code or a name finds by both what it finds by words alone, in the same places.
func TestBothFindsNamesAsWordsDo(t *testing.T) {
	j := open(t, memory(t), embedding(new(Options)))
	for i := range 400 {
		id := fmt.Sprintf("job-%d", i)
		j.Record(in(query(message.ID(id), []message.Type{"Job.Start", "Http.Fetch", "Crypto.Seal"}[i%3], fmt.Sprintf(
			`{"job":"01JAXV5Y2Z4B8Q0R6T7W9E3%03d","text":"the job was started and may have failed or been refused","host":"db-%d.example","code":"E%d_BROKEN","key":"notes/%d"}`, i, i%40, 1000+i%50, i%7))))
	}
	grown(t, j)
	for _, q := range []string{
		"01JAXV5Y2Z4B8Q0R6T7W9E3019", "why was job 01JAXV5Y2Z4B8Q0R6T7W9E3018 denied", "E1007_BROKEN", "which jobs failed with E1007_BROKEN?",
		"Crypto.Seal", "a refused Crypto.Seal", "db-11.example", "fetches from db-11.example that were forbidden", "notes/3", "Http.Fetch db-4.example E1004_BROKEN",
	} {
		byWords, err := j.Search(t.Context(), SearchQuery{Words: q, Mode: ranked.ByWords, Limit: 400})
		if err != nil {
			t.Fatal(err)
		}
		both, err := j.Search(t.Context(), SearchQuery{Words: q, Limit: 800})
		if err != nil {
			t.Fatal(err)
		}
		place := map[uint64]int{}
		for i, h := range both.Hits {
			place[h.Seq] = i
		}
		names, some := words.OfQuery(strings.Join(ranked.Names(q), " ")), 0
		for i, h := range byWords.Hits {
			has := 0
			for _, n := range names {
				if slices.Contains(h.Why.Words, string(n)) {
					has++
				}
			}
			if has < len(names) {
				break
			}
			some++
			if at, ok := place[h.Seq]; !ok || at > i {
				t.Errorf("%q: %s is at %d by words and at %d (%v) by both", q, h.Message.Metadata.ID, i, at, ok)
				break
			}
		}
		if some == 0 {
			t.Errorf("%q: found nothing with %q", q, names)
		}
	}
}

func TestPagesOfAFusedSearch(t *testing.T) {
	j := open(t, memory(t), embedding(new(Options)))
	conversation(j, 1000)
	grown(t, j)
	whole, err := j.Search(t.Context(), SearchQuery{Words: "word of text payload", Limit: 1200})
	if err != nil || whole.Total != len(whole.Hits) || whole.Total < 500 {
		t.Fatalf("%d of %d, %v", len(whole.Hits), whole.Total, err)
	}
	var got []uint64
	q := SearchQuery{Words: "word of text payload", Limit: 90}
	for {
		r, err := j.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			got = append(got, h.Seq)
		}
		if len(r.Hits) == 0 {
			break
		}
		q.Offset, q.Horizon = len(got), r.Horizon
		j.Record(in(query("later", "Ping", `{"text":"word of text payload"}`))) // moves nothing
	}
	for i, h := range whole.Hits {
		if i >= len(got) || got[i] != h.Seq {
			t.Fatalf("place %d: %d, want %d", i, got[i], h.Seq)
		}
	}
	if len(got) != len(whole.Hits) {
		t.Errorf("%d messages on pages, want %d", len(got), len(whole.Hits))
	}
}

// A home that was written without vectors gets them after it was opened, and goes on where a process ended.
func TestOldMessagesAreEmbedded(t *testing.T) {
	s := memory(t)
	old := open(t, s, nil)
	conversation(old, 800)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	first := open(t, s, embedding(new(Options)))
	first.embedding.started = true // nothing embeds beside the test
	if err := first.visible(); err != nil {
		t.Fatal(err)
	}
	if more, err := first.meaning.Grow(t.Context()); err != nil || !more {
		t.Fatal(more, err)
	}
	e, err := first.Embedded()
	if err != nil || e.Entries == 0 || e.Behind == 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	_ = first.Close()
	position, err := first.meaning.Position()
	if err != nil {
		t.Fatal(err)
	}
	options := embedding(new(Options))
	again := open(t, s, options)
	checkMeaning(t, again)
	for text := range again.texts(0) {
		if embedded := slices.Contains(options.Models[0].(*dictionary).embedded(), text.Text); text.ID > position && text.Text != "" && !embedded {
			t.Fatalf("message %d isn't embedded", text.ID)
		}
	}
	if n := len(options.Models[0].(*dictionary).embedded()); n == 0 || n > int(again.last.Load()-position) {
		t.Errorf("%d texts were embedded, %d were left", n, again.last.Load()-position)
	}
}

// The background does it too, and retention takes vectors with their messages.
func TestVectorsFollowMessages(t *testing.T) {
	s := memory(t)
	j := open(t, s, embedding(&Options{Retention: Retention{MaxAge: time.Hour}}))
	conversation(j, 100)
	for e, err := j.Embedded(); e.Entries == 0 || e.Behind > 0; e, err = j.Embedded() {
		if err != nil || t.Context().Err() != nil {
			t.Fatal(e, err)
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Trim(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r, err := j.Search(t.Context(), SearchQuery{Words: "text word", Mode: ranked.ByMeaning}); err != nil || len(r.Hits) > 0 {
		t.Fatalf("%d messages are found that retention has dropped, %v", len(r.Hits), err)
	}
	exchange(j, query("last", "Ping", `{"text":"word"}`), `{}`)
	checkMeaning(t, j)
}

// Only what is recorded is embedded: a model never sees what is redacted.
func TestWhatIsRedactedIsNotEmbedded(t *testing.T) {
	o := embedding(new(Options))
	j := open(t, memory(t), o)
	j.Record(in(query("a", "Http.Fetch", `{"headers":{"Authorization":"Bearer hunter"},"note":"a fetch"}`)))
	refused := in(query("b", "No.Such", `{"note":"hunter"}`))
	refused.Refused = true
	j.Record(refused)
	grown(t, j)
	texts := o.Models[0].(*dictionary).embedded()
	if got := strings.Join(texts, "|"); !strings.Contains(got, "a fetch") || strings.Contains(strings.ToLower(got), "hunter") {
		t.Errorf("embedded: %s", got)
	}
}

// A model that fails makes a search go by words, and indexing wait.
func TestSearchWithoutItsModel(t *testing.T) {
	o := embedding(new(Options))
	j := open(t, memory(t), o)
	exchange(j, query("a", "Ping", `{"text":"a word"}`), `{}`)
	grown(t, j)
	o.Models[0].(*dictionary).mu.Lock()
	o.Models[0].(*dictionary).fails = errors.New("the server is down")
	o.Models[0].(*dictionary).mu.Unlock()
	for _, mode := range []ranked.Mode{"", ranked.ByMeaning} {
		r, err := j.Search(t.Context(), SearchQuery{Words: "word", Mode: mode})
		if err != nil || r.Unavailable == nil || len(r.Hits) != 1 {
			t.Errorf("%q: %+v, %v", mode, r, err)
		}
	}
}

// Searches go by words when the vectors are damaged, and Check reports it.
func TestDamagedVectorsLeaveTheWords(t *testing.T) {
	s := memory(t)
	j := open(t, s, embedding(new(Options)))
	for i := range 1100 { // more than an index keeps outside of its blocks
		j.Record(in(query(message.ID(fmt.Sprint("m", i)), "Note.Add", `{"note":"the red automobile"}`)))
	}
	grown(t, j)
	var b store.Batch
	for e, err := range s.Scan(store.Prefix(key(spaceMeaning))) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) > 8*1024 { // a block of signs; rows are smaller
			b.Set(slices.Clone(e.Key), []byte("no block"))
		}
	}
	if b.Empty() {
		t.Fatal("there is no block")
	}
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(t.Context()); err == nil {
		t.Error("Check finds nothing wrong")
	}
	r, err := j.Search(t.Context(), SearchQuery{Words: "automobile", Limit: 10})
	if err != nil || len(r.Hits) != 10 || r.Unavailable == nil {
		t.Errorf("%d hits, %v, %v", len(r.Hits), r.Unavailable, err)
	}
}
