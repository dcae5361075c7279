package register_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/capability/register"
	"kernos/internal/testkit/wire"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withModule returns a kernel with the module, and with the one that describes syscalls.
func withModule(t testing.TB, opts *kernel.Options, mine *register.Options, more ...kernel.Syscall) *kernel.Kernel {
	t.Helper()
	k := kerneltest.Around(t, opts, introspect.Module, more...)
	if err := k.Registry().Add(register.Module(k.Registry(), mine)); err != nil {
		t.Fatal(err)
	}
	return k
}

// registration is the line that registers a type which takes and gives anything. more is
// members to add, or "".
func registration(name, more string) string {
	return line("command", "Syscall.Register", "register", fmt.Sprintf(`{"name":%q,"kind":"query","description":"A syscall of a test.","inputSchema":{},"outputSchema":{},"handler":"connection"%s}`, name, more))
}

func line(kind, typ, id, data string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`, kind, typ, data, id)
}

// answering is the line that answers a request, or tells of something that it caused.
func answering(request message.Message, kind, typ, data string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":"a-%s","timestamp":1735000000000,"causation":%q}}`, kind, typ, data, request.Metadata.ID, request.Metadata.ID)
}

// A program is one end of a connection to a kernel.
type program struct {
	t     testing.TB
	conn  io.ReadWriteCloser
	lines *bufio.Reader
	ended chan error // gets the error of the kernel's end
}

func connect(t testing.TB, k *kernel.Kernel) *program {
	t.Helper()
	here, there := wire.New()
	return connectOver(t, k, here, there)
}

func connectOver(t testing.TB, k *kernel.Kernel, here, there io.ReadWriteCloser) *program {
	t.Helper()
	return connectIn(t.Context(), t, k, here, there)
}

// connectAs connects for a token of preset handler.
func connectAs(t testing.TB, k *kernel.Kernel, name string) *program {
	t.Helper()
	who := kerneltest.Principal(t, principal.ID(name), name, principal.Grant{Preset: principal.Handler})
	here, there := wire.New()
	return connectIn(kernel.ActFor(t.Context(), kernel.From(who, "unix")), t, k, here, there)
}

func connectIn(ctx context.Context, t testing.TB, k *kernel.Kernel, here, there io.ReadWriteCloser) *program {
	t.Helper()
	p := &program{t: t, conn: here, lines: bufio.NewReader(here), ended: make(chan error, 1)}
	go func() {
		_, err := transport.Serve(ctx, k, there, there, nil)
		_ = there.Close()
		p.ended <- err
		close(p.ended)
	}()
	t.Cleanup(p.close)
	return p
}

// close ends the connection and waits for the kernel's end.
func (p *program) close() {
	_ = p.conn.Close()
	<-p.ended
}

func (p *program) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := p.conn.Write([]byte(l + "\n")); err != nil {
			p.t.Fatal(err)
		}
	}
}

// next returns the next message from the kernel.
func (p *program) next() message.Message {
	p.t.Helper()
	text, err := p.lines.ReadBytes('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	var d message.Decoder
	m, rejection := d.Decode(text)
	if rejection != nil {
		p.t.Fatalf("%s: %v", text, rejection)
	}
	return m
}

// call sends a line and returns what comes next, in brief.
func (p *program) call(text string) string {
	p.t.Helper()
	p.send(text)
	return brief(p.t, p.next())
}

// register registers types.
func (p *program) register(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if got := p.call(registration(name, "")); got != fmt.Sprintf(`reply {"registered":true,"name":%q}`, name) {
			p.t.Fatal(got)
		}
	}
}

// brief is a message in a few words: its kind, the code of an error, the type of anything
// but an answer, and the data or the text.
func brief(t testing.TB, m message.Message) string {
	t.Helper()
	switch {
	case m.Kind == message.KindError:
		e, err := message.ParseError(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("error %d %s", e.Code, e.Error())
	case m.Kind.Answers():
		return fmt.Sprintf("reply %s", m.Data)
	}
	return fmt.Sprintf("%s %s %s", m.Kind, m.Type, m.Data)
}

func types(t testing.TB, p *program) string {
	t.Helper()
	p.send(line("query", "Syscall.List", "list", `{}`))
	var reply struct{ Syscalls []string }
	if err := json.Unmarshal(p.next().Data, &reply); err != nil {
		t.Fatal(err)
	}
	return strings.Join(reply.Syscalls, " ")
}
