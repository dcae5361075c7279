package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"kernos/capability/introspect"
	"kernos/capability/memory"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store/storetest"
	"kernos/transport"
)

func TestStreamAnswersEachLineInItsOwnDialect(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	in := ping("1") + askOlder("2", "Ping", `{"payload":[1]}`) + "nonsense\n" + askOlder("3", "Pong.Get", `1`) + ping("4")
	out, result := talk(t, k, strings.NewReader(in), nil)
	const want = `1 {"payload":"1"}
2 {"payload":[1]} (older)
 400
3 NOT_FOUND (older)
4 {"payload":"4"}`
	if got := testkit.Briefs(t, out); got != want {
		t.Errorf("got\n%s", got)
	}
	if result.Errors != 2 {
		t.Errorf("%d errors are counted", result.Errors)
	}
	if !strings.Contains(out[1], `"type":"response","name":"Ping"`) {
		t.Errorf("got %s", out[1])
	}
}

func TestStreamGoesOnAfterALineThatIsTooLong(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	long := ask("long", "Ping", `{"payload":"`+strings.Repeat("x", message.MaxLine)+`"}`)
	older := askOlder("older", "Ping", `{"payload":"`+strings.Repeat("x", 1<<20)+`"}`)
	fits := askOlder("fits", "Echo", `{"message":"`+strings.Repeat("x", 100_000)+`"}`)
	fits = strings.Replace(fits, `"query"`, `"command"`, 1)
	out, result := talk(t, k, strings.NewReader(long+ping("1")+older+ping("2")+fits+ping("3")), nil)
	if len(out) != 6 {
		t.Fatalf("got %d lines", len(out))
	}
	if got := testkit.Brief(t, out[0]); got != "long 413" {
		t.Errorf("got %s", out[0])
	}
	if !strings.Contains(out[0], `"message":"Message exceeds maximum line length of 16KB"`) {
		t.Errorf("got %s", out[0])
	}
	if got := testkit.Brief(t, out[2]); !strings.HasSuffix(got, " LINE_TOO_LONG (older)") || !strings.Contains(out[2], "Event exceeds maximum line length of 1MB") {
		t.Errorf("got %.200s", out[2])
	}
	if len(out[4]) < 100_000 || !strings.Contains(out[4][:100], `"response"`) {
		t.Errorf("a line of the older dialect that fits got %.200s", out[4])
	}
	for i, id := range map[int]string{1: "1", 3: "2", 5: "3"} {
		if got := testkit.Brief(t, out[i]); got != id+` {"payload":"`+id+`"}` {
			t.Errorf("got %s", got)
		}
	}
	if result.Errors != 2 {
		t.Errorf("%d errors are counted", result.Errors)
	}
}

// A line of exactly the limit is read, whatever its line end.
func TestStreamTakesLinesOfExactlyTheLimit(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	frame := strings.TrimSuffix(ask("1", "Echo", `{"message":"%"}`), "\n")
	frame = strings.Replace(frame, "query", "command", 1)
	for _, c := range []struct {
		length int
		end    string
		want   string
	}{
		{message.MaxLine, "\n", "1 413"}, // the answer is longer than the question, and there are no blobs
		{message.MaxLine, "\r\n", "1 413"},
		{message.MaxLine, "", "1 413"},
		{message.MaxLine + 1, "\n", "1 413"},
		{message.MaxLine + 1, "\r\n", "1 413"},
		{message.MaxLine + 1, "", "1 413"},
	} {
		line := strings.Replace(frame, "%", strings.Repeat("x", c.length-len(frame)+1), 1)
		out, _ := talk(t, k, strings.NewReader(line+c.end), nil)
		if got := testkit.Briefs(t, out); got != c.want {
			t.Errorf("%d bytes and %q: got %s", c.length, c.end, got)
		}
	}
}

func TestStreamPutsLinesTogether(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	in := ping("1") + "\n \r\n" + strings.TrimSuffix(ping("2"), "\n") + "\r\n" + strings.TrimSuffix(ping("ä😀"), "\n")
	const want = "1 {\"payload\":\"1\"}\n2 {\"payload\":\"2\"}\nä😀 {\"payload\":\"ä😀\"}"
	for name, r := range map[string]io.Reader{
		"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		"half by half": iotest.HalfReader(strings.NewReader(in)), "with its error": iotest.DataErrReader(strings.NewReader(in)),
	} {
		out, _ := talk(t, k, r, nil)
		if got := testkit.Briefs(t, out); got != want {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

func TestStreamOfNothingIsAnsweredWithNothing(t *testing.T) {
	for _, in := range []string{"", "\n", " \t\r\n\n"} {
		if out, result := talk(t, kerneltest.Around(t, nil, introspect.Module), strings.NewReader(in), nil); len(out) != 0 || result.Errors != 0 {
			t.Errorf("%q: got %q", in, out)
		}
	}
}

func TestStreamThatIsLenientStampsWhatHasNoMetadata(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	const in = `{"kind":"query","type":"Ping","data":{"payload":1}}` + "\n"
	if out, _ := talk(t, k, strings.NewReader(in), nil); testkit.Briefs(t, out) != " 422" {
		t.Errorf("got %s", out)
	}
	out, _ := talk(t, k, strings.NewReader(in), &transport.Options{Lenient: true})
	if len(out) != 1 || !strings.HasSuffix(testkit.Brief(t, out[0]), ` {"payload":1}`) || strings.HasPrefix(testkit.Brief(t, out[0]), " ") {
		t.Errorf("got %s", out)
	}
}

func TestStreamCountsTheErrorsThatItWrites(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	_, result := talk(t, k, strings.NewReader(ping("1")+"x\n"+ask("2", "No.Body", `1`)+ping("3")+ask("4", "Ping", `1`)), nil)
	if result.Errors != 3 {
		t.Errorf("got %d", result.Errors)
	}
}

func TestStreamReturnsTheErrorOfItsInput(t *testing.T) {
	broken := errors.New("the line is dead")
	var out strings.Builder
	_, err := transport.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), io.MultiReader(strings.NewReader(ping("1")+`{"kind":`), iotest.ErrReader(broken)), &out, nil)
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*transport.WriteError](err); ok {
		t.Error("it is taken for an error of the output")
	}
	if got := testkit.Briefs(t, lines(t, out.String())); got != `1 {"payload":"1"}` {
		t.Errorf("got %s", got)
	}
}

// brokenWriter fails after some writes.
type brokenWriter struct {
	writes int
	err    error
	began  chan struct{} // closed at the first write; or nil
	once   sync.Once
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.began != nil {
		w.once.Do(func() { close(w.began) })
	}
	if w.writes--; w.writes < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// afterWrite is an input that ends when the first write has begun, so that what follows it is
// answered by another write.
type afterWrite struct{ out *brokenWriter }

func (a afterWrite) Read([]byte) (int, error) {
	<-a.out.began
	return 0, io.EOF
}

func TestStreamReturnsTheErrorOfItsOutput(t *testing.T) {
	broken := errors.New("nothing listens")
	for _, writes := range []int{0, 1} {
		out := &brokenWriter{writes: writes, err: broken, began: make(chan struct{})}
		in := io.MultiReader(strings.NewReader(ping("1")), afterWrite{out}, strings.NewReader(ping("2")))
		_, err := transport.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), in, out, nil)
		if w, ok := errors.AsType[*transport.WriteError](err); !ok || !errors.Is(err, broken) || !errors.Is(w.Err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

// Work whose outcome can't be delivered should not go on: a producer that never
// ends would keep the kernel busy for good.
// Answers whose commits are decided together are written together, also if nothing follows the last request.
func TestStreamWritesTheAnswersOfACommitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := storetest.NewMemory()
		state.Manual()
		kept := kerneltest.NewBlobs(t)
		k := kerneltest.Of(t, &kernel.Options{Store: state, Blobs: kept}, memory.New(state, kept.Dir, nil).Module())
		var in strings.Builder
		const count = 20
		for i := range count {
			in.WriteString(strings.Replace(ask(fmt.Sprint(i), "Memory.Set", `{"key":"a","value":1}`), `"query"`, `"command"`, 1))
		}
		reading, writing := io.Pipe()
		var out writes
		ended := make(chan error, 1)
		go func() {
			_, err := transport.Serve(t.Context(), k, reading, &out, nil)
			ended <- err
		}()
		if _, err := io.WriteString(writing, in.String()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(out) > 0 {
			t.Errorf("%d writes before the commit: %q", len(out), out)
		}
		if err := state.Sync(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(out) != 1 || strings.Count(out[0], `"success":true`) != count {
			t.Errorf("%d writes: %.300q", len(out), out)
		}
		_ = writing.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// writes keeps what was written, one text for each write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestStreamStopsReadingWhenNoPeerListens(t *testing.T) {
	const all = 50_000
	in := &repeat{line: []byte(ping("1")), left: all}
	_, err := transport.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), in, &brokenWriter{err: errors.New("nothing listens")}, nil)
	if err == nil {
		t.Error("no error")
	}
	if in.left == 0 {
		t.Errorf("all %d messages were read", all)
	}
}

func TestStreamAnswersEveryRequestOnceAndInOrder(t *testing.T) {
	const n = 10_000
	var in, want strings.Builder
	for i := range n {
		fmt.Fprint(&in, ping(fmt.Sprint(i)))
		fmt.Fprintf(&want, "%d {\"payload\":\"%d\"}\n", i, i)
	}
	out, result := talk(t, kerneltest.Around(t, nil, introspect.Module), strings.NewReader(in.String()), nil)
	if got := testkit.Briefs(t, out) + "\n"; got != want.String() {
		t.Errorf("%d answers to %d messages, or not in order", len(out), n)
	}
	if result.Errors != 0 {
		t.Errorf("%d errors", result.Errors)
	}
}

type pathBlobs struct {
	kerneltest.NoBlobs
	kept [][]byte
}

func (b *pathBlobs) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	b.kept = append(b.kept, append([]byte(nil), data...))
	return message.FileBlob(fmt.Sprintf("/blobs/%d", len(b.kept))), nil
}

func TestStreamPutsWhatIsTooLargeForALineIntoABlob(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)
	syscall := raw("Test.Large", func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Event("Test.Happened", large))
		emit(m.Reply(large))
	})
	blobs := new(pathBlobs)
	in := ask("1", "Test.Large", `1`) + ping("2") + askOlder("3", "Test.Large", `1`)
	out, _ := talk(t, kerneltest.Around(t, &kernel.Options{Blobs: blobs}, introspect.Module, syscall), strings.NewReader(in), nil)
	if len(out) != 5 || len(blobs.kept) != 2 {
		t.Fatalf("got %d lines and %d blobs", len(out), len(blobs.kept))
	}
	const want = `1 {"dataRef":{"scheme":"file","path":"/blobs/1"},"size":20002,"mediaType":"application/json"}
1 {"dataRef":{"scheme":"file","path":"/blobs/2"},"size":20002,"mediaType":"application/json"}
2 {"payload":"2"}`
	if got := testkit.Briefs(t, out[:3]); got != want {
		t.Errorf("got %s", got)
	}
	if len(out[4]) < 20_000 {
		t.Errorf("the older dialect has room for %.100s", out[4])
	}

	// Without blobs the request still has one outcome.
	out, _ = talk(t, kerneltest.Around(t, nil, introspect.Module, syscall), strings.NewReader(ask("1", "Test.Large", `1`)), nil)
	outcomes := 0
	for _, l := range out {
		if strings.HasPrefix(l, `{"kind":"error"`) || strings.HasPrefix(l, `{"kind":"reply"`) {
			outcomes++
		}
	}
	if outcomes != 1 {
		t.Errorf("got %d outcomes: %.300q", outcomes, out)
	}
}

// An error may quote its caller at length, and must still fit into a line.
func TestStreamKeepsErrorsWithinALine(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module, raw("Test.Fail", func(_ context.Context, m message.Message, emit kernel.Emit) {
		long := strings.Repeat("\x01\"x", 1<<18)
		emit(m.Fail(message.Errorf(400, "%s: %w", long, message.Errorf(404, "%s", long))))
	}))
	out, _ := talk(t, k, strings.NewReader(ask("1", "Test.Fail", `1`)+askOlder("2", "Test.Fail", `1`)), nil)
	if len(out) != 2 {
		t.Fatalf("got %d lines", len(out))
	}
	if n := len(out[0]); n > message.MaxLine {
		t.Errorf("a line has %d bytes", n)
	}
	if n := len(out[1]); n > 1<<20 {
		t.Errorf("a line of the older dialect has %d bytes", n)
	}
}

// The use of an older version is flagged once per connection: with an event where the caller
// speaks the current dialect, and in the log in any case. Messages reach handlers migrated.
//
// Clauses: M24-10.2-2
func TestStreamFlagsAnOlderVersionOnce(t *testing.T) {
	version := func(line, v string) string {
		return strings.Replace(line, `"metadata":{`, `"metadata":{"schemaVersion":"`+v+`",`, 1)
	}
	for name, c := range map[string]struct {
		in     string
		events int
	}{
		"at last":        {version(ping("1"), "0.3") + ping("2"), 1},
		"from the start": {ping("1") + version(ping("2"), "0.1") + version(ping("3"), "0.1"), 1},
		"older dialect":  {askOlder("1", "Ping", `{"payload":[1]}`) + askOlder("2", "Ping", `{"payload":[1]}`), 0},
	} {
		var notes testkit.Notes
		var seen []string
		look := kerneltest.Raw("Test.Look", func(_ context.Context, m message.Message, emit kernel.Emit) {
			seen = append(seen, m.Metadata.SchemaVersion)
			emit(m.Reply(m.Data))
		})
		k := kerneltest.Around(t, &kernel.Options{Log: notes.Logger()}, introspect.Module, look)
		out, _ := talk(t, k, strings.NewReader(c.in+version(ask("look", "Test.Look", `1`), "0.1")), nil)
		events := 0
		for _, line := range out {
			if strings.Contains(line, string(kernel.DeprecatedEvent)) {
				events++
			}
		}
		if logged := strings.Count(notes.String(), "uses what is deprecated"); events != c.events || logged != 1 {
			t.Errorf("%s: %d events, %d lines in the log:\n%s", name, events, logged, strings.Join(out, "\n"))
		}
		if len(seen) != 1 || seen[0] != "0.3" {
			t.Errorf("%s: the handler got a message of version %q", name, seen)
		}
	}
}
