package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kernos/internal/embed/encoder"
)

// A cache keeps what the encoder said in a file, because that takes nearly all of the time.
type cache struct {
	name    string
	vectors map[string][]float32
}

type cached struct {
	Text   string
	Vector []float32
}

func openCache(name string) (*cache, error) {
	c := &cache{name: name, vectors: map[string][]float32{}}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		var entries []cached
		err := gob.NewDecoder(r).Decode(&entries)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			c.vectors[e.Text] = e.Vector
		}
	}
}

// encode encodes the texts that the cache lacks, until the time is over.
func (c *cache) encode(ctx context.Context, weights string, texts []string) error {
	var missing []string
	for _, t := range texts {
		if c.vectors[t] == nil {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	e, err := encoder.Open(weights)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	const step = 512
	began := time.Now()
	for at := 0; at < len(missing) && ctx.Err() == nil; at += step {
		part := missing[at:min(at+step, len(missing))]
		vectors, err := e.Embed(context.Background(), part)
		if err != nil {
			return err
		}
		entries := make([]cached, len(part))
		for i, t := range part {
			entries[i] = cached{t, vectors[i]}
			c.vectors[t] = vectors[i]
		}
		if err := gob.NewEncoder(f).Encode(entries); err != nil {
			return err
		}
		if at/step%10 == 9 {
			fmt.Printf("encoded %d of %d texts in %v\n", at+step, len(missing), time.Since(began).Round(time.Second))
		}
	}
	return nil
}
