package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"kernos/journal"
	"kernos/message"
	"kernos/store/storetest"
)

var crashes = flag.Int("crashes", storetest.Sized(8), "how often the kernel is killed")

// TestTheKernelIsKilled kills a kernel under 64 connections that set keys, each command
// with an idempotency key. Whatever was acknowledged is there and in the journal; a retry
// of any command, acknowledged or not, finds or makes it so that it has happened once.
func TestTheKernelIsKilled(t *testing.T) {
	storetest.Victim{Work: setUntilKilled, Check: checkOnce}.Kill(t, *crashes)
}

const connections = 64

func keyedSet(id, key string) string {
	return fmt.Sprintf(`{"kind":"command","type":"Memory.Set","data":{"key":"/crash/%s","value":%q},"metadata":{"id":%q,"timestamp":1735000000000,"correlation":"crash","idempotencyKey":"once-%s"}}`,
		key, strings.Repeat(key, 20), id, key)
}

func setUntilKilled(dir string, report func(string)) error {
	w, err := openWhole(dir)
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

func checkOnce(t *testing.T, dir string, reported []string) {
	w, err := openWhole(dir)
	if err != nil {
		t.Errorf("after a kill: %v", err)
		return
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := w.journal.Check(context.Background()); err != nil {
		t.Errorf("the journal does not fit together: %v", err)
	}
	done := make(map[string]bool)
	var sent []string
	for _, line := range reported {
		what, key, _ := strings.Cut(line, " ")
		if what == "done" {
			done[key] = true
			continue
		}
		sent = append(sent, key)
	}
	for _, key := range sent[max(0, len(sent)-500):] {
		w.checkKey(t, key, done[key])
	}
}

func (w *whole) checkKey(t *testing.T, key string, done bool) {
	want := fmt.Sprintf("%q", strings.Repeat(key, 20))
	got := w.query("Memory.Get", `{"key":"/crash/%s"}`, key)
	there := failure(got) == 0
	switch {
	case done && !there:
		t.Errorf("%s was acknowledged, and is lost: %s", key, got.Data)
	case there && string(got.Data) != want:
		t.Errorf("%s is %s", key, got.Data)
	}
	if there {
		entries, _, err := w.journal.List(context.Background(), journal.Query{Filter: journal.Filter{Causation: message.ID("set-" + key), Kind: message.KindReply}, Limit: 10})
		if err != nil || len(entries) != 1 {
			t.Errorf("%s has happened, and the journal has %d replies to it: %v", key, len(entries), err)
		}
		if _, err := w.journal.Get(context.Background(), message.ID("set-"+key)); err != nil {
			t.Errorf("%s has happened, and the journal does not have it: %v", key, err)
		}
	}
	conn := w.connect()
	answer, err := conn.ask(keyedSet("again-"+key, key))
	_ = conn.in.Close()
	if err != nil || !strings.Contains(answer, `"data":{"success":true}`) {
		t.Errorf("the retry of %s: %s, %v", key, answer, err)
	}
	var kept struct{ Versions []json.RawMessage }
	past := w.query("Memory.History", `{"key":"/crash/%s"}`, key)
	if err := json.Unmarshal(past.Data, &kept); err != nil || len(kept.Versions) != 1 {
		t.Errorf("%s ran %d times: %s", key, len(kept.Versions), past.Data)
	}
}
