package content

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/message"
)

// server is a web server whose pages can be changed.
type server struct {
	*httptest.Server
	pages map[string]string
	full  atomic.Int64 // answers with a page
	brief atomic.Int64 // answers without, because the caller has it
}

func newServer(t *testing.T, pages map[string]string) *server {
	t.Helper()
	s := &server{pages: pages}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := s.pages[r.URL.Path]
		etag := fmt.Sprintf("%q", fmt.Sprint(len(text), text))
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(text, "→"):
			http.Redirect(w, r, strings.TrimPrefix(text, "→"), http.StatusFound)
		case r.Header.Get("If-None-Match") == etag:
			s.brief.Add(1)
			w.WriteHeader(http.StatusNotModified)
		default:
			if !strings.Contains(r.URL.Path, "no-etag") {
				w.Header().Set("ETag", etag)
			}
			s.full.Add(1)
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestServersAreAskedByETag(t *testing.T) {
	s := newServer(t, map[string]string{
		"/agents/far.md":        "---\nskills: [../skills/near.md, ../skills/no-etag.md, gone.md]\n---\nFar.",
		"/skills/near.md":       "---\nname: Near\ndescription: one\n---\n",
		"/skills/no-etag.md":    "---\nname: Plain\ndescription: Without a tag\n---\n",
		"/skills/redirected.md": "→/skills/near.md",
	})
	c := New(newShelf(t, nil), &Options{Client: s.Client()})
	uri := s.URL + "/agents/far.md"
	text := func(description string) string {
		return strings.ReplaceAll(`{"content":"Far.","metadata":{"uri":"URL/agents/far.md","dependencies":{"skills":[`+
			`{"uri":"URL/agents/gone.md","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED","skills":[],"tools":[]},`+
			`{"uri":"URL/skills/near.md","name":"Near","description":"`+description+`","skills":[],"tools":[]},`+
			`{"uri":"URL/skills/no-etag.md","name":"Plain","description":"Without a tag","skills":[],"tools":[]}],"tools":[]}}}`, "URL", s.URL)
	}
	want(t, c, uri, text("one"))
	if s.full.Load() != 3 || s.brief.Load() != 0 {
		t.Errorf("at first, %d pages and %d that were known", s.full.Load(), s.brief.Load())
	}
	want(t, c, uri, text("one"))
	if s.full.Load() != 4 || s.brief.Load() != 2 {
		t.Errorf("again, %d pages and %d that were known", s.full.Load(), s.brief.Load())
	}
	s.pages["/skills/near.md"] = "---\nname: Near\ndescription: two\n---\n"
	want(t, c, uri, text("two"))
	if out := hydrated(t, c, s.URL+"/skills/redirected.md"); out.Metadata.URI != s.URL+"/skills/redirected.md" {
		t.Errorf("redirected: %+v", out)
	}
}

func TestServersThatDontAnswerAreSoftErrors(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	s := newServer(t, map[string]string{
		"/away.md":  "→" + plain.URL + "/a.md",
		"/round.md": "→/round.md",
		"/huge.md":  strings.Repeat("x", maxPage+1),
	})
	c := New(newShelf(t, nil), &Options{Client: s.Client()})
	for _, test := range []struct {
		uri  string
		code int
	}{
		{s.URL + "/gone.md", 404},
		{s.URL + "/away.md", 502},
		{s.URL + "/round.md", 502},
		{s.URL + "/huge.md", 413},
		{plain.URL + "/a.md", 502},
		{"https://127.0.0.1:1/a.md", 502},
		{"https://%zz/", 502},
	} {
		_, _, err := c.fetch(t.Context(), test.uri, "")
		if e, ok := message.ErrorOf(err); !ok || e.Code != test.code {
			t.Errorf("%s: %v, want %d", test.uri, err, test.code)
		}
		if strings.HasPrefix(test.uri, "https:") {
			want(t, c, test.uri, `{"content":"","metadata":{"uri":"ERROR: FETCH_FAILED","dependencies":{"skills":[],"tools":[]}}}`)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, _, err := c.fetch(ctx, s.URL+"/gone.md", ""); err == nil {
		t.Error("a fetch whose time is over succeeds")
	} else if e, _ := message.ErrorOf(err); e.Code != 504 {
		t.Errorf("late: %v", err)
	}
}
