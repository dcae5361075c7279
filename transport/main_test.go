package transport_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw is a query of any data with a handler of its own.
func raw(t message.Type, h kernel.Handler) kernel.Syscall {
	return kernel.Syscall{Handler: h, Definition: kernel.Definition{
		Type: t, Kind: message.KindQuery, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any,
		Emits: []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}},
	}}
}

func ask(id string, t message.Type, data string) string {
	return fmt.Sprintf(`{"kind":"query","type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`+"\n", t, data, id)
}

func ping(id string) string { return ask(id, "Ping", `{"payload":"`+id+`"}`) }

func askOlder(id string, t message.Type, data string) string {
	return fmt.Sprintf(`{"type":"query","name":%q,"payload":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`+"\n", t, data, id)
}

// talk serves an input to its end and returns the lines of the output.
func talk(t *testing.T, k *kernel.Kernel, in io.Reader, opts *transport.Options) ([]string, transport.Result) {
	t.Helper()
	var out strings.Builder
	result, err := transport.Serve(context.Background(), k, in, &out, opts)
	if err != nil {
		t.Errorf("Serve: %v", err)
	}
	return lines(t, out.String()), result
}

func lines(t *testing.T, out string) []string {
	t.Helper()
	if out == "" {
		return nil
	}
	if !strings.HasSuffix(out, "\n") {
		t.Errorf("the last line does not end: %q", out)
	}
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}
