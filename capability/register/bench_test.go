package register_test

import (
	"bufio"
	"testing"

	"kernos/internal/testkit/wire"
	"kernos/message"
	"kernos/transport"
)

// BenchmarkCall compares a call that the kernel answers itself with one that goes through
// it to a program on another connection: one after the other, within the process.
func BenchmarkCall(b *testing.B) {
	const ask = `{"kind":"query","type":"Ping","data":{"payload":"a text of some length, as it may be"},"metadata":{"id":"msg-0000000","timestamp":1735000000000}}` + "\n"
	const askProgram = `{"kind":"query","type":"Bench.Echo","data":{"payload":"a text of some length, as it may be"},"metadata":{"id":"msg-0000000","timestamp":1735000000000}}` + "\n"
	k := withModule(b, nil, nil)
	dial := func() *wire.Conn {
		there, here := wire.New()
		served := make(chan struct{})
		transport.Start(b.Context(), k, there, there, nil, func(transport.Result, error) {
			_ = there.Close()
			close(served)
		})
		b.Cleanup(func() {
			_ = here.Close()
			<-served
		})
		return here
	}
	caller, program := dial(), dial()
	answers := bufio.NewReader(caller)
	call := func(b *testing.B, line string) {
		for b.Loop() {
			if _, err := caller.Write([]byte(line)); err != nil {
				b.Fatal(err)
			}
			if answer, err := answers.ReadSlice('\n'); err != nil || answer[9] != 'r' {
				b.Fatalf("%s: %v", answer, err)
			}
		}
	}
	requests := bufio.NewReader(program)
	if _, err := program.Write([]byte(registration("Bench.Echo", "") + "\n")); err != nil {
		b.Fatal(err)
	}
	if answer, err := requests.ReadSlice('\n'); err != nil || answer[9] != 'r' {
		b.Fatalf("%s: %v", answer, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var d message.Decoder
		var out []byte
		for {
			line, err := requests.ReadSlice('\n')
			if err != nil {
				return
			}
			m, rejection := d.Decode(line)
			if rejection != nil || !m.Kind.Asks() {
				continue
			}
			reply := m.Reply(m.Data)
			reply.Metadata.ID, reply.Metadata.Timestamp = "r-"+m.Metadata.ID, m.Metadata.Timestamp
			out = append(message.Append(out[:0], &reply), '\n')
			if _, err := program.Write(out); err != nil {
				return
			}
		}
	}()
	b.Run("direct", func(b *testing.B) { call(b, ask) })
	b.Run("program", func(b *testing.B) { call(b, askProgram) })
	_ = program.Close()
	<-ended
}
