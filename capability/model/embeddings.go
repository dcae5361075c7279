package model

import (
	"cmp"
	"context"
	"fmt"
	nethttp "net/http"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/capability/model/conversation"
	"kernos/internal/backoff"
)

// embeddings are the settings of a model that turns texts into vectors, at a server that answers
// POST /embeddings as OpenAI does.
type embeddings struct {
	BaseURL    string `json:"baseUrl"`
	Model      string `json:"model"`
	Key        string `json:"key,omitzero"`        // sealed for the host of baseUrl
	Dimensions int    `json:"dimensions,omitzero"` // dimensions to ask for; default: those of the model
	Retries    *int   `json:"retries,omitzero"`
}

const (
	maxTexts = 64        // texts of one request
	maxInput = 128 << 10 // bytes of them

	embedRetries = 2
	embedTimeout = time.Minute // how long one request may take

	// After a failure, requests fail at once for a while, so that a search that goes by words instead
	// doesn't wait.
	firstPause, longestPause = time.Second, time.Minute
)

// An Embedder is a model of package embed behind an endpoint. It is safe for concurrent use.
type Embedder struct {
	models   *models
	provider *provider
	settings embeddings
	known    atomic.Int64 // dimensions

	mu     sync.Mutex
	pauses backoff.Backoff
	until  time.Time
	failed error
}

// NewEmbedder returns the model that settings describe, as JSON. It connects to nothing.
func NewEmbedder(o *Options, settings []byte) (*Embedder, error) {
	e := &Embedder{models: newModels(o), pauses: backoff.Backoff{First: firstPause, Longest: longestPause}}
	s := &e.settings
	if err := jsonv2.Unmarshal(settings, s, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf(`expected {"baseUrl":…,"model":…,"key"?,"dimensions"?,"retries"?}`)
	}
	if s.Dimensions < 0 || s.Dimensions > 8192 {
		return nil, fmt.Errorf("dimensions: expected a number from 1 to 8192, got %d", s.Dimensions)
	}
	e.provider = &provider{Dialect: "openai-chat", BaseURL: s.BaseURL, Model: s.Model, Key: s.Key, name: s.Model}
	return e, e.provider.check()
}

// ID implements embed.Model: HOST/MODEL, with the dimensions if they were asked for.
func (e *Embedder) ID() string {
	if e.settings.Dimensions > 0 {
		return fmt.Sprintf("%s@%d", e.provider.identity(), e.settings.Dimensions)
	}
	return e.provider.identity()
}

// Dimensions implements embed.Model. They are 0 until the server has answered, if the settings don't have them.
func (e *Embedder) Dimensions() int { return max(e.settings.Dimensions, int(e.known.Load())) }

// Embed implements embed.Model.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n, size := 0, 0
		for n < len(texts) && n < maxTexts && (n == 0 || size+len(texts[n]) <= maxInput) {
			size += len(texts[n])
			n++
		}
		some, err := e.retry(ctx, texts[:n])
		if err != nil {
			return nil, err
		}
		vectors, texts = append(vectors, some...), texts[n:]
	}
	return vectors, nil
}

// retry asks the server until it answers, or until it isn't worth asking.
func (e *Embedder) retry(ctx context.Context, texts []string) ([][]float32, error) {
	if err := e.paused(); err != nil {
		return nil, err
	}
	retries := embedRetries
	if e.settings.Retries != nil {
		retries = *e.settings.Retries
	}
	pauses := backoff.Backoff{First: time.Second / 4, Longest: 5 * time.Second, Jitter: true}
	for try := 0; ; try++ {
		vectors, err := e.ask(ctx, texts)
		if err == nil {
			e.pause(nil, 0)
			return vectors, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := failureOf(e.provider, err)
		if try >= retries || !f.again || f.wait > maxWait {
			e.pause(f.err, f.wait)
			return nil, f.err
		}
		if !f.pause(ctx, &pauses) {
			return nil, ctx.Err()
		}
	}
}

// paused returns the failure after which the server is left alone for a while.
func (e *Embedder) paused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().Before(e.until) {
		return e.failed
	}
	return nil
}

// pause leaves the server alone after a failure, for as long as it wants, and longer after each further one.
func (e *Embedder) pause(failed error, wanted time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed = failed; failed == nil {
		e.pauses.Reset()
		e.until = time.Time{}
		return
	}
	e.until = time.Now().Add(max(e.pauses.Pause(), min(wanted, longestPause)))
	e.pauses.Grow()
}

type embeddingsBody struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitzero"`
}

type embeddingsAnswer struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
}

// ask sends one request.
func (e *Embedder) ask(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	body, err := jsonv2.Marshal(embeddingsBody{e.settings.Model, texts, "float", e.settings.Dimensions})
	if err != nil {
		return nil, err
	}
	headers := func(h nethttp.Header, key string) {
		h.Set("Accept", "application/json")
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	}
	err = e.models.post(ctx, &generation{provider: e.provider}, &conversation.Answer{}, "embeddings", body, headers, func(data []byte) (bool, error) {
		vectors, err = e.read(data, len(texts))
		return true, err
	})
	return vectors, err
}

// read takes the vectors out of an answer, and refuses one that isn't whole.
func (e *Embedder) read(data []byte, texts int) ([][]float32, error) {
	var a embeddingsAnswer
	if err := jsonv2.Unmarshal(data, &a); err != nil {
		return nil, &failure{err: unreadable("the answer isn't {data: [{index, embedding}]}")}
	}
	if len(a.Data) != texts {
		return nil, &failure{err: unreadable(fmt.Sprintf("the answer has %d vectors for %d texts", len(a.Data), texts))}
	}
	vectors := make([][]float32, texts)
	dimensions := e.Dimensions()
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= texts || vectors[d.Index] != nil {
			return nil, &failure{err: unreadable(fmt.Sprintf("the answer has index %d, or has it twice", d.Index))}
		}
		dimensions = cmp.Or(dimensions, len(d.Embedding))
		if len(d.Embedding) != dimensions || dimensions == 0 || dimensions > 8192 {
			return nil, &failure{err: unreadable(fmt.Sprintf("one vector has %d numbers, and %d were expected; check model and dimensions", len(d.Embedding), dimensions))}
		}
		vectors[d.Index] = d.Embedding
	}
	e.known.Store(int64(dimensions))
	return vectors, nil
}
