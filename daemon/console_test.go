package daemon_test

import (
	"io"
	"kernos/daemon"
	"kernos/daemon/daemontest"
	"net/http"
	"strings"
	"testing"
)

// A cookie counts for the pages of the server itself, and for what a person opens: a browser sends
// it for the pages of other ports of the machine too.
func TestTheCookieOfTheConsole(t *testing.T) {
	d := daemontest.Serve(t, &daemon.Options{Home: t.TempDir(), Web: &daemon.Web{Address: "127.0.0.1:0"}})
	origin := "http://" + d.Address
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path string, headers ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(method, origin+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer
	}
	link, err := d.ConsoleURL()
	if err != nil {
		t.Fatal(err)
	}
	entered := send(http.MethodGet, strings.TrimPrefix(link, origin))
	cookies := entered.Cookies()
	if entered.StatusCode != http.StatusSeeOther || entered.Header.Get("Location") != "../" || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the link is answered with %d and %v", entered.StatusCode, cookies)
	}
	cookie := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	own, page := "Origin: "+origin, "Accept: text/html"
	const status = "/v1/call/kernel/status"
	for _, try := range []struct {
		what    string
		method  string
		path    string
		headers []string
		want    int
	}{
		{"the page's own call", "POST", status, []string{cookie, own}, 200},
		{"a call without the cookie", "POST", status, []string{own}, 401},
		{"a call that says no origin", "POST", status, []string{cookie}, 401},
		{"a call of another port", "POST", status, []string{cookie, "Origin: http://127.0.0.1:1"}, 403},
		{"a call of another site", "POST", status, []string{cookie, "Origin: https://evil.example"}, 403},
		{"the page, opened by a person", "GET", "/", []string{cookie, page, "Sec-Fetch-Site: none"}, 200},
		{"the page, embedded elsewhere", "GET", "/", []string{cookie, page, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"the page, linked from elsewhere", "GET", "/", []string{cookie, page, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 401},
		{"the page without the cookie", "GET", "/", []string{page}, 401},
		{"a file of the page", "GET", "/console/app.js", []string{cookie, "Sec-Fetch-Site: same-origin"}, 200},
		{"a file that isn't there", "GET", "/console/nothing.js", []string{cookie, "Sec-Fetch-Site: same-origin"}, 404},
		{"a WebSocket of another program", "GET", "/ws", []string{cookie, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}, 401},
		{"a call for the owner alone", "POST", "/v1/call/token/list", []string{cookie, own}, 403},
		{"signing out from another port", "POST", "/console/leave", []string{cookie, "Origin: http://127.0.0.1:1"}, 403},
		{"signing out", "POST", "/console/leave", []string{cookie, own}, 204},
		{"a call after that", "POST", status, []string{cookie, own}, 401},
	} {
		got := send(try.method, try.path, try.headers...)
		if got.StatusCode != try.want {
			t.Errorf("%s gets %d, want %d", try.what, got.StatusCode, try.want)
		}
		policy := got.Header.Get("Content-Security-Policy")
		if try.path == "/" && (!strings.HasPrefix(policy, "default-src 'none'") && got.StatusCode != 403 || strings.Contains(policy, "unsafe") || strings.Contains(policy, "//") || strings.Contains(policy, "*")) {
			t.Errorf("%s gets the policy %q", try.what, policy)
		}
	}
}
