package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/internal/outbound"
	"kernos/internal/sealed"
)

// An endpoint answers requests for embeddings with texts of its own, one after another, and then as it should.
type endpoint struct {
	*httptest.Server
	requests atomic.Int32
	keys     atomic.Pointer[string] // the last Authorization
}

func serveEmbeddings(t *testing.T, first ...func(w http.ResponseWriter, r *http.Request)) *endpoint {
	e := new(endpoint)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(e.requests.Add(1))
		key := r.Header.Get("Authorization")
		e.keys.Store(&key)
		if n <= len(first) {
			first[n-1](w, r)
			return
		}
		var body embeddingsBody
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/embeddings" || body.Model != "small" || len(body.Input) > maxTexts {
			t.Errorf("%s: %+v, %v", r.URL.Path, body, err)
		}
		var data []string
		for i := range body.Input {
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,1,0]}`, i, len(body.Input[i])))
		}
		slices.Reverse(data) // their order doesn't matter
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[%s],"model":"small"}`, strings.Join(data, ","))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) embedder(t *testing.T, more string) *Embedder {
	t.Helper()
	m, err := NewEmbedder(&Options{
		Client: outbound.NewClient(outbound.Policy{Loopback: true}, nil),
		Open: func(context.Context, string, sealed.Use) ([]byte, sealed.Destination, error) {
			return []byte("the-opened-key\n"), sealed.Destination{}, nil
		},
	}, []byte(`{"baseUrl":"`+e.URL+`/v1","model":"small"`+more+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answers(status int, text string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

func TestEmbeddingsOfAnEndpoint(t *testing.T) {
	s := serveEmbeddings(t)
	m := s.embedder(t, "")
	texts := make([]string, 150)
	for i := range texts {
		texts[i] = strings.Repeat("x", i)
	}
	vectors, err := m.Embed(t.Context(), texts)
	if err != nil || len(vectors) != 150 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for i, v := range vectors {
		if !slices.Equal(v, []float32{float32(i), 1, 0}) {
			t.Fatalf("text %d has the vector %v", i, v)
		}
	}
	if n := s.requests.Load(); n != 3 {
		t.Errorf("%d requests for 150 texts", n)
	}
	if host := strings.TrimPrefix(s.URL, "http://"); m.ID() != host+"/small" || m.Dimensions() != 3 {
		t.Errorf("%s, %d dimensions", m.ID(), m.Dimensions())
	}
	if m := s.embedder(t, `,"dimensions":2`); !strings.HasSuffix(m.ID(), "/small@2") || m.Dimensions() != 2 {
		t.Errorf("%s, %d dimensions", m.ID(), m.Dimensions())
	}
}

// What an endpoint does wrong is told apart: what passes is tried again, and nothing wrong becomes a vector.
func TestEndpointsThatFail(t *testing.T) {
	again := []string{"Retry-After-Ms", "1"}
	for name, c := range map[string]struct {
		first    []func(http.ResponseWriter, *http.Request)
		more     string
		want     string // "" means that it succeeds in the end
		requests int32
	}{
		"429, then well":   {first: []func(http.ResponseWriter, *http.Request){answers(429, `{"error":"slow down"}`, again...)}, requests: 2},
		"500, then well":   {first: []func(http.ResponseWriter, *http.Request){answers(500, `{"error":"oops"}`, again...), answers(503, ``, again...)}, requests: 3},
		"500 for ever":     {first: slices.Repeat([]func(http.ResponseWriter, *http.Request){answers(500, `{"error":"oops"}`, again...)}, 9), want: "The model small failed: the provider has a problem", requests: 3},
		"429 for long":     {first: []func(http.ResponseWriter, *http.Request){answers(429, `{"error":"slow down"}`, "Retry-After", "3600")}, want: "The model small failed: the provider takes no more requests for now, and wants to be left alone for 1h0m0s", requests: 1},
		"401":              {first: []func(http.ResponseWriter, *http.Request){answers(401, `{"error":"no"}`)}, want: "The model small failed: the provider refuses the key", requests: 1},
		"a redirect":       {first: []func(http.ResponseWriter, *http.Request){answers(302, ``, "Location", "http://example.com/")}, want: "The model small failed: the provider answers with a redirect", requests: 1},
		"too few":          {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[1,2,3]}]}`)}, want: "The model small failed: the answer has 1 vectors for 2 texts", requests: 1},
		"one twice":        {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`)}, want: "The model small failed: the answer has index 0, or has it twice", requests: 1},
		"lengths differ":   {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`)}, want: "The model small failed: one vector has 2 numbers, and 1 were expected", requests: 1},
		"other dimensions": {more: `,"dimensions":4`, want: "The model small failed: one vector has 3 numbers, and 4 were expected", requests: 1},
		"empty vectors":    {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`)}, want: "The model small failed: one vector has 0 numbers", requests: 1},
		"not numbers":      {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[null]},{"index":1,"embedding":["a"]}]}`)}, want: "The model small failed: the answer isn't", requests: 1},
		"NaN":              {first: slices.Repeat([]func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[NaN]},{"index":1,"embedding":[1]}]}`)}, 9), more: `,"retries":0`, want: "The model small failed: an event isn't JSON", requests: 1},
		"huge":             {first: []func(http.ResponseWriter, *http.Request){answers(200, `{"data":[{"index":0,"embedding":[`+strings.Repeat("1,", 9<<20)+`1]}]}`)}, more: `,"retries":0`, want: "The model small failed: an event isn't JSON", requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveEmbeddings(t, c.first...)
			m := s.embedder(t, c.more)
			vectors, err := m.Embed(t.Context(), []string{"a", "bc"})
			switch {
			case c.want == "" && (err != nil || len(vectors) != 2):
				t.Errorf("%v, %v", vectors, err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
			if n := s.requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if c.want == "" {
				return
			}
			if _, again := m.Embed(t.Context(), []string{"a"}); again == nil || again.Error() != err.Error() || s.requests.Load() != c.requests {
				t.Errorf("the endpoint isn't left alone after a failure: %v", again)
			}
		})
	}
}

func TestAnEndpointThatIsSlow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s := serveEmbeddings(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	m := s.embedder(t, "")
	if _, err := m.Embed(ctx, []string{"a"}); err == nil || ctx.Err() == nil {
		t.Errorf("it didn't end with its caller: %v", err)
	}
	if _, err := m.Embed(t.Context(), []string{"a"}); err != nil {
		t.Errorf("a caller that leaves counts as a failure: %v", err)
	}
}

func TestSettingsOfEmbeddings(t *testing.T) {
	for settings, want := range map[string]string{
		`{"baseUrl":"http://127.0.0.1:1/v1","model":"m"}`:                             "",
		`{"baseUrl":"ftp://x","model":"m"}`:                                           "baseUrl: expected a URL",
		`{"baseUrl":"http://127.0.0.1:1/v1"}`:                                         "model: the name of the model",
		`{"baseUrl":"http://127.0.0.1:1/v1","model":"m","key":"plain"}`:               "key: expected a string that is sealed for the host",
		`{"baseUrl":"http://127.0.0.1:1/v1","model":"m","dimensions":-1}`:             "dimensions: expected a number",
		`{"baseUrl":"http://127.0.0.1:1/v1","model":"m","dimensions":1,"other":true}`: "expected {",
		`[]`: "expected {",
	} {
		_, err := NewEmbedder(nil, []byte(settings))
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", settings, got)
		}
	}
}
