package http

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzURL: whatever is taken for a URL, and whatever is not, no error and no record has its
// password.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"http://example.com/", "https://ada:pass@example.com:8080/p?q#f", "http://[::1]:80", "http:\\\\a:b@c", "a:b@c", "http://a:b@c:d@e/", "//x", "http://%zz@a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseURL(text)
		if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
			t.Errorf("%q is taken as %v", text, u)
		}
		if !utf8.ValidString(text) {
			return
		}
		data, err := json.Marshal(map[string]string{"url": text})
		if err != nil {
			t.Fatal(err)
		}
		var kept struct{ URL string }
		if err := json.Unmarshal(redact(data), &kept); err != nil {
			t.Fatalf("%q is recorded as no JSON: %v", text, err)
		}
		if u == nil || u.User == nil {
			return
		}
		again, err := url.Parse(strings.Replace(kept.URL, "[redacted]", "redacted", 1))
		if err != nil || again.User == nil || again.User.String() != "redacted" || again.Host != u.Host {
			t.Errorf("%q is recorded as %q", text, kept.URL)
		}
	})
}

// FuzzText: text that is given says what the bytes say.
func FuzzText(f *testing.F) {
	f.Add([]byte("hello"), "text/plain")
	f.Add([]byte("caf\xe9"), "text/plain; charset=latin1")
	f.Add([]byte("\xff\xfeh\x00"), "text/plain; charset=utf-16be")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		text, ok := textOf(body, contentType)
		if !ok {
			return
		}
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("%q as %q is given as %q", body, contentType, text)
		}
		if !strings.Contains(strings.ToLower(contentType), "charset") && text != string(body) {
			t.Errorf("%q is given as %q", body, text)
		}
	})
}

// FuzzDecoder: no bytes make decompression panic, or go on after an error.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0x4b, 4, 0, 0x43, 0xbe, 0xb7, 0xe8, 1, 0, 0, 0}, true)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 4, 0, 9, 0, 0, 'a', 0x1b, 0x17, 0x2c, 0xd2}, false)
	f.Fuzz(func(t *testing.T, body []byte, zip bool) {
		coding := "zstd"
		if zip {
			coding = "gzip"
		}
		plain, err := decode(bytes.NewReader(body), coding)
		if len(body) == 0 && (plain != nil || err != nil) {
			t.Errorf("nothing gives %v, %v", plain, err)
		}
		if plain == nil || err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(plain, 1<<20))
		_ = plain.Close()
	})
}
