package kernel_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// appender is a command that adds its data, a key and a word, to the text under the key. between is
// called when the handler has read the text, and before it stages the new one.
func appender(s store.Store, between func(ctx context.Context, word string)) kernel.Syscall {
	return kerneltest.AsCommand(kerneltest.Raw("Text.Append", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		key, word, _ := strings.Cut(strings.Trim(string(m.Data), `"`), " ")
		e, err := s.Get([]byte(key))
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		between(ctx, word)
		var b store.Batch
		b.IfRevision([]byte(key), e.Revision)
		b.Set([]byte(key), fmt.Appendf(nil, "%s%s ", e.Value, word))
		if err := kernel.Stage(ctx, &b); err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply([]byte(`true`)))
	}))
}

func text(t *testing.T, s store.Store, key string) string {
	t.Helper()
	e, err := s.Get([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(e.Value))
}

// change is a change of a key that no call makes.
func change(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	var b store.Batch
	b.Set([]byte(key), []byte(value))
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
}

// However many writers one key has, none fails, nothing is lost, and each writer's changes keep their order.
func TestManyWritersOfOneKey(t *testing.T) {
	const writers, each = 64, 40
	s := storetest.NewMemory()
	k := kerneltest.New(t, &kernel.Options{Store: s}, appender(s, func(context.Context, string) { runtime.Gosched() }))
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				m := kerneltest.Command(message.ID(fmt.Sprint(w, "-", i)), "Text.Append", fmt.Sprintf(`"mk %d-%d"`, w, i))
				if got := kerneltest.Ask(k, m); got[0].Kind != message.KindReply {
					t.Errorf("%s: %s", m.Metadata.ID, got[0].Data)
				}
			}
		})
	}
	all.Wait()
	var next [writers]int
	words := strings.Fields(text(t, s, "mk"))
	for _, word := range words {
		who, number, _ := strings.Cut(word, "-")
		w, _ := strconv.Atoi(who)
		if want := strconv.Itoa(next[w]); number != want {
			t.Errorf("change %s of writer %s came when %s was due", number, who, want)
		}
		next[w]++
	}
	if len(words) != writers*each {
		t.Errorf("%d changes of %d are there", len(words), writers*each)
	}
}

// gate holds up handlers.
type gate struct{ open, at chan struct{} }

func newGate() *gate { return &gate{open: make(chan struct{}), at: make(chan struct{})} }

func (g *gate) wait() {
	g.at <- struct{}{}
	<-g.open
}

// contended runs f in a bubble while a call that appends "first" to mk has its turn, and is held up between
// reading and writing until f lets it go on.
func contended(t *testing.T, f func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate), more ...func(store.Store) kernel.Syscall) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		first := newGate()
		syscalls := []kernel.Syscall{kerneltest.Within(time.Minute, appender(s, func(_ context.Context, word string) {
			if word == "first" {
				first.wait()
			}
		}))}
		for _, f := range more {
			syscalls = append(syscalls, f(s))
		}
		k := kerneltest.New(t, &kernel.Options{Store: s}, syscalls...)
		go kerneltest.Ask(k, kerneltest.Command("first", "Text.Append", `"mk first"`))
		<-first.at
		change(t, s, "mk", "before ")
		first.open <- struct{}{}
		<-first.at // it runs again
		f(t, k, s, first)
	})
}

func TestWritersTakeTurnsInTheirOrder(t *testing.T) {
	contended(t, func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate) {
		want := "before first"
		for i := range 20 {
			word := fmt.Sprint("w", i)
			go kerneltest.Ask(k, kerneltest.Command(message.ID(word), "Text.Append", `"mk `+word+`"`))
			synctest.Wait()
			want += " " + word
		}
		// A key may share the queue of mk by chance; a few keys don't all do.
		others := 0
		for i := range 8 {
			go kerneltest.Ask(k, kerneltest.Command(message.ID(fmt.Sprint("other", i)), "Text.Append", fmt.Sprintf(`"mother%d key"`, i)))
		}
		synctest.Wait()
		for i := range 8 {
			if text(t, s, fmt.Sprint("mother", i)) == "key" {
				others++
			}
		}
		if others < 4 {
			t.Errorf("only %d of 8 other keys don't wait", others)
		}
		if got := text(t, s, "mk"); got != "before" {
			t.Errorf("before the first writer there is %q", got)
		}
		first.open <- struct{}{}
		synctest.Wait()
		if got := text(t, s, "mk"); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestAWriterThatWaitsEndsAtItsDeadline(t *testing.T) {
	contended(t, func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := kerneltest.Outcome(ctx, k, kerneltest.Command("late", "Text.Append", `"mk late"`))
		if code, _ := kerneltest.ReadError(t, got); code != 504 || time.Since(begun) != time.Second {
			t.Errorf("%s after %v", got.Data, time.Since(begun))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		got = kerneltest.Outcome(ctx, k, kerneltest.Command("left", "Text.Append", `"mk left"`))
		if code, _ := kerneltest.ReadError(t, got); code != 499 || time.Since(begun) != 2*time.Second {
			t.Errorf("%s after %v", got.Data, time.Since(begun))
		}
		first.open <- struct{}{}
		synctest.Wait()
		if got := kerneltest.Answer(t, k, kerneltest.Command("next", "Text.Append", `"mk next"`)); got.Kind != message.KindReply {
			t.Errorf("afterwards: %s", got.Data)
		}
		if got := text(t, s, "mk"); got != "before first next" {
			t.Errorf("got %q", got)
		}
	})
}

// A handler that overstays its deadline no longer holds up others.
func TestATurnEndsWithItsCall(t *testing.T) {
	contended(t, func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate) {
		begun := time.Now()
		time.Sleep(45 * time.Second)
		got := kerneltest.Answer(t, k, kerneltest.Command("next", "Text.Append", `"mk next"`))
		if got.Kind != message.KindReply || time.Since(begun) != time.Minute {
			t.Errorf("%s after %v", got.Data, time.Since(begun))
		}
		first.open <- struct{}{}
		synctest.Wait()
		if got := text(t, s, "mk"); got != "before next" {
			t.Errorf("got %q", got)
		}
	})
}

// A handler whose second run would repeat something doesn't wait for its turn, which would be one.
func TestWhatCannotBeRepeatedIsNotQueued(t *testing.T) {
	var runs int
	acting := func(s store.Store) kernel.Syscall {
		act := appender(s, func(context.Context, string) { runs++ })
		act.Type, act.Effect = "Text.Act", kernel.External
		return act
	}
	nesting := func(s store.Store) kernel.Syscall {
		nest := appender(s, func(ctx context.Context, _ string) {
			runs++
			if _, err := kernel.Invoke(ctx, "Text.Append", []byte(`"mother nested"`)); err != nil {
				t.Error(err)
			}
		})
		nest.Type = "Text.Nest"
		return nest
	}
	contended(t, func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate) {
		for _, name := range []message.Type{"Text.Act", "Text.Nest"} {
			runs = 0
			m := kerneltest.Answer(t, k, kerneltest.Command(message.ID(name), name, `"mk `+string(name)+`"`))
			if m.Kind != message.KindReply || runs != 1 {
				t.Errorf("%s: %s after %d runs", name, m.Data, runs)
			}
		}
		first.open <- struct{}{}
		<-first.at // it was overtaken, and has its turn still
		first.open <- struct{}{}
		synctest.Wait()
		if got := text(t, s, "mk"); got != "before Text.Act Text.Nest first" {
			t.Errorf("got %q", got)
		}
	}, acting, nesting)
}

func TestUpdateTakesItsTurn(t *testing.T) {
	contended(t, func(t *testing.T, k *kernel.Kernel, s store.Store, first *gate) {
		update := func(ctx context.Context, word string) error {
			_, err := k.Update(ctx, func(b *store.Batch) error {
				e, err := s.Get([]byte("mk"))
				b.IfRevision([]byte("mk"), e.Revision)
				b.Set([]byte("mk"), fmt.Appendf(nil, "%s%s ", e.Value, word))
				return err
			})
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := update(ctx, "late"); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		go func() {
			if err := update(t.Context(), "second"); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go kerneltest.Ask(k, kerneltest.Command("third", "Text.Append", `"mk third"`))
		synctest.Wait()
		first.open <- struct{}{}
		synctest.Wait()
		if got := text(t, s, "mk"); got != "before first second third" {
			t.Errorf("got %q", got)
		}
	})
}

// Calls that have a turn and call each other's keys don't wait for each other.
func TestNestedWritersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		gates := map[string]*gate{"a": newGate(), "b": newGate()}
		k := kerneltest.New(t, &kernel.Options{Store: s}, appender(s, func(ctx context.Context, word string) {
			g := gates[word]
			if g == nil {
				return
			}
			again := text(t, s, "m"+word) != ""
			if g.wait(); again {
				other := map[string]string{"a": `"mb nested"`, "b": `"ma nested"`}[word]
				if _, err := kernel.Invoke(ctx, "Text.Append", []byte(other)); err != nil {
					t.Error(err)
				}
			}
		}))
		outcomes := make(chan message.Message, 2)
		for word, g := range gates {
			go func() {
				outcomes <- kerneltest.Answer(t, k, kerneltest.Command(message.ID(word), "Text.Append", fmt.Sprintf(`"m%s %s"`, word, word)))
			}()
			<-g.at
			change(t, s, "m"+word, "before ")
			g.open <- struct{}{}
			<-g.at // it has its turn now
		}
		begun := time.Now()
		for _, g := range gates {
			g.open <- struct{}{}
		}
		<-outcomes
		<-outcomes
		if took := time.Since(begun); took != 0 {
			t.Errorf("they waited for %v", took)
		}
		for _, key := range []string{"ma", "mb"} {
			if got := text(t, s, key); !strings.Contains(got, "nested") {
				t.Errorf("%s is %q", key, got)
			}
		}
	})
}
