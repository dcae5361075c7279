package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// What is read of a page is what was put into it, whether it can be compressed or not.
func TestPageKeepsWhatItIsGiven(t *testing.T) {
	noise := make([]byte, 3000)
	_, _ = rand.Read(noise)
	for name, data := range map[string]string{
		"nothing":    `null`,
		"short":      `{"a":1}`,
		"long":       `{"text":"` + strings.Repeat("words ", 3000) + `"}`,
		"noise":      fmt.Sprintf(`"%x"`, noise),
		"no JSON":    "\xff\xfe{",
		"very large": `"` + strings.Repeat("x", maxPacked) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			var all []message.Message
			for i := range 40 {
				m := command(message.ID(fmt.Sprintf("\"%d\xff", i)), "Memory.Set", data)
				if i > 0 && len(data) > pageSize {
					m.Data = json.RawMessage(`1`)
				}
				m.Metadata.Correlation, m.Metadata.Causation = strings.Repeat("c", i), message.ID(strings.Repeat("é", i))
				m.Metadata.IdempotencyKey, m.Metadata.SchemaVersion = "k", "2"
				if i%3 == 0 {
					m.Metadata.Extra = fmt.Sprintf(`"x-n":%d`, i)
				}
				m.Metadata.Timestamp = int64(i-3) << 40
				all = append(all, m)
			}
			var p pageReader
			n := 0
			for r, err := range p.records(7, aPage(all...)) {
				if err != nil {
					t.Fatal(err)
				}
				got, want := r.message(), all[n]
				if !bytes.Equal(r.data, want.Data) {
					t.Fatalf("record %d has the data %.500q, want %.500q", r.seq, r.data, want.Data)
				}
				got.Data, want.Data = nil, nil
				if r.seq != uint64(7+n) || r.at != int64(1735000000000+n) || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("record %d at %d: %.500v, want %.500v", r.seq, r.at, got, want)
				}
				n++
			}
			if n != len(all) {
				t.Errorf("%d records", n)
			}
		})
	}
}

func TestHeadOfAnErrorHasItsCode(t *testing.T) {
	for data, want := range map[string]int{
		`{"code":404,"message":"no"}`: 404,
		`{ "message":"no", "code":7}`: 7,
		`{"code":-3}`:                 -3,
		`{"code":"404"}`:              0,
		`[404]`:                       0,
		"\xff":                        0,
	} {
		m := query("a", "Ping", data)
		m.Kind = message.KindError
		var p pageReader
		if err := p.open(1, aPage(m)); err != nil {
			t.Fatal(err)
		}
		var r record
		if ok, err := p.next(&r); !ok || err != nil || r.code != want || r.data != nil {
			t.Errorf("%s: code %d, data %s, %v", data, r.code, r.data, err)
		}
	}
}

// A brief list reads heads, and the data of errors.
func TestBriefListHasTheDataOfErrorsOnly(t *testing.T) {
	j := open(t, memory(t), nil)
	all := conversation(j, 300)
	for _, f := range []Filter{{}, {Correlation: "c7"}, {Codes: []int{404}}, {Kinds: []message.Kind{message.KindReply}}} {
		whole, brief := list(t, j, Query{Filter: f}), list(t, j, Query{Filter: f, Brief: true})
		if len(whole) == 0 || len(brief) != len(whole) {
			t.Fatalf("%+v: %d messages of %d, and %d without data", f, len(whole), len(all), len(brief))
		}
		var scan jsonscan.Scanner
		for i, e := range brief {
			w := whole[i]
			if w.Message.Kind != message.KindError {
				if scan.Text(w.Message.Data) != nil {
					t.Fatalf("message %d has the data %q", w.Seq, w.Message.Data)
				}
				w.Message.Data = nil
			}
			if fmt.Sprint(e) != fmt.Sprint(w) {
				t.Fatalf("%+v: got %v, want %v", f, e, w)
			}
		}
	}
}
