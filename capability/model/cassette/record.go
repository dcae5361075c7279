package cassette

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
)

// A Recorder is the transport of a provider whose exchanges are added to a cassette.
type Recorder struct {
	Dir       *Dir
	Name      string            // name of the cassette
	Provider  jsontext.Value    // the provider's settings without its key
	Key       []byte            // the provider's key: an exchange that has it isn't kept
	Transport http.RoundTripper // sends the requests
	Log       *slog.Logger      // gets a line for each exchange that can't be kept
}

// RoundTrip implements [http.RoundTripper].
func (r *Recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	_ = q.Body.Close()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	again := q.Clone(q.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	response, err := r.Transport.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	t := &tape{Recorder: r, from: response.Body, begun: begun, end: endCut, exchange: exchange{
		Path: q.URL.Path, Body: jsontext.Value(jsonscan.AppendCanonical(nil, body)), Status: response.StatusCode, Header: make(map[string]string),
	}}
	for _, name := range keptHeaders {
		if value := response.Header.Get(name); value != "" {
			t.exchange.Header[name] = value
		}
	}
	response.Body = t
	return response, nil
}

// A tape is the body of an answer that is recorded when it is closed.
type tape struct {
	*Recorder
	exchange exchange
	from     io.ReadCloser
	begun    time.Time
	size     int
	end      string
	dropped  bool
	once     sync.Once
}

func (t *tape) Read(into []byte) (int, error) {
	n, err := t.from.Read(into)
	if t.size += n; n > 0 && t.size <= maxTape {
		one := piece{At: time.Since(t.begun).Milliseconds(), Data: string(into[:n])}
		if !utf8.ValidString(one.Data) {
			one.Data, one.Base64 = "", slices.Clone(into[:n])
		}
		t.exchange.pieces = append(t.exchange.pieces, one)
	}
	if errors.Is(err, io.EOF) {
		t.end = endWhole
	}
	return n, err
}

func (t *tape) Close() error {
	t.once.Do(t.keep)
	return t.from.Close()
}

// Drop keeps an exchange out of its cassette. The body is that of an answer, recorded or not, and isn't closed yet.
func Drop(body io.Reader) {
	if t, ok := body.(*tape); ok {
		t.dropped = true
	}
}

// keep adds the exchange to the cassette, unless the key is in it.
func (t *tape) keep() {
	var all []byte
	for _, p := range t.exchange.pieces {
		all = append(append(all, p.Data...), p.Base64...)
	}
	if t.dropped || len(t.Key) > 0 && (bytes.Contains(all, t.Key) || bytes.Contains(t.exchange.Body, t.Key)) {
		return
	}
	if bytes.Contains(all, []byte("message_stop")) || bytes.Contains(all, []byte("[DONE]")) {
		t.end = endWhole // the reader doesn't wait for the end of the connection
	}
	t.exchange.pieces = append(t.exchange.pieces, piece{At: time.Since(t.begun).Milliseconds(), End: t.end})
	if err := t.append(); err != nil {
		t.Log.Warn("an exchange with a model isn't recorded", "cassette", t.Name, "error", err)
	}
}

// append writes the exchange to the file.
func (t *tape) append() error {
	t.Dir.mu.Lock()
	defer t.Dir.mu.Unlock()
	if err := os.MkdirAll(t.Dir.Path, 0o700); err != nil {
		return err
	}
	file := t.Dir.file(t.Name)
	var lines [][]byte
	add := func(v any) error {
		line, err := json.Marshal(v, json.Deterministic(true))
		lines = append(lines, line)
		return err
	}
	var err error
	if _, missing := os.Stat(file); errors.Is(missing, fs.ErrNotExist) {
		err = add(head{Cassette: 1, Provider: t.Provider})
	}
	if err = errors.Join(err, add(&t.exchange)); err != nil {
		return err
	}
	for i := range t.exchange.pieces {
		if err := add(&t.exchange.pieces[i]); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Join(lines, []byte("\n")), '\n'))
	return errors.Join(err, f.Close())
}
