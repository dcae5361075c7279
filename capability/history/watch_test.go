package history

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

// A caller that asks for a number that retention has dropped is told, and gets what there is.
func TestAWatchTellsWhatIsDropped(t *testing.T) {
	j := shop(t)
	j.dropped = journal.Dropped{Messages: 7, Seq: 7}
	k := kerneltest.Of(t, nil, Module(j, nil))
	for data, want := range map[string]string{
		`{"from":3,"limit":1}`: `Message.Missed {"from":3,"to":7,"count":5}; Message.Recorded 8; {"next":9,"messages":1}`,
		`{"from":7,"limit":1}`: `Message.Missed {"from":7,"to":7,"count":1}; Message.Recorded 8; {"next":9,"messages":1}`,
		`{"from":8,"limit":1}`: `Message.Recorded 8; {"next":9,"messages":1}`,
	} {
		events, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", data))
		if got := inBrief(t, events, got); got != want {
			t.Errorf("%s: %s", data, got)
		}
	}
}

// A watch is told several patterns as a list, or with commas.
func TestAWatchOfSeveralTypes(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	for _, types := range []string{`["Stock.Reserved","*.Ran"]`, `"Stock.Reserved,*.Ran"`} {
		events, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", `{"after":0,"limit":2,"type":`+types+`}`))
		if got := inBrief(t, events, got); got != `Message.Recorded 4; Message.Recorded 11; {"next":12,"messages":2}` {
			t.Errorf("%s: %s", types, got)
		}
	}
}

// inBrief says of the events of a watch what matters.
func inBrief(t testing.TB, events []message.Message, outcome message.Message) string {
	t.Helper()
	var all []string
	for _, m := range events {
		if m.Type == recordedEvent {
			var e struct{ Seq uint64 }
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s %d", m.Type, e.Seq))
			continue
		}
		all = append(all, fmt.Sprintf("%s %s", m.Type, m.Data))
	}
	return strings.Join(append(all, answered(outcome)), "; ")
}

// scriptedJournal follows with steps of its own.
type scriptedJournal struct {
	memoryJournal
	steps []waiting
	read  chan struct{} // the subscriber closes it with the first step
	put   chan struct{} // closed when all steps are taken
}

func newScripted(steps ...waiting) *scriptedJournal {
	return &scriptedJournal{steps: steps, read: make(chan struct{}), put: make(chan struct{})}
}

func (j *scriptedJournal) Follow(ctx context.Context, _ uint64, _ journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for i, s := range j.steps {
			if !yield(s.entry, s.err) {
				return
			}
			if i == 0 {
				<-j.read
			}
		}
		close(j.put)
		<-ctx.Done()
		yield(journal.Entry{}, ctx.Err())
	}
}

// step is a message with a number.
func step(t testing.TB, seq uint64) waiting {
	e := entry(t, 1000, kernel.In, said("event", "Test.Happened", `1`, fmt.Sprintf("e%d", seq)))
	e.Seq = seq
	return waiting{entry: e}
}

func TestAWatchGoesOnBehindAGap(t *testing.T) {
	j := newScripted(step(t, 1), waiting{err: &journal.Missed{From: 2, To: 9}}, step(t, 11))
	close(j.read)
	events, got := kerneltest.Exchange(kerneltest.Of(t, nil, Module(j, nil)), kerneltest.Query("ask", "Message.Watch", `{"after":0,"limit":2}`))
	want := `Message.Recorded 1; Message.Missed {"from":2,"to":9,"count":8}; Message.Recorded 11; {"next":12,"messages":2}`
	if got := inBrief(t, events, got); got != want {
		t.Errorf("got %s", got)
	}
}

// What does not fit into the buffer of a subscriber who does not read is left out, the
// oldest first, and told as one gap with what was dropped among it.
func TestABufferLeavesOutTheOldest(t *testing.T) {
	for _, c := range []struct {
		steps []waiting
		want  string
	}{
		{[]waiting{step(t, 1), step(t, 2), step(t, 4), step(t, 6), step(t, 8), step(t, 9)},
			`Message.Recorded 1; Message.Missed {"from":2,"to":6,"count":3}; Message.Recorded 8; Message.Recorded 9; {"next":10,"messages":3}`},
		{[]waiting{step(t, 1), step(t, 2), {err: &journal.Missed{From: 3, To: 12}}, step(t, 14), step(t, 15)},
			`Message.Recorded 1; Message.Missed {"from":2,"to":12,"count":11}; Message.Recorded 14; Message.Recorded 15; {"next":16,"messages":3}`},
		{[]waiting{step(t, 1), step(t, 2), step(t, 3)},
			`Message.Recorded 1; Message.Recorded 2; Message.Recorded 3; {"next":4,"messages":3}`},
	} {
		j := newScripted(c.steps...)
		k := kerneltest.Of(t, nil, Module(j, nil))
		var events []message.Message
		var outcome message.Message
		m := message.Message{Kind: message.KindQuery, Type: "Message.Watch", Data: json.RawMessage(`{"after":0,"limit":3,"buffer":2}`), Metadata: message.Metadata{ID: "w", Timestamp: 1}}
		first := true
		k.Handle(t.Context(), m, func(m message.Message) {
			if m.Kind.Answers() {
				outcome = m
				return
			}
			events = append(events, m)
			if first { // the subscriber is stuck with the first one
				first = false
				close(j.read)
				<-j.put
			}
		})
		if got := inBrief(t, events, outcome); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestABufferIsBoundedInBytes(t *testing.T) {
	b := newBuffer(100)
	for seq := range uint64(5) {
		w := step(t, seq+1)
		w.entry.Message.Data = make([]byte, 6<<20)
		b.put(w)
	}
	b.put(waiting{err: context.Canceled})
	b.end()
	var got []string
	for {
		w, ok := b.take()
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(w.entry.Seq, w.err))
	}
	if want := "[0 the messages from 1 to 3 are left out 4 <nil> 5 <nil> 0 context canceled]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
	if b.bytes != 0 {
		t.Errorf("%d bytes are left", b.bytes)
	}
}

// A subscriber that is slower than those who write gets everything in order, or is told what
// it does not get; nothing comes twice.
func TestASlowWatchUnderAFlood(t *testing.T) {
	for _, buffer := range []int{0, 1, 16} {
		k := recordingKernel(t, nil)
		const writers, each = 4, 300
		var flood sync.WaitGroup
		for w := range writers {
			flood.Go(func() {
				for i := range each {
					m := message.Message{Kind: message.KindEvent, Type: "Test.Happened", Data: fmt.Appendf(nil, "%d", i)}
					m.Metadata = message.Metadata{ID: message.ID(fmt.Sprintf("w%d-%d", w, i)), Timestamp: 1}
					k.Handle(t.Context(), m, func(message.Message) {})
				}
			})
		}
		data := `{"after":0,"type":"Test.*"`
		if buffer > 0 {
			data += fmt.Sprintf(`,"buffer":%d`, buffer)
		}
		m := message.Message{Kind: message.KindQuery, Type: "Message.Watch", Data: json.RawMessage(data + "}"), Metadata: message.Metadata{ID: "watch", Timestamp: 1}}
		ctx, cancel := context.WithCancel(t.Context())
		var last uint64
		seen, missed, gaps := 0, 0, 0
		k.Handle(ctx, m, func(m message.Message) {
			if m.Kind.Answers() {
				return
			}
			var e struct{ Seq, From, To, Count uint64 }
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Error(err)
			}
			switch m.Type {
			case recordedEvent:
				if e.Seq <= last {
					t.Errorf("%d after %d", e.Seq, last)
				}
				last = e.Seq
				seen++
			case missedEvent:
				if e.From <= last || e.To < e.From || e.Count > e.To-e.From+1 || buffer == 0 {
					t.Errorf("missed %+v after %d", e, last)
				}
				last = e.To
				missed += int(e.Count)
				gaps++
			}
			if seen == 1 {
				flood.Wait() // so slow
			}
			if seen+missed == writers*each {
				cancel()
			}
		})
		cancel()
		flood.Wait()
		if seen+missed != writers*each {
			t.Errorf("buffer %d: %d seen and %d missed of %d", buffer, seen, missed, writers*each)
		}
		if (buffer > 0) != (gaps > 0) {
			t.Errorf("buffer %d: %d gaps", buffer, gaps)
		}
	}
}

// When the kernel stops, a watch ends with a reply that says where to go on.
func TestAWatchEndsWithTheKernel(t *testing.T) {
	for _, input := range []string{`{"after":0}`, `{"after":0,"buffer":100}`} {
		k := kerneltest.Of(t, nil, Module(shop(t), nil))
		in, send := io.Pipe()
		receive, out := io.Pipe()
		served := make(chan error, 1)
		go func() {
			_, err := transport.Serve(t.Context(), k, in, out, nil)
			_ = out.Close()
			served <- err
		}()
		if _, err := fmt.Fprintf(send, `{"kind":"query","type":"Message.Watch","data":%s,"metadata":{"id":"w","timestamp":1}}`+"\n", input); err != nil {
			t.Fatal(err)
		}
		lines := json.NewDecoder(receive)
		var kinds []string
		var data json.RawMessage
		for !slices.Contains(kinds, "reply") && !slices.Contains(kinds, "error") {
			var m struct {
				Kind string
				Data json.RawMessage
			}
			if err := lines.Decode(&m); err != nil {
				t.Fatal(err)
			}
			kinds, data = append(kinds, m.Kind), m.Data
			if len(kinds) == 12 {
				k.Stop()
			}
		}
		if string(data) != `{"next":13,"messages":12}` {
			t.Errorf("%s ended with %s after %d events", input, data, len(kinds)-1)
		}
		_ = send.Close()
		_, _ = io.Copy(io.Discard, receive)
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
