package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"kernos/message"
	"kernos/store"
)

// promptPeer is a connection that takes answers promptly, or says that it can't.
type promptPeer struct {
	mu      sync.Mutex
	refuses bool
	sent    []string
	pushed  int // of sent
}

func (p *promptPeer) Prompts(*message.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.refuses
}

func (p *promptPeer) Prompt(send Emit, m message.Message) bool {
	if !p.Prompts(&m) {
		return false
	}
	send(m)
	return true
}

func (p *promptPeer) Push() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pushed = len(p.sent)
}

func (p *promptPeer) send(m message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, string(m.Data))
}

func (p *promptPeer) seen() (sent, pushed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent), p.pushed
}

func newPromptBox(t *testing.T) (*outbox, *promptPeer) {
	registry, err := NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	p := new(promptPeer)
	o := newOutbox(New(registry, nil), p.Push)
	o.at = p
	return o, p
}

func numbered(n int) message.Message {
	return message.Message{Kind: message.KindReply, Type: "Test.It", Data: fmt.Append(nil, n)}
}

func TestWhoeverDecidesACommitSendsWhatWaitsForIt(t *testing.T) {
	o, p := newPromptBox(t)
	warm := store.NewCommit(1) // the first one is the courier's
	o.post(p.send, numbered(0), warm)
	warm.Resolve(nil)
	for {
		o.mu.Lock()
		idle := o.idle
		o.mu.Unlock()
		if idle {
			break
		}
	}
	commits := []*store.Commit{store.NewCommit(2), store.NewCommit(3), store.NewCommit(4)}
	o.post(p.send, numbered(1), commits[0])
	o.post(p.send, numbered(2), nil) // waits behind it
	o.post(p.send, numbered(3), commits[1])
	o.post(p.send, numbered(4), commits[2])
	store.ResolveAll(commits[:2], nil)
	// It has happened when ResolveAll returns: nobody else had to wake up.
	if sent, pushed := p.seen(); sent != 4 || pushed != 4 {
		t.Errorf("%d were sent, %d pushed", sent, pushed)
	}
	commits[2].Resolve(nil)
	if sent, pushed := p.seen(); sent != 5 || pushed != 5 {
		t.Errorf("at the end %d were sent, %d pushed", sent, pushed)
	}
	if n := o.waiting.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	o.close()
}

func TestAnswersKeepTheirOrderWhoeverSendsThem(t *testing.T) {
	const count = 3000
	o, p := newPromptBox(t)
	pending := make(chan *store.Commit, count)
	var deciding sync.WaitGroup
	deciding.Go(func() {
		var together []*store.Commit
		for c := range pending {
			together = append(together, c)
			if rand.IntN(4) == 0 {
				store.ResolveAll(together, nil)
				together = nil
			}
		}
		store.ResolveAll(together, nil)
	})
	for i := range count {
		if rand.IntN(20) == 0 { // the peer does not read for a while
			p.mu.Lock()
			p.refuses = !p.refuses
			p.mu.Unlock()
		}
		if rand.IntN(3) == 0 {
			o.post(p.send, numbered(i), nil)
			continue
		}
		c := store.NewCommit(store.Revision(i + 1))
		o.post(p.send, numbered(i), c)
		pending <- c
	}
	close(pending)
	deciding.Wait()
	o.close()
	if len(p.sent) != count {
		t.Fatalf("%d of %d were sent", len(p.sent), count)
	}
	for i, got := range p.sent {
		if got != fmt.Sprint(i) {
			t.Fatalf("%s came in the place of %d", got, i)
		}
	}
}

func TestACommitThatFailsIsLeftToTheCourier(t *testing.T) {
	o, p := newPromptBox(t)
	for i := range 2 {
		c := store.NewCommit(store.Revision(i + 1))
		o.post(p.send, numbered(i), c)
		c.Resolve(errors.New("no disk"))
	}
	o.close()
	if len(p.sent) != 2 || p.sent[1] == "1" {
		t.Errorf("sent: %q", p.sent)
	}
}

// Peers that do not read must not fill the memory, however many they are.
func TestWhatWaitsForAllPeersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, err := NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		k := New(registry, nil)
		k.maxParked = 1 << 20
		const peers = 100
		reads := make(chan struct{})
		send := func(message.Message) { <-reads }
		var posting sync.WaitGroup
		boxes := make([]*outbox, peers)
		for i := range boxes {
			boxes[i] = newOutbox(k, nil)
			posting.Go(func() {
				data := make([]byte, 1000)
				for n := range 2000 {
					c := store.NewCommit(store.Revision(n + 1))
					boxes[i].post(send, message.Message{Kind: message.KindReply, Data: data}, c)
					c.Resolve(nil)
				}
			})
		}
		synctest.Wait() // nobody can go on
		if got, most := k.parked.Load(), int64(1<<20+peers*3*fewBytes); got > most {
			t.Errorf("%d bytes wait, and %d may", got, most)
		}
		close(reads)
		posting.Wait()
		for _, o := range boxes {
			o.close()
		}
		if got := k.parked.Load(); got != 0 {
			t.Errorf("at the end %d bytes wait", got)
		}
	})
}
