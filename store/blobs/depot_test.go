package blobs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// A depot is a [Depot] in memory.
type depot struct {
	mu     sync.Mutex
	copies map[Hash]string
	gets   int
	fail   error
	hold   chan struct{} // unless nil, a Get waits until hold is closed
}

func (d *depot) Put(_ context.Context, h Hash, r io.Reader) error {
	data, err := io.ReadAll(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.copies == nil {
		d.copies = make(map[Hash]string)
	}
	if err == nil && d.fail == nil {
		d.copies[h] = string(data)
	}
	return errors.Join(err, d.fail)
}

func (d *depot) Get(_ context.Context, h Hash, w io.Writer) error {
	d.mu.Lock()
	d.gets++
	data, ok := d.copies[h]
	fail, hold := d.fail, d.hold
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if fail != nil {
		return fail
	}
	if !ok {
		return fs.ErrNotExist
	}
	_, err := io.WriteString(w, data)
	return err
}

func (d *depot) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gets
}

// node returns a directory of blobs on another machine of a cluster.
func node(t *testing.T, d Depot) *Dir {
	t.Helper()
	dir, err := New(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	if d != nil {
		dir.SetDepot(d)
	}
	return dir
}

// A blob has a name when the depot has it, and another node fetches it when it is first needed, in each way to read it.
func TestABlobIsFetchedByAnotherNode(t *testing.T) {
	d := new(depot)
	first := node(t, d)
	put := func(data string) (h Hash) {
		t.Helper()
		blob, err := first.Put([]byte(data))
		if err != nil || d.copies[blob.Hash] != data {
			t.Fatalf("the depot has %q, %v", d.copies[blob.Hash], err)
		}
		return blob.Hash
	}
	streamed, err := first.PutReader(strings.NewReader("streamed"), 100)
	if err != nil || d.copies[streamed.Hash] != "streamed" {
		t.Fatalf("the depot has %q, %v", d.copies[streamed.Hash], err)
	}
	second := node(t, d)
	opened, err := second.Open(put("opened"))
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := io.ReadAll(opened); string(data) != "opened" {
		t.Errorf("Open gives %q", data)
	}
	_ = opened.Close()
	for range 2 {
		if data, err := second.Read(streamed.Hash); err != nil || string(data) != "streamed" {
			t.Errorf("Read gives %q, %v", data, err)
		}
	}
	if there := second.Keep([]Hash{put("kept"), Sum([]byte("nowhere"))}); len(there) != 1 {
		t.Errorf("%d blobs are kept", len(there))
	}
	for _, path := range []string{first.Path(put("resolved")), second.Path(put("by path"))} {
		for _, confined := range []bool{true, false} {
			r := &Resolver{Dir: second, Confined: confined, Private: []string{filepath.Dir(second.Root())}}
			moved := filepath.Join("/elsewhere", strings.TrimPrefix(path, filepath.Dir(first.Root()))) // as if the other node were on another machine
			for _, p := range []string{path, moved} {
				if !strings.HasPrefix(p, "/elsewhere/blobs/") && !strings.HasPrefix(p, second.Root()) {
					continue
				}
				if data, err := r.Resolve(t.Context(), message.FileBlob(p)); err != nil || len(data) < 7 {
					t.Errorf("%s resolves to %q, %v", p, data, err)
				}
			}
		}
	}
	if d.asked() != 6 { // once each; nowhere is asked for, too
		t.Errorf("the depot was asked %d times", d.asked())
	}
}

// A blob isn't named if the depot doesn't take it.
func TestABlobIsNotNamedBeforeTheDepotHasIt(t *testing.T) {
	d := &depot{fail: errors.New("no quorum")}
	dir := node(t, d)
	_, err := dir.Put([]byte("data"))
	if e, _ := message.ErrorOf(err); e == nil || e.Code != 503 {
		t.Errorf("Put fails with %v", err)
	}
	if _, err := dir.PutReader(strings.NewReader("data"), 10); err == nil {
		t.Error("PutReader does not fail")
	}
	d.fail = nil
	if blob, err := dir.Put([]byte("data")); err != nil || d.copies[blob.Hash] != "data" {
		t.Errorf("a second Put fails with %v", err)
	}
}

// What a node has from the time before it had a depot goes there.
func TestShareAll(t *testing.T) {
	dir := node(t, nil)
	blob, err := dir.Put([]byte("early"))
	if err != nil {
		t.Fatal(err)
	}
	d := new(depot)
	dir.SetDepot(d)
	if err := dir.ShareAll(t.Context()); err != nil || d.copies[blob.Hash] != "early" {
		t.Errorf("the depot has %q, %v", d.copies[blob.Hash], err)
	}
}

// A blob that is nowhere doesn't exist; what can't be fetched now is a 503, and a damaged copy isn't taken.
func TestFetchesThatFail(t *testing.T) {
	d := &depot{copies: map[Hash]string{Sum([]byte("data")): "dates"}}
	dir := node(t, d)
	if _, err := dir.Open(Sum([]byte("nowhere"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a blob that is nowhere fails with %v", err)
	}
	if _, err := dir.Read(Sum([]byte("data"))); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged copy fails with %v", err)
	}
	d.fail = errors.New("no quorum")
	_, err := dir.Open(Sum([]byte("data")))
	if e, _ := message.ErrorOf(err); e == nil || e.Code != 503 {
		t.Errorf("without servers it fails with %v", err)
	}
	if left, _ := os.ReadDir(dir.Root()); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Many callers that need a blob fetch it once.
func TestABlobIsFetchedOnce(t *testing.T) {
	d := &depot{hold: make(chan struct{})}
	blob, err := node(t, d).Put([]byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	dir := node(t, d)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if data, err := dir.Read(blob.Hash); err != nil || string(data) != "data" {
				t.Errorf("it is %q, %v", data, err)
			}
		})
	}
	testkit.Until(t, "it is asked for", func() bool { return d.asked() > 0 })
	close(d.hold)
	callers.Wait()
	if d.asked() != 1 {
		t.Errorf("it was fetched %d times", d.asked())
	}
}
