package content

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// skillText is a skill of usual size.
func skillText(i int) string {
	return fmt.Sprintf(`---
name: skill-%04d
description: Extracts text and tables from documents of kind %d, fills forms and merges files. Use it when the user mentions such documents.
license: Apache-2.0
compatibility: Needs nothing but a shell
metadata:
  author: example-org
  version: "1.0"
skills:
  - ../shared/SKILL.md
tools:
  - ./scripts/run.sh
---
%s`, i, i, strings.Repeat("Read the document from its beginning to its end, and then act.\n", 40))
}

// crowd makes an agent that has many skills, and returns the paths of those.
func crowd(b *testing.B, n int) (tree, []string) {
	b.Helper()
	files := make(map[string]string, n+1)
	var agent strings.Builder
	agent.WriteString("---\nskills:\n")
	var paths []string
	for i := range n {
		name := fmt.Sprintf("skills/skill-%04d/SKILL.md", i)
		files[name] = skillText(i)
		paths = append(paths, name)
		fmt.Fprintf(&agent, "  - os://%s\n", name)
	}
	agent.WriteString("---\nYou know a lot.\n")
	files["agents/crowded.md"] = agent.String()
	t, dir := directory(b, files)
	for i := range paths {
		paths[i] = filepath.Join(dir, filepath.FromSlash(paths[i]))
	}
	return t, paths
}

// plainLoop reads files and parses their front matter on all cores, and nothing else.
func plainLoop(b *testing.B, paths []string) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(paths); i = int(next.Add(1)) - 1 {
				data, err := os.ReadFile(paths[i])
				if err != nil {
					b.Error(err)
					return
				}
				text, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n---\n"))
				var fields map[string]any
				if err := yaml.Unmarshal(text, &fields); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkHydrateThousand hydrates an agent with 1,000 skills for the first time and again,
// beside a plain loop over the same files, and reports the ratios.
func BenchmarkHydrateThousand(b *testing.B) {
	files, paths := crowd(b, 1000)
	var plain, first, again []time.Duration
	timed := func(list *[]time.Duration, times int, f func()) {
		runtime.GC()
		for range times {
			begin := time.Now()
			f()
			*list = append(*list, time.Since(begin))
		}
	}
	plainLoop(b, paths)
	for b.Loop() {
		c := New(files, nil)
		timed(&plain, 1, func() { plainLoop(b, paths) })
		timed(&first, 1, func() { c.compose(b.Context(), hydrateInput{URI: "os://agents/crowded.md"}) })
		timed(&again, 5, func() { c.compose(b.Context(), hydrateInput{URI: "os://agents/crowded.md"}) })
	}
	p, f, a := median(plain), median(first), median(again)
	b.ReportMetric(p*1000, "plain-ms")
	b.ReportMetric(f*1000, "first-ms")
	b.ReportMetric(a*1000, "again-ms")
	b.ReportMetric(f/p, "first/plain")
	b.ReportMetric(f/a, "first/again")
	b.ReportMetric(0, "ns/op")
}

// median returns the middle one of some times in seconds.
func median(list []time.Duration) float64 {
	slices.Sort(list)
	return list[len(list)/2].Seconds()
}

// BenchmarkIndex lists 2,000 skills for the first time and again.
func BenchmarkIndex(b *testing.B) {
	files, _ := crowd(b, 2000)
	index := func(c *Content) {
		out, err := c.index(b.Context(), indexInput{URI: "os://", Limit: 10000})
		if err != nil || len(out.Entries) != 2001 {
			b.Fatal(err, len(out.Entries))
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			index(New(files, nil))
		}
	})
	b.Run("warm", func(b *testing.B) {
		c := New(files, nil)
		for b.Loop() {
			index(c)
		}
	})
}

func BenchmarkFrontMatter(b *testing.B) {
	data := []byte(skillText(1))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
