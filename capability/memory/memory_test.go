package memory

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"kernos/internal/cursor"
	"kernos/internal/jsonscan"
	"kernos/internal/sealed"
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
		if r.Message != nil && r.Message.Kind == message.KindEvent {
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

// sealedWith makes a sealed string of these members.
func sealedWith(members string) string {
	return sealed.Prefix + base64.RawURLEncoding.EncodeToString([]byte("{"+members+"}"))
}

var wellFormed = sealedWith(`"v":1,"kid":"ssh-fp:SHA256:abc","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAAAA"`)

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
		{"Set", `{"key":"a"}`, "missing required field: one of value, valueRef"},
		{"Set", `{"key":"a","value":1,"valueRef":{"scheme":"data","path":"text/plain,x"}}`, "only one of value, valueRef may be given"},
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
		{"History", `{"key":"a","cursor":"` + cursor.New(cursorHistory, "x") + `"}`, "Invalid cursor"},
		{"History", `{"key":"a","cursor":"` + cursor.New(cursorHistory, "0") + `"}`, "Invalid cursor"},
		{"History", `{"key":"a","cursor":"` + cursor.New(cursorChildren, "1") + `"}`, "Invalid cursor"},
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
		sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","aad":"x","ts":1735000000000`),
		sealedWith(` "ts" : "2026-01-01" , "ct":"AAAAAAAAAAAAAAAAAAAAAA","nonce":"AAAAAAAAAAAAAAAA","alg":"A256GCM","kid":"k","v":1`),
	} {
		w.reply("Set", `{"key":"vault/a","value":"`+value+`"}`, ok)
		w.reply("Get", `{"key":"/vault/a"}`, `"`+value+`"`)
	}
	const plain, malformed = "got plain text for vault/a", "is malformed: "
	for value, text := range map[string]string{
		`"hunter2"`:                          plain,
		`""`:                                 plain,
		`1`:                                  plain,
		`null`:                               plain,
		`["` + wellFormed + `"]`:             plain,
		`{"sealed":"` + wellFormed + `"}`:    plain,
		`" ` + wellFormed + `"`:              plain,
		`"PWENC:v1:` + wellFormed[9:] + `"`:  plain,
		`"pwenc:v3:` + wellFormed[9:] + `"`:  plain,
		`"pwenc:v1:"`:                        malformed + "what is encoded is not a JSON object",
		`"pwenc:v1:hunter2!"`:                malformed + "what follows the prefix is not base64url",
		`"` + wellFormed + `="`:              malformed + "what follows the prefix is not base64url",
		`"` + wellFormed + `\n"`:             malformed + "what follows the prefix is not base64url",
		`"` + sealedWith(`"v":1`)[:14] + `"`: malformed,
		`"` + sealedWith(``) + `"`:           malformed + "v is missing",
		`"` + sealedWith(`"v":2,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                malformed + "v is not 1",
		`"` + sealedWith(`"v":1,"kid":"","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                 malformed + "kid is not",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"none","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                   malformed + "alg is not",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA"`) + `"`:                            malformed + "nonce is not",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"hunter2"`) + `"`:                               malformed + "ct is not",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA"`) + `"`:                                              malformed + "ct is missing",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","pt":"hunter2"`) + `"`: malformed + "it has a member",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","aad":1`) + `"`:        malformed + "aad is not",
		`"` + sealedWith(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAAAAAAAAAAAAAA","ct":"AAAAAAAAAAAAAAAAAAAAAA","ts":{}`) + `"`:        malformed + "ts is neither",
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
		`{ "key" : "/vault//a" , "value" : {"p":"hunter2"} , "ttl" : 5 }`:            `{ "key" : "/vault//a" , "value" : "[redacted]" , "ttl" : 5 }`,
		`{"\u0076alue":"hunter2","\u006bey":"\u0076ault/a"}`:                         `{"\u0076alue":"[redacted]","\u006bey":"\u0076ault/a"}`,
		`{"key":"VAULT/a","value":"hunter2"}`:                                        `{"key":"VAULT/a","value":"[redacted]"}`,
		`{"key":"a/../vault/a","value":"hunter2"}`:                                   `{"key":"a/../vault/a","value":"[redacted]"}`,
		`{"key":"ｖault/a","value":1}`:                                                `{"key":"ｖault/a","value":"[redacted]"}`,
		`{"key":"","value":"hunter2"}`:                                               `{"key":"","value":"[redacted]"}`,
		`{"key":"models/a","value":{"dialect":"x","key":"hunter2"}}`:                 `{"key":"models/a","value":"[redacted]"}`,
		`{"key":"models/a","value":"a text with hunter2"}`:                           `{"key":"models/a","value":"[redacted]"}`,
		`{"key":"models/a","value":"other"}`:                                         `{"key":"models/a","value":"other"}`,
		`{"key":"models/a","valueRef":{"scheme":"data","path":"a"}}`:                 `{"key":"models/a","valueRef":"[redacted]"}`,
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
		var in setInput
		var out struct {
			Key   string         `json:"key"`
			Value jsontext.Value `json:"value"`
		}
		if jsonv2.Unmarshal(data, &in) != nil {
			return // a number that Go does not take as it is written
		}
		if err := jsonv2.Unmarshal(got, &out); err != nil || in.Key != out.Key {
			t.Fatalf("%s is recorded as %s", data, got)
		}
		key, err := ParseKey(in.Key)
		if err == nil && key.space() != vault || out.Value == nil {
			return
		}
		if fault, _ := sealedFault(out.Value); fault != "" && string(out.Value) != kernel.RedactedData {
			t.Fatalf("%s is recorded as %s", data, got)
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

func TestModelsHoldSettingsWithSealedKeys(t *testing.T) {
	w := newWorld(t, Options{})
	for _, value := range []string{`"other"`, `{"dialect":"openai-chat"}`} {
		w.reply("Set", `{"key":"models/a","value":`+value+`}`, ok)
	}
	w.refuse("Set", `{"key":"/models//a","value":{"key":"sk-1234"}}`, 422, "the key isn't sealed")
	w.refuse("Set", `{"key":"models/a","value":{"key":null}}`, 422, "the key isn't sealed")
	w.refuse("Set", `{"key":"models/a","value":"{\"key\":\"sk-1234\"}"}`, 422, "another text")
	w.refuse("Set", `{"key":"models/a","value":7}`, 422, "neither")
	w.reply("Set", `{"key":"models","value":{"key":"sk-1234"}}`, ok)
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
	}, ProcKeys: func() []string {
		keys := []string{"proc/version", "proc/uptime"}
		for i := range 40 {
			keys = append(keys, fmt.Sprintf("proc/cpu/%02d", i))
		}
		return keys
	}})
	w.reply("Get", `{"key":"/proc//version"}`, `"1.0"`)
	w.reply("Get", `{"key":"proc/version","withRevision":true}`, `{"value":"1.0","revision":0,"updated":1700000000000}`)
	w.refuse("Get", `{"key":"proc/version","revision":3}`, 404, "Key not found: proc/version at revision 3 (proc/* is computed when it is read")
	w.refuse("Get", `{"key":"proc/other","withRevision":true}`, 404, "Key not found: proc/other")
	w.reply("List", `{"prefix":"proc"}`, `{"keys":["proc/cpu/","proc/uptime","proc/version"]}`)
	w.reply("List", `{"prefix":"/proc/cpu/","limit":40}`, `{"keys":["`+strings.Join(w.page(`"prefix":"proc/cpu","limit":7`, nil), `","`)+`"]}`)
	if all := w.page(`"prefix":"proc","recursive":true,"limit":5`, nil); len(all) != 42 || all[0] != "proc/cpu/00" || all[41] != "proc/version" {
		t.Errorf("listed %q", all)
	}
	w.reply("Set", `{"key":"a","value":1}`, ok)
	w.reply("List", `{"recursive":true}`, `{"keys":["a"]}`) // what can be read and written back
	w.refuse("Get", `{"key":"proc/other"}`, 404, "Key not found: proc/other")
	w.refuse("Get", `{"key":"proc/broken"}`, 500, "Memory backend failure")
	w.refuse("Set", `{"key":"proc/version","value":"2.0"}`, 403, "read-only")
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

func (w *world) sweep(want int) {
	w.t.Helper()
	if n, err := w.memory.Sweep(w.t.Context(), time.UnixMilli(w.clock.Load())); err != nil || n != want {
		w.t.Errorf("swept %d, %v; want %d", n, err, want)
	}
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

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "Y2E", cursor.New(cursorChildren, "a/b/"), cursor.New(cursorRecursive, "\x00\xff")} {
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
		string(w.blobs.Pointer(blobs.Sum([]byte(`"`+big+`"`))).Append(nil))+fmt.Sprintf(`,"size":%d,"mediaType":"application/json"`, len(big)+2)+`,"updated":1700000000000,"message":"c`+fmt.Sprint(w.ids.Load())+`"}]}`)
	w.reply("Set", `{"key":"b","value":1}`, ok)
	if got := w.ask("Get", `{"key":"b","revision":1,"withRevision":true}`); len(got.Data) < len(big) {
		t.Errorf("got %.100s", got.Data)
	}
}

// Who declares what data is need not fear that it is taken for something else.
func TestDataPointersAreWhatTheirMediaTypeSays(t *testing.T) {
	w := newWorld(t, Options{})
	for _, c := range []struct{ path, as, want string }{
		{`text/plain,12345`, ``, `"12345"`},
		{`,12345`, ``, `"12345"`}, // which is text/plain
		{`text/markdown;base64,W10=`, ``, `"[]"`},
		{`text/plain;charset=utf-8,{"a":1}`, ``, `"{\"a\":1}"`},
		{`application/octet-stream,7`, ``, `"7"`},
		{`application/json,12345`, ``, `12345`},
		{`application/json;charset=utf-8;base64,W10=`, ``, `[]`},
		{`Application/JSON,"a"`, ``, `"a"`},
		{`application/problem+json,{"a":1}`, ``, `{"a":1}`},
		{`text/plain,12345`, `,"as":"json"`, `12345`},
		{`application/json,12345`, `,"as":"text"`, `"12345"`},
	} {
		path := string(jsonscan.AppendQuoted(nil, c.path))
		w.reply("Set", `{"key":"a","valueRef":{"scheme":"data","path":`+path+`}`+c.as+`}`, ok)
		w.reply("Get", `{"key":"a"}`, c.want)
	}
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"data","path":"application/json,{"}}`, 422, "not JSON: ")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"data","path":"image/png;base64,/w=="}}`, 422, "neither JSON nor UTF-8")
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
		{trail: trail{revision: 1, oldest: 1}, updated: start, message: []byte("m"), text: []byte(`"x"`)},
		{trail: trail{revision: 2, oldest: 1, blobbed: 1}, updated: start, expires: start + 1, deleted: true},
		{trail: trail{revision: 1 << 60, oldest: 1<<60 - 7, blobbed: 1 << 60}, large: 5, blob: blobs.Sum(nil)},
	} {
		f.Add(v.append(nil))
	}
	f.Add([]byte{})
	f.Add([]byte{4, 1, 0, 1, 0, 0})
	f.Add([]byte{0, 1, 2, 1, 0, 0}) // older than the first one
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseVersion(data)
		if err != nil {
			return
		}
		again, err := parseVersion(v.append(nil))
		if err != nil || again.trail != v.trail || again.updated != v.updated || again.expires != v.expires ||
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
