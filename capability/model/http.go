package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	nethttp "net/http"
	"strings"
	"time"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/secret"
	"kernos/internal/sse"
)

// maxSilence is how long a provider may send nothing, before and within its answer.
const maxSilence = 3 * time.Minute

var errSilent = errors.New("the provider has sent nothing for " + maxSilence.String())

// post sends a request to a provider, and gives the data of each event of its answer to take,
// which returns true when the answer is complete. The data is valid JSON, and is valid until take
// returns. An answer that isn't a stream is one event.
func (m *models) post(ctx context.Context, g *generation, a *conversation.Answer, path string, body []byte, headers func(h nethttp.Header, key string), take func(data []byte) (done bool, err error)) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.Key, err = m.open(ctx, g.provider)
	if err != nil {
		return err
	}
	q, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, g.url.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "text/event-stream")
	q.Header.Set("User-Agent", "kernos")
	headers(q.Header, string(a.Key))
	client := nethttp.Client{Transport: m.transport(g.provider, a.Key), CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error {
		return nethttp.ErrUseLastResponse // a key isn't sent on
	}}
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := client.Do(q)
	if err != nil {
		return networkFailure(ctx, err)
	}
	defer func() {
		if t, ok := response.Body.(*tape); ok && err == conversation.ErrEcho {
			t.echoed = true
		}
		_ = response.Body.Close()
	}()
	guard := guard{key: a.Key}
	if response.StatusCode != nethttp.StatusOK {
		return statusFailure(response, guard)
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxEvent))
		if err != nil {
			return networkFailure(ctx, err)
		}
		if err := guard.check(text); err != nil {
			return err
		}
		_, err = take(bytes.TrimSpace(text))
		return err
	}
	for events := sse.NewReader(response.Body, maxEvent); ; {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return errCutOff
		}
		if err != nil {
			return networkFailure(ctx, err)
		}
		silence.Reset(maxSilence)
		if len(e.Data) == 0 { // both dialects put everything into the data
			continue
		}
		if string(e.Data) == "[DONE]" {
			_, err := take(nil)
			return err
		}
		if err := guard.check(e.Data); err != nil {
			return err
		}
		if done, err := take(e.Data); done || err != nil {
			return err
		}
	}
}

// maxEvent is how many bytes one event of a provider may have.
const maxEvent = 16 << 20

// guard keeps what a provider must not send back out of everything.
type guard struct {
	key  []byte
	scan jsonscan.Scanner
}

// check checks the data of an event.
func (g *guard) check(data []byte) error {
	if len(g.key) > 0 && bytes.Contains(data, g.key) {
		return conversation.ErrEcho
	}
	if err := g.scan.Text(data); err != nil {
		return &failure{again: true, err: unreadable("an event isn't JSON: " + err.Error())}
	}
	return nil
}

// hide takes the key out of a text that people may see.
func (g *guard) hide(text string) string {
	if len(g.key) == 0 {
		return text
	}
	return secret.Opened([]string{string(g.key)}).Hide(text)
}

// open opens the key of a provider; nil if it has none.
func (m *models) open(ctx context.Context, p *provider) ([]byte, error) {
	if p.Key == "" || p.transport != nil {
		return nil, nil
	}
	if m.Open == nil {
		return nil, errNoKeyring
	}
	key, _, err := m.Open(ctx, p.Key, p.use())
	if err != nil {
		return nil, err
	}
	if len(key) < secret.MinValue || strings.ContainsFunc(string(key), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errBadKey
	}
	return key, nil
}

// withExtra returns the body of a request with the members that a provider's settings add.
func (p *provider) withExtra(body []byte) []byte {
	if len(p.Extra) == 0 {
		return body
	}
	all := jsonvalue.Members(body)
	for _, m := range jsonvalue.Members([]byte(p.Extra)) {
		all = all.Set(m.Name, m.Value)
	}
	return all.Text()
}
