// Package modeltest is for tests: a provider of language models that answers what a test wants, and
// refuses every request that a strict provider would refuse.
//
//	s := modeltest.Serve(t, modeltest.Answer{Text: "Hello."})
//	d := daemon.Open(&daemon.Options{Models: s.Models(), …})
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The dialects.
const (
	OpenAI    = "openai-chat"
	Anthropic = "anthropic-messages"
)

// Dialects are the dialects that a server speaks.
var Dialects = []string{OpenAI, Anthropic}

// A Call is a call that a model wants. Name is that of a syscall: Domain.Action.
type Call struct {
	Name string
	Args string // JSON
}

// An Answer is a model's answer to one request.
type Answer struct {
	Reasoning string
	Text      string
	Calls     []Call
	Finish    string // the dialect's reason to finish; "" means the one that fits

	Status int                 // answers with an error instead
	Header map[string]string   // headers of the answer
	Raw    string              // the whole body, instead of all above
	Cut    bool                // the connection ends before the answer does
	Hold   <-chan struct{}     // the answer ends when it is closed, or the client leaves
	Do     func(*http.Request) // is called first
}

// A Server is a provider. It gives its answers in turn, and the last one again and again.
type Server struct {
	URL string

	open atomic.Int64

	mu       sync.Mutex
	answers  []Answer
	bodies   [][]byte
	problems []string
	respond  func(dialect string, body []byte) Answer
}

// Serve starts a server, until the test ends. At its end, requests that a strict provider would
// have refused fail the test.
func Serve(t testing.TB, answers ...Answer) *Server {
	return serve(t, &Server{answers: answers})
}

// ServeFunc is Serve with answers that depend on the request.
func ServeFunc(t testing.TB, respond func(dialect string, body []byte) Answer) *Server {
	return serve(t, &Server{respond: respond})
}

func serve(t testing.TB, s *Server) *Server {
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		for _, p := range s.Problems() {
			t.Errorf("a strict provider refuses a request: %s", p)
		}
	})
	return s
}

// Models returns the settings of the models openai and anthropic, which this server answers for.
func (s *Server) Models() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for _, d := range Dialects {
		name, _, _ := strings.Cut(d, "-")
		all[name] = json.RawMessage(s.Settings(d, ""))
	}
	return all
}

// Settings returns the settings of a model that this server answers for, with more members, such as
// `"retries":0`.
func (s *Server) Settings(dialect, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"dialect":%q,"baseUrl":%q,"model":"test","maxTokens":1000%s}`, dialect, s.URL+"/v1", more)
}

// Requests returns the bodies of all requests so far.
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.bodies...)
}

// Open returns how many requests the server is answering.
func (s *Server) Open() int { return int(s.open.Load()) }

// Problems returns what a strict provider would have refused in the requests, and forgets it.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.problems
	s.problems = nil
	return p
}

// ServeHTTP answers a request in the dialect of its path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Add(-1)
	body, _ := io.ReadAll(r.Body)
	dialect := OpenAI
	if strings.HasSuffix(r.URL.Path, "/messages") {
		dialect = Anthropic
	}
	err := check(dialect, body)
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	var a Answer
	if err != nil {
		s.problems = append(s.problems, fmt.Sprintf("%v\n%s", err, body))
		a = Answer{Status: 400, Raw: fmt.Sprintf(`{"error":{"type":"invalid_request_error","message":%q}}`, err.Error())}
	} else if len(s.answers) > 0 {
		if a = s.answers[0]; len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
	}
	s.mu.Unlock()
	if err == nil && s.respond != nil {
		a = s.respond(dialect, body)
	}
	a.write(w, r, dialect)
}

func (a *Answer) write(w http.ResponseWriter, r *http.Request, dialect string) {
	if a.Do != nil {
		a.Do(r)
	}
	text := a.Raw
	if text == "" && a.Status == 0 {
		text = a.Stream(dialect)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if a.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	end := len(text)
	if a.Hold != nil || a.Cut {
		if i := strings.LastIndex(strings.TrimRight(text[:end/2+1], "\n"), "\n\n"); i > 0 {
			end = i + 2
		}
	}
	_, _ = io.WriteString(w, text[:end])
	_ = http.NewResponseController(w).Flush()
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	if a.Hold != nil {
		select {
		case <-a.Hold:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, text[end:])
	}
}
