package http_test

import (
	"context"
	"encoding/json"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/http"
	"kernos/internal/outbound"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a kernel that can fetch, and everything that may be looked at afterwards.
type world struct {
	k       *kernel.Kernel
	blobs   string
	records *recorder
}

// newWorld returns a kernel with the module. What the options leave open is for a personal
// machine.
func newWorld(t testing.TB, opts http.Options) *world {
	t.Helper()
	if opts.Client == nil {
		opts.Client = outbound.NewClient(outbound.Personal, nil)
	}
	t.Cleanup(opts.Client.CloseIdleConnections)
	w := &world{blobs: filepath.Join(t.TempDir(), "blobs"), records: new(recorder)}
	dir, err := blobs.New(w.blobs)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Blobs == nil {
		opts.Blobs = kept{dir}
	}
	w.k = kerneltest.Of(t, &kernel.Options{Recorder: w.records}, http.Module(opts))
	return w
}

// kept is a directory of blobs for all callers.
type kept struct{ *blobs.Dir }

func (k kept) PutReader(_ context.Context, r io.Reader, limit int64) (blobs.Blob, error) {
	return k.Dir.PutReader(r, limit)
}

// A recorder keeps what a journal would.
type recorder struct {
	mu   sync.Mutex
	kept strings.Builder
}

func (r *recorder) Record(one kernel.Record) {
	data, _ := kernel.Redact(one)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Write(data)
	r.kept.WriteByte('\n')
}

func (r *recorder) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	for _, one := range rs {
		r.Record(one)
	}
	return apply()
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept.String()
}

// An answer is what a fetch came to.
type answer struct {
	events []message.Message
	text   string // of the outcome's data

	Status  int
	Headers map[string]string
	Body    *string
	BodyRef *message.BlobPointer

	Code    int
	Message string
	Cause   *message.Error
}

// fetch calls Http.Fetch with input that is made JSON.
func (w *world) fetch(t testing.TB, input map[string]any) *answer {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return w.send(t, "Http.Fetch", string(data))
}

func (w *world) send(t testing.TB, typ message.Type, data string) *answer {
	t.Helper()
	a := new(answer)
	w.k.Handle(context.Background(), message.Message{
		Kind: message.KindCommand, Type: typ, Data: json.RawMessage(data), Metadata: message.Metadata{ID: "f", Timestamp: 1},
	}, func(m message.Message) {
		if !m.Kind.Answers() {
			a.events = append(a.events, m.Clone())
			return
		}
		a.text = string(m.Data)
		if m.Kind == message.KindError {
			e, err := message.ParseError(m.Data)
			if err != nil {
				t.Errorf("%v: %s", err, m.Data)
				return
			}
			a.Code, a.Message, a.Cause = e.Code, e.Message, e.Cause
			return
		}
		if err := json.Unmarshal(m.Data, a); err != nil {
			t.Errorf("%v: %s", err, m.Data)
		}
		s, _ := w.k.Registry().Lookup("Http.Fetch")
		if err := s.Output.Validate(m.Data); err != nil {
			t.Errorf("the reply does not fit its schema: %v: %s", err, a.text)
		}
		if (a.Body == nil) == (a.BodyRef == nil) {
			t.Errorf("a reply has either body or bodyRef: %.200s", a.text)
		}
	})
	return a
}

// content is the body, wherever it is.
func (a *answer) content(t testing.TB) string {
	t.Helper()
	if a.Code != 0 {
		t.Fatalf("got %s", a.text)
	}
	if a.Body != nil {
		return *a.Body
	}
	data, err := os.ReadFile(a.BodyRef.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantError fails if the answer is no error of this code with a cause that has these words.
func (a *answer) wantError(t testing.TB, code int, words string) {
	t.Helper()
	whole := a.Message
	for c := a.Cause; c != nil; c = c.Cause {
		whole += ": " + c.Message
	}
	if a.Code != code || a.Cause == nil || !strings.Contains(whole, words) {
		t.Errorf("got %.600s\nwant code %d with a cause, and %q in it", a.text, code, words)
	}
}

// files lists what is kept in the directory of blobs.
func (w *world) files(t testing.TB) (found []string) {
	t.Helper()
	err := filepath.WalkDir(w.blobs, func(path string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// serve starts a server on this machine.
func serve(t testing.TB, h nethttp.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// same is a server that gives one body.
func same(t testing.TB, contentType, body string) string {
	return serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	})
}

type in = map[string]any
