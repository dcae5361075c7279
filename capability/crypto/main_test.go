package crypto

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kernos/internal/sealed"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seedKey is the Ed25519 key that a seed of the same byte makes.
func seedKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

// rsaKey is always the same one: making one takes its time.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	text, err := os.ReadFile(filepath.Join("testdata", "rsa.pem"))
	if err != nil {
		panic(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		panic(err)
	}
	return key.(*rsa.PrivateKey)
})

func kidOfKey(t testing.TB, private any) sealed.Kid {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return kidOf(signer.PublicKey())
}

// piped is a way to an agent without a socket, for tests with a clock of their own.
func piped(a agent.Agent) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			_ = agent.ServeAgent(a, theirs)
			_ = theirs.Close()
		}()
		return ours, nil
	}
}

// world is a keyring behind a kernel.
type world struct {
	t      testing.TB
	ring   *Keyring
	kernel *kernel.Kernel
	log    *testkit.Notes
	act    context.Context // what calls act for; nil means the owner
}

func newWorld(t testing.TB, opts Options) *world {
	t.Helper()
	log := new(testkit.Notes)
	opts.Log = slog.New(slog.NewTextHandler(io.Writer(log), nil))
	w := &world{t: t, ring: New(opts), log: log}
	t.Cleanup(w.ring.Close)
	w.kernel = kerneltest.Of(t, &kernel.Options{Log: opts.Log}, w.ring.Module())
	return w
}

// ask sends the input of a Crypto syscall and returns the outcome.
func (w *world) ask(action string, input any) message.Message {
	w.t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := context.Background()
	if w.act != nil {
		ctx = w.act
	}
	return kerneltest.Outcome(ctx, w.kernel, kerneltest.Command("c", message.Type("Crypto."+action), string(data)))
}

// object is what an input is made of.
type object map[string]any

// reply asks for something that works, and decodes the reply.
func reply[T any](w *world, action string, input any) T {
	w.t.Helper()
	var out T
	answer := w.ask(action, input)
	if answer.Kind != message.KindReply {
		w.t.Fatalf("Crypto.%s failed: %s", action, answer.Data)
	}
	if err := json.Unmarshal(answer.Data, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) seal(plaintext string) string {
	w.t.Helper()
	return reply[string](w, "Seal", object{"plaintext": plaintext})
}

func (w *world) open(ciphertext string) string {
	w.t.Helper()
	return reply[string](w, "Open", object{"ciphertext": ciphertext})
}

// refuse asks for something that fails: with this code, and with all these words in the
// error and its causes.
func (w *world) refuse(action string, input any, code int, words ...string) *message.Error {
	w.t.Helper()
	answer := w.ask(action, input)
	if answer.Kind != message.KindError {
		w.t.Fatalf("Crypto.%s %v works", action, input)
	}
	e, err := message.ParseError(answer.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	if e.Code != code {
		w.t.Errorf("Crypto.%s %v: code %d, want %d: %s", action, input, e.Code, code, answer.Data)
	}
	for _, word := range words {
		if !strings.Contains(e.Error(), word) {
			w.t.Errorf("Crypto.%s %v: %q is not in %s", action, input, word, answer.Data)
		}
	}
	return e
}

// kidIn is the kid in a sealed string.
func kidIn(t testing.TB, text string) string {
	t.Helper()
	box, err := sealed.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return box.Kid
}

// faulty is an agent that does something else when it is to sign.
type faulty struct {
	agent.ExtendedAgent
	sign func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error)
}

func (f *faulty) SignWithFlags(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
	return f.sign(key, data, flags)
}

var errDeclined = errors.New("declined")
