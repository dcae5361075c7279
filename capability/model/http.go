package model

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	nethttp "net/http"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/capability/model/cassette"
	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/internal/sse"
	"kernos/message"
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
	transport, err := m.transport(g.provider, a.Key)
	if err != nil {
		return err
	}
	client := nethttp.Client{Transport: transport, CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error {
		return nethttp.ErrUseLastResponse // a key isn't sent on
	}}
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := client.Do(q)
	if err != nil {
		return networkFailure(ctx, err, "before the provider had answered")
	}
	defer func() {
		if err == conversation.ErrEcho {
			cassette.Drop(response.Body)
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
			return networkFailure(ctx, err, "in the middle of the answer")
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
			return networkFailure(ctx, err, "in the middle of the answer")
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

// transport returns what sends the requests of a provider: the network, what plays a cassette, or
// what records one.
func (m *models) transport(p *provider, key []byte) (nethttp.RoundTripper, error) {
	if p.transport != nil {
		return p.transport, nil
	}
	if p.Record == "" || m.Cassettes == "" {
		return m.Client.Transport, nil
	}
	kept := *p
	kept.Key, kept.Record, kept.Retries = "", "", nil
	settings, err := jsonv2.Marshal(&kept, jsonv2.Deterministic(true))
	return &cassette.Recorder{Dir: &m.cassettes, Name: p.Record, Provider: settings, Key: key, Transport: m.Client.Transport, Log: m.Log.With("model", p.name)}, err
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
	key = sealed.Line(key)
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

// networkFailure returns the failure of a request that got no whole answer. The phase is where it failed.
func networkFailure(ctx context.Context, err error, phase string) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return &failure{again: true, err: message.Errorf(504, "The provider has sent nothing for %v", maxSilence)}
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if refused, ok := errors.AsType[*outbound.Refused](err); ok {
		return &failure{err: message.Errorf(403, "The policy for connections refuses %s", refused.Error())}
	}
	if errors.Is(err, sse.ErrTooLong) || errors.As(err, new(*message.Error)) {
		return err
	}
	code, words := outbound.Explain(err, "provider", phase)
	words = message.Clip(cmp.Or(words, "The provider can't be reached"), 300)
	text := err.Error()
	var outer interface{ Unwrap() error }
	if errors.As(err, &outer) && outer.Unwrap() != nil {
		text = outer.Unwrap().Error() // leaves out the method and the URL
	}
	cause := message.Errorf(code, "%s", message.Clip(text, 300))
	return &failure{again: !outbound.IsUntrusted(err), err: &message.Error{Code: code, Message: words, Cause: cause}}
}

// statusFailure returns the failure of a request that was answered with an error.
func statusFailure(r *nethttp.Response, g guard) error {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	words, kind := errorText(text)
	f := saidFailure(r.StatusCode, g.hide(words), kind)
	f.wait = retryAfter(r.Header)
	return f
}

// retryAfter returns how long a provider wants to be left alone.
func retryAfter(h nethttp.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := nethttp.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
