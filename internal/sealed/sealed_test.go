package sealed_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"kernos/internal/sealed"
	"kernos/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// with makes a sealed string of these members.
func with(members string) string {
	return secret.SealedPrefix + base64.RawURLEncoding.EncodeToString([]byte("{"+members+"}"))
}

const (
	nonce = `"nonce":"AAAAAAAAAAAAAAAA"`
	ct    = `"ct":"AAAAAAAAAAAAAAAAAAAAAA"`
	whole = `"v":1,"kid":"k","alg":"A256GCM",` + nonce + `,` + ct
)

// bound is with, for a string that has a destination.
func bound(members string) string {
	return secret.BoundPrefix + with(members)[len(secret.SealedPrefix):]
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	good := with(whole)
	for text, want := range map[string]string{
		"":                             "it has no prefix pwenc:v1:",
		"hunter2":                      "it has no prefix pwenc:v1:",
		" " + good:                     "it has no prefix pwenc:v1:",
		"PWENC:v1:" + good[9:]:         "it has no prefix pwenc:v1:",
		"pwenc:v3:" + good[9:]:         "it has no prefix pwenc:v1:",
		"pwenc:v1:":                    "what is encoded is not a JSON object",
		"pwenc:v1:hunter2!":            "what follows the prefix is not base64url without padding",
		"pwenc:v1:a+b/":                "what follows the prefix is not base64url without padding",
		good + "=":                     "what follows the prefix is not base64url without padding",
		good + "\n":                    "what follows the prefix is not base64url without padding",
		"pwenc:v1:e30":                 "v is missing",
		"pwenc:v1:e31":                 "what follows the prefix is not base64url without padding", // stray bits
		"pwenc:v1:W10":                 "what is encoded is not a JSON object",
		"pwenc:v1:MQ":                  "what is encoded is not a JSON object",
		with(whole + ","):              "what is encoded is not a JSON object",
		with(whole + `,"v":1`):         "what is encoded is not a JSON object", // twice
		with(whole) + with(whole)[9:]:  "what is encoded is not a JSON object",
		with(`"v":1`):                  "kid is missing",
		with(`"v":1,"kid":"k"`):        "alg is missing",
		with(whole[:len(whole)-3-22]):  "what is encoded is not a JSON object",
		with(whole + `,"aad":7`):       "aad is not a string",
		with(whole + `,"ts":{}`):       "ts is neither a number nor a string",
		with(whole + `,"ts":null`):     "ts is neither a number nor a string",
		with(whole + `,"pt":"hunter"`): "it has a member that a sealed string has not",
		with(whole + `,"V":1`):         "it has a member that a sealed string has not",

		with(whole + `,"for":["a.de"]`):                  "it has a member that a sealed string has not",
		bound(whole + `,"for":["a.de"]`):                 "v is not 2",
		bound(`"v":2` + whole[5:]):                       "for is missing",
		bound(`"v":2` + whole[5:] + `,"for":[]`):         "for is not a list of hosts and syscalls",
		bound(`"v":2` + whole[5:] + `,"for":"a.de"`):     "for is not a list of hosts and syscalls",
		bound(`"v":2` + whole[5:] + `,"for":["a.de",1]`): "for is not a list of hosts and syscalls",
		bound(`"v":2` + whole[5:] + `,"for":["*"]`):      "for is not a list of hosts and syscalls",

		with(`"v":2,"kid":"k","alg":"A256GCM",` + nonce + `,` + ct):         "v is not 1",
		with(`"v":"1","kid":"k","alg":"A256GCM",` + nonce + `,` + ct):       "v is not 1",
		with(`"v":1.0,"kid":"k","alg":"A256GCM",` + nonce + `,` + ct):       "v is not 1",
		with(`"v":1,"kid":"","alg":"A256GCM",` + nonce + `,` + ct):          "kid is not a string that names a key",
		with(`"v":1,"kid":["k"],"alg":"A256GCM",` + nonce + `,` + ct):       "kid is not a string that names a key",
		with(`"v":1,"kid":"k","alg":"A128GCM",` + nonce + `,` + ct):         "alg is not A256GCM",
		with(`"v":1,"kid":"k","alg":"none",` + nonce + `,` + ct):            "alg is not A256GCM",
		with(`"v":1,"kid":"k","alg":"A256GCM",` + ct):                       "nonce is missing",
		with(`"v":1,"kid":"k","alg":"A256GCM","nonce":"AAAA",` + ct):        "nonce is not 12 bytes in base64url",
		with(`"v":1,"kid":"k","alg":"A256GCM","nonce":null,` + ct):          "nonce is not 12 bytes in base64url",
		with(`"v":1,"kid":"k","alg":"A256GCM",` + nonce):                    "ct is missing",
		with(`"v":1,"kid":"k","alg":"A256GCM",` + nonce + `,"ct":"AAAA"`):   "ct is not base64url with a tag of 16 bytes",
		with(`"v":1,"kid":"k","alg":"A256GCM",` + nonce + `,"ct":"huntr!"`): "ct is not base64url with a tag of 16 bytes",
	} {
		if _, err := sealed.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestParseReadsWhatIsThere(t *testing.T) {
	box, err := sealed.Parse(with(` "ts" : -1.5 , "aad":"\u0061ä","ct":"AQEBAQEBAQEBAQEBAQEBAQEC","nonce":"_-__AAAAAAAAAAAA","alg":"A256GCM","kid":"k","v":1`))
	want := sealed.Box{
		Kid: "k", AAD: "aä", Nonce: []byte{0xff, 0xef, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		Ciphertext: append(bytes.Repeat([]byte{1}, 17), 2),
	}
	if err != nil || !reflect.DeepEqual(box, want) {
		t.Fatalf("got %+v, %v", box, err)
	}
	again, err := sealed.Parse(box.String())
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("got %+v, %v", again, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(with(whole))
	f.Add(with(whole + `,"aad":"\ud83d\ude00","ts":1735000000`))
	f.Add(bound(`"v":2` + whole[5:] + `,"for":["*.example.com","Http.Fetch"]`))
	f.Add("pwenc:v1:")
	f.Add("plain")
	f.Add(with(`"v":1`))
	f.Fuzz(func(t *testing.T, text string) {
		box, err := sealed.Parse(text)
		if err != nil {
			return
		}
		// A reader that is not ours reads the same.
		data, err := base64.RawURLEncoding.DecodeString(text[len(secret.SealedPrefix):])
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			V              int
			Kid, Alg       string
			Nonce, Ct, Aad string
			For            sealed.Destination
		}
		version := 1
		if len(box.For) > 0 {
			version = 2
		}
		if err := json.Unmarshal(data, &o); err != nil || o.V != version || !slices.Equal(o.For, box.For) || o.Alg != "A256GCM" ||
			o.Kid != box.Kid || o.Aad != box.AAD || len(box.Nonce) != 12 || len(box.Ciphertext) < 16 ||
			o.Nonce != base64.RawURLEncoding.EncodeToString(box.Nonce) || o.Ct != base64.RawURLEncoding.EncodeToString(box.Ciphertext) {
			t.Fatalf("%q holds %s: %v", text, data, err)
		}
		if again, err := sealed.Parse(box.String()); err != nil || !reflect.DeepEqual(again, box) {
			t.Fatalf("%q is written as %q: %v", text, box.String(), err)
		}
	})
}
