package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/cursor"
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
	w.kernel = kerneltest.Of(t, &kernel.Options{Store: w.store, Recorder: w}, w.memory.Module())
	return w
}

// Record implements [kernel.Recorder].
func (w *world) Record(kernel.Record) {}

// RecordWith implements [kernel.Recorder].
func (w *world) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	runtime.Gosched() // other clients change what the call has read
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
	m := kerneltest.Command(message.ID(fmt.Sprintf("c%d", w.ids.Add(1))), message.Type("Memory."+action), data)
	m.Metadata.Timestamp = start
	return kerneltest.Answer(w.t, w.kernel, m)
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
		{"Set", `{"key":"a","value":1,"as":"text"}`, "as describes"},
		{"Set", `{"key":"a","value":1,"ttl":0}`, "ttl"},
		{"Set", `{"key":"a","value":1,"ttl":"0s"}`, "ttl: expected at least 1ms, got a string"},
		{"Set", `{"key":"a","value":1,"ttl":"soon"}`, `ttl: expected milliseconds, or a time such as 90s, 1h30m or "2 days", got a string`},
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
			key, _ := parseKey(folder)
			for _, name := range out.Keys {
				if !strings.HasPrefix(name, string(key)+"/") {
					t.Fatalf("%q lists %q", prefix, name)
				}
			}
		}
	})
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

func FuzzVersion(f *testing.F) {
	for _, v := range []version{
		{versionSpan: versionSpan{revision: 1, oldest: 1}, updated: start, message: []byte("m"), text: []byte(`"x"`)},
		{versionSpan: versionSpan{revision: 2, oldest: 1, blobbed: 1}, updated: start, expires: start + 1, deleted: true},
		{versionSpan: versionSpan{revision: 1 << 60, oldest: 1<<60 - 7, blobbed: 1 << 60}, large: 5, blob: blobs.Sum(nil)},
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
		if err != nil || again.versionSpan != v.versionSpan || again.updated != v.updated || again.expires != v.expires ||
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
