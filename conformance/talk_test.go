package conformance

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store/blobdir"
	"kernos/transport"
	"kernos/transport/stdio"
)

var update = flag.Bool("update", false, "write what the kernel answers into the files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a line may take to come.
const patience = 20 * time.Second

// wire is one way to talk to a kernel.
type wire struct {
	name string
	// dial begins a conversation: what is sent goes to in, what comes back from out.
	// It returns nil if the wire can't carry the conversation.
	dial func(t *testing.T, c *conversation) (in io.WriteCloser, out io.Reader)
}

// TestConversations holds every conversation over every wire.
func TestConversations(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kernos")
	if out, err := exec.Command("go", "build", "-o", binary, "kernos/cmd/kernos").CombinedOutput(); err != nil {
		t.Fatalf("building kernos: %v\n%s", err, out)
	}
	wires := []wire{
		{"stdio", dialStdio},
		{"binary", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) { return dialBinary(t, binary, c) }},
	}
	for _, c := range conversations(t) {
		if !c.runs() {
			continue // listed as open
		}
		for _, w := range wires {
			in, out := w.dial(t, c)
			if in == nil {
				continue
			}
			t.Run(strings.TrimSuffix(c.path, ".txt")+"/"+w.name, func(t *testing.T) {
				hold(t, c, in, out)
			})
		}
	}
}

// dialStdio talks to a kernel in this process.
func dialStdio(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) {
	t.Helper()
	registry, err := kernel.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Add(introspect.Module(registry)); err != nil {
		t.Fatal(err)
	}
	if len(c.handlers) > 0 {
		m := kernel.Module{Name: "conversation", Version: "1.0.0", Summary: "What this conversation needs."}
		for _, h := range c.handlers {
			m.Syscalls = append(m.Syscalls, h.syscall())
		}
		if err := registry.Add(m); err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
	}
	dir, err := blobdir.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := kernel.New(registry, &kernel.Options{Blobs: tempBlobs{dir}})
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	go func() {
		_, err := stdio.Serve(context.Background(), k, inRead, outWrite, &transport.Options{Lenient: c.lenient})
		_ = outWrite.CloseWithError(err)
	}()
	return inWrite, outRead
}

type tempBlobs struct{ dir *blobdir.Dir }

func (b tempBlobs) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	path, err := b.dir.Put(data)
	return message.FileBlob(path), err
}

// dialBinary talks to the program itself, which has no handlers but its own.
func dialBinary(t *testing.T, binary string, c *conversation) (io.WriteCloser, io.Reader) {
	t.Helper()
	if len(c.handlers) > 0 {
		return nil, nil
	}
	args := []string{"pipe", "--inline"}
	if c.lenient {
		args = append(args, "--lenient")
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "KERNOS_HOME="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(write, out)
		err := cmd.Wait()
		if status, ok := errors.AsType[*exec.ExitError](err); ok && status.ExitCode() == 1 {
			err = nil // errors were among the answers
		}
		_ = write.CloseWithError(err)
	}()
	t.Cleanup(func() { <-done })
	return in, read
}

// hold holds a conversation and compares.
func hold(t *testing.T, c *conversation, in io.WriteCloser, out io.Reader) {
	lines := make(chan string, 1<<16) // all there is, so that the kernel never waits for us
	ended := make(chan error, 1)
	go func() {
		r := bufio.NewReaderSize(out, 64<<10)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				ended <- err
				close(lines)
				return
			}
		}
	}()
	next := func() (string, bool) {
		select {
		case line, ok := <-lines:
			return line, ok
		case <-time.After(patience):
			t.Errorf("nothing came for %v", patience)
			return "", false
		}
	}
	for i := 0; i < len(c.talk); {
		var sent strings.Builder
		for ; i < len(c.talk) && c.talk[i].sent; i++ {
			sent.WriteString(c.talk[i].text)
			if c.talk[i].newline {
				sent.WriteByte('\n')
			} else {
				// The pieces of a line come one by one.
				_, _ = io.WriteString(in, sent.String())
				sent.Reset()
			}
		}
		_, _ = io.WriteString(in, sent.String())
		var expected []spoken
		for ; i < len(c.talk) && !c.talk[i].sent; i++ {
			expected = append(expected, c.talk[i])
		}
		if i == len(c.talk) {
			_ = in.Close() // a last line without a newline is answered now
		}
		c.compare(t, expected, next)
	}
	_ = in.Close()
	for line := range lines {
		t.Errorf("one line too many: %s", shorten(line))
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the conversation ended with %v", err)
	}
	if *update && t.Failed() {
		if err := os.WriteFile(filepath.FromSlash(c.path), []byte(strings.Join(c.text, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compare takes as many lines as are expected.
func (c *conversation) compare(t *testing.T, expected []spoken, next func() (string, bool)) {
	var open []spoken // of a run in any order
	for i, e := range expected {
		if e.anyTurn {
			open = append(open, e)
			if i+1 < len(expected) && expected[i+1].anyTurn {
				continue
			}
		} else {
			open = []spoken{e}
		}
		for len(open) > 0 {
			got, ok := next()
			if !ok {
				t.Errorf("line %d: nothing came, expected %s", open[0].line+1, shorten(open[0].text))
				return
			}
			found := -1
			for j, o := range open {
				if matches(o.text, got) {
					found = j
					break
				}
			}
			if found < 0 {
				t.Errorf("line %d:\n got %s\nwant %s", open[0].line+1, shorten(got), shorten(open[0].text))
				mark := "< "
				if open[0].anyTurn {
					mark = "<~ "
				}
				c.text[open[0].line] = mark + written(got)
				found = 0
			}
			open = append(open[:found:found], open[found+1:]...)
		}
	}
}

func shorten(s string) string {
	if len(s) > 1500 {
		return fmt.Sprintf("%s … (%d bytes) … %s", s[:700], len(s), s[len(s)-300:])
	}
	return s
}

// syscall makes a real syscall of a spec.
func (h *handlerSpec) syscall() kernel.Syscall {
	d := kernel.Definition{
		Type: h.name, Kind: h.kind, Summary: "A syscall of this conversation.",
		Input: schema.Any, Output: schema.Any, Slow: h.slow, Timeout: h.timeout,
	}
	for _, e := range h.emits {
		d.Emits = append(d.Emits, kernel.EventDefinition{Type: e, Summary: "An event of this conversation."})
	}
	return kernel.Syscall{Definition: d, Handler: h.handle}
}

// handle does what the steps say.
func (h *handlerSpec) handle(ctx context.Context, m message.Message, emit kernel.Emit) {
	result := jsonOr("null")
	for _, s := range h.steps {
		switch s.verb {
		case "reply":
			emit(m.Reply([]byte(s.arg)))
			return
		case "echo":
			emit(m.Reply(m.Data))
			return
		case "fail":
			emit(message.Message{Kind: message.KindError, Type: m.Type, Data: []byte(s.arg)})
			return
		case "error":
			kernel.Fail(ctx, m, emit, errors.New(s.arg))
			return
		case "panic":
			panic(s.arg)
		case "silent":
			return
		case "emit":
			t, data, _ := strings.Cut(s.arg, " ")
			emit(m.Event(message.Type(t), []byte(data)))
		case "progress":
			fraction, note, _ := strings.Cut(s.arg, " ")
			f, _ := strconv.ParseFloat(fraction, 64)
			kernel.NewStream(&m, emit).Progress(note, f)
		case "call":
			t, data, _ := strings.Cut(s.arg, " ")
			reply, err := kernel.Call(ctx, message.Type(t), []byte(data))
			if err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			result = reply
		case "sleep":
			d, _ := time.ParseDuration(s.arg)
			select {
			case <-time.After(d):
			case <-ctx.Done():
				kernel.Fail(ctx, m, emit, ctx.Err())
				return
			}
		case "hang":
			d, _ := time.ParseDuration(s.arg)
			<-time.After(d)
		}
	}
	emit(m.Reply(result))
}
