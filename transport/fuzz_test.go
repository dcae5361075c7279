package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/message/osevent"
	"kernos/transport"
)

type noBlobs struct{ kerneltest.NoBlobs }

func (noBlobs) Put(context.Context, []byte) (message.BlobPointer, error) {
	return message.FileBlob("/blobs/1"), nil
}

// FuzzStream sends anything at all. Whatever it is, each line of the output is a
// message of one of the dialects that keeps to its limit, no line is answered twice,
// and a message on a line of its own behind it is answered.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "\x00", "\xff\xfe", "{", "{}", "[]", "null", `"`, "\xEF\xBB\xBF" + ping("1"),
		ping("1"), ping("1") + ping("1"), askOlder("1", "Ping", `{"payload":1}`), strings.TrimSuffix(ping("1"), "\n"),
		ask("1", "Echo", `{"message":"x"}`), ask("1", "Syscall.Describe", `{"name":"Echo"}`), ask("1", "Sys.Describe", `{"name":"Pin"}`),
		ask("1", "Syscall.List", `{}`), ask("1", "Ping", `{"payload":1e999999999}`), ask("1", "Ping", `{"payload":{"a":1,"a":2}}`),
		ask("1", "Syscall.Describe", `{"name":"`+strings.Repeat(`\u0001`, 50)+`"}`), ask("1", "Syscall.Describe", `{"`+strings.Repeat(`\"`, 3000)+`":1}`),
		`{"kind":"event","type":"A.B","data":1,"metadata":{"id":"1","timestamp":1}}`,
		`{"kind":"reply","type":"A.B","data":1,"metadata":{"id":"1","timestamp":1}}`,
		`{"kind":"error","type":"A.B","data":1,"metadata":{"id":"1","timestamp":1}}`,
		`{"kind":"query","type":"ping","data":1,"metadata":{"id":"\ud800","timestamp":-1}}`,
		`{"type":"error","name":"A.B","payload":{"message":"x","code":"NOT_FOUND","details":{"cause":1}},"metadata":{"id":"1","timestamp":1}}`,
		`{"type":"query","name":"` + strings.Repeat("x", 300) + `","payload":1}`,
		strings.Repeat("x", message.MaxLine+2), `{"name":"Ping","payload":"` + strings.Repeat("x", message.MaxLine) + `"`,
		ask("1", "Ping", `{"payload":"`+strings.Repeat("x", message.MaxLine-130)+`"}`),
		strings.Repeat("[", 2000), ask("1", "Ping", `{"payload":`+strings.Repeat("[", 999)+strings.Repeat("]", 999)+`}`),
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	kernels := map[bool]*kernel.Kernel{
		false: kerneltest.Around(f, nil, introspect.Module), true: kerneltest.Around(f, &kernel.Options{Blobs: noBlobs{}}, introspect.Module),
	}
	f.Fuzz(func(t *testing.T, input []byte, generous bool) {
		last := ping("the-last-one")
		in := append(append(bytes.Clone(input), '\n'), last...)
		var out bytes.Buffer
		if _, err := transport.Serve(context.Background(), kernels[generous], bytes.NewReader(in), &out, &transport.Options{Lenient: generous}); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		answers := bytes.SplitAfter(out.Bytes(), []byte("\n"))
		answers = answers[:len(answers)-1] // nothing is behind the last newline
		if asked := bytes.Count(in, []byte("\n")); len(answers) > asked {
			t.Errorf("%d answers to %d lines", len(answers), asked)
		}
		answered := false
		for _, line := range answers {
			m, err := decode(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				t.Errorf("%.300q: %v", line, err)
			}
			answered = answered || m.Kind == message.KindReply && m.Metadata.Causation == "the-last-one" && string(m.Data) == `{"payload":"the-last-one"}`
		}
		if !answered {
			t.Errorf("the last message is not answered: %.300q", out.Bytes())
		}
	})
}

// decode reads a line as a reader would that knows both dialects, and their limits.
func decode(line []byte) (message.Message, error) {
	var current message.Decoder
	m, err := current.Decode(line)
	if err == nil {
		if len(line) > message.MaxLine {
			return m, fmt.Errorf("a line of %d bytes", len(line))
		}
		return m, nil
	}
	older := message.Decoder{Dialect: osevent.Dialect}
	m, olderErr := older.Decode(line)
	if olderErr != nil {
		return m, fmt.Errorf("%w, and in the older dialect %w", err, olderErr)
	}
	if len(line) > osevent.Dialect.MaxLine {
		return m, fmt.Errorf("a line of %d bytes", len(line))
	}
	return m, nil
}
