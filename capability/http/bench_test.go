package http_test

import (
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kernos/capability/http"
	"kernos/internal/outbound"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// BenchmarkPage fetches a page of 1 KB, by turns with a plain client and through a kernel
// as a connection does, and says how the rates compare: 1 would be no cost at all. Both have
// the same number of requests in flight.
func BenchmarkPage(b *testing.B) {
	for _, flight := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-in-flight", flight), func(b *testing.B) { benchmarkPage(b, flight) })
	}
}

func benchmarkPage(b *testing.B, flight int) {
	const turn = 200 // requests
	url := same(b, "text/html", strings.Repeat("<p>kernos</p>\n", 73))
	plain := &nethttp.Client{Transport: &nethttp.Transport{MaxIdleConnsPerHost: flight}}
	defer plain.CloseIdleConnections()
	get := func() {
		var callers sync.WaitGroup
		for range flight {
			callers.Go(func() {
				for range turn / flight {
					response, err := plain.Get(url)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.ReadAll(response.Body)
					_ = response.Body.Close()
				}
			})
		}
		callers.Wait()
	}
	w := newWorld(b, http.Options{})
	k := kernel.New(w.k.Registry(), nil) // the plain client keeps no journal
	fetch := func() {
		c := &visitor{data: json.RawMessage(`{"url":"` + url + `"}`), left: turn, places: make(chan struct{}, flight)}
		if err := connection.New(k, c, nil).Serve(b.Context()); err != nil || c.failed.Load() {
			b.Error("a fetch failed", err)
		}
	}
	var took [2]time.Duration
	for b.Loop() {
		for i, f := range []func(){get, fetch} {
			begin := time.Now()
			f()
			took[i] += time.Since(begin)
		}
	}
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "of-plain")
	b.ReportMetric(float64(took[0].Microseconds())/float64(turn*b.N), "µs/plain")
	b.ReportMetric(float64(took[1].Microseconds())/float64(turn*b.N), "µs/fetch")
}

// A visitor asks for the same again and again.
type visitor struct {
	data   json.RawMessage
	left   int
	places chan struct{} // taken by requests that are not answered
	failed atomic.Bool
}

func (c *visitor) Next() (*message.Message, kernel.Emit, error) {
	if c.left--; c.left < 0 {
		return nil, nil, io.EOF
	}
	c.places <- struct{}{}
	return &message.Message{
			Kind: message.KindCommand, Type: "Http.Fetch", Data: c.data,
			Metadata: message.Metadata{ID: message.ID(strconv.Itoa(c.left)), Timestamp: 1},
		}, func(m message.Message) {
			c.failed.CompareAndSwap(false, m.Kind != message.KindReply)
			<-c.places
		}, nil
}

func (c *visitor) Detach()                   {}
func (c *visitor) Flush()                    {}
func (c *visitor) Left(<-chan struct{}) bool { return false }

// Writable implements [connection.Source].
func (c *visitor) Writable(bool) bool { return true }

// BenchmarkLarge fetches 100 MB and says how much memory was in use at the most.
func BenchmarkLarge(b *testing.B) {
	const megabytes = 100
	w := newWorld(b, http.Options{Client: outbound.NewClient(outbound.Personal, nil)})
	url := flow(b, megabytes, true)
	b.SetBytes(megabytes << 20)
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	for b.Loop() {
		if a := w.send(b, "Http.Fetch", `{"url":"`+url+`","timeout":30000}`); a.BodyRef == nil {
			b.Fatal(a.text)
		}
	}
	close(stop)
	<-stopped
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MB")
}
