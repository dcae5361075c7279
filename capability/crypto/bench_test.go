package crypto

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
	"kernos/transport"
)

// BenchmarkSealAndOpen is one of each, once the key is derived: the keyring itself, the
// kernel, and a connection from line to line.
func BenchmarkSealAndOpen(b *testing.B) {
	w := newWorld(b, Options{Agent: Socket(testkit.ServeAgent(b, testkit.Keyring(b, seedKey(1))))})
	const plaintext = "a token of some forty characters, as usual"
	ctx := context.Background()
	b.Run("keyring", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			text, err := w.ring.sealing(ctx, sealInput{Plaintext: plaintext})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := w.ring.opening(ctx, openInput{Ciphertext: text}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("kernel", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.pair(plaintext)
		}
	})
	b.Run("connection", func(b *testing.B) {
		b.ReportAllocs()
		lines := line("Crypto.Seal", object{"plaintext": plaintext}) + line("Crypto.Open", object{"ciphertext": w.seal(plaintext)})
		var out replies
		in := io.LimitReader(&repeated{text: lines}, int64(b.N*len(lines)))
		if _, err := transport.Serve(ctx, w.kernel, in, &out, nil); err != nil {
			b.Fatal(err)
		}
		if out != replies(2*b.N) {
			b.Fatalf("%d replies to %d messages", out, 2*b.N)
		}
	})
	b.Run("kernel, all cores", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				w.pair(plaintext)
			}
		})
	})
}

func line(t message.Type, input object) string {
	data, _ := json.Marshal(input)
	return fmt.Sprintf(`{"kind":"command","type":%q,"data":%s,"metadata":{"id":"a","timestamp":1735000000000}}`, t, data) + "\n"
}

// repeated reads as the same text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(b []byte) (n int, _ error) {
	for n < len(b) {
		copied := copy(b[n:], r.text[r.at:])
		n += copied
		r.at = (r.at + copied) % len(r.text)
	}
	return n, nil
}

// replies counts the replies that are written.
type replies int

func (r *replies) Write(b []byte) (int, error) {
	*r += replies(bytes.Count(b, []byte(`{"kind":"reply"`)))
	return len(b), nil
}

// pair seals and opens through the kernel.
func (w *world) pair(plaintext string) {
	ask := func(t message.Type, data []byte) json.RawMessage {
		m := message.Message{Kind: message.KindCommand, Type: t, Data: data, Metadata: message.Metadata{ID: "a", Timestamp: 1735000000000}}
		var out json.RawMessage
		w.kernel.Handle(context.Background(), m, func(m message.Message) {
			if m.Kind != message.KindReply {
				w.t.Errorf("%s failed: %s", t, m.Data)
			}
			out = m.Data
		})
		return out
	}
	text := ask("Crypto.Seal", []byte(`{"plaintext":"`+plaintext+`"}`))
	ask("Crypto.Open", append(append([]byte(`{"ciphertext":`), text...), '}'))
}
