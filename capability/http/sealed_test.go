package http_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/capability/http"
	"kernos/internal/sealed"
	"kernos/message"
)

const secret = `s3cr&t "köy"/+`

// openSecret opens one sealed string.
func openSecret(_ context.Context, sealed string) ([]byte, error) {
	switch sealed {
	case "pwenc:v1:good":
		return []byte(secret), nil
	case "pwenc:v1:file": // which ends with a line break
		return []byte(secret + "\r\n"), nil
	}
	return nil, message.Errorf(422, "Not sealed for this key")
}

// anywhere opens strings that have no destination.
func anywhere(open func(context.Context, string) ([]byte, error)) func(context.Context, string, sealed.Use) ([]byte, sealed.Destination, error) {
	if open == nil {
		return nil
	}
	return func(ctx context.Context, text string, _ sealed.Use) ([]byte, sealed.Destination, error) {
		plain, err := open(ctx, text)
		return plain, nil, err
	}
}

func TestSealedHeadersAreOpened(t *testing.T) {
	seen := make(chan nethttp.Header, 1)
	url := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { seen <- r.Header.Clone() })
	w := newWorld(t, http.Options{Open: anywhere(openSecret)})
	a := w.fetch(t, in{"url": url, "headers": in{
		"Authorization": "Bearer pwenc:v1:good",
		"X-Whole":       "pwenc:v1:good",
		"X-File":        "pwenc:v1:file",
		"X-Twice":       "a pwenc:v1:good, b pwenc:v1:good;",
		"X-List":        []string{"plain", "pwenc:v1:good"},
		"X-Other":       "pwenc:v3:good",
	}})
	got := <-seen
	for name, want := range map[string]string{
		"Authorization": "Bearer " + secret, "X-Whole": secret, "X-File": secret, "X-Twice": "a " + secret + ", b " + secret + ";",
		"X-List": "plain|" + secret, "X-Other": "pwenc:v3:good",
	} {
		if g := strings.Join(got[name], "|"); g != want {
			t.Errorf("%s: got %q, want %q", name, g, want)
		}
	}
	if a.Status != 200 {
		t.Errorf("got %s", a.text)
	}
	if kept := w.records.text(); strings.Contains(kept, secret) || strings.Contains(kept, "Bearer") || !strings.Contains(kept, `"X-Whole":"pwenc:v1:good"`) {
		t.Errorf("recorded: %s", kept)
	}
}

func TestWhatCanNotBeOpenedIsNotSent(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { requests.Add(1) })
	fails := func(plain string, err error) func(context.Context, string) ([]byte, error) {
		return func(context.Context, string) ([]byte, error) { return []byte(plain), err }
	}
	for name, c := range map[string]struct {
		open  func(context.Context, string) ([]byte, error)
		value string
		words string
	}{
		"nothing opens it": {nil, "pwenc:v1:good", "nothing that opens"},
		"another key":      {openSecret, "pwenc:v1:bad", "Not sealed for this key"},
		"one of two":       {openSecret, "pwenc:v1:good pwenc:v1:bad", "Not sealed for this key"},
		"nothing in it":    {openSecret, "Bearer pwenc:v1:", "Not sealed"},
		"padded":           {openSecret, "pwenc:v1:good==", "Not sealed"},
		"no agent":         {fails("", message.Errorf(500, "No signer")), "pwenc:v1:good", "No signer"},
		"an error within":  {fails("", errors.New("secret words")), "pwenc:v1:good", "Internal error"},
		"a line break":     {fails("hunter2\r\nEvil: 1", nil), "pwenc:v1:good", "line break"},
		"too short":        {fails("abc", nil), "pwenc:v1:good", "fewer than 4 bytes"},
		"empty":            {fails("", nil), "pwenc:v1:good", "fewer than 4 bytes"},
	} {
		w := newWorld(t, http.Options{Open: anywhere(c.open), Retries: 1})
		a := w.fetch(t, in{"url": url, "headers": in{"X-Key": c.value}})
		a.wantError(t, 422, c.words)
		if !strings.Contains(a.Message, "not sent") || strings.Contains(a.text, "hunter2") || strings.Contains(a.text, "secret words") {
			t.Errorf("%s: got %s", name, a.text)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestOpeningTakesFromTheTime(t *testing.T) {
	w := newWorld(t, http.Options{Open: anywhere(func(ctx context.Context, _ string) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	w.fetch(t, in{"url": "http://127.0.0.1:1/", "timeout": 20, "headers": in{"X": "pwenc:v1:good"}}).wantError(t, 504, "timeout of 20ms passed")
}

// TestSecretsDoNotComeBack: a server that echoes what it was sent must not be what makes a
// secret visible.
func TestSecretsDoNotComeBack(t *testing.T) {
	forms := map[string]string{
		"plain": secret, "json": `s3cr&t \"köy\"/+`, "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"html": "s3cr&amp;t &#34;köy&#34;/+", "base64": base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	var echo string
	filler := strings.Repeat("0123456789", 5000)
	host := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("X-Echo", "it is "+echo)
		switch r.URL.Path {
		case "/short":
			_, _ = io.WriteString(w, "it is "+echo+"!")
		case "/long":
			_, _ = io.WriteString(w, filler)
			for i := range len(echo) { // in pieces
				_, _ = io.WriteString(w, echo[i:i+1])
				w.(nethttp.Flusher).Flush()
			}
			_, _ = io.WriteString(w, filler)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(t, []byte("it is "+echo+"!")))
		case "/location":
			w.Header().Set("Location", "http://%zz/"+echo)
			w.WriteHeader(302)
		}
	})
	broken := raw(t, secret+"\r\n\r\n")
	for name, form := range forms {
		echo = form
		w := newWorld(t, http.Options{Open: anywhere(openSecret)})
		headers := in{"X-Key": "pwenc:v1:good"}
		for path, want := range map[string]string{
			"/short": "it is [redacted]!", "/gzip": "it is [redacted]!", "/long": filler + "[redacted]" + filler,
		} {
			a := w.fetch(t, in{"url": host + path, "headers": headers})
			got := a.content(t)
			if name == "base64" { // its padding is no secret
				got = strings.ReplaceAll(got, "=", "")
			}
			if got != want {
				t.Errorf("%s, %s: got %.100q…", name, path, got)
			}
			if strings.Contains(a.Headers["x-echo"], form) || !strings.HasPrefix(a.Headers["x-echo"], "it is [redacted]") {
				t.Errorf("%s, %s: got the header %q", name, path, a.Headers["x-echo"])
			}
		}
		for _, u := range []string{host + "/location", broken} {
			a := w.fetch(t, in{"url": u, "headers": headers})
			if a.Code != 502 || strings.Contains(a.text, form) || strings.Contains(a.text, "s3cr") {
				t.Errorf("%s: got %s", name, a.text)
			}
		}
		if kept := w.records.text(); strings.Contains(kept, form) || strings.Contains(kept, "s3cr&t") {
			t.Errorf("%s: recorded: %.500s", name, kept)
		}
	}
}

// TestWhatIsRecorded: credentials that are not sealed reach the server and not the journal.
func TestWhatIsRecorded(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Add("Set-Cookie", "session=hunter2")
		w.Header().Add("Set-Cookie", "other=hunter2")
		_, _ = fmt.Fprint(w, len(r.Header.Get("Authorization")))
	})
	w := newWorld(t, http.Options{})
	for _, data := range []string{
		`{"url":"` + url + `","headers":{"Authorization":"Bearer hunter2","cookie":"a=hunter2","X-API-Key":["hunter2"],"Proxy-Authorization":"hunter2"}}`,
		`{"headers":{"Author\u0069zation":"hunter2"},"url":"` + url + `"}`,
		`{"url":"` + strings.Replace(url, "//", "//ada:hunter2@", 1) + `"}`,
		`{"u\u0072l":"` + strings.Replace(url, "//", `\/\/hunter2:x\u0040`, 1) + `"}`,
		`{"url":"http://ada:hunter2@[::1:x/","timeout":5}`,
		`{"url":"http://ada:hunter2@127.0.0.1:1/"}`,
		`{"url":"http:\\\\ada:hunter2@host/"}`,
		`{"url":"` + url + `","headers":"Authorization: hunter2"}`,
	} {
		a := w.send(t, "Http.Fetch", data)
		if a.Code != 0 && strings.Contains(a.text, "hunter2") {
			t.Errorf("%s: got %s", data, a.text)
		}
		if a.Code == 0 && a.Headers["set-cookie"] != "session=hunter2\nother=hunter2" {
			t.Errorf("%s: got %s", data, a.text)
		}
	}
	if kept := w.records.text(); strings.Contains(kept, "hunter2") || !strings.Contains(kept, "[redacted]@") {
		t.Errorf("recorded: %s", kept)
	}
}

// TestCredentialsThatComeBack: a server that echoes the credentials of a request gives them to
// the caller, who knows them, and not to the journal, nor to a blob.
func TestCredentialsThatComeBack(t *testing.T) {
	filler := strings.Repeat("0123456789", 5000)
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		echo, _ := json.Marshal(map[string]any{"headers": r.Header, "token": strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")})
		if r.URL.Path == "/long" {
			_, _ = io.WriteString(w, filler)
		}
		_, _ = w.Write(echo)
	})
	const token, session, theme = "abcdefgh-0123", "hunter2-hunter2", "dark"
	w := newWorld(t, http.Options{})
	headers := in{"Authorization": "Bearer " + token, "Cookie": "theme=" + theme + "; sid=" + session}
	short := w.fetch(t, in{"url": url, "headers": headers}).content(t)
	if !strings.Contains(short, token) || !strings.Contains(short, session) {
		t.Errorf("the caller got %s", short)
	}
	long := w.fetch(t, in{"url": url + "/long", "headers": headers}).content(t)
	if strings.Contains(long, token) || strings.Contains(long, session) || strings.Count(long, "[redacted]") != 3 || !strings.HasPrefix(long, filler) {
		t.Errorf("the blob ends with %s", strings.TrimPrefix(long, filler))
	}
	if kept := w.records.text(); strings.Contains(kept, token) || strings.Contains(kept, session) {
		t.Errorf("recorded: %s", kept)
	}
}
