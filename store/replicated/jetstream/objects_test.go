package jetstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// noise returns bytes that differ from piece to piece.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(b)
	return b
}

func TestObjectsAreReadAsTheyWereWritten(t *testing.T) {
	stream := alone(t, Options{})
	objects := stream.Objects()
	theirs, err := stream.js.ObjectStore(patient(t), stream.Name())
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"empty": 0, "one": 1, "a piece": piece, "more": piece + 1, "large/3": 3*piece + 5} {
		data := noise(size)
		if n, err := objects.Put(patient(t), name, strings.NewReader(string(data))); err != nil || n != int64(size) {
			t.Fatalf("Put %s: %d, %v", name, n, err)
		}
		var got bytes.Buffer
		if err := objects.Get(patient(t), name, &got); err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("Get %s: %d bytes, %v", name, got.Len(), err)
		}
		if n, found, err := objects.Has(patient(t), name); n != int64(size) || !found || err != nil {
			t.Errorf("Has %s: %d, %t, %v", name, n, found, err)
		}
		if got, err := theirs.GetBytes(patient(t), name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the client of NATS reads %d bytes of %s, %v", len(got), name, err)
		}
	}
	var names []string
	if err := objects.Names(patient(t), "", func(name string, _ int64) bool { names = append(names, name); return true }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a piece", "empty", "large/3", "more", "one"}) {
		t.Errorf("names: %q", names)
	}
}

func TestANameKeepsItsObject(t *testing.T) {
	objects := alone(t, Options{}).Objects()
	put := func(data string) error {
		_, err := objects.Put(patient(t), "name", strings.NewReader(data))
		return err
	}
	var wait sync.WaitGroup
	for range 4 { // with the same bytes
		wait.Go(func() {
			if err := put("one"); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	wait.Wait()
	if err := put("two"); !errors.Is(err, ErrObjectExists) {
		t.Errorf("another object of the same name: %v", err)
	}
	for range 2 {
		if err := objects.Delete(patient(t), "name"); err != nil {
			t.Fatal(err)
		}
	}
	if err := objects.Get(patient(t), "name", io.Discard); !errors.Is(err, ErrNoObject) {
		t.Errorf("Get after Delete: %v", err)
	}
	if _, found, err := objects.Has(patient(t), "name"); found || err != nil {
		t.Errorf("Has after Delete: %t, %v", found, err)
	}
	if err := put("two"); err != nil {
		t.Errorf("Put after Delete: %v", err)
	}
	about, err := objects.stream.Info(patient(t), jetstream.WithSubjectFilter("$O.*.C.>"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(about.State.Subjects); n != 1 {
		t.Errorf("%d objects have pieces; want 1", n)
	}
}

func TestAnObjectThatIsDamagedIsAnError(t *testing.T) {
	objects := alone(t, Options{}).Objects()
	if _, err := objects.Put(patient(t), "name", bytes.NewReader(noise(3*piece))); err != nil {
		t.Fatal(err)
	}
	info, _, err := objects.find(patient(t), "name")
	if err != nil {
		t.Fatal(err)
	}
	first, err := objects.Next(patient(t), objects.pieces(info.NUID), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.stream.DeleteMsg(patient(t), first.Sequence); err != nil {
		t.Fatal(err)
	}
	if err := objects.Get(patient(t), "name", io.Discard); !errors.Is(err, ErrGap) {
		t.Errorf("without its first piece: %v", err)
	}
	if err := objects.stream.Purge(patient(t), jetstream.WithPurgeSubject(objects.pieces(info.NUID))); err != nil {
		t.Fatal(err)
	}
	if err := objects.Get(patient(t), "name", io.Discard); err == nil || !strings.Contains(err.Error(), "has lost the pieces") {
		t.Errorf("without its pieces: %v", err)
	}
}

func TestAReaderThatFailsLeavesNothing(t *testing.T) {
	objects := alone(t, Options{}).Objects()
	broken := io.MultiReader(bytes.NewReader(noise(2*piece)), errorReader{})
	if _, err := objects.Put(patient(t), "name", broken); !errors.Is(err, errEnough) {
		t.Errorf("Put: %v", err)
	}
	about, err := objects.stream.Info(patient(t), jetstream.WithSubjectFilter("$O.>"))
	if err != nil || len(about.State.Subjects) > 0 {
		t.Errorf("left: %v, %v", about.State.Subjects, err)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errEnough }

func TestWatchShowsTheLastMessages(t *testing.T) {
	stream := alone(t, Options{})
	put := func(node, data string) {
		last, err := stream.Last(patient(t), stream.Subject("node", node))
		if err != nil {
			t.Error(err)
		}
		if _, err := stream.Add(patient(t), rollup(stream.Subject("node", node), data), last.Sequence); err != nil {
			t.Error(err)
		}
	}
	put("a", "1")
	put("a", "2")
	put("b", "3")
	seen, ended := make(chan string), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- stream.Watch(ctx, stream.Subject("node")+".*", func(m Message) error {
			seen <- m.Subject[len(stream.Subject("node"))+1:] + string(m.Data)
			return nil
		})
	}()
	if first, second := <-seen, <-seen; first != "a2" || second != "b3" {
		t.Errorf("at first: %s, %s", first, second)
	}
	put("a", "4")
	if next := <-seen; next != "a4" {
		t.Errorf("then: %s", next)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
}
