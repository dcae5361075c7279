package conformance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// credentialNames are names of headers and fields that hold credentials, as real services and
// programs have them.
var credentialNames = []string{
	// Headers.
	"Authorization", "Proxy-Authorization", "X-Authorization", "X-Forwarded-Authorization", "X-Original-Authorization", "Cookie", "Cookie2", "Set-Cookie",
	"X-Api-Key", "X-API-KEY", "Api-Key", "ApiKey", "X-Goog-Api-Key", "X-Functions-Key", "Ocp-Apim-Subscription-Key", "X-RapidAPI-Key", "X-Access-Key",
	"X-Master-Key", "X-Auth-Key", "X-Secret-Key", "DD-API-KEY", "DD-APPLICATION-KEY", "X-Typesense-Api-Key", "X-Algolia-API-Key", "Fastly-Key", "X-Shodan-Key",
	"X-Auth-Token", "X-Access-Token", "X-My-Token", "X-Vault-Token", "X-Amz-Security-Token", "X-CSRF-Token", "X-XSRF-TOKEN", "X-Gitlab-Token", "Private-Token",
	"Job-Token", "Deploy-Token", "X-Shopify-Access-Token", "X-Subject-Token", "X-Consul-Token", "X-Figma-Token", "X-Postmark-Server-Token", "X-TrackerToken",
	"X-Plex-Token", "X-Emby-Token", "CF-Access-Jwt-Assertion", "CF-Access-Client-Secret", "X-Goog-Iap-Jwt-Assertion", "X-Client-Secret", "Api-Secret",
	"X-Api-Secret", "X-Session-Id", "X-Session-Token", "X-Session", "My-Session", "X-Transmission-Session-Id", "X-Password", "X-Passphrase", "OK-ACCESS-PASSPHRASE",
	"X-Hub-Signature", "X-Hub-Signature-256", "X-Slack-Signature", "Stripe-Signature", "X-JWT", "JWT",
	// Fields of forms and of JSON.
	"client_secret", "clientSecret", "refresh_token", "refreshToken", "access_token", "accessToken", "id_token", "id_token_hint", "auth_token", "session_token",
	"oauth_token", "oauth_token_secret", "oauth_signature", "device_token", "bot_token", "token", "api_key", "apiKey", "apikey", "api_token", "aws_secret_access_key",
	"secretAccessKey", "private_key", "privateKey", "account_key", "AccountKey", "encryption_key", "signing_key", "password", "Password", "passwd",
	"pwd", "pass", "userPassword", "new_password", "old_password", "password1", "password_confirmation", "passphrase", "passcode", "db_password", "DB_PASS",
	"secret", "webhook_secret", "shared_secret", "totp_secret", "otp", "session_id", "sessionId", "sessionid", "PHPSESSID", "JSESSIONID", "ASP.NET_SessionId", "connect.sid",
	"jwt", "auth", "credentials", "client_assertion", "code_verifier", "SAMLResponse", "csrf_token", "csrfmiddlewaretoken", "authenticity_token", "connection_string",
}

// requestNames hold credentials as headers and URL parameters. As fields of a body they are too
// common.
var requestNames = []string{
	"key", "sig", "sid", "signature", "session", "Authentication", "X-Amz-Signature", "X-Amz-Credential", "X-Goog-Signature", "Auth-User", "X-Token-Id", "authkey", "AWSAccessKeyId",
}

// harmlessNames look like names of credentials, or are common, and hold none.
var harmlessNames = []string{
	"monkey", "keyboard", "author", "authors", "author_id", "X-Author", "authority", "max_tokens", "maxTokens", "completion_tokens", "X-RateLimit-Remaining-Tokens",
	"tokenizer", "token_type", "token_count", "keyword", "keywords", "sort_key", "sortKey", "primary_key", "foreign_key", "partition_key", "cache_key", "Cache-Control",
	"Surrogate-Key", "Idempotency-Key", "X-Idempotency-Key", "public_key", "nextPageToken", "next_token", "page_token", "continuationToken", "compass", "bypass", "passenger",
	"secretary", "inside", "turkey", "hockey", "User-Agent", "Accept-Language", "X-Request-Id", "X-Correlation-Id", "X-Forwarded-For", "X-Amz-Date", "name", "id", "title",
}

// A placement puts a value under a name into a web request, as the data of Http.Fetch.
type placement struct {
	name string
	put  func(server, name, value string) string
}

var placements = []placement{
	{"a header", func(server, name, value string) string {
		return fetching(server, "headers", map[string]string{name: value})
	}},
	{"a parameter", func(server, name, value string) string {
		return fetching(server + "?q=1&" + url.QueryEscape(name) + "=" + value)
	}},
	{"a form", func(server, name, value string) string {
		return fetching(server, "body", "q=1&"+url.QueryEscape(name)+"="+value+"&r=2")
	}},
	{"JSON", func(server, name, value string) string {
		return fetching(server, "body", text(map[string]any{"q": 1, name: value}))
	}},
	{"nested JSON", func(server, name, value string) string {
		return fetching(server, "body", text(map[string]any{"q": []any{map[string]any{"r": map[string]any{name: []string{value}}}}}))
	}},
}

// fetching is the data of Http.Fetch: a URL, and more members with their values.
func fetching(to string, more ...any) string {
	data := map[string]any{"url": to, "method": "POST", "body": ""} // which is not repeated if it fails
	for i := 0; i < len(more); i += 2 {
		data[more[i].(string)] = more[i+1]
	}
	return text(data)
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// TestNamesOfCredentials sends a secret under each name and in each part of a web request to a
// server that sends it back, and to one that does not answer, and then looks for it in all that
// is kept and shown. Values under harmless names must be there.
func TestNamesOfCredentials(t *testing.T) {
	w, dir := openLogged(t, "")
	server := echoes(t)
	conn := w.connect()
	var sent []string // by the number of the secret
	var lines []string
	send := func(what, data string) {
		id := strconv.Itoa(len(sent))
		key := ""
		if len(sent)%2 == 0 { // the outcome is kept
			key = `,"idempotencyKey":"k` + id + `"`
		}
		sent = append(sent, what)
		lines = append(lines, `{"kind":"command","type":"Http.Fetch","data":`+data+`,"metadata":{"id":"`+id+`","timestamp":1`+key+`}}`)
	}
	for i, name := range slices.Concat(credentialNames, requestNames) {
		if testkit.Race && i%4 != 0 {
			continue // without the race detector, all of them are sent
		}
		for j, p := range placements {
			if i >= len(credentialNames) && j >= 2 {
				break
			}
			send(p.name+": "+name, p.put(server+"/", name, secret(len(sent))))
			if j == i%2 || j == 2+i%3 { // as many as need to be, since each makes a file
				send(p.name+", a large answer: "+name, p.put(server+"/large", name, secret(len(sent))))
				send(p.name+", no server: "+name, p.put("http://127.0.0.1:1/", name, secret(len(sent))))
			}
		}
	}
	var harmless []string
	for _, name := range harmlessNames {
		for _, p := range placements {
			value := fmt.Sprintf("harmless%dh", len(harmless))
			harmless = append(harmless, p.name+": "+name)
			lines = append(lines, `{"kind":"command","type":"Http.Fetch","data":`+p.put(server+"/", name, value)+`,"metadata":{"id":"h`+value+`","timestamp":1}}`)
		}
	}
	for _, data := range []string{
		`"Memory.Set","data":{"key":"/%s","value":"` + recordedText + `"}`,
		`"Memory.Set","data":{"key":"/notes","value":"%s"}`,
		`"Echo","data":{"message":"the token: %s"}`,
		`"Echo","data":{"message":"key=%s"}`,
	} {
		value := fmt.Sprintf("harmless%dh", len(harmless))
		harmless = append(harmless, data)
		lines = append(lines, `{"kind":"command","type":`+fmt.Sprintf(data, value)+`,"metadata":{"id":"h`+value+`","timestamp":1}}`)
	}
	go func() {
		for _, line := range lines {
			_, _ = fmt.Fprintln(conn.in, line)
		}
		_ = conn.in.Close()
	}()
	answers := 0
	for {
		line, err := conn.out.ReadString('\n')
		if err != nil {
			break
		}
		answers++
		if strings.Contains(line, `"kind":"error"`) {
			if found := secrets.FindString(line); found != "" {
				t.Errorf("an error quotes %s: %s", found, line)
			}
			if strings.Contains(line, `"code":4`) {
				t.Errorf("not sent: %s", line)
			}
		}
	}
	if answers < len(lines) {
		t.Errorf("%d lines got %d answers", len(lines), answers)
	}
	if err := w.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	var recorded strings.Builder
	search(t, "Message.Get and Message.List", func(look func(where string, b []byte)) {
		for _, e := range recordedMessages(t, w) {
			m := &e.Message
			recorded.Write(m.Data)
			look("message "+string(m.Metadata.ID), message.Append(nil, m))
			if got := w.query("Message.Get", `{"id":%q}`, m.Metadata.ID); got.Kind == message.KindReply {
				look("Message.Get of "+string(m.Metadata.ID), got.Data)
			} else {
				t.Errorf("Message.Get: %s", got.Data)
			}
		}
		for cursor := ""; ; {
			page := struct{ Cursor string }{}
			got := w.query("Message.List", `{"limit":1000%s}`, cursor)
			look("Message.List", got.Data)
			if err := json.Unmarshal(got.Data, &page); err != nil || got.Kind != message.KindReply {
				t.Fatalf("%s: %v", got.Data, err)
			}
			if page.Cursor == "" {
				return
			}
			cursor = fmt.Sprintf(`,"cursor":%q`, page.Cursor)
		}
	})
	for i, what := range harmless {
		if !strings.Contains(recorded.String(), fmt.Sprintf("harmless%dh", i)) {
			t.Errorf("the journal has lost the harmless value in %s", what)
		}
	}
	found := func(word string) (total int) {
		got := w.query("Message.Search", `{"query":%q}`, word)
		out := struct{ Total *int }{}
		if err := json.Unmarshal(got.Data, &out); err != nil || out.Total == nil {
			t.Fatalf("%s: %v", got.Data, err)
		}
		return *out.Total
	}
	for i, what := range sent {
		if found(secret(i)) > 0 {
			t.Errorf("Message.Search finds %s, the secret in %s", secret(i), what)
		}
	}
	if found("harmless0h") == 0 {
		t.Error("Message.Search does not find a harmless value")
	}
	searchKept(t, w, dir)
}
