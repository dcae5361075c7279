package kernel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/storetest"
)

// wild compares a text with a pattern in which $ stands for anything.
func wild(pattern, s string) bool {
	head, tail, any := strings.Cut(pattern, "$")
	if !any {
		return s == pattern
	}
	return strings.HasPrefix(s, head) && strings.HasSuffix(s, tail) && len(s) >= len(head)+len(tail)
}

func keyed(id message.ID, t message.Type, data, key string) message.Message {
	m := kerneltest.Command(id, t, data)
	m.Metadata.IdempotencyKey = key
	return m
}

func TestTheSameKeyRunsOnce(t *testing.T) {
	s := storetest.NewMemory()
	k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s), kerneltest.AsCommand(kerneltest.Echo("Test.Echo")))
	first := kerneltest.Ask(k, keyed("a", "Counter.Add", `{"n": 1}`, "k1"))
	again := kerneltest.Ask(k, keyed("b", "Counter.Add", `{"n":1}`, "k1"))
	if string(first[0].Data) != "1" || string(again[0].Data) != "1" {
		t.Errorf("%s, then %s", first[0].Data, again[0].Data)
	}
	if again[0].Metadata.Causation != "b" || again[0].Metadata.ID == first[0].Metadata.ID {
		t.Errorf("the second answer is not one to the second message: %+v", again[0].Metadata)
	}
	for _, m := range []message.Message{keyed("c", "Counter.Add", `{"n":2}`, "k1"), keyed("d", "Test.Echo", `{"n":1}`, "k1")} {
		if got := kerneltest.Ask(k, m); got[0].Err == nil || got[0].Err.Code != 422 {
			t.Errorf("another command with the same key: %s", got[0].Data)
		}
	}
	if got := kerneltest.Ask(k, keyed("e", "Counter.Add", `{"n":1}`, "k2")); string(got[0].Data) != "2" {
		t.Errorf("another key: %s", got[0].Data)
	}
	// Across a crash, and in another kernel.
	s = s.Crash(0)
	k = kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
	if got := kerneltest.Ask(k, keyed("f", "Counter.Add", `{"n":1}`, "k1")); string(got[0].Data) != "1" {
		t.Errorf("after a crash: %s", got[0].Data)
	}
}

// The same data is the same command, however its sender happens to write it this time.
func TestTheSpellingOfTheDataDoesNotCount(t *testing.T) {
	s := storetest.NewMemory()
	k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
	kerneltest.Ask(k, keyed("a", "Counter.Add", `{"a":{"x":1,"y":[1,2]},"b":"é/"}`, "k"))
	for _, data := range []string{
		`{"b":"é/","a":{"y":[1,2],"x":1}}`, `{"\u0061":{"x":1.0,"y":[10e-1,2]},"b":"\u00e9\/"}`, ` { "a" : { "x" : 1 , "y" : [ 1 , 2 ] } , "b" : "é/" } `,
	} {
		if got := kerneltest.Ask(k, keyed("b", "Counter.Add", data, "k")); string(got[0].Data) != "1" {
			t.Errorf("%s got %s", data, got[0].Data)
		}
	}
	for _, data := range []string{`{"a":{"x":1,"y":[2,1]},"b":"é/"}`, `{"a":{"x":1,"y":[1,2]},"b":"é/","c":null}`, `{"a":{"x":"1","y":[1,2]},"b":"é/"}`} {
		if got := kerneltest.Ask(k, keyed("c", "Counter.Add", data, "k")); got[0].Err == nil || got[0].Err.Code != 422 {
			t.Errorf("%s got %s", data, got[0].Data)
		}
	}
}

func TestQueriesIgnoreTheKey(t *testing.T) {
	s := storetest.NewMemory()
	n := 0
	k := kerneltest.New(t, &kernel.Options{Store: s}, kerneltest.Raw("Test.Count", func(_ context.Context, m message.Message, emit kernel.Emit) {
		n++
		emit(m.Reply([]byte(fmt.Sprint(n))))
	}))
	for _, kind := range []message.Kind{message.KindQuery, message.KindQuery, message.KindCommand} {
		m := keyed("a", "Test.Count", `0`, "k")
		m.Kind = kind
		kerneltest.Ask(k, m)
	}
	if n != 3 {
		t.Errorf("ran %d times, want 3", n)
	}
}

// A message of kind command is remembered, whatever its syscall is.
func TestAQueryThatIsSentAsACommandRunsOnce(t *testing.T) {
	runs := 0
	k := kerneltest.New(t, &kernel.Options{Store: storetest.NewMemory()}, kerneltest.Raw("Test.Look", func(_ context.Context, m message.Message, emit kernel.Emit) {
		runs++
		emit(m.Reply(fmt.Appendf(nil, "%d", runs)))
	}))
	for range 2 {
		if got := kerneltest.Answer(t, k, keyed("a", "Test.Look", `0`, "k")); string(got.Data) != "1" {
			t.Errorf("got %s", got.Data)
		}
	}
}

func TestWhoComesWhileTheFirstRunsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		var ran atomic.Int64
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{Store: s}, kerneltest.Slow(kerneltest.AsCommand(kerneltest.Raw("Test.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
			n := ran.Add(1)
			<-release
			emit(m.Reply([]byte(fmt.Sprint(n))))
		}))))
		one, two := kerneltest.Connect(k), kerneltest.Connect(k)
		one.In <- keyed("a", "Test.Wait", `0`, "k")
		synctest.Wait()
		two.In <- keyed("b", "Test.Wait", `0`, "k")
		two.In <- keyed("c", "Test.Wait", `9`, "k")
		synctest.Wait()
		if got := two.Messages(); len(got) != 1 || got[0].Metadata.Causation != "c" || got[0].Err.Code != 422 {
			t.Errorf("other data at the same time: %v", got)
		}
		close(release)
		if err := one.End(); err != nil {
			t.Error(err)
		}
		if err := two.End(); err != nil {
			t.Error(err)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
		if got := two.Messages(); len(got) != 2 || string(got[1].Data) != "1" {
			t.Errorf("got %v", got)
		}
	})
}

func TestWhoWaitsForTheFirstHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{Store: s, Timeout: time.Minute}, kerneltest.Slow(kerneltest.AsCommand(kerneltest.Raw("Test.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
			<-release
			emit(m.Reply([]byte(`1`)))
		}))))
		conn := kerneltest.Connect(k)
		conn.In <- keyed("a", "Test.Wait", `0`, "k")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var got []message.Message
		k.Handle(ctx, keyed("b", "Test.Wait", `0`, "k"), func(m message.Message) { got = append(got, m) })
		if len(got) != 1 || got[0].Err == nil || got[0].Err.Code != 504 {
			t.Errorf("got %v", got)
		}
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// What would be the same again is an outcome; what failed otherwise runs again.
//
// Clauses: M24-4.2.1-1
func TestErrorsOfTheCallerAreRememberedAndThoseOfTheKernelAreNot(t *testing.T) {
	for _, c := range []struct {
		code int
		runs int64
	}{{404, 1}, {409, 1}, {422, 1}, {500, 2}, {503, 2}, {504, 2}, {499, 2}, {429, 2}} {
		s := storetest.NewMemory()
		var ran atomic.Int64
		sys := kerneltest.AsCommand(kerneltest.Raw("Test.Fail", func(_ context.Context, m message.Message, emit kernel.Emit) {
			ran.Add(1)
			emit(m.Fail(message.Errorf(c.code, "no, %d", ran.Load())))
		}))
		k := kerneltest.New(t, &kernel.Options{Store: s}, sys)
		first := kerneltest.Ask(k, keyed("a", "Test.Fail", `0`, "k"))
		again := kerneltest.Ask(k, keyed("b", "Test.Fail", `0`, "k"))
		if ran.Load() != c.runs {
			t.Errorf("%d: ran %d times, want %d", c.code, ran.Load(), c.runs)
		}
		if c.runs == 1 && string(first[0].Data) != string(again[0].Data) {
			t.Errorf("%d: %s, then %s", c.code, first[0].Data, again[0].Data)
		}
	}
}

// Effect and outcome are one batch: whatever a crash leaves, the command has either
// happened, and the retry gets its outcome, or it has not, and the retry does it.
//
// Clauses: M24-4.2.1-1
func TestACrashBetweenEffectAndReply(t *testing.T) {
	for keep := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := storetest.NewMemory()
			s.Manual()
			k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
			conn := kerneltest.Connect(k)
			conn.In <- keyed("a", "Counter.Add", `0`, "k")
			synctest.Wait()
			after := s.Crash(keep)
			k2 := kerneltest.New(t, &kernel.Options{Store: after}, counter(after))
			retry := kerneltest.Connect(k2)
			retry.In <- keyed("b", "Counter.Add", `0`, "k")
			synctest.Wait()
			_ = after.Sync()
			_ = retry.End()
			if got := retry.SoFar(t); !slices.Equal(got, []string{"b 1"}) {
				t.Errorf("keep %d: the retry got %v", keep, got)
			}
			if e, _ := after.Get([]byte("mcount")); string(e.Value) != "1" {
				t.Errorf("keep %d: ran twice: %s", keep, e.Value)
			}
			_ = s.Sync()
			if err := conn.End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first outcome is visible before it is durable; the retry must not be told before.
func TestARetryWaitsForTheFirstCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
		one, two := kerneltest.Connect(k), kerneltest.Connect(k)
		one.In <- keyed("a", "Counter.Add", `0`, "k")
		synctest.Wait()
		two.In <- keyed("b", "Counter.Add", `0`, "k")
		synctest.Wait()
		if got := two.Messages(); len(got) != 0 {
			t.Errorf("told before it is durable: %v", got)
		}
		_ = s.Sync()
		_ = one.End()
		_ = two.End()
		if got := two.SoFar(t); !slices.Equal(got, []string{"b 1"}) {
			t.Errorf("got %v", got)
		}
	})
}

// Outcomes are kept for the time that was set, and not longer.
//
// Clauses: M24-4.2.1-1 M24-10.3-1
func TestOutcomesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		k := kerneltest.New(t, &kernel.Options{Store: s, IdempotencyTTL: time.Hour}, counter(s))
		kerneltest.Ask(k, keyed("a", "Counter.Add", `0`, "k"))
		time.Sleep(59 * time.Minute)
		if got := kerneltest.Ask(k, keyed("b", "Counter.Add", `0`, "k")); string(got[0].Data) != "1" {
			t.Errorf("within its time: %s", got[0].Data)
		}
		time.Sleep(2 * time.Minute)
		if got := kerneltest.Ask(k, keyed("c", "Counter.Add", `1`, "k")); string(got[0].Data) != "2" {
			t.Errorf("after its time: %s", got[0].Data)
		}
		if n, err := k.Sweep(context.Background(), time.Now()); err != nil || n != 0 {
			t.Errorf("swept %d, %v: the key is in use again", n, err)
		}
		time.Sleep(2 * time.Hour)
		if n, err := k.Sweep(context.Background(), time.Now()); err != nil || n != 1 {
			t.Errorf("swept %d, %v", n, err)
		}
		for e := range s.Scan(store.Prefix([]byte{store.SpaceIdempotency})) {
			if string(e.Key) != "is" { // the key of fingerprints
				t.Errorf("%q is left", e.Key)
			}
		}
	})
}

func TestAKeyNeedsAStore(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.AsCommand(kerneltest.Echo("Test.Echo")))
	if got := kerneltest.Ask(k, keyed("a", "Test.Echo", `0`, "k")); got[0].Err == nil || got[0].Err.Code != 503 {
		t.Errorf("got %s", got[0].Data)
	}
	s := storetest.NewMemory()
	s.Fail(func(string) error { return store.Errorf(503, nil, "in use by another") })
	k = kerneltest.New(t, &kernel.Options{Store: s}, kerneltest.AsCommand(kerneltest.Echo("Test.Echo")))
	if got := kerneltest.Ask(k, keyed("a", "Test.Echo", `0`, "k")); got[0].Err == nil || got[0].Err.Code != 503 || !strings.Contains(got[0].Err.Message, "another") {
		t.Errorf("got %s", got[0].Data)
	}
}

func TestSecretsAreNotKeptWithAnOutcome(t *testing.T) {
	s := storetest.NewMemory()
	secret, err := schema.Parse([]byte(`{"type":"object","properties":{"pin":{"type":"string","writeOnly":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	sys := kerneltest.AsCommand(kerneltest.Raw("Test.Secret", func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply([]byte(`{"pin":"hunter2"}`)))
	}))
	sys.Input, sys.Output = secret, secret
	k := kerneltest.New(t, &kernel.Options{Store: s}, sys)
	if got := kerneltest.Ask(k, keyed("a", "Test.Secret", `{"pin":"hunter1"}`, "k")); string(got[0].Data) != `{"pin":"hunter2"}` {
		t.Errorf("got %s", got[0].Data)
	}
	if got := kerneltest.Ask(k, keyed("b", "Test.Secret", `{"pin":"hunter1"}`, "k")); got[0].Kind != message.KindReply || string(got[0].Data) != `{"pin":"[redacted]"}` {
		t.Errorf("the retry got %s", got[0].Data)
	}
	// Another secret is another command, although no secret is kept.
	if got := kerneltest.Ask(k, keyed("c", "Test.Secret", `{"pin":"hunter3"}`, "k")); got[0].Err == nil || got[0].Err.Code != 422 {
		t.Errorf("with another secret, the retry got %s", got[0].Data)
	}
	for e := range s.Scan(store.Range{}) {
		if strings.Contains(string(e.Value), "hunter") {
			t.Errorf("%q holds %q", e.Key, e.Value)
		}
	}
}

func TestALargeOutcomeIsKeptWithoutItsSecrets(t *testing.T) {
	large := strings.Repeat("x", message.MaxLine)
	for _, c := range []struct {
		name, pin, reply, again string
		blobs                   *memoryBlobs
	}{
		{"as a blob", "hunter2", `{"cookie":"hunter2","page":"` + large + `"}`, `{"dataRef":{"scheme":"file","path":"/blobs/1"},"size":16417,"mediaType":"application/json"}`, new(memoryBlobs)},
		{"small without them", "hunter2" + large, `{"cookie":"hunter2` + large + `"}`, `{"cookie":"[redacted]"}`, new(memoryBlobs)},
		{"where no blob can be", "hunter2", `{"cookie":"hunter2","page":"` + large + `"}`, `{"cookie":"[redacted]","page":"` + large + `"}`, &memoryBlobs{err: store.Errorf(507, nil, "full")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := storetest.NewMemory()
			var log testkit.Notes
			sys := kerneltest.AsCommand(kerneltest.Raw("Test.Large", func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(c.reply))) }))
			sys.Input = parsed(t, `{"properties":{"pin":{"writeOnly":true}}}`)
			asked := `{"pin":"` + c.pin + `"}`
			k := kerneltest.New(t, &kernel.Options{Store: s, Blobs: c.blobs, Log: log.Logger()}, sys)
			if got := kerneltest.Ask(k, keyed("a", "Test.Large", asked, "k")); string(got[0].Data) != c.reply {
				t.Errorf("got %.100s", got[0].Data)
			}
			got := kerneltest.Ask(k, keyed("b", "Test.Large", asked, "k"))
			if got[0].Kind != message.KindReply || string(got[0].Data) != c.again {
				t.Errorf("the retry got the %s %.100s", got[0].Kind, got[0].Data)
			}
			if strings.Contains(strings.Join(c.blobs.kept, ""), "hunter2") {
				t.Errorf("a blob holds the secret")
			}
		})
	}
}

// A retry gets what the first call got, also if a part of it has the name of a credential and no schema marks it.
func TestWhatSoundsLikeACredentialIsKeptWithAnOutcome(t *testing.T) {
	for _, page := range []string{"a page", strings.Repeat("x", message.MaxLine)} {
		data := `{"key":"bank password","value":"hunter2","headers":{"Cookie":"hunter3"},"page":"` + page + `"}`
		blobs := new(memoryBlobs)
		rec := new(discreet)
		k := kerneltest.New(t, &kernel.Options{Store: storetest.NewMemory(), Blobs: blobs, Recorder: rec}, kerneltest.AsCommand(kerneltest.Echo("Test.Echo")))
		kerneltest.Ask(k, keyed("a", "Test.Echo", data, "k"))
		again := string(kerneltest.Ask(k, keyed("b", "Test.Echo", data, "k"))[0].Data)
		if len(blobs.kept) > 0 {
			again = blobs.kept[len(blobs.kept)-1]
		}
		if again != data {
			t.Errorf("the retry got %.200s", again)
		}
		for _, line := range rec.all {
			if strings.Contains(line, "hunter") {
				t.Errorf("recorded %.200s", line)
			}
		}
	}
}

// What a sweep takes away while a command runs must not keep the command from its outcome.
func TestASweepMayOvertakeACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		var k *kernel.Kernel
		runs := 0
		k = kerneltest.New(t, &kernel.Options{Store: s, IdempotencyTTL: time.Hour}, kerneltest.AsCommand(kerneltest.Raw("Test.Slow", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			if runs++; runs == 2 {
				if _, err := k.Sweep(ctx, time.Now()); err != nil {
					t.Error(err)
				}
			}
			emit(m.Reply(fmt.Append(nil, runs)))
		})))
		kerneltest.Ask(k, keyed("a", "Test.Slow", `0`, "k"))
		time.Sleep(2 * time.Hour)
		if got := kerneltest.Ask(k, keyed("b", "Test.Slow", `0`, "k")); len(got) != 1 || got[0].Kind != message.KindReply {
			t.Errorf("got %v", kerneltest.Texts(got))
		}
		if got := kerneltest.Ask(k, keyed("c", "Test.Slow", `0`, "k")); len(got) != 1 || string(got[0].Data) != "3" {
			t.Errorf("the retry got %v", kerneltest.Texts(got))
		}
	})
}

// A command that always loses is answered, and may be tried again with its key.
func TestACommandThatAlwaysLosesMayBeTriedAgain(t *testing.T) {
	s := storetest.NewMemory()
	lose := true
	k := kerneltest.New(t, &kernel.Options{Store: s}, kerneltest.AsCommand(kerneltest.Raw("Test.Lose", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var b store.Batch
		if lose {
			b.IfRevision([]byte("mnever"), 99)
		}
		b.Set([]byte("mx"), []byte("1"))
		_ = kernel.Stage(ctx, &b)
		emit(m.Reply([]byte(`1`)))
	})))
	if got := kerneltest.Ask(k, keyed("a", "Test.Lose", `0`, "k")); len(got) != 1 || got[0].Err == nil || got[0].Err.Code != 503 {
		t.Errorf("got %v", kerneltest.Texts(got))
	}
	lose = false
	if got := kerneltest.Ask(k, keyed("b", "Test.Lose", `0`, "k")); len(got) != 1 || got[0].Kind != message.KindReply {
		t.Errorf("the retry got %v", kerneltest.Texts(got))
	}
}

// A store that hangs must not keep a call from its deadline, nor its connection from the
// next message.
func TestAStoreThatHangsKeepsNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Memory: storetest.NewMemory(), release: make(chan struct{})}
		k := kerneltest.New(t, &kernel.Options{Store: s, Timeout: time.Second}, counter(s), kerneltest.Echo("Test.Echo"))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Command("a", "Counter.Add", `0`)
		conn.In <- kerneltest.Query("b", "Test.Echo", `1`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := conn.SoFar(t); !slices.Equal(got, []string{"a 504", "b 1"}) {
			t.Errorf("got %v", got)
		}
		close(s.release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := conn.SoFar(t); len(got) != 2 {
			t.Errorf("and then %v", got)
		}
	})
}

// hanging is a store in which Apply takes its time.
type hanging struct {
	*storetest.Memory
	release chan struct{}
}

func (h *hanging) Apply(b *store.Batch) (*store.Commit, error) {
	<-h.release
	return h.Memory.Apply(b)
}
