package conformance

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/content"
	"kernos/capability/crypto"
	"kernos/capability/history"
	"kernos/capability/http"
	"kernos/capability/introspect"
	"kernos/capability/job"
	"kernos/capability/memory"
	"kernos/capability/model"
	"kernos/capability/register"
	"kernos/capability/script"
	"kernos/capability/script/engine"
	"kernos/capability/session"
	"kernos/capability/vfs"
	"kernos/internal/embed"
	"kernos/internal/outbound"
	"kernos/internal/testkit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
	"kernos/store/storetest"
	"kernos/store/vectors"
	"kernos/transport"
	"kernos/transport/stdio"
)

var update = flag.Bool("update", false, "write what the kernel answers into the files")

func TestMain(m *testing.M) {
	forget, err := trustServers()
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		forget()
		os.Exit(code)
	}))
}

// wire is one way to talk to a kernel.
type wire struct {
	name, carries string
	// dial begins a conversation: what is sent goes to in, what comes back from out.
	// It returns nil if the wire can't carry the conversation.
	dial func(t *testing.T, c *conversation) (in io.WriteCloser, out io.Reader)
}

// TestConversations holds every conversation over every wire.
func TestConversations(t *testing.T) {
	binary := sync.OnceValue(func() string { return testkit.Program(t, "kernos/cmd/kernos") })
	wires := []wire{
		{"stdio", "ndjson", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) {
			return dialStdio(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
		}},
		{"stdio-pebble", "ndjson", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) {
			if !c.durable() {
				return nil, nil
			}
			return dialStdio(t, c, func() (store.Store, error) { return pebble.Open(filepath.Join(t.TempDir(), "store"), nil) })
		}},
		{"unix", "ndjson", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) {
			return dialUnix(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
		}},
		{"ws", "jsonrpc", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) {
			return dialWS(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
		}},
		{"binary", "ndjson", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) { return dialBinary(t, binary, c) }},
		{"commands", "commands", func(t *testing.T, c *conversation) (io.WriteCloser, io.Reader) { return dialCommands(t, binary(), c) }},
	}
	for _, c := range conversations(t) {
		if !c.runs() {
			continue // listed as open
		}
		// Conversations are held at the same time, since some wait for deadlines; the wires take turns.
		t.Run(strings.TrimSuffix(c.path, ".txt"), func(t *testing.T) {
			t.Parallel()
			for _, w := range wires {
				if w.carries != c.wire {
					continue
				}
				t.Run(w.name, func(t *testing.T) {
					c := c.serve(t)
					c.hashes = nil
					for _, part := range c.parts() {
						if in, out := w.dial(t, c); in != nil {
							part.hold(t, in, out)
						}
					}
					if *update && t.Failed() {
						if err := os.WriteFile(filepath.FromSlash(c.path), []byte(c.unserved(strings.Join(c.text, "\n")+"\n")), 0o644); err != nil {
							t.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// dialStdio talks to a kernel in this process.
func dialStdio(t *testing.T, c *conversation, open func() (store.Store, error)) (io.WriteCloser, io.Reader) {
	t.Helper()
	if c.authKey {
		return nil, nil
	}
	k, end := newKernel(t, c, open)
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	go func() {
		_, err := stdio.Serve(context.Background(), k, inRead, outWrite, &transport.Options{Lenient: c.lenient})
		_ = outWrite.CloseWithError(errors.Join(err, end()))
	}()
	return inWrite, outRead
}

// scriptEngine is one engine for all conversations.
var scriptEngine = sync.OnceValue(func() *engine.Engine {
	return engine.New(&engine.Options{Cache: testkit.Engine()})
})

// newKernel returns a kernel on a store of any engine, and what ends it. It has the
// capabilities that the conversation needs, and stand-ins for all others.
func newKernel(t *testing.T, c *conversation, open func() (store.Store, error)) (k *kernel.Kernel, end func() error) {
	t.Helper()
	c.events = new(events)
	state := store.Lazy(open)
	kept := kerneltest.NewBlobs(t)
	opts := &kernel.Options{Store: state, Blobs: kept}
	recorded := journal.New(state, &journal.Options{Models: []embed.Model{embed.English()}, Vectors: vectors.NewCache(1<<20, time.Minute)})
	registry, err := kernel.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	modules := []kernel.Module{introspect.Module(registry)}
	values := memory.New(state, kept.Dir, nil)
	if c.wants("capability/memory") {
		modules = append(modules, values.Module())
	}
	var files *vfs.Tree
	if c.wantsFiles() {
		files = c.tree(t, values, opts.Blobs)
		modules = append(modules, files.Module())
	}
	if c.wants("capability/content") {
		client := outbound.NewClient(outbound.Personal, nil)
		t.Cleanup(client.CloseIdleConnections)
		modules = append(modules, content.New(contentFiles{files}, &content.Options{Client: client, Registry: registry}).Module())
	}
	if c.wants("capability/http") {
		client := outbound.NewClient(outbound.Personal, nil)
		t.Cleanup(client.CloseIdleConnections)
		modules = append(modules, http.Module(http.Options{Client: client, Blobs: forAll{kept.Dir}}))
	}
	var ring *crypto.Keyring
	if c.wants("capability/crypto") {
		ring = crypto.New(crypto.Options{Agent: crypto.Socket(serveAgent(t))})
		modules = append(modules, ring.Module())
	}
	var background []runner
	owner := func(principal.ID) (*principal.Principal, error) { return principal.TheOwner(), nil }
	if c.wants("capability/job") {
		jobs := job.New(&job.Options{Store: state, Find: owner})
		modules, background = append(modules, jobs.Module()), append(background, jobs)
	}
	if c.wants("capability/session") {
		sessions := session.New(&session.Options{Store: state, Find: owner})
		modules, background = append(modules, sessions.Module()), append(background, sessions)
		opts.Rules = sessions.Rules()
	}
	if c.wants("capability/model") {
		served := map[string]json.RawMessage{"default": []byte(`{"dialect":"syscall","type":"Llama.Generate"}`)}
		modules = append(modules, model.Module(&model.Options{Configured: served}))
	}
	if c.wants("capability/script") {
		scripts := script.New(registry, &script.Options{Store: state, Engine: scriptEngine()})
		modules = append(modules, scripts.Module(), register.Module(registry, &register.Options{Scripts: scripts, Store: state}))
	}
	if c.wants("capability/history") || c.wants("journal") {
		opts.Recorder = recorded
		modules = append(modules, history.Module(recorded, nil))
	}
	if len(c.handlers) > 0 {
		m := kernel.Module{Name: "conversation", Version: "1.0.0", Summary: "What this conversation needs."}
		for _, h := range c.handlers {
			h.registry, h.events = registry, c.events
			m.Syscalls = append(m.Syscalls, h.syscall())
		}
		modules = append(modules, m)
	}
	for _, m := range modules {
		if err := registry.Add(m); err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
	}
	k = kernel.New(registry, opts)
	stop := run(background, k)
	return k, func() error {
		var err error
		stop()
		if ring != nil {
			ring.Close()
		}
		if files != nil {
			err = errors.Join(err, files.Close())
		}
		return errors.Join(err, recorded.Close(), state.Close())
	}
}

// A runner runs what goes on in the background.
type runner interface {
	Begin(*kernel.Kernel)
	Run(context.Context, *kernel.Kernel)
}

// run runs what goes on in the background until the function that it returns is called.
func run(all []runner, k *kernel.Kernel) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, r := range all {
		r.Begin(k)
		running.Go(func() { r.Run(ctx, k) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// dialBinary talks to the program itself, which has no handlers but its own.
func dialBinary(t *testing.T, binary func() string, c *conversation) (io.WriteCloser, io.Reader) {
	t.Helper()
	if len(c.handlers) > 0 || c.authKey || !c.inProgram(t) {
		return nil, nil
	}
	args, env := []string{"pipe", "--inline"}, append(os.Environ(), "KERNOS_HOME="+newHome(t))
	var files []string
	if c.wantsFiles() {
		files = c.fileFlags(t)
	}
	switch {
	case c.wants("capability/job") || c.wants("capability/session"): // a kernel in a pipe runs neither
		args, env = []string{"pipe"}, startKernel(t, binary(), "127.0.0.1:0", files...).env
	case c.wants("capability/history") || c.wants("journal"):
		args = append(append(args, "--journal"), files...)
	default:
		args = append(args, files...)
	}
	if c.lenient {
		args = append(args, "--lenient")
	}
	cmd := exec.Command(binary(), args...)
	cmd.Env = env
	if c.wants("capability/crypto") {
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+serveAgent(t))
	}
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

// parts returns what is said to one kernel after the other.
func (c *conversation) parts() (all []*part) {
	all = []*part{{conversation: c}}
	for _, s := range c.talk {
		last := all[len(all)-1]
		if s.restart {
			all = append(all, &part{conversation: c})
			continue
		}
		last.talk = append(last.talk, s)
	}
	return all
}

// part is what is said to one kernel.
type part struct {
	*conversation
	talk []spoken
}

// hold holds a part of a conversation and compares.
func (c *part) hold(t *testing.T, in io.WriteCloser, out io.Reader) {
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
		case <-time.After(testkit.Patience):
			t.Errorf("nothing came for %v", testkit.Patience)
			return "", false
		}
	}
	for i := 0; i < len(c.talk); {
		if name := c.talk[i].release; name != "" {
			c.events.release(name)
			i++
			continue
		}
		var sent strings.Builder
		for ; i < len(c.talk) && c.talk[i].sent; i++ {
			sent.WriteString(c.meaning(c.talk[i].text))
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
		for ; i < len(c.talk) && !c.talk[i].sent && c.talk[i].release == ""; i++ {
			expected = append(expected, c.talk[i])
		}
		if i == len(c.talk) {
			_ = in.Close() // a last line without a newline is answered now
			if c.events != nil {
				c.events.release("end")
			}
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
				if c.matches(o.text, got) {
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
		Type:     h.name,
		Kind:     h.kind,
		Summary:  "A syscall of this conversation.",
		Input:    schema.Any,
		Output:   schema.Any,
		Behavior: kernel.Behavior{Timeout: h.timeout},
	}
	for _, e := range h.emits {
		d.Emits = append(d.Emits, kernel.EventDefinition{Type: e, Summary: "An event of this conversation."})
	}
	if h.definition.Summary != "" {
		d.Summary = h.definition.Summary
	}
	for _, part := range []struct {
		text json.RawMessage
		into **schema.Schema
	}{{h.definition.Input, &d.Input}, {h.definition.Output, &d.Output}} {
		if part.text == nil {
			continue
		}
		parsed, err := schema.Parse(part.text)
		if err != nil {
			panic(err)
		}
		*part.into = parsed
	}
	if h.slow {
		d.Runs = kernel.Slow
	}
	if h.definition.Hidden {
		d.Visibility = kernel.Hidden
	}
	return kernel.Syscall{Definition: d, Handler: h.handle}
}

// handle does what the steps say.
func (h *handlerSpec) handle(ctx context.Context, m message.Message, emit kernel.Emit) {
	defer h.events.release(string(h.name))
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
			reply, err := kernel.Invoke(ctx, message.Type(t), []byte(data))
			if err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			result = reply
		case "define":
			name, version, _ := strings.Cut(s.arg, " ")
			later := handlerSpec{name: message.Type(name), kind: message.KindQuery, events: h.events}
			module := kernel.Module{Name: "later", Version: cmp.Or(version, "1.0.0"), Summary: "What came later."}
			if err := h.registry.AddSyscall(module, later.syscall()); err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
		case "remove":
			h.registry.RemoveSyscall(message.Type(s.arg))
		case "wait":
			select {
			case <-h.events.of(s.arg):
			case <-ctx.Done():
				kernel.Fail(ctx, m, emit, ctx.Err())
				return
			}
		case "hang":
			<-h.events.of(s.arg)
		}
	}
	emit(m.Reply(result))
}

// forAll is a directory of blobs for all callers.
type forAll struct{ *blobs.Dir }

func (f forAll) PutReader(_ context.Context, r io.Reader, limit int64) (blobs.Blob, error) {
	return f.Dir.PutReader(r, limit)
}
