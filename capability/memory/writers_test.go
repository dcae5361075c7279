package memory

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/kernel/kerneltest"
	"kernos/message"
)

// clients is how many clients change one key at once.
const clients = 64

func together(do func(client int)) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() { do(client) })
	}
	all.Wait()
}

// What is set without a condition is set, however many clients set one key at once, and in the order in
// which each of them sends it.
func TestManyClientsSetOneKey(t *testing.T) {
	const each = 40
	w := newWorld(t, Options{Versions: clients * each})
	together(func(client int) {
		conn := kerneltest.Connect(w.kernel)
		for i := range each {
			conn.In <- kerneltest.Command(message.ID(fmt.Sprintf("%d-%d", client, i)), "Memory.Set", fmt.Sprintf(`{"key":"hot","value":[%d,%d]}`, client, i))
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		for _, m := range conn.Messages() {
			if m.Kind != message.KindReply {
				t.Errorf("%s: %s", m.Metadata.Causation, m.Data)
			}
		}
	})
	history, err := w.memory.versions("hot", 0, clients*each+1)
	if err != nil || len(history.Versions) != clients*each {
		t.Fatalf("%d versions of %d, %v", len(history.Versions), clients*each, err)
	}
	var next [clients]int
	for _, v := range slices.Backward(history.Versions) {
		var client, i int
		if _, err := fmt.Sscanf(string(v.Value), "[%d,%d]", &client, &i); err != nil {
			t.Fatalf("revision %d: %v", v.Revision, err)
		}
		if i != next[client] {
			t.Errorf("revision %d is value %d of client %d, want %d", v.Revision, i, client, next[client])
		}
		next[client] = i + 1
	}
}

// What has a condition doesn't wait until it holds.
func TestOneOfManyClientsCreatesAKey(t *testing.T) {
	w := newWorld(t, Options{})
	for round := range 20 {
		var created atomic.Int32
		together(func(client int) {
			m := w.ask("Set", fmt.Sprintf(`{"key":"k%d","value":%d,"ifRevision":0}`, round, client))
			if m.Kind == message.KindReply {
				created.Add(1)
			} else if code, text := kerneltest.ReadError(t, m); code != 409 {
				t.Errorf("%d %s", code, text)
			}
		})
		if n := created.Load(); n != 1 {
			t.Errorf("%d clients have created a key", n)
		}
	}
}
