package memory

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a memory with a kernel around it and a clock of its own.
type world struct {
	t      testing.TB
	store  *storetest.Memory
	blobs  *blobs.Dir
	memory *Memory
	kernel *kernel.Kernel
	clock  atomic.Int64 // milliseconds
	ids    atomic.Int64

	mu     sync.Mutex
	events []string // what was published
}

// start is when worlds begin.
const start = 1_700_000_000_000

func newWorld(t testing.TB, opts Options) *world {
	t.Helper()
	d, err := blobs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: storetest.NewMemory(), blobs: d}
	w.clock.Store(start)
	opts.Now = func() time.Time { return time.UnixMilli(w.clock.Load()) }
	w.memory = New(w.store, d, &opts)
	r, err := kernel.NewRegistry(w.memory.Module())
	if err != nil {
		t.Fatal(err)
	}
	w.kernel = kernel.New(r, &kernel.Options{Store: w.store, Recorder: w})
	return w
}

// Record implements [kernel.Recorder].
func (w *world) Record(kernel.Record) {}

// RecordWith implements [kernel.Recorder].
func (w *world) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	if err := apply(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		if r.Message.Kind == message.KindEvent {
			w.events = append(w.events, string(r.Message.Type)+" "+string(r.Message.Data))
		}
	}
	return nil
}

// ask returns the outcome of a call. The ids of requests count from 1.
func (w *world) ask(action, data string) message.Message {
	var all []message.Message
	m := message.Message{Kind: message.KindCommand, Type: message.Type("Memory." + action), Data: json.RawMessage(data)}
	m.Metadata = message.Metadata{ID: message.ID(fmt.Sprintf("c%d", w.ids.Add(1))), Timestamp: start}
	w.kernel.Handle(context.Background(), m, func(m message.Message) { all = append(all, m) })
	if len(all) != 1 || !all[0].Kind.Answers() {
		w.t.Errorf("%s %s got %d answers: %v", action, data, len(all), all)
		return message.Message{}
	}
	return all[0]
}

// reply wants a reply with this data.
func (w *world) reply(action, data, want string) {
	w.t.Helper()
	if got := w.ask(action, data); got.Kind != message.KindReply || string(got.Data) != want {
		w.t.Errorf("%s %s\n got %s %s\nwant %s", action, data, got.Kind, message.Clip(string(got.Data), 2000), want)
	}
}

// refuse wants an error with this code whose text has a part.
func (w *world) refuse(action, data string, code int, text string) {
	w.t.Helper()
	got := w.ask(action, data)
	e, err := message.ParseError(got.Data)
	if got.Kind != message.KindError || err != nil || e.Code != code || !strings.Contains(e.Message, text) {
		w.t.Errorf("%s %s\n got %s %s\nwant %d %s", action, message.Clip(data, 200), got.Kind, message.Clip(string(got.Data), 2000), code, text)
	}
}

const ok = `{"success":true}`

// sealed makes a sealed string of these members.
func sealed(members string) string {
	return sealedPrefix + base64.RawURLEncoding.EncodeToString([]byte("{"+members+"}"))
}

var wellFormed = sealed(`"v":1,"kid":"ssh-fp:SHA256:abc","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAAAA"`)

func TestValuesComeBackAsTheyWere(t *testing.T) {
	w := newWorld(t, Options{})
	for i, value := range []string{
		`""`, `0`, `false`, `null`, `[]`, `{}`, `"Grüße 😀"`, `"\u0041\/\n"`, `12345678901234567890123`, `1.0`, `1E400`, `-0`,
		`0.1000000000000000000001`, `{"z":1,"a":[null,{"b":[]}],"":""}`, `"pwenc:v1:not"`,
	} {
		key := fmt.Sprintf(`"values/%d"`, i)
		w.reply("Set", `{"key":`+key+`,"value":`+value+`}`, ok)
		w.reply("Get", `{"key":`+key+`}`, value)
	}
	w.reply("Set", "{ \"value\" : { \"a\" : [ 1 ,\t2 ] , \"b c\" : \" d \" } , \"\\u006bey\" : \"spaced\" }", ok)
	w.reply("Get", `{"key":"spaced"}`, `{"a":[1,2],"b c":" d "}`)
}

func TestLeadingSlashMeansTheSameKey(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"/notes/1","value":"Note content here"}`, ok)
	for _, key := range []string{"notes/1", "/notes/1", "//notes//1"} {
		w.reply("Get", `{"key":"`+key+`"}`, `"Note content here"`)
	}
	w.reply("Delete", `{"key":"notes/1"}`, ok)
	w.refuse("Get", `{"key":"/notes/1"}`, 404, "Key not found: /notes/1")
}

func TestErrorsSayWhatTheSpecificationSays(t *testing.T) {
	w := newWorld(t, Options{})
	for _, c := range []struct{ action, data, want string }{
		{"Get", `{"key":"/notes/123"}`, `{"code":404,"message":"Key not found: /notes/123"}`},
		{"Delete", `{"key":"notes/123"}`, `{"code":404,"message":"Key not found: notes/123"}`},
		{"History", `{"key":"//notes/123"}`, `{"code":404,"message":"Key not found: //notes/123"}`},
		{"Get", `{"key":"proc/version"}`, `{"code":404,"message":"Key not found: proc/version"}`},
		{"Set", `{"key":"/proc/system/summary","value":1}`, `{"code":403,"message":"Operation not allowed: proc/* paths are read-only (attempted write to proc/system/summary)"}`},
		{"Delete", `{"key":"proc"}`, `{"code":403,"message":"Operation not allowed: proc/* paths are read-only (attempted write to proc)"}`},
		{"Set", `{"key":"//vault/google/token","value":"hunter2"}`, `{"code":422,"message":"Invalid value format: vault/* requires pwenc:v1:* ciphertext (got plain text for vault/google/token)"}`},
		{"Set", `{"key":"vault","value":{"a":1}}`, `{"code":422,"message":"Invalid value format: vault/* requires pwenc:v1:* ciphertext (got plain text for vault)"}`},
		{"Set", `{"key":"sys/motd","value":"a\nb"}`, `{"code":422,"message":"Invalid value format: sys/* holds single-line values (got a line break for sys/motd)"}`},
	} {
		if got := w.ask(c.action, c.data); string(got.Data) != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.action, c.data, got.Data, c.want)
		}
	}
}

func TestRequestsThatMeanNothingAreRefused(t *testing.T) {
	w := newWorld(t, Options{})
	for _, c := range []struct {
		action, data string
		text         string
	}{
		{"Get", `{}`, "missing required field: key"},
		{"Get", `{"key":1}`, "key: expected a string"},
		{"Get", `{"key":"a","revision":0}`, "revision"},
		{"Get", `{"key":"a/../b"}`, `the segment ".."`},
		{"Set", `{"key":"a"}`, "either value or valueRef"},
		{"Set", `{"key":"a","value":1,"valueRef":{"scheme":"data","path":"text/plain,x"}}`, "either value or valueRef"},
		{"Set", `{"key":"a","value":1,"as":"text"}`, "as says"},
		{"Set", `{"key":"a","value":1,"ttl":0}`, "ttl"},
		{"Set", `{"key":"a","value":1,"ttl":1.5}`, "ttl"},
		{"Set", `{"key":"a","value":1,"ifRevision":-1}`, "ifRevision"},
		{"Set", `{"key":"a","value":1,"other":1}`, "unknown field: other"},
		{"Set", `{"key":"a","valueRef":{"scheme":"http","path":"/x"}}`, "scheme"},
		{"Set", `{"key":"VAULT/a","value":1}`, "looks like the namespace vault"},
		{"Delete", `{"key":""}`, "it is empty"},
		{"List", `{"prefix":".."}`, `the segment ".."`},
		{"List", `{"limit":10001}`, "limit"},
		{"List", `{"cursor":"x"}`, "Invalid cursor"},
		{"List", `{"cursor":"!!!!"}`, "Invalid cursor"},
		{"History", `{"key":"a","cursor":"` + appendCursor(cursorHistory, "x") + `"}`, "Invalid cursor"},
		{"History", `{"key":"a","cursor":"` + appendCursor(cursorHistory, "0") + `"}`, "Invalid cursor"},
		{"History", `{"key":"a","cursor":"` + appendCursor(cursorChildren, "1") + `"}`, "Invalid cursor"},
	} {
		w.refuse(c.action, c.data, 422, c.text)
	}
	if w.events != nil {
		t.Errorf("published %q", w.events)
	}
}

func TestVaultTakesOnlySealedStrings(t *testing.T) {
	w := newWorld(t, Options{})
	for _, value := range []string{
		wellFormed,
		sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","aad":"x","ts":1735000000000`),
		sealed(` "ts" : "2026-01-01" , "ct":"AAAAAAAAAAAAAAAAAAAAAA","nonce":"AAAAAAAAAAAAAAAA","alg":"A256GCM","kid":"k","v":1`),
	} {
		w.reply("Set", `{"key":"vault/a","value":"`+value+`"}`, ok)
		w.reply("Get", `{"key":"/vault/a"}`, `"`+value+`"`)
	}
	const plain, malformed = "got plain text for vault/a", "is malformed: "
	for value, text := range map[string]string{
		`"hunter2"`:                         plain,
		`""`:                                plain,
		`1`:                                 plain,
		`null`:                              plain,
		`["` + wellFormed + `"]`:            plain,
		`{"sealed":"` + wellFormed + `"}`:   plain,
		`" ` + wellFormed + `"`:             plain,
		`"PWENC:v1:` + wellFormed[9:] + `"`: plain,
		`"pwenc:v2:` + wellFormed[9:] + `"`: plain,
		`"pwenc:v1:"`:                       malformed + "what is encoded is not a JSON object",
		`"pwenc:v1:hunter2!"`:               malformed + "what follows the prefix is not base64url",
		`"` + wellFormed + `="`:             malformed + "what follows the prefix is not base64url",
		`"` + wellFormed + `\n"`:            malformed + "what follows the prefix is not base64url",
		`"` + sealed(`"v":1`)[:14] + `"`:    malformed,
		`"` + sealed(``) + `"`:              malformed + "v is missing",
		`"` + sealed(`"v":2,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                malformed + "v is not 1",
		`"` + sealed(`"v":1,"kid":"","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                 malformed + "kid is not",
		`"` + sealed(`"v":1,"kid":"k","alg":"none","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                   malformed + "alg is not",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                            malformed + "nonce is not",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"hunter2"`) + `"`:                               malformed + "ct is not",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA"`) + `"`:                                              malformed + "ct is missing",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","pt":"hunter2"`) + `"`: malformed + "it has a member",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","aad":1`) + `"`:        malformed + "aad is not",
		`"` + sealed(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","ts":{}`) + `"`:        malformed + "ts is neither",
	} {
		w.refuse("Set", `{"key":"vault/a","value":`+value+`}`, 422, text)
		if got := w.ask("Set", `{"key":"vault/a","value":`+value+`}`); bytes.Contains(got.Data, []byte("hunter2")) {
			t.Errorf("the error shows the secret: %s", got.Data)
		}
	}
	// Sealed data may come by pointer, and plain data may not.
	w.reply("Set", `{"key":"vault/b","valueRef":{"scheme":"data","path":"text/plain,`+wellFormed+`"}}`, ok)
	w.reply("Get", `{"key":"vault/b"}`, `"`+wellFormed+`"`)
	w.refuse("Set", `{"key":"vault/b","valueRef":{"scheme":"data","path":"text/plain,hunter2"}}`, 422, "got plain text for vault/b")
	w.reply("History", `{"key":"vault/b"}`, `{"versions":[{"revision":1,"value":"`+wellFormed+`","updated":1700000000000,"message":"c`+fmt.Sprint(w.ids.Load()-2)+`"}]}`)
}

// Whatever may have been meant for the vault is not written down in plain.
func TestRedactHidesWhatMayBeASecret(t *testing.T) {
	for data, want := range map[string]string{
		`{"key":"notes/1","value":"plain"}`:                                          `{"key":"notes/1","value":"plain"}`,
		`{"key":"vault/a","value":"hunter2"}`:                                        `{"key":"vault/a","value":"[redacted]"}`,
		`{ "key" : "/vault//a" , "value" : {"p":"hunter2"} , "ttl" : 5 }`:            `{"key":"/vault//a","value":"[redacted]","ttl":5}`,
		`{"\u0076alue":"hunter2","\u006bey":"\u0076ault/a"}`:                         `{"\u0076alue":"[redacted]","\u006bey":"\u0076ault/a"}`,
		`{"key":"VAULT/a","value":"hunter2"}`:                                        `{"key":"VAULT/a","value":"[redacted]"}`,
		`{"key":"a/../vault/a","value":"hunter2"}`:                                   `{"key":"a/../vault/a","value":"[redacted]"}`,
		`{"key":"ｖault/a","value":1}`:                                                `{"key":"ｖault/a","value":"[redacted]"}`,
		`{"key":"","value":"hunter2"}`:                                               `{"key":"","value":"[redacted]"}`,
		`{"key":"vault/a","value":"pwenc:v1:hunter2"}`:                               `{"key":"vault/a","value":"[redacted]"}`,
		`{"key":"vault/a","value":"` + wellFormed + `"}`:                             `{"key":"vault/a","value":"` + wellFormed + `"}`,
		`{"key":"vault/a","valueRef":{"scheme":"data","path":"text/plain,hunter2"}}`: `{"key":"vault/a","valueRef":"[redacted]"}`,
		`{"key":"vault/a"}`:                                                          `{"key":"vault/a"}`,
	} {
		before := strings.Clone(data)
		if got := redact(json.RawMessage(data)); string(got) != want {
			t.Errorf("%s\n is recorded as %s\nwant %s", data, got, want)
		}
		if data != before {
			t.Error("the data was changed")
		}
	}
}

func FuzzRedact(f *testing.F) {
	input := schema.Input[setInput]()
	f.Add([]byte(`{"key":"vault/a","value":"x"}`))
	f.Add([]byte(`{"value":[{"a":"\""}],"key":"\u0076ault/a"}`))
	f.Add([]byte(`{"key":"Vault","valueRef":{"scheme":"data","path":"text/plain,x"}}`))
	f.Add([]byte(`{"key":"vault/a","value":"` + wellFormed + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var scan jsonscan.Scanner
		if scan.Text(data) != nil || input.Validate(data) != nil {
			return
		}
		got := redact(data)
		if err := scan.Text(got); err != nil {
			t.Fatalf("%s is recorded as %s: %v", data, got, err)
		}
		in, out := parse(data), parse(got)
		if !bytes.Equal(in.key, out.key) {
			t.Fatalf("%s is recorded as %s", data, got)
		}
		_, key, err := in.keyOf()
		if err == nil && key.space() != vault || out.value == nil {
			return
		}
		if fault, _ := sealedValueFault(out.value); fault != "" && string(out.value) != redacted {
			t.Fatalf("%s is recorded as %s", data, got)
		}
	})
}

func FuzzSealed(f *testing.F) {
	f.Add(wellFormed)
	f.Add("pwenc:v1:")
	f.Add("plain")
	f.Add(sealed(`"v":1`))
	f.Fuzz(func(t *testing.T, text string) {
		fault, plain := sealedFault(text)
		if plain != !strings.HasPrefix(text, sealedPrefix) || plain && fault == "" {
			t.Fatalf("%q: %q, %v", text, fault, plain)
		}
		if fault != "" {
			return
		}
		// A reader that is not ours reads the same.
		data, err := base64.RawURLEncoding.DecodeString(text[len(sealedPrefix):])
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			V              int
			Kid, Alg       string
			Nonce, Ct, Aad string
		}
		if err := json.Unmarshal(data, &o); err != nil || o.V != 1 || o.Kid == "" || o.Alg != "A256GCM" || len(o.Nonce) != 16 || len(o.Ct) < 22 {
			t.Fatalf("%q holds %s: %v", text, data, err)
		}
	})
}

func TestSysHoldsSingleLines(t *testing.T) {
	w := newWorld(t, Options{})
	for _, value := range []string{`"one line"`, `""`, `1`, `{"a":["b","\t\\n"]}`, `"\\n"`} {
		w.reply("Set", `{"key":"sys/a","value":`+value+`}`, ok)
		w.reply("Get", `{"key":"sys/a"}`, value)
	}
	for _, value := range []string{`"a\nb"`, `"\r"`, `"a\u000Ab"`, `"\u2028"`, "\"\u2029\"", "\"\u0085\"", `"\u000b"`, `"\f"`, `["a",{"b":"c\n"}]`, `{"a\n":1}`} {
		w.refuse("Set", `{"key":"/sys//a","value":`+value+`}`, 422, "single-line")
	}
	w.refuse("Set", `{"key":"sys","value":"a\nb"}`, 422, "single-line")
	w.refuse("Set", `{"key":"sys/b","valueRef":{"scheme":"data","path":"text/plain,a%0Ab"}}`, 422, "single-line")
	w.reply("Set", `{"key":"notes/a","value":"a\nb"}`, ok)
}

func TestProcIsReadFromItsOwner(t *testing.T) {
	w := newWorld(t, Options{Proc: func(_ context.Context, key string) (json.RawMessage, error) {
		switch key {
		case "proc/version":
			return json.RawMessage(`"1.0"`), nil
		case "proc/broken":
			return nil, errors.New("a secret of the operator")
		}
		return nil, nil
	}})
	w.reply("Get", `{"key":"/proc//version"}`, `"1.0"`)
	w.refuse("Get", `{"key":"proc/other"}`, 404, "Key not found: proc/other")
	w.refuse("Get", `{"key":"proc/broken"}`, 500, "Memory backend failure")
	w.refuse("Set", `{"key":"proc/version","value":"2.0"}`, 403, "read-only")
}

func TestRevisionsCountAndGoOnAfterADelete(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":"one"}`, ok)
	w.clock.Add(10)
	w.reply("Set", `{"key":"/a","value":"two","ifRevision":1}`, `{"success":true,"revision":2}`)
	w.reply("Get", `{"key":"a","withRevision":true}`, `{"value":"two","revision":2,"updated":1700000000010}`)
	w.clock.Add(10)
	w.reply("Delete", `{"key":"a"}`, ok)
	w.refuse("Get", `{"key":"a"}`, 404, "Key not found: a")
	w.refuse("Delete", `{"key":"a"}`, 404, "Key not found: a")
	w.reply("Set", `{"key":"a","value":null,"ifRevision":0,"ttl":1e3}`, `{"success":true,"revision":4}`)
	w.reply("Get", `{"key":"a","withRevision":true}`, `{"value":null,"revision":4,"updated":1700000000020,"expires":1700000001020}`)
	w.reply("Get", `{"key":"a","revision":1}`, `"one"`)
	w.reply("Get", `{"key":"a","revision":2.0,"withRevision":true}`, `{"value":"two","revision":2,"updated":1700000000010}`)
	w.reply("Get", `{"key":"a","revision":4}`, `null`)
	w.refuse("Get", `{"key":"/a","revision":3}`, 404, "Key not found: /a at revision 3, which deleted it")
	w.refuse("Get", `{"key":"/a","revision":5}`, 404, "Key not found: /a at revision 5 (Memory.History lists")
	w.reply("History", `{"key":"a"}`, `{"versions":[`+
		`{"revision":4,"value":null,"updated":1700000000020,"message":"c7","expires":1700000001020},`+
		`{"revision":3,"deleted":true,"updated":1700000000020,"message":"c4"},`+
		`{"revision":2,"value":"two","updated":1700000000010,"message":"c2"},`+
		`{"revision":1,"value":"one","updated":1700000000000,"message":"c1"}]}`)
	want := []string{
		`Memory.Changed {"key":"a","revision":1}`,
		`Memory.Changed {"key":"a","revision":2}`,
		`Memory.Changed {"key":"a","revision":3,"deleted":true}`,
		`Memory.Changed {"key":"a","revision":4}`,
	}
	if !slices.Equal(w.events, want) {
		t.Errorf("published %q, want %q", w.events, want)
	}
}

func TestMismatchSaysBothRevisions(t *testing.T) {
	w := newWorld(t, Options{})
	w.refuse("Set", `{"key":"/a","value":1,"ifRevision":3}`, 409, "/a was expected at revision 3 and does not exist (revision 0)")
	w.reply("Set", `{"key":"a","value":1,"ifRevision":0}`, `{"success":true,"revision":1}`)
	w.refuse("Set", `{"key":"a","value":2,"ifRevision":0}`, 409, "a was expected not to exist (revision 0) and is at revision 1")
	w.refuse("Set", `{"key":"a","value":2,"ifRevision":2}`, 409, "a was expected at revision 2 and is at revision 1")
	w.refuse("Delete", `{"key":"a","ifRevision":2}`, 409, "a was expected at revision 2 and is at revision 1")
	w.reply("Get", `{"key":"a"}`, `1`)
	w.reply("Delete", `{"key":"a","ifRevision":1}`, ok)
	w.refuse("Delete", `{"key":"a","ifRevision":2}`, 404, "Key not found: a")
}

func TestLastVersionsAreKept(t *testing.T) {
	w := newWorld(t, Options{Versions: 3})
	large := `"` + strings.Repeat("x", maxInline) + `%d"`
	for i := range 10 {
		w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file(fmt.Sprintf(large, i+1))), ok)
	}
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{10, 9, 8}) {
		t.Errorf("kept: %v", got)
	}
	w.refuse("Get", `{"key":"a","revision":7}`, 404, "at revision 7")
	// The blobs of those that went are nobody's.
	for i := range 10 {
		n, err := blobs.References(w.store, blobs.Sum(fmt.Appendf(nil, large, i+1)))
		if want := 0; err != nil || i >= 7 && n != 1 || i < 7 && n != want {
			t.Errorf("version %d has %d references, %v", i+1, n, err)
		}
	}
	w.reply("Delete", `{"key":"a"}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{11, 10, 9}) {
		t.Errorf("kept: %v", got)
	}
	// Fewer are kept from now on.
	w.memory.opts.Versions = 1
	w.reply("Set", `{"key":"a","value":1}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{12}) {
		t.Errorf("kept: %v", got)
	}
	w.reply("Set", `{"key":"a","value":2}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{13}) {
		t.Errorf("kept: %v", got)
	}
	if n := w.count([]byte{store.SpaceBlobs}); n != 0 {
		t.Errorf("%d references are left", n)
	}
}

// file keeps a text where a valueRef may point to.
func (w *world) file(text string) string {
	w.t.Helper()
	b, err := w.blobs.Put([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Path
}

// count counts the store's keys with a prefix.
func (w *world) count(prefix []byte) (n int) {
	w.t.Helper()
	for _, err := range w.store.Scan(store.Prefix(prefix)) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

// revisions pages through a history.
func (w *world) revisions(key, limit string) (all []uint64) {
	w.t.Helper()
	cursor := ""
	for {
		var out struct {
			Versions []struct{ Revision uint64 }
			Cursor   string
		}
		data := fmt.Sprintf(`{"key":%q%s%s}`, key, limit, cursor)
		if err := json.Unmarshal(w.ask("History", data).Data, &out); err != nil {
			w.t.Fatal(err)
		}
		for _, v := range out.Versions {
			all = append(all, v.Revision)
		}
		if out.Cursor == "" {
			return all
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, out.Cursor)
	}
}

func TestHistoryPagesWhateverHappensMeanwhile(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 7 {
		w.reply("Set", fmt.Sprintf(`{"key":"a","value":%d}`, i), ok)
	}
	w.reply("Set", `{"key":"a/b","value":1}`, ok) // a neighbour
	want := []uint64{7, 6, 5, 4, 3, 2, 1}
	for _, limit := range []string{"", `,"limit":1`, `,"limit":3`, `,"limit":7`, `,"limit":100`} {
		if got := w.revisions("/a", limit); !slices.Equal(got, want) {
			t.Errorf("limit %q: %v", limit, got)
		}
	}
	var first struct{ Cursor string }
	if err := json.Unmarshal(w.ask("History", `{"key":"a","limit":3}`).Data, &first); err != nil {
		t.Fatal(err)
	}
	w.reply("Set", `{"key":"a","value":"new"}`, ok)
	w.reply("Delete", `{"key":"a"}`, ok)
	var second struct {
		Versions []struct{ Revision uint64 }
		Cursor   string
	}
	if err := json.Unmarshal(w.ask("History", `{"key":"a","limit":2,"cursor":"`+first.Cursor+`"}`).Data, &second); err != nil {
		t.Fatal(err)
	}
	if len(second.Versions) != 2 || second.Versions[0].Revision != 4 || second.Versions[1].Revision != 3 || second.Cursor == "" {
		t.Errorf("went on with %+v", second)
	}
	w.reply("History", `{"key":"a","cursor":"`+appendCursor(cursorHistory, "1")+`"}`, `{"versions":[]}`)
}

func TestExpiredIsAbsentAtOnce(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"f/a","value":"one","ttl":1000}`, ok)
	w.reply("Set", `{"key":"f/b","value":"two"}`, ok)
	w.clock.Add(999)
	w.reply("Get", `{"key":"f/a"}`, `"one"`)
	w.reply("List", `{"prefix":"f"}`, `{"keys":["f/a","f/b"]}`)
	w.clock.Add(1)
	w.refuse("Get", `{"key":"f/a"}`, 404, "Key not found: f/a")
	w.refuse("Get", `{"key":"f/a","revision":1}`, 404, "Key not found: f/a")
	w.refuse("Delete", `{"key":"f/a"}`, 404, "Key not found: f/a")
	w.reply("List", `{"prefix":"f"}`, `{"keys":["f/b"]}`)
	w.reply("History", `{"key":"f/a"}`, `{"versions":[{"revision":1,"updated":1700000000000,"message":"c1","expires":1700000001000}]}`)
	w.refuse("Set", `{"key":"f/a","value":2,"ifRevision":1}`, 409, "expected at revision 1 and does not exist")
	w.reply("Set", `{"key":"f/a","value":"again","ifRevision":0}`, `{"success":true,"revision":2}`)
	w.clock.Add(1_000_000)
	w.reply("Get", `{"key":"f/a"}`, `"again"`) // a Set without ttl stays
	w.refuse("Get", `{"key":"f/a","revision":1}`, 404, "Key not found: f/a")
	if n := w.count([]byte{store.SpaceMemory, expires}); n != 0 {
		t.Errorf("%d entries are left in the index", n)
	}
	// A folder of nothing but expired keys is none.
	w.reply("Set", `{"key":"g/h/i","value":1,"ttl":1}`, ok)
	w.clock.Add(1)
	w.reply("List", `{}`, `{"keys":["f/"]}`)
}

func (w *world) sweep(want int) {
	w.t.Helper()
	if n, err := w.memory.Sweep(w.t.Context(), time.UnixMilli(w.clock.Load())); err != nil || n != want {
		w.t.Errorf("swept %d, %v; want %d", n, err, want)
	}
}

func TestSweepRemovesWhatHasExpiredAndOldHistory(t *testing.T) {
	w := newWorld(t, Options{})
	big := w.file(`"` + strings.Repeat("x", maxInline) + `"`)
	for i := range 600 { // more than a chunk
		w.reply("Set", fmt.Sprintf(`{"key":"short/%d","value":1,"ttl":%d}`, i, 1+i%3), ok)
	}
	w.reply("Set", `{"key":"big","valueRef":{"scheme":"file","path":"`+big+`"},"ttl":3}`, ok)
	w.reply("Set", `{"key":"stays","value":1}`, ok)
	w.reply("Set", `{"key":"renewed","value":1,"ttl":2}`, ok)
	w.reply("Set", `{"key":"renewed","value":2,"ttl":2000}`, ok)
	w.reply("Set", `{"key":"same","value":1,"ttl":3}`, ok)
	w.reply("Set", `{"key":"same","value":2,"ttl":3}`, ok)
	w.reply("Set", `{"key":"deleted","value":1}`, ok)
	w.reply("Delete", `{"key":"deleted"}`, ok)
	w.reply("Set", `{"key":"back","value":1}`, ok)
	w.reply("Delete", `{"key":"back"}`, ok)
	w.reply("Set", `{"key":"back","value":2}`, ok)
	published := len(w.events)
	w.sweep(0)
	w.clock.Add(2)
	w.sweep(400)
	w.sweep(0)
	w.clock.Add(1)
	w.sweep(200 + 2)
	w.sweep(0)
	w.reply("List", `{}`, `{"keys":["back","renewed","stays"]}`)
	if len(w.events) != published {
		t.Errorf("a sweep published %q", w.events[published:])
	}
	// Who has gone is remembered for a while: revisions go on.
	w.reply("Set", `{"key":"short/0","value":1,"ifRevision":0,"ttl":5}`, `{"success":true,"revision":2}`)
	w.clock.Add(defaultRemember.Milliseconds())
	w.reply("Set", `{"key":"deleted","value":1,"ifRevision":0}`, `{"success":true,"revision":3}`)
	w.reply("Delete", `{"key":"deleted"}`, ok)
	w.sweep(1 + 1 + 599 + 2) // renewed and short/0 expire; short/*, big and same are forgotten; deleted and short/0 have come back
	if n, err := blobs.References(w.store, blobs.Sum([]byte(`"`+strings.Repeat("x", maxInline)+`"`))); err != nil || n != 0 {
		t.Errorf("the blob has %d references, %v", n, err)
	}
	if got := w.revisions("deleted", ""); !slices.Equal(got, []uint64{4, 3, 2, 1}) {
		t.Errorf("kept: %v", got)
	}
	if got := w.revisions("back", ""); !slices.Equal(got, []uint64{3, 2, 1}) {
		t.Errorf("kept: %v", got)
	}
	w.clock.Add(defaultRemember.Milliseconds() + 3000)
	w.sweep(3) // renewed, short/0, deleted
	for _, index := range []byte{expires, gone} {
		if n := w.count([]byte{store.SpaceMemory, index}); n != 0 {
			t.Errorf("%d entries are left in index %c", n, index)
		}
	}
	if n := w.count([]byte{store.SpaceMemory, history}); n != 2 { // of back
		t.Errorf("%d versions are left in the history", n)
	}
	w.reply("Set", `{"key":"deleted","value":1,"ifRevision":0}`, `{"success":true,"revision":1}`)
}

// Somebody changes a key after the sweep has looked at it.
func TestSweepLosesAgainstASet(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":1,"ttl":1}`, ok)
	w.clock.Add(1)
	raced := false
	w.store.Fail(func(call string) error {
		if call == "apply" && !raced {
			raced = true
			return store.ErrConflict
		}
		return nil
	})
	// The store reports the conflict that a Set in between would cause.
	if n, err := w.memory.Sweep(t.Context(), time.UnixMilli(w.clock.Load())); n != 0 || err != nil || !raced {
		t.Errorf("swept %d, %v", n, err)
	}
	w.store.Fail(nil)
	w.sweep(1)
}

func TestSweepRacesWithSets(t *testing.T) {
	w := newWorld(t, Options{})
	done := make(chan struct{})
	var sweeper, setters sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			w.clock.Add(1)
			if _, err := w.memory.Sweep(context.Background(), time.UnixMilli(w.clock.Load())); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var sets atomic.Int64
	for range 4 {
		setters.Go(func() {
			for range 100 {
				w.reply("Set", `{"key":"a","value":1,"ttl":1}`, ok)
				sets.Add(1)
			}
		})
	}
	setters.Wait()
	close(done)
	sweeper.Wait()
	w.reply("Set", `{"key":"a","value":"last"}`, ok)
	// None was lost and none counted twice, whoever moved them.
	w.reply("Get", `{"key":"a","withRevision":true}`, fmt.Sprintf(`{"value":"last","revision":%d,"updated":%d}`, sets.Load()+1, w.clock.Load()))
	got := w.revisions("a", "")
	for i, revision := range got {
		if revision != uint64(sets.Load()+1)-uint64(i) {
			t.Fatalf("the history has %v", got)
		}
	}
	if len(got) < defaultVersions || len(got) > defaultVersions+defaultVersions/8 {
		t.Errorf("%d versions are kept", len(got))
	}
}

func TestListShowsImmediateChildren(t *testing.T) {
	w := newWorld(t, Options{})
	for _, key := range []string{"b", "a/1", "a/2/x", "a/2/y", "a/2", "a/2-", "a/20", "a/é", "vault2", "a!", "c/d/e/f"} {
		w.reply("Set", `{"key":"`+key+`","value":1}`, ok)
	}
	w.reply("Set", `{"key":"vault/k","value":"`+wellFormed+`"}`, ok)
	root := `{"keys":["a!","a/","b","c/","vault/","vault2"]}`
	for prefix, want := range map[string]string{
		``: root, `/`: root, `//`: root,
		`a`: `{"keys":["a/1","a/2","a/2-","a/2/","a/20","a/é"]}`, `/a/`: `{"keys":["a/1","a/2","a/2-","a/2/","a/20","a/é"]}`,
		`a/2`: `{"keys":["a/2/x","a/2/y"]}`, `a//2//`: `{"keys":["a/2/x","a/2/y"]}`,
		`c`: `{"keys":["c/d/"]}`, `c/d`: `{"keys":["c/d/e/"]}`, `b`: `{"keys":[]}`, `none`: `{"keys":[]}`, `a/e`: `{"keys":[]}`,
		`vault`: `{"keys":["vault/k"]}`,
	} {
		w.reply("List", `{"prefix":"`+prefix+`"}`, want)
	}
	w.reply("List", `{}`, root)
	w.reply("List", `{"recursive":true}`, `{"keys":["a!","a/1","a/2","a/2-","a/2/x","a/2/y","a/20","a/é","b","c/d/e/f","vault/k","vault2"]}`)
	w.reply("List", `{"prefix":"a/2","recursive":true}`, `{"keys":["a/2/x","a/2/y"]}`)
}

// page lists everything some names at a time.
func (w *world) page(data string, between func()) (all []string) {
	w.t.Helper()
	cursor := ""
	for {
		var out listOutput
		answer := w.ask("List", `{`+data+cursor+`}`)
		if err := json.Unmarshal(answer.Data, &out); err != nil || answer.Kind != message.KindReply {
			w.t.Fatalf("%s, %v", answer.Data, err)
		}
		all = append(all, out.Keys...)
		if out.Cursor == "" {
			return all
		}
		if between != nil {
			between()
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, out.Cursor)
	}
}

func TestListPagesAreStable(t *testing.T) {
	w := newWorld(t, Options{})
	var want []string
	for i := range 20 {
		w.reply("Set", fmt.Sprintf(`{"key":"f/%02d","value":1}`, i), ok)
		want = append(want, fmt.Sprintf("f/%02d", i))
		for j := range 30 { // more than is passed over one by one
			w.reply("Set", fmt.Sprintf(`{"key":"f/%02d/%d","value":1}`, i, j), ok)
		}
		want = append(want, fmt.Sprintf("f/%02d/", i))
	}
	for _, limit := range []int{1, 2, 3, 39, 40, 41, 1000} {
		if got := w.page(fmt.Sprintf(`"prefix":"f","limit":%d`, limit), nil); !slices.Equal(got, want) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	if got := w.page(`"prefix":"f","limit":7,"recursive":true`, nil); len(got) != 20*31 || !slices.IsSorted(got) {
		t.Errorf("recursively: %d keys", len(got))
	}
	// What was given is not given again, and what stays is not left out.
	n := 0
	got := w.page(`"prefix":"f","limit":2`, func() {
		w.ask("Delete", fmt.Sprintf(`{"key":"f/%02d"}`, n))
		w.ask("Set", fmt.Sprintf(`{"key":"f/%02d-","value":1}`, n))
		w.ask("Set", fmt.Sprintf(`{"key":"a%d","value":1}`, n))
		n++
	})
	if !slices.Equal(got, want) {
		t.Errorf("with changes before the cursor: %q", got)
	}
	// A cursor is good for the list that it came from.
	var out listOutput
	if err := json.Unmarshal(w.ask("List", `{"prefix":"f","limit":2}`).Data, &out); err != nil {
		t.Fatal(err)
	}
	w.refuse("List", `{"prefix":"g","cursor":"`+out.Cursor+`"}`, 422, "Invalid cursor")
	w.refuse("List", `{"prefix":"f","recursive":true,"cursor":"`+out.Cursor+`"}`, 422, "Invalid cursor")
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "Y2E", appendCursor(cursorChildren, "a/b/"), appendCursor(cursorRecursive, "\x00\xff")} {
		f.Add(s, "a", false)
	}
	w := newWorld(f, Options{})
	for _, key := range []string{"a/b/c", "a/b", "a/d", "z"} {
		w.reply("Set", `{"key":"`+key+`","value":1}`, ok)
	}
	f.Fuzz(func(t *testing.T, cursor, prefix string, recursive bool) {
		out, err := w.memory.list(t.Context(), listInput{Prefix: prefix, Cursor: cursor, Recursive: recursive})
		if err != nil {
			if e, _ := message.ErrorOf(err); e.Code != 422 {
				t.Fatal(err)
			}
			return
		}
		if folder := strings.Trim(prefix, "/"); folder != "" {
			key, _ := ParseKey(folder)
			for _, name := range out.Keys {
				if !strings.HasPrefix(name, string(key)+"/") {
					t.Fatalf("%q lists %q", prefix, name)
				}
			}
		}
	})
}

func TestTenThousandKeys(t *testing.T) {
	w := newWorld(t, Options{})
	const n = 10_000
	for i := range n {
		w.reply("Set", fmt.Sprintf(`{"key":"many/%d/%d","value":%d}`, i%100, i, i), ok)
	}
	for i := 0; i < n; i += 97 {
		w.reply("Get", fmt.Sprintf(`{"key":"many/%d/%d"}`, i%100, i), fmt.Sprint(i))
	}
	if got := w.page(`"prefix":"many"`, nil); len(got) != 100 {
		t.Errorf("there are %d folders", len(got))
	}
	if got := w.page(`"recursive":true,"limit":3000`, nil); len(got) != n {
		t.Errorf("there are %d keys", len(got))
	}
	// Folders are jumped over, not walked through.
	reads := 0
	w.store.Fail(func(string) error { reads++; return nil })
	w.ask("List", `{"prefix":"many"}`)
	w.store.Fail(nil)
	if reads > 100*(fewInside+6) {
		t.Errorf("a list of 100 folders took %d reads", reads)
	}
}

func TestLargeValuesGoInAndOut(t *testing.T) {
	w := newWorld(t, Options{})
	big := strings.Repeat("0123456789", 500_000)
	for _, c := range []struct{ content, as, want string }{
		{`{"a": [1, 2]}`, ``, `{"a":[1,2]}`},
		{`{"a": [1, 2]}`, `,"as":"json"`, `{"a":[1,2]}`},
		{`{"a": [1, 2]}`, `,"as":"text"`, `"{\"a\": [1, 2]}"`},
		{"# Title\n", ``, `"# Title\n"`},
		{"", ``, `""`},
		{"true", ``, `true`},
		{"1" + big, ``, "1" + big}, // a number
		{big, `,"as":"text"`, `"` + big + `"`},
		{`["` + big + `"]`, ``, `["` + big + `"]`},
		{"\u2028é", ``, "\"\u2028é\""},
	} {
		w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}%s}`, w.file(c.content), c.as), ok)
		if got := w.ask("Get", `{"key":"a"}`); string(got.Data) != c.want {
			t.Errorf("%.40q comes back as %.40s", c.content, got.Data)
		}
	}
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file("\xff")), 422, "neither JSON nor UTF-8")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"text"}`, w.file("\xff")), 422, "neither JSON nor UTF-8")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"json"}`, w.file("{")), 422, "not JSON: ")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"file","path":"/etc/passwd"}}`, 403, "may mean a blob of the kernel only")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.blobs.Path(blobs.Sum([]byte("none")))), 404, "File not found")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"https","authority":"example.com","path":"/x"}}`, 403, "https pointers")

	// A large version in the history is pointed to.
	w.reply("Set", fmt.Sprintf(`{"key":"b","valueRef":{"scheme":"file","path":%q},"as":"text"}`, w.file(big)), ok)
	w.reply("History", `{"key":"b"}`, `{"versions":[{"revision":1,"valueRef":`+
		string(w.blobs.Pointer(blobs.Sum([]byte(`"`+big+`"`))).Append(nil))+`,"updated":1700000000000,"message":"c`+fmt.Sprint(w.ids.Load())+`"}]}`)
	w.reply("Set", `{"key":"b","value":1}`, ok)
	if got := w.ask("Get", `{"key":"b","revision":1,"withRevision":true}`); len(got.Data) < len(big) {
		t.Errorf("got %.100s", got.Data)
	}
}

func TestValueMayNotBeTooLarge(t *testing.T) {
	w := newWorld(t, Options{})
	path := w.file("large")
	if err := os.Truncate(path, MaxValue+1); err != nil {
		t.Fatal(err)
	}
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, path), 413, "larger than 67108864 bytes")
	// A text may grow when it is quoted.
	if _, err := limited(make([]byte, MaxValue)); err != nil {
		t.Error(err)
	}
	if _, err := limited(make([]byte, MaxValue+1)); err == nil || err.(*message.Error).Code != 413 {
		t.Errorf("got %v", err)
	}
}

func TestValueMayNotBeTooDeep(t *testing.T) {
	w := newWorld(t, Options{})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	most := jsonscan.MaxDepth - depthAround
	w.reply("Set", `{"key":"a","value":`+deep(most)+`}`, ok)
	w.reply("Get", `{"key":"a"}`, deep(most))
	if got := w.ask("Get", `{"key":"a","withRevision":true}`); got.Kind != message.KindReply {
		t.Errorf("got %.100s", got.Data)
	}
	if got := w.ask("History", `{"key":"a"}`); got.Kind != message.KindReply {
		t.Errorf("got %.100s", got.Data)
	}
	w.refuse("Set", `{"key":"a","value":`+deep(most+1)+`}`, 422, "nested deeper than")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"json"}`, w.file(deep(most+1))), 422, "nested deeper than")
}

// Everybody adds one, and none is lost.
func TestCompareAndSetUnderContention(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"counter","value":0}`, ok)
	const goroutines, each = 64, 5
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for done := 0; done < each; {
				var now struct{ Value, Revision int }
				if err := json.Unmarshal(w.ask("Get", `{"key":"counter","withRevision":true}`).Data, &now); err != nil {
					t.Error(err)
					return
				}
				answer := w.ask("Set", fmt.Sprintf(`{"key":"counter","value":%d,"ifRevision":%d}`, now.Value+1, now.Revision))
				if answer.Kind == message.KindReply {
					done++
				} else if e, err := message.ParseError(answer.Data); err != nil || e.Code != 409 {
					t.Errorf("got %s", answer.Data)
					return
				}
			}
		})
	}
	wg.Wait()
	w.reply("Get", `{"key":"counter","withRevision":true}`, fmt.Sprintf(`{"value":%d,"revision":%d,"updated":%d}`, goroutines*each, goroutines*each+1, start))
}

// Of those who find no key, one makes it, whatever came before.
func TestOneOfManyCreates(t *testing.T) {
	w := newWorld(t, Options{})
	for round := range 5 {
		var made atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if w.ask("Set", `{"key":"lock","value":1,"ifRevision":0}`).Kind == message.KindReply {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Errorf("%d have made it", made.Load())
		}
		w.reply("Delete", fmt.Sprintf(`{"key":"lock","ifRevision":%d}`, 2*round+1), ok)
	}
}

// Sets without a condition and deletes fall over each other, and the history has them
// all in order.
func TestHistoryHasNoGapsUnderContention(t *testing.T) {
	w := newWorld(t, Options{Versions: 10_000})
	var changes atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 20 {
				action, data := "Set", `{"key":"a","value":1}`
				if i%4 == 0 {
					action, data = "Delete", `{"key":"a"}`
				}
				if w.ask(action, data).Kind == message.KindReply {
					changes.Add(1)
				}
			}
		})
	}
	wg.Wait()
	w.reply("Set", `{"key":"a","value":1}`, ok)
	got := w.revisions("a", "")
	if len(got) != int(changes.Load())+1 {
		t.Errorf("%d changes have made %d versions", changes.Load()+1, len(got))
	}
	for i, revision := range got {
		if revision != uint64(len(got)-i) {
			t.Fatalf("the history has %v", got)
		}
	}
}

// meddled is a store in which something happens after a key that is gone is looked at.
type meddled struct {
	store.Store
	meddle func()
}

func (m *meddled) Get(key []byte) (store.Entry, error) {
	e, err := m.Store.Get(key)
	if meddle := m.meddle; meddle != nil && key[1] == left {
		m.meddle = nil
		meddle()
	}
	return e, err
}

// A key that is absent when it is looked at and absent when it is set may have been there
// between: its revisions go on from there.
func TestKeyMayComeAndGoUnnoticed(t *testing.T) {
	w := newWorld(t, Options{})
	other := &meddled{Store: w.store}
	r, err := kernel.NewRegistry(Module(other, w.blobs, nil))
	if err != nil {
		t.Fatal(err)
	}
	w.reply("Set", `{"key":"a","value":1}`, ok)
	w.reply("Delete", `{"key":"a"}`, ok)
	other.meddle = func() {
		w.reply("Set", `{"key":"a","value":3}`, ok)
		w.reply("Delete", `{"key":"a"}`, ok)
	}
	slow := &world{t: t, kernel: kernel.New(r, &kernel.Options{Store: w.store})}
	slow.reply("Set", `{"key":"a","value":5,"ifRevision":0}`, `{"success":true,"revision":5}`)
	if got := w.revisions("a", ""); other.meddle != nil || !slices.Equal(got, []uint64{5, 4, 3, 2, 1}) {
		t.Errorf("the history has %v", got)
	}
}

func TestBackendFailuresAreTold(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":1}`, ok)
	for _, failing := range []string{"get", "scan", "snapshot"} {
		w.store.Fail(func(call string) error {
			if call == failing {
				return store.Errorf(503, errors.New("the operator's business"), "The disk is full: make room")
			}
			return nil
		})
		for action, data := range map[string]string{"Get": `{"key":"a"}`, "Set": `{"key":"b","value":1}`, "Delete": `{"key":"a"}`, "List": `{}`, "History": `{"key":"a"}`} {
			if (failing == "scan") != (action == "List" || action == "History") && failing != "get" ||
				failing == "get" && action == "List" || failing == "snapshot" && action != "List" && action != "History" {
				continue
			}
			const want = `{"code":503,"message":"Memory backend failure","cause":{"code":503,"message":"The disk is full: make room"}}`
			if got := w.ask(action, data); string(got.Data) != want {
				t.Errorf("%s with a failing %s: %s", action, failing, got.Data)
			}
		}
		if failing != "get" {
			continue
		}
		w.clock.Add(1)
	}
	w.store.Fail(nil)
	// A record that can't be read is no value.
	var b store.Batch
	b.Set(currentKey("broken"), []byte{0xFF})
	if _, err := w.store.Apply(&b); err != nil {
		t.Fatal(err)
	}
	w.refuse("Get", `{"key":"broken"}`, 500, "Memory backend failure")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.refuse("Get", `{"key":"a"}`, 503, "Memory backend failure")
	if _, err := w.memory.Sweep(t.Context(), time.Now()); err == nil {
		t.Error("a closed store was swept")
	}
}

func TestBlobThatIsGoneIsNoValue(t *testing.T) {
	w := newWorld(t, Options{})
	path := w.file(`"` + strings.Repeat("x", maxInline) + `"`)
	w.reply("Set", `{"key":"a","valueRef":{"scheme":"file","path":"`+path+`"}}`, ok)
	// It is referred to, so a collection leaves it.
	if got, err := w.blobs.Collect(t.Context(), w.store, 0, time.Now().Add(time.Hour)); err != nil || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
	if got := w.ask("Get", `{"key":"a"}`); got.Kind != message.KindReply {
		t.Errorf("got %s", got.Data)
	}
	if got, err := w.blobs.Collect(t.Context(), storetest.NewMemory(), 0, time.Now().Add(time.Hour)); err != nil || got.Files != 1 {
		t.Errorf("collected %+v, %v", got, err)
	}
	w.refuse("Get", `{"key":"a"}`, 500, "Memory backend failure")
}

func FuzzVersion(f *testing.F) {
	for _, v := range []version{
		{revision: 1, updated: start, message: []byte("m"), text: []byte(`"x"`)},
		{revision: 2, updated: start, expires: start + 1, deleted: true},
		{revision: 1 << 60, large: 5, blob: blobs.Sum(nil)},
	} {
		f.Add(v.encode())
	}
	f.Add([]byte{})
	f.Add([]byte{4, 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseVersion(data)
		if err != nil {
			return
		}
		again, err := parseVersion(v.encode())
		if err != nil || again.revision != v.revision || again.updated != v.updated || again.expires != v.expires ||
			!bytes.Equal(again.message, v.message) || again.deleted != v.deleted || again.large != v.large || again.blob != v.blob || !bytes.Equal(again.text, v.text) {
			t.Fatalf("%+v came back as %+v, %v", v, again, err)
		}
	})
}

// Callers decide from descriptions alone what to send.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, s := range newWorld(t, Options{}).memory.Module().Syscalls {
		if s.Summary == "" {
			t.Errorf("%s has no summary", s.Type)
		}
		for side, text := range map[string]json.RawMessage{"input": s.Input.JSON(), "output": s.Output.JSON()} {
			var o struct {
				Properties           map[string]struct{ Description string }
				AdditionalProperties json.RawMessage
			}
			if err := json.Unmarshal(text, &o); err != nil {
				t.Fatal(err)
			}
			if s.Type == "Memory.Get" && side == "output" {
				continue // any value
			}
			if len(o.Properties) == 0 || string(o.AdditionalProperties) != "false" {
				t.Errorf("%s %s: %s", s.Type, side, text)
			}
			for name, p := range o.Properties {
				if p.Description == "" {
					t.Errorf("%s %s: %s has no description", s.Type, side, name)
				}
			}
		}
	}
}
