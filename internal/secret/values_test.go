package secret

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestASecretIsFoundAsServersWriteIt(t *testing.T) {
	const secret = `a/b+c&<d>"e' ö😀%f`
	s := Opened([]string{" " + secret + "\t"}) // which is sent without them
	byGo, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as it is":   secret,
		"Go":         string(byGo),
		"PHP":        `a\/b+c&<d>\"e' \u00f6\ud83d\ude00%f`,
		"Python":     `a/b+c&<d>\"e' \u00f6\ud83d\ude00%f`,
		".NET":       `a/b\u002Bc\u0026\u003Cd\u003E\u0022e\u0027 \u00F6\uD83D\uDE00%f`,
		"lower case": "a%2fb%2bc%26%3cd%3e%22e%27+%c3%b6%f0%9f%98%80%25f",
		"quote":      strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"), "%2F", "/"),
		"JavaScript": "a%2Fb%2Bc%26%3Cd%3E%22e'%20%C3%B6%F0%9F%98%80%25f",
		"HTML":       "a/b+c&amp;&lt;d&gt;&quot;e&#x27; ö😀%f",
	} {
		if got := s.Hide("x" + text + "y"); got != "x"+Redacted+"y" && got != `x"`+Redacted+`"y` {
			t.Errorf("%s: %s is %s", name, text, got)
		}
	}
}

func TestAPasswordWithASlash(t *testing.T) {
	for text, want := range map[string]string{
		"https://me:pa/ss@host/":   "https://[redacted]@host/",
		"https://me:pa#ss@host/":   "https://[redacted]@host/",
		"https://host/@me":         "https://host/@me",
		"https://host/?mail=a@b.c": "https://host/?mail=a@b.c",
	} {
		if got := withoutUser(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
