package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"kernos/internal/embed"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/vectors"
)

const (
	nearestVectors = 100_000
	nearestQueries = 200
	nearestLimit   = 10
)

// nearest prints how many of the ten nearest glosses of WordNet an index finds, and how long that takes, beside a loop over all vectors
// in memory.
func nearest(out io.Writer) error {
	texts, err := wordNetGlosses()
	if err != nil {
		return err
	}
	if len(texts) < nearestVectors+nearestQueries {
		return fmt.Errorf("WordNet has %d glosses only", len(texts))
	}
	ctx, model := context.Background(), embed.English()
	all, err := model.Embed(ctx, texts[:nearestVectors])
	if err != nil {
		return err
	}
	queries, err := model.Embed(ctx, texts[nearestVectors:nearestVectors+nearestQueries])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kernos-nearest-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	x := vectors.NewIndex(s, []byte("v"), model.Dimensions(), vectors.NewCache(1<<30, time.Hour))
	for at := 0; at < len(all); at += 1000 {
		var b store.Batch
		for i, v := range all[at : at+1000] {
			if err := x.Add(&b, uint64(at+i+1), v); err != nil {
				return err
			}
		}
		if _, err := s.Apply(&b); err != nil {
			return err
		}
	}
	if err := x.Pack(ctx); err != nil {
		return err
	}
	var byIndex, byLoop []time.Duration
	found := 0
	for _, q := range queries {
		begun := time.Now()
		want := nearestByLoop(all, q)
		byLoop = append(byLoop, time.Since(begun))
		begun = time.Now()
		got, err := x.Search(ctx, vectors.Query{Vector: q, Limit: nearestLimit})
		byIndex = append(byIndex, time.Since(begun))
		if err != nil {
			return err
		}
		for _, hit := range got {
			if slices.Contains(want, hit.ID) {
				found++
			}
		}
	}
	slices.Sort(byIndex)
	slices.Sort(byLoop)
	index, loop := byIndex[nearestQueries/2], byLoop[nearestQueries/2]
	_, err = fmt.Fprintf(out, "the ten nearest of %d vectors: the index finds %.3f of them in %v at the median, a loop over all takes %v, %.1f times as long\n",
		nearestVectors, float64(found)/(nearestLimit*nearestQueries), index.Round(time.Microsecond), loop.Round(time.Microsecond), float64(loop)/float64(index))
	return err
}

const (
	besideMessages = 200_000
	besideRounds   = 7
)

// besideEmbedding prints what embedding messages in the background costs the one who records them: rounds with and without it, in turns.
func besideEmbedding(out io.Writer) error {
	texts, err := wordNetGlosses()
	if err != nil {
		return err
	}
	var rates, work []float64
	for range besideRounds {
		without, err := recordAlone(texts, nil)
		if err != nil {
			return err
		}
		with, err := recordAlone(texts, []embed.Model{embed.English()})
		if err != nil {
			return err
		}
		rates, work = append(rates, float64(without.wall)/float64(with.wall)), append(work, float64(with.cpu)/float64(without.cpu))
	}
	slices.Sort(rates)
	slices.Sort(work)
	_, err = fmt.Fprintf(out, "recording %d messages while they are embedded, at the median of %d rounds: %.2f of the rate without (%.2f to %.2f), %.2f of the CPU time\n",
		besideMessages, besideRounds, rates[besideRounds/2], rates[0], rates[besideRounds-1], work[besideRounds/2])
	return err
}

type recording struct{ wall, cpu time.Duration }

// recordAlone records messages in a new journal.
func recordAlone(texts []string, models []embed.Model) (r recording, err error) {
	dir, err := os.MkdirTemp("", "kernos-beside-*")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return r, err
	}
	defer s.Close()
	j := journal.New(s, &journal.Options{Models: models, Vectors: vectors.NewCache(1<<26, time.Minute)})
	begun, used := time.Now(), cpuTime()
	for i := range besideMessages {
		j.Record(kernel.Record{Way: kernel.Out, Message: &message.Message{
			Kind: message.KindEvent, Type: "Note.Added", Data: fmt.Appendf(nil, `{"text":%q}`, texts[i%len(texts)]),
			Metadata: message.Metadata{ID: message.ID(messageID(i)), Timestamp: 1775000000000 + int64(i)},
		}})
	}
	err = j.Sync(context.Background())
	r = recording{time.Since(begun), cpuTime() - used}
	return r, errors.Join(err, j.Close())
}

// nearestByLoop returns the ids of the vectors with the greatest dot products.
func nearestByLoop(all [][]float32, query []float32) []uint64 {
	type scored struct {
		id    uint64
		score float32
	}
	best := make([]scored, 0, nearestLimit+1)
	for i, v := range all {
		var sum float32
		v = v[:len(query)]
		for j, q := range query {
			sum += q * v[j]
		}
		if len(best) == nearestLimit && sum <= best[nearestLimit-1].score {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, sum, func(s scored, sum float32) int {
			if s.score >= sum {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, scored{uint64(i + 1), sum})
		best = best[:min(len(best), nearestLimit)]
	}
	ids := make([]uint64, len(best))
	for i, s := range best {
		ids[i] = s.id
	}
	return ids
}

// wordNetGlosses returns the glosses of WordNet, those of all kinds of words mixed.
func wordNetGlosses() ([]string, error) {
	data, err := npmFiles(wordNet, "dict/data.noun", "dict/data.verb", "dict/data.adj", "dict/data.adv")
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, part := range data {
		for line := range strings.Lines(string(part)) {
			if _, gloss, ok := strings.Cut(line, " | "); ok && !strings.HasPrefix(line, " ") {
				texts = append(texts, strings.TrimSpace(gloss))
			}
		}
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	mixed := make([]string, 0, len(texts))
	for start := range 97 {
		for i := start; i < len(texts); i += 97 {
			mixed = append(mixed, texts[i])
		}
	}
	return mixed, nil
}
