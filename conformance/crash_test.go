package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/journal"
	"kernos/message"
	"kernos/store/storetest"
)

var crashes = flag.Int("crashes", storetest.Sized(5), "how often the kernel is killed")

// TestTheKernelIsKilled kills a kernel under 64 connections that set keys, each command
// with an idempotency key. Whatever was acknowledged is there and in the journal; a retry
// of any command, acknowledged or not, finds or makes it so that it has happened once.
func TestTheKernelIsKilled(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			v := &sets{engine: e, acknowledged: make(map[string]bool)}
			storetest.Victim{Work: v.work, Check: v.check, End: v.end}.Kill(t, *crashes)
		})
	}
}

const (
	connections = 64
	checkers    = 8   // connections that look at what is left
	sampled     = 500 // keys of all rounds that are looked at once more in the end
)

// sets is a workload, and what is known of it.
type sets struct {
	engine       storetest.Engine
	sent         []string        // of all rounds
	acknowledged map[string]bool // of all rounds
}

func keyedSet(id, key string) string {
	return fmt.Sprintf(`{"kind":"command","type":"Memory.Set","data":{"key":"/crash/%s","value":%q},"metadata":{"id":%q,"timestamp":1735000000000,"correlation":"crash","idempotencyKey":"once-%s"}}`,
		key, strings.Repeat(key, 20), id, key)
}

func (v *sets) work(dir string, report func(string)) error {
	w, err := openWhole(dir, around{engine: v.engine})
	if err != nil {
		return err
	}
	round := fmt.Sprint(time.Now().UnixNano())
	failed := make(chan error)
	for c := range connections {
		go func() {
			conn := w.connect()
			for n := 0; ; n++ {
				key := fmt.Sprintf("%s-%d-%d", round, c, n)
				report("sent " + key)
				answer, err := conn.ask(keyedSet("set-"+key, key))
				if err == nil && !strings.Contains(answer, `"data":{"success":true}`) {
					err = fmt.Errorf("the answer is %s", answer)
				}
				if err != nil {
					failed <- err
					return
				}
				report("done " + key)
			}
		}()
	}
	return <-failed
}

// check looks at every key of a round.
func (v *sets) check(t *testing.T, dir string, reported []string) {
	var sent []string
	for _, line := range reported {
		switch what, key, _ := strings.Cut(line, " "); what {
		case "done":
			v.acknowledged[key] = true
		default:
			sent = append(sent, key)
		}
	}
	v.look(t, dir, sent)
	v.sent = append(v.sent, sent...)
}

// end looks at keys of all rounds, which have seen all kills but those before them. Each has
// been sent again since.
func (v *sets) end(t *testing.T, dir string) {
	sample := make([]string, 0, sampled)
	for _, i := range rand.Perm(len(v.sent))[:min(sampled, len(v.sent))] {
		sample = append(sample, v.sent[i])
	}
	v.look(t, dir, sample)
	v.checkMeaning(t, dir, sample[:min(len(sample), sampled/5)])
	t.Logf("%d keys", len(v.sent))
}

// checkMeaning looks for commands that were acknowledged by what they mean, once all messages are embedded.
func (v *sets) checkMeaning(t *testing.T, dir string, keys []string) {
	w, err := openWhole(dir, around{engine: v.engine})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	search := func(id string) (found struct {
		Total, Unembedded int
		WordsOnly         string
	}) {
		got := w.query("Message.Search", `{"query":"crash key value","mode":"meaning","id":%q}`, id)
		if err := json.Unmarshal(got.Data, &found); err != nil || got.Kind != message.KindReply || found.WordsOnly != "" {
			t.Fatalf("%s: %s, %v", id, got.Data, err)
		}
		return found
	}
	for search("nothing").Unembedded > 0 {
		if err := w.journal.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		if found := search("set-" + key).Total; v.acknowledged[key] && found != 1 || found > 1 {
			t.Errorf("%s (acknowledged: %v) is found %d times by its meaning", key, v.acknowledged[key], found)
		}
	}
	if err := w.journal.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func (v *sets) look(t *testing.T, dir string, keys []string) {
	w, err := openWhole(dir, around{engine: v.engine})
	if err != nil {
		t.Errorf("after a kill: %v", err)
		return
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.journal.Check(context.Background()); err != nil {
		t.Errorf("the journal does not fit together: %v", err)
	}
	var looking sync.WaitGroup
	for c := range checkers {
		looking.Go(func() {
			conn := w.connect()
			for i := c; i < len(keys); i += checkers {
				w.checkKey(t, conn, keys[i], v.acknowledged[keys[i]])
			}
			_ = conn.in.Close()
			_, _ = io.Copy(io.Discard, conn.out) // until it has ended
		})
	}
	looking.Wait()
}

func (w *whole) checkKey(t *testing.T, conn *line, key string, acknowledged bool) {
	want := fmt.Sprintf("%q", strings.Repeat(key, 20))
	got := w.query("Memory.Get", `{"key":"/crash/%s"}`, key)
	there := failure(got) == 0
	switch {
	case acknowledged && !there:
		t.Errorf("%s was acknowledged, and is lost: %s", key, got.Data)
	case there && string(got.Data) != want:
		t.Errorf("%s is %s", key, got.Data)
	}
	if there {
		w.checkRecords(t, key, acknowledged)
	}
	answer, err := conn.ask(keyedSet("again-"+key, key))
	if err != nil || !strings.Contains(answer, `"data":{"success":true}`) {
		t.Errorf("the retry of %s: %s, %v", key, answer, err)
	}
	var kept struct{ Versions []json.RawMessage }
	past := w.query("Memory.History", `{"key":"/crash/%s"}`, key)
	if err := json.Unmarshal(past.Data, &kept); err != nil || len(kept.Versions) != 1 {
		t.Errorf("%s ran %d times: %s", key, len(kept.Versions), past.Data)
	}
}

// checkRecords looks for the records of a command that has happened: when it was sent first
// or, if a kill kept it from happening then, when it was sent again.
func (w *whole) checkRecords(t *testing.T, key string, acknowledged bool) {
	first, again := w.replies(t, "set-"+key), w.replies(t, "again-"+key)
	if first > 1 || first == 0 && (acknowledged || again == 0) {
		t.Errorf("%s has happened, and the journal has %d replies to it", key, first)
	}
	if first == 0 {
		return
	}
	if _, err := w.journal.Get(context.Background(), message.ID("set-"+key)); err != nil {
		t.Errorf("%s has happened, and the journal does not have it: %v", key, err)
	}
}

func (w *whole) replies(t *testing.T, id string) int {
	entries, _, err := w.journal.List(context.Background(), journal.Query{Filter: journal.Filter{Causation: message.ID(id), Kinds: []message.Kind{message.KindReply}}, Limit: 10})
	if err != nil {
		t.Errorf("%s: %v", id, err)
	}
	return len(entries)
}
