package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// A client is what a program that watches a session makes of it.
type client struct {
	mu        sync.Mutex
	seq       uint64
	whole     []string          // texts of complete messages
	growing   map[string]string // by id
	discarded int
}

func (c *client) event(m message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var e struct {
		Seq     uint64
		ID      string
		Offset  int
		Delta   struct{ Text string }
		Message shown
		IDs     []string `json:"ids"`
	}
	if err := json.Unmarshal(m.Data, &e); err != nil {
		panic(err)
	}
	switch m.Type {
	case "Session.Appended":
		if e.Seq != c.seq+1 {
			c.whole = append(c.whole, fmt.Sprintf("GAP %d after %d", e.Seq, c.seq))
		}
		if text, grew := c.growing[e.Message.ID]; grew && !strings.HasPrefix(e.Message.Text, text) {
			c.whole = append(c.whole, "OTHER "+text)
		}
		delete(c.growing, e.Message.ID)
		c.seq = e.Seq
		c.whole = append(c.whole, e.Message.Text)
	case "Session.Streamed":
		text := c.growing[e.ID]
		if e.Offset > len(text) {
			c.whole = append(c.whole, fmt.Sprintf("HOLE at %d of %q", e.Offset, text))
			return
		}
		c.growing[e.ID] = text[:e.Offset] + e.Delta.Text
	case "Session.Discarded":
		c.discarded++
		for _, id := range e.IDs {
			delete(c.growing, id)
		}
	}
}

// watch watches a session until the function that it returns is called.
func (w *world) watch(id string, c *client) (leave func()) {
	ctx, cancel := context.WithCancel(kernel.ActFor(w.t.Context(), kernel.Sender{}))
	c.growing = make(map[string]string) // a client that comes back begins with what is there
	after := c.seq
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.callWith(ctx, "Session.Watch", fmt.Sprintf(`{"session":%q,"after":%d}`, id, after), c.event, nil)
	}()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

// A client that is cut off at any delta and comes back ends with the same bytes.
func TestAWatcherComesBack(t *testing.T) {
	deltas := []string{"Grü", "ße", " ", "an", " alle", " 😀"}
	for cut := range len(deltas) + 1 {
		test(t, fmt.Sprint(cut), func(t *testing.T, w *world) {
			id := w.create(`{}`)
			holds := make([]chan struct{}, len(deltas))
			for i := range holds {
				holds[i] = make(chan struct{})
			}
			w.slowly(deltas, holds)
			steady, cutOff := new(client), new(client)
			defer w.watch(id, steady)()
			leave := w.watch(id, cutOff)
			w.send(id, "hello")
			for i := range deltas {
				if i == cut {
					leave()
				}
				if i == cut+1 {
					leave = w.watch(id, cutOff)
				}
				close(holds[i])
				synctest.Wait()
				steady.mu.Lock()
				said := strings.Join(deltas[:i+1], "")
				for _, text := range steady.growing {
					if text != said {
						t.Errorf("the watcher has %q of %q", text, said)
					}
				}
				steady.mu.Unlock()
			}
			if cut >= len(deltas)-1 {
				leave()
				leave = w.watch(id, cutOff)
			}
			leave()
			want := "hello|" + strings.Join(deltas, "")
			for name, c := range map[string]*client{"steady": steady, "cut off": cutOff} {
				c.mu.Lock()
				if got := strings.Join(c.whole, "|"); got != want || len(c.growing) != 0 {
					t.Errorf("%s: got %q and %v", name, got, c.growing)
				}
				c.mu.Unlock()
			}
		})
	}
}

func TestWhatIsWithdrawn(t *testing.T) {
	test(t, "a provider fails and is asked again", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		c := new(client)
		leave := w.watch(id, c)
		w.scripted(answer{deltas: []string{"a", "b"}, again: true})
		w.send(id, "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		leave()
		if got := strings.Join(c.whole, "|"); got != "x|ab" || len(c.growing) != 0 || c.discarded != 1 {
			t.Errorf("got %q %v", got, c.growing)
		}
	})
	test(t, "a disconnect cancels nothing", func(t *testing.T, w *world) { // T5
		id := w.create(`{}`)
		hold := make(chan struct{})
		w.scripted(answer{deltas: []string{"so"}, hold: hold, text: " it is"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.callWith(ctx, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"x","wait":true}`, id), nil, nil)
		}()
		synctest.Wait()
		cancel()
		<-ended
		close(hold)
		synctest.Wait()
		if got := w.brief(id); got != "input=x; reply=so it is" {
			t.Errorf("got %s", got)
		}
	})
	test(t, "the journal has no texts", func(t *testing.T, w *world) {
		id := w.create(`{"system":"sesame"}`)
		w.scripted(answer{deltas: []string{"sesame"}})
		w.say(id, "sesame")
		w.must("Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"log","text":"sesame"}}`, id), nil)
		w.must("Session.Export", fmt.Sprintf(`{"session":%q}`, id), nil)
		w.must("Session.Delete", fmt.Sprintf(`{"session":%q}`, id), nil)
		appended := 0
		for _, m := range w.messages {
			if m.Type == "Session.Appended" {
				appended++
			}
			if strings.Contains(string(m.Data), "sesame") && m.Type != "Model.Generate" { // which has a brief of its own
				t.Errorf("recorded: %s %s %s", m.Kind, m.Type, m.Data)
			}
		}
		if appended != 4 {
			t.Errorf("%d messages were recorded", appended)
		}
		w.wants(404, w.callAs(nil, "Session.Get", fmt.Sprintf(`{"session":%q}`, id), nil), id)
	})
}
