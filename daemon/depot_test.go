package daemon_test

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

// copies is a depot in memory.
type copies struct{ all sync.Map }

func (c *copies) Put(_ context.Context, h blobs.Hash, r io.Reader) error {
	data, err := io.ReadAll(r)
	c.all.Store(h, data)
	return err
}

func (c *copies) Get(_ context.Context, h blobs.Hash, w io.Writer) error {
	data, ok := c.all.Load(h)
	if !ok {
		return fs.ErrNotExist
	}
	_, err := w.Write(data.([]byte))
	return err
}

// What one node has put into blobs is there for the next one, whose home is elsewhere: a value of the memory, and data that
// a pointer of the first node leads to.
func TestAnotherNodeHasTheBlobs(t *testing.T) {
	held, depot := storetest.NewMemory(), new(copies)
	node := func() *daemontest.Daemon {
		return daemontest.Serve(t, &daemon.Options{Home: t.TempDir(), Fenced: true, Depot: depot,
			OpenStore: func(string) (store.Store, error) { return held, nil }})
	}
	ask := func(d *daemontest.Daemon, kind message.Kind, what message.Type, in any) (out json.RawMessage) {
		t.Helper()
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := d.Call(t.Context(), message.Message{Kind: kind, Type: what, Data: data}, nil)
		if answer.Kind != message.KindReply {
			t.Fatalf("%s: %s", what, answer.Data)
		}
		return answer.Data
	}
	large := strings.Repeat("large ", 20_000)
	first := node()
	ask(first, message.KindCommand, "Memory.Set", map[string]any{"key": "/notes/large", "value": large})
	var hash blobs.Hash
	depot.all.Range(func(h, _ any) bool { hash = h.(blobs.Hash); return false })
	path := filepath.Join(first.Home().State(), "blobs", hash.String()[:2], hash.String())
	first.Stop()
	if err := os.RemoveAll(first.Home().Dir); err != nil { // another machine doesn't have it
		t.Fatal(err)
	}
	held = held.Crash(0)
	second := node()
	var got string
	if err := json.Unmarshal(ask(second, message.KindQuery, "Memory.Get", map[string]any{"key": "/notes/large"}), &got); err != nil || got != large {
		t.Errorf("the next node has %d bytes of %d, %v", len(got), len(large), err)
	}
	part := ask(second, message.KindQuery, "Blob.Read", map[string]any{"ref": map[string]any{"scheme": "file", "path": path}})
	if !strings.Contains(string(part), "large large") {
		t.Errorf("what the pointer leads to is %.100s", part)
	}
	ask(second, message.KindCommand, "Memory.Set", map[string]any{"key": "/notes/copy", "value": map[string]any{"scheme": "file", "path": path}})
}
