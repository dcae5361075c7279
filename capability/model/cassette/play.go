// Package cassette keeps exchanges with providers of language models in files, and plays them: tests and demonstrations
// get the answers of a model without the model.
//
// A cassette is a file of JSON lines: first the provider, without its key, then exchanges. An
// exchange is the line of its request, with the status and the header of the answer, followed by a
// line for each piece of the answer as it came from the network, and a line with its end.
package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// head is the first line of a cassette.
type head struct {
	Cassette int            `json:"cassette"` // the version of the form
	Provider jsontext.Value `json:"provider"`
}

// exchange is the line of a request.
type exchange struct {
	Path   string            `json:"path"`
	Body   jsontext.Value    `json:"body"` // canonical JSON
	Status int               `json:"status"`
	Header map[string]string `json:"header"`

	pieces []piece
}

// piece is a line with a piece of an answer.
type piece struct {
	At     int64  `json:"at"` // milliseconds after the request
	Data   string `json:"data,omitzero"`
	Base64 []byte `json:"base64,omitzero"` // used in place of data, if that isn't UTF-8
	End    string `json:"end,omitzero"`    // in the last piece: whole, or cut if the connection ended before
}

const (
	endWhole = "whole"
	endCut   = "cut"
)

// keptHeaders are the headers that decide how an answer is read.
var keptHeaders = []string{"Content-Type", "Retry-After", "Retry-After-Ms"}

// maxTape is how many bytes of an answer are recorded.
const maxTape = 64 << 20

// A Dir is a directory of cassettes. It is safe for concurrent use.
type Dir struct {
	Path string // "" means that there are none

	mu      sync.Mutex
	players map[string]*player
}

func (d *Dir) file(name string) string { return filepath.Join(d.Path, name+".jsonl") }

// A player plays a cassette. Answers to the same request are given in the order in which they were
// recorded, and the last one again and again.
type player struct {
	name      string
	provider  jsontext.Value
	exchanges []exchange
	changed   time.Time

	mu     sync.Mutex
	played map[string]int
}

// Play returns the settings of the provider that a cassette was recorded from, and the transport that plays the
// cassette. The pace is how fast it plays: 1 is as it was recorded, and 0 is at once.
func (d *Dir) Play(name string, pace float64) (provider jsontext.Value, plays http.RoundTripper, err error) {
	p, err := d.player(name)
	if err != nil {
		return nil, nil, err
	}
	return p.provider, &playing{player: p, pace: pace}, nil
}

// player returns what plays a cassette, which is read again when it has changed.
func (d *Dir) player(name string) (*player, error) {
	file := d.file(name)
	info, err := os.Stat(file)
	if err != nil || d.Path == "" {
		return nil, fmt.Errorf("there is no cassette %s in %s; a model with the setting record makes one", name, d.Path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.players[name]; known != nil && known.changed.Equal(info.ModTime()) {
		return known, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := readCassette(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p.name, p.changed = name, info.ModTime()
	if d.players == nil {
		d.players = make(map[string]*player)
	}
	d.players[name] = p
	return p, nil
}

func readCassette(text []byte) (*player, error) {
	p := &player{played: make(map[string]int)}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var err error
		switch {
		case p.provider == nil:
			h := head{}
			if err = json.Unmarshal(line, &h); err == nil && (h.Provider == nil || h.Cassette != 1) {
				err = errors.New("expected {\"cassette\":1,\"provider\":{…}}")
			}
			p.provider = h.Provider
		case jsonscan.Member(line, "path") != nil:
			var e exchange
			err = json.Unmarshal(line, &e)
			e.Body = jsontext.Value(jsonscan.AppendCanonical(nil, e.Body))
			p.exchanges = append(p.exchanges, e)
		case len(p.exchanges) == 0:
			err = errors.New("expected a request")
		default:
			var one piece
			err = json.Unmarshal(line, &one)
			last := &p.exchanges[len(p.exchanges)-1]
			last.pieces = append(last.pieces, one)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if p.provider == nil {
		return nil, errors.New("it is empty")
	}
	return p, nil
}

// playing is the transport of a provider that plays a cassette.
type playing struct {
	*player
	pace float64
}

// RoundTrip implements [http.RoundTripper].
func (p *playing) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	_ = q.Body.Close()
	if err != nil {
		return nil, err
	}
	sent := jsonscan.AppendCanonical(nil, body)
	var found []*exchange
	for i := range p.exchanges {
		if e := &p.exchanges[i]; e.Path == q.URL.Path && bytes.Equal(e.Body, sent) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil, p.mismatch(q.URL.Path, sent)
	}
	p.mu.Lock()
	key := q.URL.Path + string(sent)
	e := found[min(p.played[key], len(found)-1)]
	p.played[key]++
	p.mu.Unlock()
	header := make(http.Header)
	for name, value := range e.Header {
		header.Set(name, value)
	}
	return &http.Response{
		StatusCode: e.Status, Header: header, Request: q, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Body: &playedBody{ctx: q.Context(), pieces: e.pieces, pace: p.pace, begun: time.Now()},
	}, nil
}

// playedBody is an answer as it came.
type playedBody struct {
	ctx    context.Context
	pieces []piece
	rest   []byte
	pace   float64
	begun  time.Time
}

func (b *playedBody) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		if len(b.pieces) == 0 || b.pieces[0].End == endCut {
			return 0, io.ErrUnexpectedEOF
		}
		next := b.pieces[0]
		if next.End != "" {
			return 0, io.EOF
		}
		if b.pace > 0 {
			at := b.begun.Add(time.Duration(float64(next.At) / b.pace * float64(time.Millisecond)))
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-b.ctx.Done():
				return 0, b.ctx.Err()
			}
		}
		b.pieces = b.pieces[1:]
		if b.rest = next.Base64; b.rest == nil {
			b.rest = []byte(next.Data)
		}
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *playedBody) Close() error { return nil }

// mismatch returns the error for a request that wasn't recorded. It describes how the request differs
// from the most similar recorded one.
func (p *player) mismatch(path string, sent []byte) error {
	e := message.Errorf(404, "The cassette %s has no answer to this request", p.name)
	var nearest []string
	for i := range p.exchanges {
		if p.exchanges[i].Path != path {
			continue
		}
		if d := differences("", p.exchanges[i].Body, sent); nearest == nil || len(d) < len(nearest) {
			nearest = d
		}
	}
	if nearest == nil {
		e.Cause = message.Errorf(404, "No request to %s was recorded", message.Clip(path, 100))
	} else {
		most := min(len(nearest), 8)
		text := strings.Join(nearest[:most], "; ")
		if more := len(nearest) - most; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		e.Cause = message.Errorf(404, "It differs from the nearest one that was recorded: %s", text)
	}
	return e
}

// differences lists in what one JSON text differs from another.
func differences(at string, was, is jsontext.Value) (all []string) {
	if bytes.Equal(was, is) {
		return nil
	}
	show := func(v jsontext.Value) string {
		if v == nil {
			return "nothing"
		}
		return message.Clip(string(v), 80)
	}
	switch {
	case was == nil || is == nil || was.Kind() != is.Kind():
	case is.Kind() == '{':
		old, now := jsonvalue.Members([]byte(was)), jsonvalue.Members([]byte(is))
		for _, m := range old {
			all = append(all, differences(at+"/"+m.Name, jsontext.Value(m.Value), jsontext.Value(now.Get(m.Name)))...)
		}
		for _, m := range now {
			if !old.Has(m.Name) {
				all = append(all, differences(at+"/"+m.Name, nil, jsontext.Value(m.Value))...)
			}
		}
		return all
	case is.Kind() == '[':
		old, now := jsonvalue.Elements([]byte(was)), jsonvalue.Elements([]byte(is))
		for i := range max(len(old), len(now)) {
			var a, b jsontext.Value
			if i < len(old) {
				a = jsontext.Value(old[i])
			}
			if i < len(now) {
				b = jsontext.Value(now[i])
			}
			all = append(all, differences(fmt.Sprintf("%s/%d", at, i), a, b)...)
		}
		return all
	}
	return []string{fmt.Sprintf("%s: recorded %s, sent %s", at, show(was), show(is))}
}
