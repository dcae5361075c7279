package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/storetest"
)

func TestRecordedMessagesAreFoundAsTheyWere(t *testing.T) {
	j := open(t, memory(t), nil)
	m := command(`i"1\`, "Memory.Set", `{"key":"/a","value":"b"}`)
	m.Metadata = message.Metadata{ID: `i"1\`, Timestamp: 7, Correlation: "c,\"metadata\":{\"id\":", Causation: "é", IdempotencyKey: "k", SchemaVersion: "v"}
	j.Record(in(m))
	reply := made(m.Reply(json.RawMessage("{\n\"ok\": true}")))
	j.Record(out(reply))
	event := made(m.Event("Memory.Changed", nil))
	j.Record(within(event))

	for i, want := range []message.Message{m, reply, event} {
		got, err := j.Get(t.Context(), want.Metadata.ID)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 1:
			want.Data = json.RawMessage(`{"ok":true}`)
		case 2:
			want.Data = json.RawMessage(`null`)
		}
		if got.Seq != uint64(i+1) || got.Way != kernel.Way(i+1) || got.Redacted || !reflect.DeepEqual(got.Message, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	check(t, j)
}

func TestMessageThatIsNotThereIsA404(t *testing.T) {
	j := open(t, memory(t), nil)
	for _, id := range []message.ID{"x", "01JAXV5Y2Z4B8Q0R6T7W9E3F1G"} {
		_, err := j.Get(t.Context(), id)
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 404 || e.Message != "Message not found: "+string(id) {
			t.Errorf("got %v", err)
		}
	}
}

func TestDataThatAreNoJSONAreRecordedAsAString(t *testing.T) {
	j := open(t, memory(t), nil)
	for i, data := range []string{`{"a":`, `"`, `}}`, `,"metadata":{"id":"x"}`, "\xff", `{"a":1,"a":2}`} {
		id := message.ID(fmt.Sprint(i))
		j.Record(out(query(id, "Ping", data)))
		e, err := j.Get(t.Context(), id)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		var s string
		if err := json.Unmarshal(e.Message.Data, &s); err != nil || s != strings.ToValidUTF8(data, "\uFFFD") {
			t.Errorf("%s became %s", data, e.Message.Data)
		}
	}
	check(t, j)
	if _, err := j.Search(t.Context(), SearchQuery{Words: "ping"}); err != nil {
		t.Error(err)
	}
}

// conversation records some workflows, and returns what was recorded in order.
func conversation(j *Journal, n int) []message.Message {
	r := rand.New(rand.NewPCG(1, 2))
	types := []message.Type{"Ping", "Memory.Get", "Memory.Set", "MemoryX.Get", "Http.Fetch"}
	var all []message.Message
	record := func(rec kernel.Record) {
		j.Record(rec)
		all = append(all, *rec.Message)
	}
	for i := range n {
		m := query(message.ID(fmt.Sprintf("q%d", i)), types[r.IntN(len(types))], fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("word ", r.IntN(40))))
		if r.IntN(2) == 0 {
			m.Metadata.Correlation = fmt.Sprintf("c%d", r.IntN(20))
		}
		record(in(m))
		switch r.IntN(5) {
		case 0:
			record(out(made(m.Fail(message.Errorf(400+r.IntN(5), "no %d", i)))))
		case 1:
			child := made(m.Event("Job.Completed", json.RawMessage(`{}`)))
			record(within(child))
			fallthrough
		default:
			record(out(made(m.Reply(json.RawMessage(`{"ok":true}`)))))
		}
	}
	return all
}

// wants says by hand what a filter means.
func wants(f Filter, m *message.Message) bool {
	code := 0
	if m.Kind == message.KindError {
		e, _ := message.ParseError(m.Data)
		code = e.Code
	}
	begins := string(m.Metadata.ID) == f.Correlation || (f.Whole || m.Kind.Answers()) && string(m.Metadata.Causation) == f.Correlation
	return (f.Correlation == "" || m.Metadata.Correlation == f.Correlation || m.Metadata.Correlation == "" && begins) &&
		(f.Causation == "" || m.Metadata.Causation == f.Causation) &&
		(f.ID == "" || m.Metadata.ID == f.ID) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, m.Kind)) &&
		!slices.ContainsFunc(f.Words, func(w string) bool { return !strings.Contains(string(m.Data)+string(m.Type), w) }) &&
		(f.Codes == nil || slices.Contains(f.Codes, code)) &&
		(f.Type == "" || slices.ContainsFunc(strings.Split(f.Type, ","), func(p string) bool { return fits(p, m.Type) }))
}

// fits reports whether a type has the form of a pattern.
func fits(pattern string, t message.Type) bool {
	domain, action, _ := strings.Cut(string(t), ".")
	return pattern == "*" || pattern == string(t) || pattern == domain+".*" && action != "" || pattern == "*."+action && action != ""
}

func TestEveryFilterFindsWhatALookAtAllFinds(t *testing.T) {
	j := open(t, memory(t), nil)
	all := conversation(j, 2000)
	check(t, j)
	filtersFind(t, j, all, 17)
	for _, i := range []int{0, 1, 1000, len(all) - 1} {
		e, err := j.Get(t.Context(), all[i].Metadata.ID)
		if err != nil || e.Seq != uint64(i+1) {
			t.Errorf("message %d is found as %d: %v", i+1, e.Seq, err)
		}
	}
}

// filtersFind compares what filters find with a look at all messages that were recorded,
// some at a time.
func filtersFind(t *testing.T, j *Journal, all []message.Message, limit int) {
	t.Helper()
	d, err := j.Dropped()
	if err != nil {
		t.Fatal(err)
	}
	filters := []Filter{{}, {Type: "*"}, {Type: "Ping"}, {Type: "Memory.*"}, {Type: "Memory.Get"}, {Type: "Nothing.*"}, {Kinds: []message.Kind{message.KindError}}, {Kinds: []message.Kind{message.KindEvent}},
		{Type: "*.Get"}, {Type: "*.Ping"}, {Type: "Memory.*,Ping"}, {Type: "Memory.Get,*.Fetch,Nothing.*"}, {Type: "Ping,*"}, {Type: "Ping,Http.*", Kinds: []message.Kind{message.KindError}}, {Type: "*.Get,Ping", Correlation: "c7"},
		{Kinds: []message.Kind{message.KindReply}}, {Codes: []int{404}}, {Codes: []int{999}}, {Correlation: "c7"}, {Correlation: "none"}, {Causation: "q77"}, {Correlation: "c3", Kinds: []message.Kind{message.KindEvent}},
		{Type: "Http.*", Codes: []int{401}}, {Type: "Ping", Kinds: []message.Kind{message.KindError}},
		{Kinds: []message.Kind{message.KindError, message.KindEvent}}, {Codes: []int{404, 401}}, {ID: "q77"}, {ID: "q77", Kinds: []message.Kind{message.KindEvent}},
		{Correlation: "c7", Whole: true}, {Correlation: "q1", Whole: true}, {Correlation: "q2", Whole: true, Kinds: []message.Kind{message.KindReply}}}
	for _, m := range all {
		if m.Kind == message.KindEvent { // the workflow of a root, and that of a message without one
			filters = append(filters, Filter{Correlation: m.Metadata.Correlation}, Filter{Correlation: string(m.Metadata.ID)})
			if len(filters) > 60 {
				break
			}
		}
	}
	filters = append(filters, Filter{Correlation: string(all[1].Metadata.ID)})
	for _, f := range filters {
		for _, reverse := range []bool{false, true} {
			var want []string
			for i := range all {
				if uint64(i) >= d.Seq && wants(f, &all[i]) {
					want = append(want, fmt.Sprintf("%d %s", i+1, all[i].Metadata.ID))
				}
			}
			if reverse {
				slices.Reverse(want)
			}
			if got := ids(list(t, j, Query{Filter: f, Reverse: reverse, Limit: limit})); !slices.Equal(got, want) {
				t.Errorf("%+v, reverse %v: got %d, want %d\n%v\n%v", f, reverse, len(got), len(want), got, want)
			}
		}
	}
}

func TestTimesBoundWhatIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		j := New(s, &Options{Log: quiet})
		start := time.Now().UnixMilli()
		for i := range 3000 {
			j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", `{"payload":"hello"}`)))
			if i%3 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		for _, test := range []struct{ since, until int64 }{
			{0, 0}, {-1, 0}, {start, 0}, {start + 1, 0}, {start + 500, 0}, {start + 500, start + 500}, {start + 500, start + 501}, {start + 500, start + 700},
			{0, start}, {0, start + 1}, {0, start + 999}, {start + 1000, 0}, {start + 2000, 0}, {start + 600, start + 300},
		} {
			var want []string
			for i := range 3000 {
				at := start + int64(i+2)/3
				if at >= test.since && (test.until == 0 || at < test.until) {
					want = append(want, fmt.Sprintf("%d %d", i+1, i))
				}
			}
			for _, f := range []Filter{{}, {Type: "Ping"}} {
				f.Since, f.Until = test.since, test.until
				if got := ids(list(t, j, Query{Filter: f, Limit: 1000})); !slices.Equal(got, want) {
					t.Errorf("from %d to %d: %d messages, want %d", test.since-start, test.until-start, len(got), len(want))
				}
				r, err := j.Search(context.Background(), SearchQuery{Filter: f, Words: "hello", Limit: 1})
				if err != nil || r.Total != len(want) {
					t.Errorf("from %d to %d: a search finds %d, want %d: %v", test.since-start, test.until-start, r.Total, len(want), err)
				}
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An answer may be recorded long after its id was made, or before by a clock that was
// set back. It is found all the same, by the time in its id or by a key.
func TestAnswersAreFoundHoweverLateTheyAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(storetest.NewMemory(), &Options{Log: quiet})
		type answer struct {
			id  message.ID
			seq uint64
		}
		var answers []answer
		n := uint64(0)
		for round := range 30 {
			for _, late := range []int{0, 1, 2, 5, 20, 1000, -1, -1000} {
				for range 20 { // more than a page
					n++
					j.Record(in(query(message.ID(fmt.Sprint(n)), "Ping", `{"payload":"`+strings.Repeat("x", 200)+`"}`)))
				}
				m := query("q", "Ping", `1`)
				reply := m.Reply(json.RawMessage(`1`))
				var id ulid.ULID
				_ = id.SetTime(uint64(time.Now().UnixMilli() - int64(late)))
				id[15], id[14] = byte(n), byte(n>>8)
				reply.Metadata.ID = message.ID(id.String())
				n++
				j.Record(out(reply))
				answers = append(answers, answer{reply.Metadata.ID, n})
			}
			time.Sleep(time.Duration(round%3) * time.Millisecond)
		}
		for _, a := range answers {
			if e, err := j.Get(context.Background(), a.id); err != nil || e.Seq != a.seq {
				t.Errorf("%s is found as %d, want %d: %v", a.id, e.Seq, a.seq, err)
			}
		}
		check(t, j)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestNumbersGoOnAfterARestartAndTimesDoNotGoBack(t *testing.T) {
	s := memory(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		j := New(s, nil)
		j.Record(in(query("a", "Ping", `1`)))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // an hour earlier
		j := New(s, nil)
		j.Record(in(query("b", "Ping", `1`)))
		time.Sleep(time.Second)
		j.Record(in(query("c", "Ping", `1`)))
		all := list(t, j, Query{})
		if got := ids(all); !slices.Equal(got, []string{"1 a", "2 b", "3 c"}) {
			t.Errorf("got %v", got)
		}
		if all[1].At < all[0].At || all[2].At < all[1].At {
			t.Errorf("times go back: %d %d %d", all[0].At, all[1].At, all[2].At)
		}
		check(t, j)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingIsReadOrWrittenBeforeTheFirstUse(t *testing.T) {
	s := memory(t)
	s.Fail(func(call string) error { t.Errorf("%s", call); return nil })
	j := New(s, nil)
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	j.Record(in(query("a", "Ping", `1`)))
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	s.Fail(nil)
}

func TestMuchDataComesInPortions(t *testing.T) {
	j := open(t, memory(t), nil)
	for i := range 70 {
		j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", `"`+strings.Repeat("x", 1<<20)+`"`)))
	}
	entries, next, err := j.List(t.Context(), Query{})
	if err != nil || len(entries) != maxData>>20 || next != uint64(len(entries)) {
		t.Errorf("%d messages and then after %d: %v", len(entries), next, err)
	}
	if all := list(t, j, Query{}); len(all) != 70 {
		t.Errorf("%d messages", len(all))
	}
}

func TestLargeRecordsHaveAPageOfTheirOwn(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	j.Record(in(query("a", "Ping", `1`)))
	j.Record(in(query("b", "Ping", `"`+strings.Repeat("x", 1<<20)+`"`)))
	j.Record(in(query("c", "Ping", `1`)))
	check(t, j)
	pages := 0
	for _, err := range s.Scan(store.Prefix(key(spacePages))) {
		if err != nil {
			t.Fatal(err)
		}
		pages++
	}
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	if e, err := j.Get(t.Context(), "b"); err != nil || len(e.Message.Data) != 1<<20+2 {
		t.Errorf("%d bytes, %v", len(e.Message.Data), err)
	}
}

// blobOwners notes what it is told of.
type blobOwners struct{ refs, unrefs []string }

func (o *blobOwners) Refer(_ *store.Batch, data, owner []byte) {
	o.refs = append(o.refs, fmt.Sprintf("%s %x", data, owner))
}

func (o *blobOwners) Unrefer(_ *store.Batch, data, owner []byte) {
	o.unrefs = append(o.unrefs, fmt.Sprintf("%s %x", data, owner))
}

func TestBlobsAreKeptForTheirPage(t *testing.T) {
	var owners blobOwners
	j := open(t, memory(t), &Options{Retention: Retention{MaxAge: MinAge}, Blobs: &owners})
	j.Record(in(query("a", "Ping", `1`)))
	j.Record(in(query("b", "Ping", `{"scheme":"file","path":"/home/blobs/ab12"}`)))
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf(`1{"scheme":"file","path":"/home/blobs/ab12"} %x`, seqKey(spacePages, 1))}
	if !slices.Equal(owners.refs, want) {
		t.Errorf("got %q", owners.refs)
	}
	if _, err := j.Trim(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(owners.unrefs, want) {
		t.Errorf("got %q", owners.unrefs)
	}
}

func TestSecretsDoNotReachTheStore(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	type login struct {
		User     string `json:"user"`
		Password string `json:"password" jsonschema:"writeOnly=true"`
	}
	syscall := &kernel.Syscall{Definition: kernel.Definition{Type: "Session.Login", Input: schema.Input[login](), Output: schema.Any}}
	const secret = "hunter2"
	r := in(command("a", "Session.Login", `{"user":"u","password":"`+secret+`"}`))
	r.Syscall = syscall
	reply := out(made(r.Message.Reply(json.RawMessage(`{"Set-Cookie":"` + secret + `"}`))))
	reply.Syscall = syscall
	j.Record(r)
	if err := set(j, s, "x"); err != nil {
		t.Fatal(err)
	}
	rs := []kernel.Record{r, reply}
	b := new(store.Batch)
	if err := j.RecordWith(b, rs, func() error { _, err := s.Apply(b); return err }); err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		for e, err := range s.Scan(store.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(e.Key)+string(e.Value), secret) {
				t.Errorf("%q has it: %q", e.Key, e.Value)
			}
		}
	}
	look()
	if _, err := j.Search(t.Context(), SearchQuery{Words: "session"}); err != nil {
		t.Fatal(err)
	}
	look()
	if e, err := j.Get(t.Context(), "a"); err != nil || !e.Redacted {
		t.Errorf("%+v, %v", e, err)
	}
}

// A record of a message of version 0.1 is read as one of the current version.
func TestOlderVersionsAreMigratedWhenRead(t *testing.T) {
	s := storetest.NewMemory()
	j := New(s, nil)
	m := message.Message{Kind: message.KindEvent, Type: "Job.Started", Data: []byte(`{}`), Metadata: message.Metadata{ID: "a", Timestamp: 1, SchemaVersion: "0.1"}}
	j.Record(kernel.Record{Message: &m, Way: kernel.In})
	e, err := j.Get(t.Context(), "a")
	if err != nil || e.Message.Metadata.SchemaVersion != "0.3" {
		t.Errorf("got %+v, %v", e.Message.Metadata, err)
	}
	if err := errors.Join(j.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
