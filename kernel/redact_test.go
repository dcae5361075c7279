package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
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
		{`{"headers":["Authorization: Bearer x","Accept: y"]}`, `{"headers":["Authorization: [redacted]","Accept: y"]}`},
		{`{"args":["-H","authorization : x"]}`, `{"args":["-H","authorization : [redacted]"]}`},
		{`{"raw":"GET / HTTP/1.1\r\nCookie: a=b\r\n\r\n"}`, `{"raw":"GET / HTTP/1.1\r\nCookie: [redacted]\r\n\r\n"}`},
		{`{"HTTP_COOKIE":"a=b"}`, `{"HTTP_COOKIE":"[redacted]"}`},

		// In the middle of a text.
		{`"curl -H \"Authorization: Bearer x\" https://example.com"`, `"curl -H \"Authorization: [redacted]"`},
		{`"curl --cookie=a\necho done"`, `"curl --cookie=[redacted]\necho done"`},
		{`"https://example.com/?api_key=x&y=1"`, `"https://example.com/?api_key=[redacted]&y=1"`},
		{`"headers['X-Api-Key'] = 'x'"`, `"headers['X-Api-Key'] = [redacted]"`},
		{`"[('Cookie', 'x')]"`, `"[('Cookie', [redacted]"`},
		{`"{\"Set-Cookie\":\"a\"} {\"b\":1}\n{\"c\":2}"`, `"{\"Set-Cookie\":[redacted]\n{\"c\":2}"`},
		{`"Cookie: a\r\n\tb\r\nHost: h\r\nAuthorization:\n Bearer x\n\n y"`, `"Cookie: [redacted]\r\nHost: h\r\nAuthorization:\n [redacted]\n\n y"`},
		{`"set-cookie: [\n\"a\"\n]"`, `"set-cookie: [redacted]"`},
		{`"the api key = x"`, `"the api key = [redacted]"`},

		// In a text that is JSON itself, as a body is.
		{`{"body":"{\"headers\":{\"Authorization\":\"Bearer x\",\"Accept\":\"y\"}}"}`, `{"body":"{\"headers\":{\"Authorization\":\"[redacted]\",\"Accept\":\"y\"}}"}`},
		{`{"body":" [{\"value\":\"x\",\"name\":\"Cookie\"}]"}`, `{"body":" [{\"value\":\"[redacted]\",\"name\":\"Cookie\"}]"}`},
		{`{"body":"{\"\\u0063ookie\":\"x\"}"}`, `{"body":"{\"\\u0063ookie\":\"[redacted]\"}"}`},
		{`{"a":"{\"b\":\"{\\\"cookie\\\":\\\"x\\\",\\\"d\\\":1}\"}"}`, `{"a":"{\"b\":\"{\\\"cookie\\\":\\\"[redacted]\\\",\\\"d\\\":1}\"}"}`},
		{`[["Authorization","Bearer x"],["Accept","y"]]`, `[["Authorization","[redacted]"],["Accept","y"]]`},
		{`["Host","h","Cookie","a=b","Accept","y"]`, `["Host","h","Cookie","[redacted]","Accept","y"]`},
		{`{"a":{"b":[{"c":{"Cookie":"x"}}]}}`, `{"a":{"b":[{"c":{"Cookie":"[redacted]"}}]}}`},
		{` { "Cookie" : "x" , "a" : [ 1 , 2 ] } `, ` { "Cookie" : "[redacted]" , "a" : [ 1 , 2 ] } `},
		{`{"Cookie":`, kernel.RedactedData}, // no JSON: it may be anywhere

		// What only looks like it.
		{`{"key":"/cookies","value":"I like a cookie"}`, ``},
		{`{"authorizationUrl":"x","cookieJar":1,"token":"t","monkey":"m"}`, ``},
		{`{"note":"see Authorization, later","more":["Authorization:","cookie: [redacted]\nx","my-cookies: x","cookie jar: x"]}`, ``},
		{`"\u0041"`, ``}, {`null`, ``}, {``, ``}, {`"cookie"`, ``},
	} {
		m := kerneltest.Query("a", "Http.Fetch", test.data)
		got, changed := kernel.Redact(kernel.Record{Message: &m})
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

type login struct {
	User     string `json:"user"`
	Password string `json:"password" jsonschema:"writeOnly=true"`
}

func TestWhatARecordKeepsOfItsData(t *testing.T) {
	s := &kernel.Syscall{Definition: kernel.Definition{Type: "Session.Login", Input: schema.Input[login](), Output: schema.Output[login]()}}
	depends := &kernel.Syscall{Definition: kernel.Definition{
		Type:   "A.B",
		Input:  schema.Any,
		Output: schema.Any,
		Journaled: kernel.Journaled{Redact: func(json.RawMessage) json.RawMessage {
			return json.RawMessage(`{"kept":1,"Cookie":"c"}`)
		}},
	}}
	broken := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any, Journaled: kernel.Journaled{Redact: func(json.RawMessage) json.RawMessage { panic("no") }}}}
	garbles := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any, Journaled: kernel.Journaled{Redact: func(data json.RawMessage) json.RawMessage { return data[:len(data)-1] }}}}
	recalls := &kernel.Syscall{Definition: kernel.Definition{Type: "Event.Replay", Journaled: kernel.Journaled{Answers: kernel.FromJournal}}}
	named := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Input: parsed(t, `{"items":{"items":{"prefixItems":[{"writeOnly":true}]}}}`), Output: schema.Any}}
	seal := &kernel.Syscall{Definition: kernel.Definition{Type: "Crypto.Seal", Input: schema.Any, Output: schema.Any}}
	m := kerneltest.Command("a", "Session.Login", `{"user":"u","password":"p"}`)
	failure := m.Fail(message.Errorf(404, "Authorization: no"))
	invalid := m.Fail(message.Errorf(422, "user: expected a string"))
	for _, test := range []struct {
		name string
		r    kernel.Record
		want string
	}{
		{"request", kernel.Record{Message: &m, Syscall: s}, `{"user":"u","password":"[redacted]"}`},
		{"reply", kernel.Record{Message: new(m.Reply(m.Data)), Syscall: s}, `{"user":"u","password":"[redacted]"}`},
		{"event", kernel.Record{Message: new(m.Event("A.B", m.Data)), Syscall: s}, `{"user":"u","password":"[redacted]"}`},
		{"no syscall", kernel.Record{Message: &m}, `{"user":"u","password":"[redacted]"}`},
		{"refused", kernel.Record{Message: &m, Refused: true}, kernel.RefusedData},
		{"refused error", kernel.Record{Message: &invalid, Refused: true, Syscall: s}, ``},
		{"error from outside that is refused", kernel.Record{Message: &invalid, Way: kernel.In, Refused: true}, kernel.RefusedData},
		{"error with a header", kernel.Record{Message: &failure, Way: kernel.In}, `{"code":404,"message":"Authorization: [redacted]"}`},
		{"error of a header", kernel.Record{Message: new(message.Message{Kind: message.KindError, Type: "A.B", Data: []byte(`{"code":400,"message":"no","headers":{"Cookie":"x"}}`)}), Way: kernel.In},
			`{"code":400,"message":"no","headers":{"Cookie":"[redacted]"}}`},
		{"error from outside about secrets", kernel.Record{Message: &invalid, Way: kernel.In, Syscall: s}, kernel.RedactedData},
		{"error that is a request", kernel.Record{Message: new(message.Message{Kind: message.KindError, Type: "A.B", Data: []byte(`{"key":"x"}`)}), Way: kernel.In, Syscall: depends},
			`{"kept":1,"Cookie":"[redacted]"}`},
		{"error that is one", kernel.Record{Message: &invalid, Way: kernel.In, Syscall: depends}, ``},
		{"definition", kernel.Record{Message: &m, Syscall: depends}, `{"kept":1,"Cookie":"[redacted]"}`},
		{"definition, reply", kernel.Record{Message: new(m.Reply([]byte(`{"user":"u"}`))), Syscall: depends}, ``},
		{"broken definition", kernel.Record{Message: &m, Syscall: broken}, kernel.RedactedData},
		{"garbling definition", kernel.Record{Message: &m, Syscall: garbles}, kernel.RedactedData},
		{"recalled", kernel.Record{Message: new(m.Reply(m.Data)), Syscall: recalls}, kernel.OmittedData},
		{"recalling", kernel.Record{Message: new(kerneltest.Command("a", "Event.Replay", `{"user":"u"}`)), Syscall: recalls}, ``},
		{"crypto", kernel.Record{Message: new(kerneltest.Command("a", "Crypto.Unknown", `{"a":"x","b":["y",1,true],"c":{"d":"pwenc:v1:abc"}}`))},
			`{"a":"[redacted]","b":["[redacted]",1,true],"c":{"d":"pwenc:v1:abc"}}`},
		{"crypto by another name", kernel.Record{Message: new(kerneltest.Command("a", "Other.Seal", `"x"`)), Syscall: seal}, kernel.RedactedData},
		{"crypto error", kernel.Record{Message: new(message.Message{Kind: message.KindError, Type: "Crypto.Open", Data: invalid.Data}), Syscall: seal}, ``},
		{"header whose name is marked", kernel.Record{Message: new(kerneltest.Command("a", "A.B", `[[["Cookie","c"]]]`)), Syscall: named}, `[[["[redacted]","[redacted]"]]]`},
		{"marked and no JSON", kernel.Record{Message: new(kerneltest.Command("a", "Session.Login", `{"password":"p`)), Syscall: s}, kernel.RedactedData},
		{"marked and nothing", kernel.Record{Message: new(kerneltest.Command("a", "Session.Login", ``)), Syscall: s}, ``},
		{"no crypto", kernel.Record{Message: new(kerneltest.Command("a", "CryptoX.Seal", `"x"`))}, ``},
	} {
		want := test.want
		if want == "" {
			want = string(test.r.Message.Data)
		}
		got, changed := kernel.Redact(test.r)
		if string(got) != want || changed != (test.want != "") {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, changed, want)
		}
	}
}

func parsed(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Everything that passes is looked at, and nearly nothing of it is secret.
func TestRedactAllocatesNothingForOrdinaryData(t *testing.T) {
	m := kerneltest.Command("a", "Session.Login", `{"user":"ada","note":"a monkey with a token of affection"}`)
	for _, s := range []*kernel.Syscall{nil,
		{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any}},
		{Definition: kernel.Definition{Type: "A.B", Input: schema.Any, Output: schema.Any, Journaled: kernel.Journaled{Redact: func(data json.RawMessage) json.RawMessage { return data }}}},
	} {
		r := kernel.Record{Message: &m, Syscall: s}
		fewest := 1.0
		for range 10 { // the race detector makes pools forget now and then
			fewest = min(fewest, testing.AllocsPerRun(20, func() { kernel.Redact(r) }))
		}
		if fewest != 0 {
			t.Errorf("%+v: it always allocates", s)
		}
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
	f.Add(`{"list":[1]}`, uint8(201))
	syscall := &kernel.Syscall{Definition: kernel.Definition{Type: "A.B", Output: schema.Any, Input: parsed(f, `{"$ref":"#/$defs/s","items":{"$ref":"#/$defs/s"},
		"$defs":{"s":{"properties":{"s":{"writeOnly":true},"list":{"items":{"$ref":"#/$defs/s"}},"next":{"$ref":"#/$defs/s"}}}}}`)}}
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
		m := kerneltest.Command("a", "A.B", data)
		if place > 200 {
			m.Type = "Crypto.Seal"
		}
		got, changed := kernel.Redact(kernel.Record{Message: &m, Syscall: syscall})
		if strings.Contains(string(got), secret) || !changed {
			t.Fatalf("%s\nbecame %s", data, got)
		}
		if err := scan.Text(got); err != nil {
			t.Fatalf("%s\nbecame %s: %v", data, got, err)
		}
		// Once more changes nothing.
		m.Data = got
		if again, _ := kernel.Redact(kernel.Record{Message: &m, Syscall: syscall}); string(again) != string(got) {
			t.Fatalf("%s\nbecame %s", got, again)
		}
		// And anything at all comes back.
		m = kerneltest.Query("a", "Crypto.Seal", around)
		out, _ := kernel.Redact(kernel.Record{Message: &m})
		if scan.Text([]byte(around)) == nil && scan.Text(out) != nil {
			t.Fatalf("%s became %s", around, out)
		}
	})
}
