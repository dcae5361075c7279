package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

func TestHeadersWithCredentialsAreRedactedWhereverTheyStand(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{`{"headers":{"Authorization":"Bearer x","Accept":"a"}}`, `{"headers":{"Authorization":"[redacted]","Accept":"a"}}`},
		{`{"AUTHORIZATION":1,"proxy-authorization":[1,{"a":2}],"Cookie":null,"set-cookie":["a","b"]}`,
			`{"AUTHORIZATION":"[redacted]","proxy-authorization":"[redacted]","Cookie":"[redacted]","set-cookie":"[redacted]"}`},
		{`{"\u0041uthorization":"x"}`, `{"\u0041uthorization":"[redacted]"}`},
		{`{"c\u006fo\u006bie":"x"}`, `{"c\u006fo\u006bie":"[redacted]"}`},
		{`{"X-Api-Key":"x","api_key":"y","apiKey":"z","x_auth_token":"t"}`, `{"X-Api-Key":"[redacted]","api_key":"[redacted]","apiKey":"[redacted]","x_auth_token":"[redacted]"}`},
		{`[{"name":"Authorization","value":"x"},{"name":"Accept","value":"y"}]`, `[{"name":"Authorization","value":"[redacted]"},{"name":"Accept","value":"y"}]`},
		{`[{"value":"x","name":"cookie"}]`, `[{"value":"[redacted]","name":"cookie"}]`},
		{`[{"key":"X-API-Key","values":["x"],"extra":1}]`, `[{"key":"X-API-Key","values":"[redacted]","extra":"[redacted]"}]`},
		{`{"headers":["Authorization: Bearer x","Accept: y"]}`, `{"headers":["[redacted]","Accept: y"]}`},
		{`{"args":["-H","authorization : x"]}`, `{"args":["-H","[redacted]"]}`},
		{`{"raw":"GET / HTTP/1.1\r\nCookie: a=b\r\n\r\n"}`, `{"raw":"[redacted]"}`},
		{`[["Authorization","Bearer x"],["Accept","y"]]`, `[["Authorization","[redacted]"],["Accept","y"]]`},
		{`["Host","h","Cookie","a=b","Accept","y"]`, `["Host","h","Cookie","[redacted]","Accept","y"]`},
		{`{"a":{"b":[{"c":{"Cookie":"x"}}]}}`, `{"a":{"b":[{"c":{"Cookie":"[redacted]"}}]}}`},
		{` { "Cookie" : "x" , "a" : [ 1 , 2 ] } `, `{"Cookie":"[redacted]","a":[1,2]}`},
		{`{"Cookie":`, `"[redacted]"`}, // no JSON: it may be anywhere

		// What only looks like it.
		{`{"key":"/cookies","value":"I like a cookie"}`, ``},
		{`{"authorizationUrl":"x","cookieJar":1,"token":"t","monkey":"m"}`, ``},
		{`{"note":"see Authorization: later"}`, ``},
		{`"\u0041"`, ``}, {`null`, ``}, {``, ``}, {`"cookie"`, ``},
	} {
		m := query("a", "Http.Fetch", test.data)
		got, changed := Redact(in(m))
		want := test.want
		if want == "" {
			want = test.data
		}
		if string(got) != want || changed != (test.want != "") {
			t.Errorf("%s\n got %s, %v\nwant %s", test.data, got, changed, want)
		}
		if string(m.Data) != test.data {
			t.Errorf("%s was changed to %s", test.data, m.Data)
		}
	}
}

func TestPlansFindSecretsThroughEveryKeyword(t *testing.T) {
	const secret = `{"type":"string","writeOnly":true}`
	for _, test := range []struct{ schema, data, want string }{
		{`{}`, `{"s":"x"}`, ``},
		{secret, `"x"`, `"[redacted]"`},
		{`{"properties":{"s":` + secret + `}}`, `{"s":"x","t":"x"}`, `{"s":"[redacted]","t":"x"}`},
		{`{"properties":{"s":{"type":"string","format":"password"}}}`, `{"s":"x"}`, `{"s":"[redacted]"}`},
		{`{"properties":{"s":` + secret + `}}`, `{"\u0073":"x"}`, `{"\u0073":"[redacted]"}`},
		{`{"properties":{"s":{"type":"object","writeOnly":true}}}`, `{"s":{"a":[1]}}`, `{"s":"[redacted]"}`},
		{`{"items":` + secret + `}`, `["x","y"]`, `["[redacted]","[redacted]"]`},
		{`{"prefixItems":[{},` + secret + `]}`, `["x","y","z"]`, `["x","[redacted]","z"]`},
		{`{"additionalProperties":` + secret + `,"properties":{"a":{}}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":"[redacted]"}`},
		{`{"patternProperties":{"^s":` + secret + `}}`, `{"s1":"x","t":"y"}`, `{"s1":"[redacted]","t":"y"}`},
		{`{"anyOf":[{"type":"null"},{"properties":{"s":` + secret + `}}]}`, `{"s":"x"}`, `{"s":"[redacted]"}`},
		{`{"oneOf":[{"properties":{"s":{"type":"integer"}}},{"properties":{"s":` + secret + `}}]}`, `{"s":1}`, `{"s":"[redacted]"}`},
		{`{"allOf":[{"properties":{"s":` + secret + `}}],"properties":{"s":{}}}`, `{"s":"x"}`, `{"s":"[redacted]"}`},
		{`{"if":{"properties":{"k":{"const":1}}},"then":{"properties":{"s":` + secret + `}}}`, `{"s":"x"}`, `{"s":"[redacted]"}`},
		{`{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"properties":{"s":` + secret + `}}}}`, `{"a":{"s":"x"}}`, `{"a":{"s":"[redacted]"}}`},
		{`{"$ref":"#/$defs/a~1b","$defs":{"a/b":` + secret + `}}`, `"x"`, `"[redacted]"`},
		{`{"$ref":"#t","$defs":{"a":{"$anchor":"t","properties":{"s":` + secret + `}}}}`, `{"s":"x"}`, `{"s":"[redacted]"}`},
		{`{"properties":{"s":` + secret + `,"next":{"$ref":"#"}}}`, `{"next":{"next":{"s":"x"}}}`, `{"next":{"next":{"s":"[redacted]"}}}`},
		{`{"$ref":"#"}`, `{"s":"x"}`, ``},
		{`{"$ref":"#/nowhere"}`, `{"s":"x"}`, ``},
		{`{"properties":{"list":{"items":{"properties":{"s":` + secret + `}}}}}`, `{"list":[{"s":"x"},{"t":1},{"s":2}]}`, `{"list":[{"s":"[redacted]"},{"t":1},{"s":"[redacted]"}]}`},
	} {
		w := rewriter{plan: newPlan(json.RawMessage(test.schema))}
		if (w.plan != nil) != strings.Contains(test.schema, "writeOnly") && !strings.Contains(test.schema, "password") {
			t.Errorf("%s: the plan is %v", test.schema, w.plan)
		}
		got, changed := w.rewrite([]byte(test.data))
		want := test.want
		if want == "" {
			want = test.data
		}
		if string(got) != want || changed != (test.want != "") {
			t.Errorf("%s\n%s\n got %s\nwant %s", test.schema, test.data, got, want)
		}
	}
}

type login struct {
	User     string `json:"user"`
	Password string `json:"password" jsonschema:"writeOnly=true"`
}

func TestWhatARecordKeepsOfItsData(t *testing.T) {
	s := &kernel.Syscall{Definition: kernel.Definition{Type: "Session.Login", Input: schema.Input[login](), Output: schema.Output[login]()}}
	depends := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any, Redact: func(json.RawMessage) json.RawMessage {
		return json.RawMessage(`{"kept":1,"Cookie":"c"}`)
	}}}
	broken := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any, Redact: func(json.RawMessage) json.RawMessage { panic("no") }}}
	recalls := &kernel.Syscall{Definition: kernel.Definition{Type: "Event.Replay", Recalls: true}}
	seal := &kernel.Syscall{Definition: kernel.Definition{Type: "Crypto.Seal", Input: schema.Any, Output: schema.Any}}
	m := command("a", "Session.Login", `{"user":"u","password":"p"}`)
	failure := m.Fail(message.Errorf(404, "Authorization: no"))
	for _, test := range []struct {
		name string
		r    kernel.Record
		want string
	}{
		{"request", kernel.Record{Message: &m, Syscall: s}, `{"user":"u","password":"[redacted]"}`},
		{"reply", kernel.Record{Message: new(m.Reply(m.Data)), Syscall: s}, `{"user":"u","password":"[redacted]"}`},
		{"event", kernel.Record{Message: new(m.Event("A.B", m.Data)), Syscall: s}, ``},
		{"no syscall", kernel.Record{Message: &m}, ``},
		{"refused", kernel.Record{Message: &m, Refused: true}, refused},
		{"refused error", kernel.Record{Message: &failure, Refused: true, Syscall: s}, ``},
		{"definition", kernel.Record{Message: &m, Syscall: depends}, `{"kept":1,"Cookie":"[redacted]"}`},
		{"definition, reply", kernel.Record{Message: new(m.Reply(m.Data)), Syscall: depends}, ``},
		{"broken definition", kernel.Record{Message: &m, Syscall: broken}, redacted},
		{"recalled", kernel.Record{Message: new(m.Reply(m.Data)), Syscall: recalls}, omitted},
		{"recalling", kernel.Record{Message: &m, Syscall: recalls}, ``},
		{"crypto", kernel.Record{Message: new(command("a", "Crypto.Unknown", `{"a":"x","b":["y",1,true],"c":{"d":"pwenc:v1:abc"}}`))},
			`{"a":"[redacted]","b":["[redacted]",1,true],"c":{"d":"pwenc:v1:abc"}}`},
		{"crypto by another name", kernel.Record{Message: new(command("a", "Other.Seal", `"x"`)), Syscall: seal}, redacted},
		{"crypto error", kernel.Record{Message: new(message.Message{Kind: message.KindError, Type: "Crypto.Open", Data: failure.Data}), Syscall: seal}, ``},
		{"no crypto", kernel.Record{Message: new(command("a", "CryptoX.Seal", `"x"`))}, ``},
	} {
		want := test.want
		if want == "" {
			want = string(test.r.Message.Data)
		}
		got, changed := Redact(test.r)
		if string(got) != want || changed != (test.want != "") {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, changed, want)
		}
	}
}

func TestSecretsDoNotReachTheStore(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
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

func TestRedactorForgetsSyscallsThatAreMany(t *testing.T) {
	var x Redactor
	for i := range 3 * maxPlans {
		s := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any}}
		m := query(message.ID(fmt.Sprint(i)), "A.B", `1`)
		x.Redact(kernel.Record{Message: &m, Syscall: s})
	}
	n := 0
	x.plans.Range(func(any, any) bool { n++; return true })
	if n > maxPlans {
		t.Errorf("%d plans are kept", n)
	}
}

// Where a secret may stand, so that the fuzzer can put one there.
var places = []string{
	`{"Authorization":%s}`, `{"a":[{"set-cookie":%s,"b":1}]}`, `[{"name":"X-Api-Key","value":%s}]`, `[{"value":%s,"name":"cookie"}]`,
	`{"headers":["Cookie",%s]}`, `{"s":%s}`, `{"list":[{"s":%s}]}`, `{"\u0063ookie":%s}`, `{"next":{"next":{"s":%s}}}`,
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"x":1}`, uint8(0))
	f.Add(`["Cookie","x",{"name":"Authorization"}]`, uint8(2))
	f.Add(`{"s":"\u0063ookie: x"}`, uint8(5))
	f.Add(`"k\\u0000"`, uint8(8))
	secrets := newPlan(json.RawMessage(`{"properties":{"s":{"writeOnly":true},"list":{"items":{"$ref":"#"}},"next":{"$ref":"#"}}}`))
	f.Fuzz(func(t *testing.T, around string, place uint8) {
		const secret = "TOPSECRET"
		if strings.Contains(strings.ToUpper(around), secret) {
			return
		}
		var scan jsonscan.Scanner
		data := fmt.Sprintf(places[int(place)%len(places)], `{"deep":["`+secret+`",1]}`)
		if scan.Text([]byte(around)) == nil {
			data = `[` + around + `,` + data + `]`
			if place%2 == 0 {
				data = `{"around":` + around + `,"list":` + data + `}`
			}
		}
		w := rewriter{plan: secrets, headers: mayHoldHeaders([]byte(data)), clear: place > 200}
		if data[0] == '[' || strings.HasPrefix(data, `{"around":`) {
			w.plan = &plan{root: &node{items: secrets.root, properties: map[string]*node{"list": {items: secrets.root}}}}
		}
		got, _ := w.rewrite([]byte(data))
		if strings.Contains(string(got), secret) {
			t.Fatalf("%s\nbecame %s", data, got)
		}
		if err := scan.Text(got); err != nil {
			t.Fatalf("%s\nbecame %s: %v", data, got, err)
		}
		// Once more changes nothing.
		w.dst, w.changed = nil, false
		again, _ := w.rewrite(got)
		if string(again) != string(got) && w.plan == nil {
			t.Fatalf("%s\nbecame %s", got, again)
		}
		// And anything at all comes back.
		m := query("a", "Crypto.Seal", around)
		out, _ := Redact(in(m))
		if scan.Text([]byte(around)) == nil && scan.Text(out) != nil {
			t.Fatalf("%s became %s", around, out)
		}
	})
}

// The prefilter may say yes for nothing, but never no for something.
func FuzzMayHoldHeaders(f *testing.F) {
	for name := range secretHeaders {
		f.Add(name, uint64(0x5555))
	}
	f.Fuzz(func(t *testing.T, name string, how uint64) {
		var b strings.Builder
		for i, c := range name { // in any case, with anything between
			if how>>(i%64)&1 == 1 {
				b.WriteString(strings.ToUpper(string(c)))
			} else {
				b.WriteRune(c)
			}
			if how>>((i*7+3)%64)&3 == 3 {
				b.WriteByte("-_ "[i%3])
			}
		}
		if isSecretHeader([]byte(b.String())) && !mayHoldHeaders(jsonscan.AppendQuoted(nil, b.String())) {
			t.Errorf("%q passes", b.String())
		}
	})
}
