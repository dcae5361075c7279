package connection_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
)

func numbered(n int) message.Message {
	return message.Message{Kind: message.KindReply, Type: "Test.It", Data: fmt.Append(nil, n), Metadata: message.Metadata{Causation: "a"}}
}

// posting serves a wire, and returns what posts to it.
func posting(t *testing.T, k *kernel.Kernel) (*kerneltest.Wire, *connection.Connection) {
	t.Helper()
	w := kerneltest.NewWire(1, 16)
	return w, w.Serve(k)
}

// O1 and O2: an answer waits for its commit, and what comes after it waits behind it.
func TestAnswersWaitForTheirCommitsInOrder(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w, c := posting(t, kerneltest.New(t, nil))
			var commits []*store.Commit
			var want []string
			for i := range 20 {
				var commit *store.Commit
				if rand.IntN(2) == 0 {
					commit = store.NewCommit(store.Revision(i + 1))
					commits = append(commits, commit)
				}
				c.Post(w.Emit, numbered(i), commit)
				want = append(want, fmt.Sprintf("a %d", i))
				for len(commits) > 0 && rand.IntN(3) == 0 {
					commits[0].Resolve(nil)
					commits = commits[1:]
				}
				if rand.IntN(4) == 0 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			if got := w.SoFar(t); len(commits) > 0 && len(got) == len(want) {
				t.Errorf("got %v before the commits", got)
			}
			store.ResolveAll(commits, nil)
			synctest.Wait()
			if got := w.SoFar(t); !slices.Equal(got, want) {
				t.Errorf("got %v", got)
			}
			if err := w.End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// O1: where a commit fails, an error is sent in the place of the outcome, and the order stays.
func TestACommitThatFailsIsAnsweredWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := posting(t, kerneltest.New(t, nil))
		commits := []*store.Commit{store.NewCommit(1), store.NewCommit(2)}
		for i, commit := range commits {
			c.Post(w.Emit, numbered(i), commit)
		}
		commits[1].Resolve(nil)
		commits[0].Resolve(errors.New("the disk is gone"))
		synctest.Wait()
		if got := w.SoFar(t); !slices.Equal(got, []string{"a 500", "a 1"}) || w.Flushed() != 2 {
			t.Errorf("got %v, %d of them written", got, w.Flushed())
		}
		if err := w.End(); err != nil {
			t.Error(err)
		}
	})
}

// A disk that hangs is not waited for, also if the answer came while the sender had nothing
// to do.
func TestACommitThatIsNeverDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := posting(t, kerneltest.New(t, nil))
		first := store.NewCommit(1)
		c.Post(w.Emit, numbered(0), first)
		first.Resolve(nil)
		synctest.Wait()
		c.Post(w.Emit, numbered(1), store.NewCommit(2))
		if err := w.End(); err != nil { // which waits
			t.Error(err)
		}
		if got := w.SoFar(t); !slices.Equal(got, []string{"a 0", "a 504"}) {
			t.Errorf("got %v", got)
		}
	})
}

// If the answers of all connections are many, because many peers do not read, each may have
// few.
func TestWhatWaitsForAllPeersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kerneltest.New(t, nil)
		k.Connections().PendingBytes.Add(maxPendingAll) // of others
		w, c := posting(t, k)
		commit := store.NewCommit(1)
		large := numbered(1)
		large.Data = make([]byte, fewPendingBytes/4)
		posted := 0
		go func() {
			for range 100 {
				c.Post(w.Emit, large, commit)
				posted++
			}
		}()
		synctest.Wait()
		if posted > 2*5 { // those that the sender has at hand, and those behind them
			t.Errorf("%d answers wait", posted)
		}
		commit.Resolve(nil)
		synctest.Wait()
		if left := k.Connections().PendingBytes.Load() - maxPendingAll; posted != 100 || left != 0 {
			t.Errorf("%d answers were taken, %d bytes are left", posted, left)
		}
		if err := w.End(); err != nil {
			t.Error(err)
		}
	})
}

// After an event that can't be sent, nothing of its call is sent but an error, although later commits succeed; other calls
// are answered.
func TestNothingFollowsALostEvent(t *testing.T) {
	var commits []*store.Commit
	k := kerneltest.New(t, nil, kerneltest.Slow(kerneltest.Raw("Test.Wait", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		c, _ := kernel.CallOf(ctx)
		for range 3 {
			commit := store.NewCommit(1)
			commits = append(commits, commit)
			c.Origin().Post(c.Send(), m.Event("Test.Happened", []byte("1")), commit)
		}
		commits[0].Resolve(errors.New("lost"))
		commits[1].Resolve(nil)
		commits[2].Resolve(nil)
		<-ctx.Done()
	})), kerneltest.Echo("Test.Echo"))
	w := kerneltest.Connect(k)
	w.In <- kerneltest.Query("wait", "Test.Wait", `{}`)
	testkit.Until(t, "the call has ended", func() bool { return len(w.Messages()) > 0 })
	w.In <- kerneltest.Query("echo", "Test.Echo", `1`)
	if err := w.End(); err != nil {
		t.Error(err)
	}
	if got := w.SoFar(t); len(got) != 2 || got[0] != "wait 500" || got[1] != "echo 1" {
		t.Errorf("the answers are %q", got)
	}
}
