package memory

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/schema"
)

// sealedWith makes a sealed string of these members.
func sealedWith(members string) string {
	return secret.SealedPrefix + base64.RawURLEncoding.EncodeToString([]byte("{"+members+"}"))
}

// A value that sounds like a credential is stored as it is, and the reply has a word about it.
func TestASetOfACredentialHasANote(t *testing.T) {
	w := newWorld(t, Options{})
	const noted = `{"success":true,"note":"` + soundsLikeACredential + `"}`
	for _, c := range []struct{ key, value, want string }{
		{"notes/bank-password", `"swordfish"`, noted},
		{"notes/1", `"password: swordfish"`, noted},
		{"settings", `{"api_key":"swordfish"}`, noted},
		{"notes/passwords", `"I change them often"`, ok},
		{"api/token", `"token123"`, ok},
		{"notes/password", `"` + wellFormed + `"`, ok},
		{"vault/password", `"` + wellFormed + `"`, ok},
	} {
		w.reply("Set", `{"key":"`+c.key+`","value":`+c.value+`}`, c.want)
		w.reply("Get", `{"key":"`+c.key+`"}`, c.value)
	}
	w.reply("Set", `{"key":"password","value":"a","ifRevision":0}`, `{"success":true,"revision":1,"note":"`+soundsLikeACredential+`"}`)
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
		key, err := parseKey(in.Key)
		if err == nil && key.space() != vault || out.Value == nil {
			return
		}
		if fault, _ := sealedFault(out.Value); fault != "" && string(out.Value) != kernel.RedactedData {
			t.Fatalf("%s is recorded as %s", data, got)
		}
	})
}
