package secret

import (
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
)

var names = map[Location][]string{
	Text: {
		"Authorization", "Proxy-Authorization", "X-Authorization", "HTTP_AUTHORIZATION", "authoriZation", "X-Goog-Iam-Authorization-Token",
		"Cookie", "Cookie2", "Set-Cookie", "Set-Cookie2", "HTTP_COOKIE", "session_cookie",
		"apikey", "Api-Key", "api_key", "apiKey", "X-Api-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "X-RapidAPI-Key", "X-MBX-APIKEY",
		"X-Auth-Token", "xauthtoken", "X-Access-Token", "access_token", "accessToken", "ACCESS_TOKEN", "X-Amz-Security-Token", "X-Vault-Token", "X-GitLab-Token",
		"PRIVATE-TOKEN", "X-CSRF-Token", "X-XSRF-TOKEN", "csrftoken", "X-Session-Token", "X-Auth-Key", "refresh_token", "refreshToken", "id_token", "auth_token",
		"bearer_token", "GITHUB_TOKEN", "bot.token", "private_key", "privateKey", "secret_key", "AWS_SECRET_ACCESS_KEY", "access-key", "signing_key",
		"X-My-Token", "X-Session-Id", "X-Client-Secret", "X-Access-Key", "X-Password", "X-Session", "HTTP_X_SESSION_ID", "X-Auth", "X-Amz-Signature",
		"X-Hub-Signature-256", "X-Amz-Credential", "X-JWT", "x_shop_token",
	},
	Data: {
		"password", "Password", "PASSWORD", "passwd", "passphrase", "passcode", "user_password", "newPassword", "password1", "password_confirmation", "DB_PASSWORD",
		"secret", "client_secret", "clientSecret", "Api-Secret", "app_secret", "consumer_secret", "aws_credentials", "JWT", "id-jwt", "db_pwd",
	},
	Body: {
		"token", "Token", "my_token", "push-token", "auth", "proxy-auth", "pass", "pwd", "credentials", "session_id", "sessionId", "PHPSESSID", "JSESSIONID",
		"ASP.NET_SessionId", "My-Session", "otp", "bearer", "client_assertion", "assertion", "id_token_hint", "code_verifier", "SAMLResponse", "AccountKey", "Deploy-Key", "SharedAccessSignature",
	},
	Request: {
		"key", "sig", "sid", "signature", "session", "Authentication", "Auth-User", "X-Token-Id", "X-Secret-Id", "authorize_url",
	},
	Nowhere: {
		"", "k", "monkey", "keyboard", "author", "authors", "author_id", "authority", "max_tokens", "maxTokens", "completion_tokens", "tokens", "tokenizer", "token_type",
		"token_count", "Idempotency-Key", "idempotencyKey", "X-Idempotency-Key", "keyword", "keywords", "sort_key", "primaryKey", "foreign_key", "cache-key",
		"partition_key", "public_key", "publicKey", "Sec-WebSocket-Key", "Surrogate-Key", "keys", "turkey", "Cache-Control", "Content-Type", "Accept", "User-Agent",
		"X-Request-Id", "X-Correlation-Id", "X-Forwarded-For", "X-RateLimit-Remaining-Tokens", "nextPageToken", "next_token", "page_token", "continuationToken",
		"eos_token", "pad_token", "stop_token", "bypass", "compass", "X-Bypass", "inside", "resid", "passenger", "compassion", "secretary", "url", "body", "name",
		"value", "id", "data", "etag", "status", "signed_headers", "X-Amz-SignedHeaders", "X-Amz-Date", "mission", "level",
	},
}

func TestNamesOfCredentials(t *testing.T) {
	for place, all := range names {
		for _, name := range all {
			for in := Request; in <= Text; in++ {
				if got := Named([]byte(name), in); got != (place >= in) {
					t.Errorf("%s in %d: %v", name, in, got)
				}
			}
		}
	}
}

// The prefilter may say yes for nothing, but never no for something.
func FuzzMayHold(f *testing.F) {
	for _, all := range names {
		for _, name := range all {
			f.Add(name, uint64(0))
			f.Add(name, uint64(0x5555))
		}
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
				b.WriteByte("-_ ."[i%4])
			}
		}
		if Named([]byte(b.String()), Data) && !MayHold(jsonscan.AppendQuoted(nil, b.String())) {
			t.Errorf("%q passes", b.String())
		}
	})
}

// Every name that denotes a credential in any data is found there, in each way of writing it.
func TestNoNameIsMissed(t *testing.T) {
	for _, noun := range nouns {
		befores := append([]string{"", "my", "x-my", "HTTP_X_MY"}, noun.sure...)
		for _, before := range befores {
			for _, joint := range []string{"", "-", "_", " ", "."} {
				for _, name := range []string{before + joint + noun.word, strings.ToUpper(before + joint + noun.word), before + joint + noun.word + "2"} {
					data := fmt.Sprintf(`{"a":{%q:"hunter2"}}`, name)
					if _, found := (Strictness{Place: Data}).Redact([]byte(data)); found != Named([]byte(name), Data) {
						t.Errorf("%s: found %v", data, found)
					}
					data = fmt.Sprintf(`{"a":"%s=hunter2"}`, name)
					if _, found := (Strictness{Place: Data}).Redact([]byte(data)); !found && Named([]byte(name), Text) {
						t.Errorf("%s: not found", data)
					}
				}
			}
		}
	}
}

// FuzzNamesInText puts a secret behind the name of a credential in the middle of any text.
func FuzzNamesInText(f *testing.F) {
	between := []string{":", " : ", "=", `": "`, `\": \"`, "' => '", ":\n", ":\r\n  "}
	f.Add("curl -H ", "\nx", uint16(0))
	f.Add(`{"a":"`, `"}`, uint16(3))
	f.Add("x\n\"", "\"", uint16(900))
	f.Add("Cookie: a\n\t", "", uint16(77))
	f.Fuzz(func(t *testing.T, before, after string, how uint16) {
		const secret = "TOPSECRETVALUE"
		if strings.Contains(strings.ToUpper(before+after), secret) {
			return
		}
		name, colon := names[Text][int(how)%len(names[Text])], between[int(how/256)%len(between)]
		text := before + " " + name + colon + secret + after
		data := append(jsonscan.AppendQuoted([]byte(`{"text":`), text), '}')
		got, changed := Strictness{Place: Data}.Redact(data)
		if !changed || strings.Contains(string(got), secret) {
			t.Fatalf("%q became %s", text, got)
		}
		if !jsonscan.Valid(got) {
			t.Fatalf("%q became %s, which is not JSON", text, got)
		}
		if again, changed := (Strictness{Place: Data}).Redact(got); changed {
			t.Fatalf("%s became %s", got, again)
		}
	})
}

func TestTextsWithNamesOfCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.b/?access_token=x&y=1":        "https://a.b/?access_token=[redacted]&y=1",
		"see https://a.b/?y=1&client_secret=x z": "see https://a.b/?y=1&client_secret=[redacted] z",
		"password=x&user=ada":                    "password=[redacted]&user=ada",
		"password=x y":                           "password=[redacted]",
		"mysql --password=x":                     "mysql --password=[redacted]",
		"user: ada\npassword: x\nport: 1":        "user: ada\npassword: [redacted]\nport: 1",
		`{'password': 'x'`:                       "{'password': [redacted]",
		"export DB_PASSWORD=x\nls":               "export DB_PASSWORD=[redacted]\nls",
		"choose a password: it must be long":     "",
		"the secret: work":                       "",
		"the token = 1":                          "",
		"max_tokens=5":                           "",
		"sort_key: name":                         "",
	} {
		if want == "" {
			want = text
		}
		data, _ := Strictness{Place: Data}.Redact(jsonscan.AppendQuoted(nil, text))
		if got := jsonscan.Unquote(data); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestDataWithNamesOfCredentials(t *testing.T) {
	for data, want := range map[string]string{
		`{"a":[{"client_secret":"x","b":1}]}`: `{"a":[{"client_secret":"[redacted]","b":1}]}`,
		`{"password":7}`:                      `{"password":"[redacted]"}`,
		`{"password":true}`:                   ``,
		`{"password":{"type":"string","description":"Of the user"}}`:              ``,
		`{"credentials":{"user":"ada","x":"y"},"aws_credentials":{"x":["y"]}}`:    `{"credentials":{"user":"ada","x":"y"},"aws_credentials":"[redacted]"}`,
		`{"name":"password","in":"body","required":true}`:                         ``,
		`{"name":"password","value":"x"}`:                                         `{"name":"password","value":"[redacted]"}`,
		`{"required":["user","password","mail"]}`:                                 ``,
		`{"key":"/a","value":"x","token":"t","session":"s","tokens":5}`:           ``,
		`{"idempotencyKey":"a","nextPageToken":"b","publicKey":"c","author":"d"}`: ``,
	} {
		if want == "" {
			want = data
		}
		if got, _ := (Strictness{Place: Data}).Redact([]byte(data)); string(got) != want {
			t.Errorf("%s\n got %s\nwant %s", data, got, want)
		}
	}
}

func TestRequestsWithNamesOfCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.b/c?key=x&y=1#access_token=z": "https://a.b/c?key=[redacted]&y=1#access_token=[redacted]",
		"https://a.b/c;jsessionid=x?y=1":         "https://a.b/c;jsessionid=[redacted]",
		"https://ada:pw@a.b/?%74oken=x":          "https://[redacted]@a.b/?%74oken=[redacted]",
		"https://a.b/?user%5Bpassword%5D=x":      "https://a.b/?user%5Bpassword%5D=[redacted]",
		"https://a.b/?sort_key=x&author=y&q=a=b": "",
		"https://a.b/?token=&x":                  "",
		"not a url":                              "",
	} {
		if want == "" {
			want = text
		}
		if got := URL(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"user=ada&password=x+y%26z&b=1":               "user=ada&password=[redacted]&b=1",
		"user[pass]=x":                                "user[pass]=[redacted]",
		`{"a":{"token":"x","key":"k"},"session":"s"}`: `{"a":{"token":"[redacted]","key":"k"},"session":"s"}`,
		"key=object&max_tokens=5":                     "",
		"plain text":                                  "",
		`{"broken`:                                    "",
	} {
		if want == "" {
			want = text
		}
		if got := Form(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func BenchmarkMayHold(b *testing.B) {
	for name, data := range map[string]string{
		"ping":  `{"payload":"hello"}`,
		"set":   `{"key":"/notes/2024/shopping","value":"bread, milk and a bit of"}`,
		"prose": strings.Repeat(`It was the best of times, it was the worst of times, it was the age of wisdom, and so on. `, 150),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if MayHold([]byte(data)) {
					b.Fatal("it does not")
				}
			}
		})
	}
}
