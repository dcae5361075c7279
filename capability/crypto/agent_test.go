package crypto

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kernos/internal/sealed"
	"kernos/internal/testkit"
	"kernos/message"
)

func TestSealAndOpen(t *testing.T) {
	for name, private := range map[string]any{"ssh-ed25519": seedKey(1), "ssh-rsa": rsaKey()} {
		w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, private))), RequireAgent: true})
		for _, plaintext := range []string{"", "hunter2", "grüße \"\\\u0000\n😀", strings.Repeat("x", maxPlaintext)} {
			text := w.seal(plaintext)
			if got := w.open(text); got != plaintext {
				t.Errorf("%q opens as %q", plaintext, got)
			}
			if got := kidIn(t, text); got != kidOfKey(t, private).String() {
				t.Errorf("the kid is %s", got)
			}
			if got, _, err := w.ring.Open(context.Background(), text, sealed.Use{}); err != nil || string(got) != plaintext {
				t.Errorf("%q opens as %q, %v", plaintext, got, err)
			}
		}
		if first, second := w.seal("a"), w.seal("a"); first == second {
			t.Error("a nonce was used twice")
		}
		want := deriveOutput{Kid: kidOfKey(t, private).String(), Alg: "A256GCM", Source: "ssh-agent", Type: name}
		if got := reply[deriveOutput](w, "Derive", object{}); got != want {
			t.Errorf("derived %+v, want %+v", got, want)
		}
		w.refuse("Seal", object{"plaintext": strings.Repeat("x", maxPlaintext+1)}, 413, "8193 bytes", "8192 are allowed")
	}
}

// What the largest plaintext makes fits into a line, with room for what is around it.
func TestTheLargestPlaintextFitsIntoALine(t *testing.T) {
	w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))})
	text := reply[string](w, "Seal", object{"plaintext": strings.Repeat("ä", maxPlaintext/2), "aad": strings.Repeat("a", 256)})
	if len(text) > 16_384-700 {
		t.Errorf("the sealed string has %d bytes", len(text))
	}
}

func TestAAD(t *testing.T) {
	w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))})
	bound := reply[string](w, "Seal", object{"plaintext": "hunter2", "aad": "vault/door"})
	free := w.seal("hunter2")
	for _, input := range []object{{"ciphertext": bound}, {"ciphertext": bound, "aad": "vault/door"}, {"ciphertext": free}, {"ciphertext": free, "aad": ""}} {
		if got := reply[string](w, "Open", input); got != "hunter2" {
			t.Errorf("%v opens as %q", input, got)
		}
	}
	w.refuse("Open", object{"ciphertext": bound, "aad": "vault/window"}, 422, "not bound")
	w.refuse("Open", object{"ciphertext": bound, "aad": ""}, 422, "not bound")
	w.refuse("Open", object{"ciphertext": free, "aad": "vault/door"}, 422, "not bound")
}

func TestTheRightOneOfSeveralKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	path := testkit.ServeAgent(t, testkit.Keyring(t, ec, rsaKey(), seedKey(1), seedKey(2)))
	w := newWorld(t, Options{Agent: Socket(path)})
	rsa, one, two := kidOfKey(t, rsaKey()), kidOfKey(t, seedKey(1)), kidOfKey(t, seedKey(2))
	if got := kidIn(t, w.seal("x")); got != one.String() {
		t.Errorf("sealed with %s, want the first Ed25519 key, %s", got, one)
	}
	openssh := "SHA256:" + base64.RawStdEncoding.EncodeToString(two.Digest[:])
	for key, want := range map[string]sealed.Kid{rsa.String(): rsa, two.String(): two, openssh: two, "ssh-fp:" + openssh + "=": two} {
		text := reply[string](w, "Seal", object{"plaintext": "x", "key": key})
		if got := kidIn(t, text); got != want.String() {
			t.Errorf("sealed with %s, want %s", got, want)
		}
		if got := w.open(text); got != "x" {
			t.Errorf("opens as %q", got)
		}
		if got := reply[deriveOutput](w, "Derive", object{"key": key}).Kid; got != want.String() {
			t.Errorf("derived %s, want %s", got, want)
		}
	}
	// The kernel's own choice.
	w = newWorld(t, Options{Agent: Socket(path), Key: openssh})
	if got := kidIn(t, w.seal("x")); got != two.String() {
		t.Errorf("sealed with %s, want %s", got, two)
	}
	// Keys that will not do.
	e := w.refuse("Seal", object{"plaintext": "hunter2", "key": "invalid"}, 400, "ssh-fp:SHA256:")
	if e.Message != "Invalid encryption key format" {
		t.Errorf("the error is %q", e.Message)
	}
	w.refuse("Seal", object{"plaintext": "x", "key": kidOfKey(t, ec).String()}, 500, "Encryption failed", "ecdsa-sha2-nistp256", "differ each time")
	w.refuse("Seal", object{"plaintext": "x", "key": kidOfKey(t, seedKey(3)).String()}, 500, "Encryption failed", "does not hold the key "+kidOfKey(t, seedKey(3)).String(), "ssh-add")
	w = newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, ec)))})
	w.refuse("Seal", object{"plaintext": "x"}, 500, "holds no key that can be used", "ecdsa-sha2-nistp256")
	w = newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, rsaKey())))})
	if got := kidIn(t, w.seal("x")); got != rsa.String() {
		t.Errorf("sealed with %s, want %s", got, rsa)
	}
	w = newWorld(t, Options{Agent: Socket(path), Key: "nonsense"})
	w.refuse("Seal", object{"plaintext": "x"}, 400, "Invalid encryption key format")
}

// Whatever hash an RSA key has signed, the string opens.
func TestRSAWithAnyHash(t *testing.T) {
	a := testkit.Keyring(t, rsaKey()).(agent.ExtendedAgent)
	w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, a))})
	public, err := ssh.NewPublicKey(rsaKey().Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range []agent.SignatureFlags{agent.SignatureFlagRsaSha512, agent.SignatureFlagRsaSha256, 0} {
		signature, err := a.SignWithFlags(public, []byte("PromptWareOS::pwenc::v1"), flags)
		if err != nil {
			t.Fatal(err)
		}
		cipher, err := newCipher(signature.Blob)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.open(cipher.Seal(kidOf(public), []byte("hunter2"), "", nil)); got != "hunter2" {
			t.Errorf("with %s: %q", signature.Format, got)
		}
	}
	// One that was changed has been tried with all of them.
	box, err := sealed.Parse(w.seal("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	box.Ciphertext[0] ^= 1
	w.refuse("Open", object{"ciphertext": box.String()}, 422, "was changed")
	// An agent that will not sign SHA-1 can't say more.
	w = newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, &faulty{a, func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
		if flags == 0 {
			return nil, errDeclined
		}
		return a.SignWithFlags(key, data, flags)
	}}))})
	w.refuse("Open", object{"ciphertext": box.String()}, 422, "was changed")
	// An old one that knows nothing of flags opens what was sealed with SHA-1, and seals
	// nothing.
	w = newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, &faulty{a, func(key ssh.PublicKey, data []byte, _ agent.SignatureFlags) (*ssh.Signature, error) {
		return a.SignWithFlags(key, data, 0)
	}}))})
	w.refuse("Seal", object{"plaintext": "x"}, 500, "does not sign with the hash")
	old, err := a.SignWithFlags(public, []byte(sealed.Challenge), 0)
	if err != nil {
		t.Fatal(err)
	}
	cipher, err := newCipher(old.Blob)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.open(cipher.Seal(kidOf(public), []byte("hunter2"), "", nil)); got != "hunter2" {
		t.Errorf("opens as %q", got)
	}
}

func TestWhatDoesNotOpen(t *testing.T) {
	w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))})
	box, err := sealed.Parse(w.seal("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*sealed.Box)) string {
		b := box
		b.Nonce, b.Ciphertext = append([]byte(nil), box.Nonce...), append([]byte(nil), box.Ciphertext...)
		change(&b)
		return b.String()
	}
	for _, c := range []struct {
		text  string
		code  int
		words string
	}{
		{"hunter2", 422, "no prefix pwenc:v1:"},
		{"", 422, "no prefix pwenc:v1:"},
		{"pwenc:v1:hunter2!", 422, "not base64url"},
		{"pwenc:v1:aHVudGVyMg", 422, "not a JSON object"},
		{"pwenc:v1:e30", 422, "v is missing"},
		{changed(func(b *sealed.Box) { b.Ciphertext[3] ^= 1 }), 422, "was changed, or sealed with another key"},
		{changed(func(b *sealed.Box) { b.Nonce[0] ^= 1 }), 422, "was changed, or sealed with another key"},
		{changed(func(b *sealed.Box) { b.AAD = "x" }), 422, "was changed, or sealed with another key"},
		{changed(func(b *sealed.Box) { b.Kid = "hunter2" }), 500, "a key of another kind"},
		{changed(func(b *sealed.Box) { b.Kid = kidOfKey(t, seedKey(2)).String() }), 500, "does not hold the key"},
		{changed(func(b *sealed.Box) { b.Kid = strings.Replace(b.Kid, "ssh-fp", "kernos-local", 1) }), 500, "no place for a local key file"},
	} {
		e := w.refuse("Open", object{"ciphertext": c.text}, c.code, c.words)
		if strings.Contains(e.Error(), "hunter2") {
			t.Errorf("the error quotes: %v", e)
		}
		_, _, err := w.ring.Open(context.Background(), c.text, sealed.Use{})
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != c.code {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	data := changed(func(b *sealed.Box) {
		cipher, err := newCipher(signatureOf())
		if err != nil {
			t.Fatal(err)
		}
		*b, _ = sealed.Parse(cipher.Seal(kidOfKey(t, seedKey(1)), []byte{0xff, 0xfe}, "", nil))
	})
	w.refuse("Open", object{"ciphertext": data}, 422, "not UTF-8")
	if got, _, err := w.ring.Open(context.Background(), data, sealed.Use{}); err != nil || string(got) != "\xff\xfe" {
		t.Errorf("got %q, %v", got, err)
	}
}

// signatureOf is the first key's signature of the challenge.
func signatureOf() []byte {
	return ed25519.Sign(seedKey(1), []byte(sealed.Challenge))
}

func TestNoAgent(t *testing.T) {
	sealedBefore := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))}).seal("hunter2")
	for _, c := range []struct {
		name  string
		agent func(context.Context) (net.Conn, error)
		words string
	}{
		{"not set", Socket(""), "No ssh-agent is running"},
		{"no socket", Socket(filepath.Join(t.TempDir(), "none")), "can't be reached"},
		{"nothing listens", Socket(abandoned(t)), "can't be reached"},
		{"no key", Socket(testkit.ServeAgent(t, testkit.Keyring(t))), "ssh-add"},
		{"no agent at all", Socket(babbling(t)), "does not list its keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Options{Agent: c.agent, RequireAgent: true, KeyFile: filepath.Join(t.TempDir(), "key")})
			for _, e := range []*message.Error{
				w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", c.words),
				w.refuse("Derive", object{}, 500, "Key derivation failed", c.words),
				w.refuse("Open", object{"ciphertext": sealedBefore}, 500, "Decryption failed"),
			} {
				if e.Cause == nil {
					t.Errorf("%v has no cause", e)
				}
			}
			if files, err := os.ReadDir(filepath.Dir(w.ring.opts.KeyFile)); err != nil || len(files) > 0 {
				t.Errorf("a key file was made: %v, %v", files, err)
			}
		})
	}
}

// An agent that is there and can't be used is not replaced by the key file: what is sealed
// must not depend on how the agent is today.
func TestAnAgentThatFailsIsNotReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	w := newWorld(t, Options{Agent: Socket(filepath.Join(t.TempDir(), "none")), KeyFile: file})
	w.refuse("Seal", object{"plaintext": "x"}, 500, "can't be reached", "without SSH_AUTH_SOCK")
	w = newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t))), KeyFile: file})
	w.refuse("Seal", object{"plaintext": "x"}, 500, "holds no key", "without SSH_AUTH_SOCK")
	if _, err := os.Stat(file); err == nil {
		t.Error("a key file was made")
	}
}

// abandoned is a socket that no process listens on.
func abandoned(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	return filepath.Join(dir, "s")
}

// babbling is a socket where something listens that is no agent.
func babbling(t *testing.T) string {
	t.Helper()
	path := abandoned(t) + "2"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var talking sync.WaitGroup
	talking.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		talking.Wait()
	})
	return path
}

func TestAnAgentThatMisbehaves(t *testing.T) {
	real := testkit.Keyring(t, seedKey(1)).(agent.ExtendedAgent)
	var calls atomic.Int64
	for _, c := range []struct {
		name, words string
		sign        func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error)
	}{
		{"declines", "refuses to sign", func(ssh.PublicKey, []byte, agent.SignatureFlags) (*ssh.Signature, error) {
			return nil, errDeclined
		}},
		{"signs something else", "wrong signature", func(key ssh.PublicKey, _ []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
			return real.SignWithFlags(key, []byte("something else"), flags)
		}},
		{"signs in another form", "does not sign with the hash", func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
			s, err := real.SignWithFlags(key, data, flags)
			s.Format = "ssh-dss"
			return s, err
		}},
		{"declines the second time", "refuses to sign", func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
			if calls.Add(1)%2 == 0 {
				return nil, errDeclined
			}
			return real.SignWithFlags(key, data, flags)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, &faulty{real, c.sign}))})
			w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", c.words)
			w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", c.words)
		})
	}
}

// differing is a key whose signatures are right and differ each time, as some agents make
// them also with Ed25519 keys, and the agent that holds it.
type differing struct {
	ssh.PublicKey
	n byte
}

func (d *differing) SignWithFlags(_ ssh.PublicKey, _ []byte, f agent.SignatureFlags) (*ssh.Signature, error) {
	d.n++
	return &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: []byte{d.n}}, nil
}

func (d *differing) List() ([]*agent.Key, error) { return nil, nil }

func (d *differing) Verify([]byte, *ssh.Signature) error { return nil }

func TestAnAgentThatSignsDifferentlyEachTime(t *testing.T) {
	signer, err := ssh.NewSignerFromKey(seedKey(1))
	if err != nil {
		t.Fatal(err)
	}
	d := &differing{PublicKey: signer.PublicKey()}
	k := New(Options{})
	defer k.Close()
	_, err = k.sign(d, d, slot{kid: kidOf(d)}, forms[ssh.KeyAlgoED25519][0])
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 422 || !strings.Contains(e.Message, "differently each time") {
		t.Errorf("got %v", err)
	}
}

// An agent that hangs, or waits for its user to confirm, is given up on after the timeout,
// and all callers that wait for the same key are told then, not one after another.
func TestAnAgentThatHangs(t *testing.T) {
	real := testkit.Keyring(t, seedKey(1)).(agent.ExtendedAgent)
	for _, where := range []string{"dial", "list", "sign"} {
		synctest.Test(t, func(t *testing.T) {
			confirm := make(chan struct{})
			dial := piped(&faulty{real, func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
				<-confirm
				return real.SignWithFlags(key, data, flags)
			}})
			switch where {
			case "dial":
				dial = func(ctx context.Context) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			case "list":
				dial = func(context.Context) (net.Conn, error) {
					ours, theirs := net.Pipe()
					context.AfterFunc(t.Context(), func() { _ = theirs.Close() })
					return ours, nil
				}
			}
			w := newWorld(t, Options{Agent: dial})
			begun := time.Now()
			var waiting sync.WaitGroup
			for range 10 {
				waiting.Go(func() {
					w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", "has not answered within 5s", "confirm")
				})
			}
			waiting.Wait()
			if took := time.Since(begun); took != agentTimeout {
				t.Errorf("%s: it took %v", where, took)
			}
			close(confirm)
			if where == "sign" {
				synctest.Wait() // the late answer goes nowhere
				if got := w.open(w.seal("hunter2")); got != "hunter2" {
					t.Errorf("opens as %q", got)
				}
			}
			w.ring.Close()
		})
	}
}

// A caller who gives up does not wait, and does not take the key from the others.
func TestACallerWhoGivesUp(t *testing.T) {
	real := testkit.Keyring(t, seedKey(1)).(agent.ExtendedAgent)
	synctest.Test(t, func(t *testing.T) {
		var signed atomic.Int64
		w := newWorld(t, Options{Agent: piped(&faulty{real, func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
			time.Sleep(time.Second)
			signed.Add(1)
			return real.SignWithFlags(key, data, flags)
		}})})
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := w.ring.key(ctx, slot{}); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
		waiting.Go(func() {
			if _, err := w.ring.key(t.Context(), slot{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		waiting.Wait()
		if n := signed.Load(); n != 2 { // once more to see that it signs alike
			t.Errorf("the agent has signed %d times", n)
		}
		w.ring.Close()
	})
}

// The agent is asked again after a while: a key that was taken from it goes out of use.
func TestAKeyThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testkit.Keyring(t, seedKey(1)).(agent.ExtendedAgent)
		var signed atomic.Int64
		w := newWorld(t, Options{Agent: piped(&faulty{a, func(key ssh.PublicKey, data []byte, flags agent.SignatureFlags) (*ssh.Signature, error) {
			signed.Add(1)
			return a.SignWithFlags(key, data, flags)
		}})})
		text := w.seal("hunter2")
		time.Sleep(keepTime - time.Nanosecond)
		if got := w.open(text); got != "hunter2" || signed.Load() != 2 {
			t.Errorf("%q after %d signatures", got, signed.Load())
		}
		time.Sleep(time.Nanosecond)
		if got := w.open(text); got != "hunter2" || signed.Load() != 3 {
			t.Errorf("%q after %d signatures", got, signed.Load())
		}
		if err := a.RemoveAll(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepTime)
		w.refuse("Open", object{"ciphertext": text}, 500, "Decryption failed", "does not hold the key", "ssh-add")
		w.refuse("Seal", object{"plaintext": "x"}, 500, "Encryption failed", "holds no key, or is locked")
		if err := a.Add(agent.AddedKey{PrivateKey: seedKey(1)}); err != nil {
			t.Fatal(err)
		}
		if got := w.open(text); got != "hunter2" {
			t.Errorf("opens as %q", got)
		}
		w.ring.Close()
	})
}

func TestAClosedKeyringHasNoKeys(t *testing.T) {
	w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))})
	text := w.seal("hunter2")
	w.ring.Close()
	if len(w.ring.keys) > 0 {
		t.Errorf("it has %d keys", len(w.ring.keys))
	}
	w.refuse("Open", object{"ciphertext": text}, 500, "Decryption failed", "is stopping")
	w.refuse("Seal", object{"plaintext": "x"}, 500, "Encryption failed", "is stopping")
	w.ring.Close()
}

// Close does not wait for an agent that hangs.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Agent: func(ctx context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			context.AfterFunc(t.Context(), func() { _ = theirs.Close() })
			return ours, nil
		}})
		begun := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() { w.refuse("Seal", object{"plaintext": "x"}, 500, "Encryption failed", "is stopping") })
		synctest.Wait()
		w.ring.Close()
		waiting.Wait()
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// Strings that name many keys can't make the keyring talk to the agent without bound.
func TestDerivationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var talking, most atomic.Int64
		w := newWorld(t, Options{Agent: func(ctx context.Context) (net.Conn, error) {
			most.Store(max(most.Load(), talking.Add(1)))
			defer talking.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		var waiting sync.WaitGroup
		for i := range maxRunning {
			waiting.Go(func() {
				_, err := w.ring.key(t.Context(), slot{kid: sealed.Kid{Source: sealed.Agent, Digest: [32]byte{byte(i)}}})
				if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 504 {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		_, err := w.ring.key(t.Context(), slot{})
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 503 || !strings.Contains(e.Message, fmt.Sprint(maxRunning)) {
			t.Errorf("got %v", err)
		}
		waiting.Wait()
		if n := most.Load(); n != 1 {
			t.Errorf("%d connections at once", n)
		}
		w.ring.Close()
	})
}
