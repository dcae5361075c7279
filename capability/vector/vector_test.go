package vector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/embed"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
	"kernos/store/vectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bag is a model for which texts with common words are near.
type bag struct {
	id    string
	fails atomic.Bool
	saw   atomic.Pointer[string] // the last texts
}

func (b *bag) ID() string    { return b.id }
func (*bag) Dimensions() int { return 1000 }

func (b *bag) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if b.fails.Load() {
		return nil, errors.New("the endpoint answers 500")
	}
	joined := strings.Join(texts, "|")
	b.saw.Store(&joined)
	all := make([][]float32, len(texts))
	for i, text := range texts {
		all[i] = make([]float32, 1000)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			h := fnv.New32a()
			_, _ = h.Write([]byte(b.id + word))
			all[i][h.Sum32()%1000]++
		}
	}
	return all, nil
}

// A world is a kernel with the module.
type world struct {
	*testing.T
	store   store.Store
	model   *bag
	vectors *Vectors
	kernel  *kernel.Kernel
	as      *principal.Principal
	ids     int
}

func newWorld(t *testing.T, s store.Store, models ...embed.Model) *world {
	w := &world{T: t, store: s, as: principal.TheOwner()}
	if len(models) == 0 {
		w.model = &bag{id: "bag-1"}
		models = []embed.Model{w.model}
	}
	w.vectors = New(&Options{Store: s, Models: models, Cache: vectors.NewCache(1<<20, time.Hour)})
	w.kernel = kerneltest.Of(t, &kernel.Options{Store: s}, w.vectors.Module())
	return w
}

// call returns the data of the outcome; of an error, its code and message.
func (w *world) call(kind, data string) string {
	w.Helper()
	w.ids++
	m := kerneltest.Command(message.ID(fmt.Sprint(w.ids)), message.Type("Vector."+kind), data)
	if kind == "Query" || kind == "Collections" {
		m.Kind = message.KindQuery
	}
	outcome := kerneltest.Outcome(kernel.ActFor(context.Background(), kernel.From(w.as, "unix")), w.kernel, m)
	if outcome.Kind == message.KindError {
		code, text := kerneltest.ReadError(w, outcome)
		return fmt.Sprint(code, " ", text)
	}
	return string(outcome.Data)
}

// hits returns the ids that a query finds.
func (w *world) hits(data string) string {
	w.Helper()
	answer := w.call("Query", data)
	var out queryOutput
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		return answer
	}
	var ids []string
	for _, h := range out.Hits {
		ids = append(ids, h.ID)
	}
	return strings.TrimSpace(strings.Join(ids, " ") + " " + out.Note)
}

func (w *world) want(got, want string) {
	w.Helper()
	if !strings.HasPrefix(got, want) || want == "" && got != "" {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestItemsAreKeptFoundAndDeleted(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	w.want(w.call("Upsert", `{"collection":"docs","items":[{"id":"1","text":"reset a password","metadata":{"lang":"en","year":2020,"tags":["a","b"],"path":"docs/login"}},{"id":"2","text":"bake a cake","metadata":{"lang":"en","year":-3.5}},{"id":"3","text":"ein passwort","metadata":{"lang":"de","year":2024,"path":"docs/x","old":false,"none":null}}]}`),
		`{"added":3,"changed":0}`)
	w.want(w.call("Query", `{"collection":"docs","text":"reset a password","limit":1}`), `{"hits":[{"id":"1","score":1,"text":"reset a password","metadata":{"lang":"en","path":"docs/login","tags":["a","b"],"year":2020}}],"cursor":"`)
	w.want(w.call("Upsert", `{"collection":"docs","items":[{"id":"1","text":"reset a password","metadata":{"lang":"en","year":2020,"tags":["a","b"],"path":"docs/login"}},{"id":"2","text":"bake a large cake","metadata":{"lang":"en","year":-3.5}}]}`), `{"added":0,"changed":1}`)
	for filter, want := range map[string]string{
		`{}`:                                   "1 2 3",
		`{"lang":"en"}`:                        "1 2",
		`{"lang":["de","fr"]}`:                 "3",
		`{"lang":"e"}`:                         "",
		`{"lang":{"prefix":"e"}}`:              "1 2",
		`{"path":{"prefix":"docs/"}}`:          "1 3",
		`{"year":{"gte":2020}}`:                "1 3",
		`{"year":{"gt":2020}}`:                 "3",
		`{"year":{"lt":2020}}`:                 "2",
		`{"year":{"lte":2020,"gte":0}}`:        "1",
		`{"year":2020.0}`:                      "1",
		`{"year":"2020"}`:                      "",
		`{"tags":"b"}`:                         "1",
		`{"old":false}`:                        "3",
		`{"old":true}`:                         "",
		`{"none":null}`:                        "3",
		`{"lang":"en","year":{"gte":0}}`:       "1",
		`{"lang":{"gte":"de","lt":"en"}}`:      "3",
		`{"lang":{"like":"e"}}`:                `422 Schema validation failed: filter: the condition of "lang"`,
		`{"lang":{"gte":"a","lt":1}}`:          `422 `,
		`{"lang":[["a"]]}`:                     `422 `,
		`{"absent":"x"}`:                       "",
		`{"year":{"lt":1e300,"gt":-1e300}}`:    "1 2 3",
		`{"path":{"gt":"docs/login"}}`:         "3",
		`{"lang":"de","absent":{"prefix":""}}`: "",
	} {
		got := w.hits(`{"collection":"docs","text":"reset a password bake cake","filter":` + filter + `}`)
		fields := strings.Fields(got)
		if !strings.HasPrefix(want, "422") {
			sorted := append([]string(nil), fields...)
			for i := range sorted {
				for j := range i {
					if sorted[i] < sorted[j] {
						sorted[i], sorted[j] = sorted[j], sorted[i]
					}
				}
			}
			got = strings.Join(sorted, " ")
			if got != want {
				t.Errorf("%s: got %q, want %q", filter, got, want)
			}
		} else if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", filter, got, want)
		}
	}
	w.want(w.call("Delete", `{"collection":"docs","ids":["1","nothing"]}`), `{"deleted":1}`)
	w.want(w.call("Delete", `{"collection":"docs","filter":{"year":{"lt":0}}}`), `{"deleted":1}`)
	w.want(w.call("Delete", `{"collection":"docs","filter":{}}`), `422 An empty filter`)
	w.want(w.hits(`{"collection":"docs","text":"reset a password"}`), "3")
	w.checkIndexes()
	w.want(w.call("Delete", `{"collection":"docs"}`), `{"deleted":0}`)
	w.want(w.call("Query", `{"collection":"docs","text":"x"}`), `404 The collection "docs" doesn't exist`)
	for e, err := range w.store.Scan(store.Prefix([]byte{store.SpaceVectors})) {
		t.Errorf("something is left: %q, %v", e.Key, err)
	}
	// It can be made again, of another kind.
	w.want(w.call("Upsert", `{"collection":"docs","items":[{"id":"1","vector":[1,0,0]},{"id":"2","vector":[0,1,0]}]}`), `{"added":2`)
	w.want(w.hits(`{"collection":"docs","vector":[0.1,2,0]}`), "2 1")
}

func TestItemsThatAreRefused(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	w.call("Upsert", `{"collection":"texts","items":[{"id":"1","text":"one"}]}`)
	w.call("Upsert", `{"collection":"numbers","items":[{"id":"1","vector":[1,2,3]}]}`)
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct{ kind, data, want string }{
		{"Upsert", `{"collection":"texts","items":[{"id":"2"}]}`, `422 Schema validation failed: items: "2" must have either a text or a vector`},
		{"Upsert", `{"collection":"texts","items":[{"id":"2","text":"a","vector":[1]}]}`, `422 Schema validation failed: items: "2" must have either`},
		{"Upsert", `{"collection":"texts","items":[{"id":"2","vector":[1]}]}`, `422 Schema validation failed: items: "2" has a vector, and the collection "texts" holds texts`},
		{"Upsert", `{"collection":"numbers","items":[{"id":"2","text":"a"}]}`, `422 Schema validation failed: items: "2" has a text, and the collection "numbers" holds vectors of 3`},
		{"Upsert", `{"collection":"numbers","items":[{"id":"2","vector":[1]}]}`, `422 Schema validation failed: items: the vector of "2" has 1 numbers, and those of the collection "numbers" have 3`},
		{"Upsert", `{"collection":"texts","items":[{"id":"2","text":"` + long + `"}]}`, `413 The text of "2" has 8193 bytes, and 8192 are allowed: divide it among several items`},
		{"Upsert", `{"collection":"texts","items":[{"id":"2","text":"a"},{"id":"2","text":"b"}]}`, `422 Schema validation failed: items: "2" is there twice`},
		{"Upsert", `{"collection":"texts","items":[{"id":"2","text":"a","metadata":{"deep":{"er":1}}}]}`, `422 Schema validation failed: items: the metadata field "deep" of "2"`},
		{"Upsert", `{"collection":"texts","items":[{"id":"a\nb","text":"a"}]}`, `422 `},
		{"Upsert", `{"collection":"a b","items":[{"id":"2","text":"a"}]}`, `422 `},
		{"Upsert", `{"collection":"texts","items":[]}`, `422 `},
		{"Query", `{"collection":"texts"}`, `422 Schema validation failed: text: give either`},
		{"Query", `{"collection":"texts","vector":[1]}`, `422 Schema validation failed: vector: the collection "texts" holds texts`},
		{"Query", `{"collection":"numbers","text":"a"}`, `422 Schema validation failed: text: the collection "numbers" holds vectors`},
		{"Query", `{"collection":"numbers","vector":[1]}`, `422 Schema validation failed: vector: it has 1 numbers`},
		{"Query", `{"collection":"texts","text":"a","cursor":"nonsense"}`, `422 Invalid cursor`},
		{"Query", `{"collection":"none","text":"a"}`, `404 The collection "none" doesn't exist`},
		{"Delete", `{"collection":"none"}`, `404 `},
		{"Delete", `{"collection":"texts","ids":["1"],"filter":{"a":1}}`, `422 `},
		{"Query", `{"collection":"texts","text":"a","owner":"absent"}`, `404 `},
	} {
		w.want(w.call(c.kind, c.data), c.want)
	}
	w.want(w.hits(`{"collection":"texts","text":"one"}`), "1")
}

func TestPagesOfHits(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	var items []string
	for i := range 250 {
		items = append(items, fmt.Sprintf(`{"id":"%03d","text":"a common word and %d","metadata":{"n":%d}}`, i, i, i))
	}
	w.want(w.call("Upsert", `{"collection":"many","items":[`+strings.Join(items, ",")+`]}`), `{"added":250`)
	seen, cursor := make(map[string]bool), ""
	for pages := 0; ; pages++ {
		var out queryOutput
		if err := json.Unmarshal([]byte(w.call("Query", `{"collection":"many","text":"common word","limit":60,"filter":{"n":{"gte":30}},"cursor":"`+cursor+`"}`)), &out); err != nil {
			t.Fatal(err)
		}
		for _, h := range out.Hits {
			if seen[h.ID] {
				t.Errorf("%s comes twice", h.ID)
			}
			seen[h.ID] = true
		}
		if cursor = out.Cursor; cursor == "" {
			break
		}
	}
	if len(seen) != 220 {
		t.Errorf("%d hits on all pages", len(seen))
	}
}

// A token has collections of its own, and sees no others; the owner sees all.
func TestCollectionsBelongToTheirPrincipal(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	owner := w.as
	token := func(id principal.ID) *principal.Principal {
		p := kerneltest.Principal(t, id, string(id)+"-name", principal.Grant{Preset: principal.Agent})
		return p
	}
	a, b := token("a"), token("b")
	w.call("Upsert", `{"collection":"docs","items":[{"id":"owner","text":"secret plans"}]}`)
	w.as = a
	w.want(w.call("Query", `{"collection":"docs","text":"secret plans"}`), "404 ")
	w.call("Upsert", `{"collection":"docs","items":[{"id":"a","text":"secret plans"}]}`)
	w.want(w.hits(`{"collection":"docs","text":"secret plans"}`), "a")
	w.want(w.hits(`{"collection":"docs","text":"secret plans","owner":"owner"}`), "403 ")
	w.want(w.call("Delete", `{"collection":"docs","owner":"owner"}`), "403 ")
	w.as = b
	w.want(w.hits(`{"collection":"docs","text":"secret plans","owner":"a"}`), "403 ")
	w.want(w.call("Collections", `{}`), `{"collections":[],"note":"only what token b-name may see"}`)
	w.as = owner
	w.want(w.hits(`{"collection":"docs","text":"secret plans","owner":"a"}`), "a")
	all := w.call("Collections", `{}`)
	if strings.Count(all, `"name":"docs"`) != 2 || strings.Count(all, `"owner":"a"`) != 1 {
		t.Errorf("the owner sees %s", all)
	}
	a.End(principal.ErrRevoked)
	w.as = a
	w.want(w.hits(`{"collection":"docs","text":"secret plans"}`), "403 ")
	w.as = owner
	w.want(w.call("Delete", `{"collection":"docs","owner":"a"}`), `{"deleted":0}`)
}

// What is a secret is kept as it came, and never reaches the model.
func TestSecretsAreNotEmbedded(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	for text, want := range map[string]string{
		"log in\npassword: hunter2hunter2":                       "hunter2",
		`curl -H 'Authorization: Bearer abcdefghijk' https://x`:  "abcdefghijk",
		`the door is pwenc:v1:AAAABBBBCCCC=. and it is open`:     "AAAABBBBCCCC",
		`https://example.com/?access_token=abcdefghijklmnop&a=b`: "abcdefghijklmnop",
	} {
		data, _ := json.Marshal(text)
		w.want(w.call("Upsert", `{"collection":"s","items":[{"id":"1","text":`+string(data)+`}]}`), `{"`)
		answer := w.call("Query", `{"collection":"s","text":`+string(data)+`}`)
		if !strings.Contains(answer, want) {
			t.Errorf("%s isn't kept: %s", text, answer)
		}
		for _, embed := range []func(){func() {}, func() { w.vectors.growOne(t.Context(), name{"owner", "s"}) }} {
			embed()
			if saw := *w.model.saw.Load(); strings.Contains(saw, want) {
				t.Errorf("%s was embedded: %q", text, saw)
			}
			w.model.saw.Store(new(string))
		}
	}
}

// While the model fails, items are kept, queries go by words, and all callers are told why.
func TestAModelThatFails(t *testing.T) {
	w := newWorld(t, storetest.NewMemory())
	w.model.fails.Store(true)
	w.want(w.call("Upsert", `{"collection":"docs","items":[{"id":"1","text":"reset a password"},{"id":"2","text":"bake a cake","metadata":{"kind":"food"}}]}`), `{"added":2`)
	w.want(w.hits(`{"collection":"docs","text":"a password"}`), "1 Found by words, since the model of embeddings fails: the endpoint answers 500")
	w.want(w.hits(`{"collection":"docs","text":"cake","filter":{"kind":"food"}}`), "2 Found by words")
	if got := w.call("Collections", `{}`); !strings.Contains(got, `"waiting":"the endpoint answers 500"`) {
		t.Errorf("Collections: %s", got)
	}
	if s, err := w.vectors.Stats(); err != nil || len(s) != 1 || s[0].Waiting == "" {
		t.Errorf("Stats: %+v, %v", s, err)
	}
	w.model.fails.Store(false)
	if got := w.hits(`{"collection":"docs","text":"cake"}`); got != "2 1" {
		t.Errorf("afterwards: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.vectors.Run(ctx) }()
	w.call("Upsert", `{"collection":"docs","items":[{"id":"3","text":"more cake"}]}`)
	for {
		if s, err := w.vectors.Stats(); err != nil || s[0].Entries == 3 && s[0].Waiting == "" && s[0].Pending == 0 {
			break
		}
	}
	cancel()
	<-ended
}

// After a restart with another model, all items are embedded again, and are found meanwhile.
func TestAnotherModelEmbedsAgain(t *testing.T) {
	s := storetest.NewMemory()
	old, chosen := &bag{id: "bag-1"}, &bag{id: "bag-2"}
	w := newWorld(t, s, old)
	var items []string
	for i := range 600 {
		items = append(items, fmt.Sprintf(`{"id":"%03d","text":"number %d %d %d"}`, i, i, 7*i+1, 13*i+5))
	}
	w.want(w.call("Upsert", `{"collection":"many","items":[`+strings.Join(items, ",")+`]}`), `{"added":600`)
	w.want(w.call("Upsert", `{"collection":"numbers","items":[{"id":"1","vector":[1,2,3]}]}`), `{"added":1`)
	w.want(w.hits(`{"collection":"many","text":"number 7 50 96","limit":1}`), "007")
	w.want(w.hits(`{"collection":"numbers","vector":[1,2,3]}`), "1")

	w = newWorld(t, s, chosen, old)
	x := name{"owner", "many"}
	h, _, err := w.vectors.head(x)
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		if more, err = w.vectors.index(h).Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.want(w.hits(`{"collection":"many","text":"number 7 50 96","limit":1}`), "007")
	}
	got := w.call("Collections", `{}`)
	if !strings.Contains(got, `"items":600,"model":"bag-2"`) || strings.Contains(got, `"next"`) {
		t.Errorf("afterwards: %s", got)
	}
	w.checkIndexes()
}

// checkIndexes reports what is wrong with the collections.
func (w *world) checkIndexes() {
	w.Helper()
	all, err := w.vectors.all(w.store)
	for _, h := range all {
		if err == nil {
			err = w.vectors.index(h).Check(w.Context())
		}
	}
	if err != nil {
		w.Error(err)
	}
}
