package unix

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// An identity is a key pair.
type identity struct {
	private any
	public  ssh.PublicKey
}

func newIdentity(t testing.TB, private crypto.Signer) identity {
	t.Helper()
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return identity{private, public}
}

func newEd25519(t testing.TB) identity {
	t.Helper()
	private, public := testkit.Key(t)
	return identity{private, public}
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newRSA(t testing.TB) identity {
	t.Helper()
	private, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	return newIdentity(t, private)
}

// sign signs by hand.
func (i identity) sign(challenge []byte) ([]byte, error) {
	return ed25519.Sign(i.private.(ed25519.PrivateKey), challenge), nil
}

// runAgent runs an ssh-agent with some keys, and tells programs where it is.
func runAgent(t *testing.T, keys ...identity) {
	t.Helper()
	private := make([]any, len(keys))
	for i, k := range keys {
		private[i] = k.private
	}
	t.Setenv("SSH_AUTH_SOCK", testkit.ServeAgent(t, testkit.Keyring(t, private...)))
}

// guarded starts a daemon that wants a signature.
func guarded(t *testing.T, keys ...identity) *daemon {
	t.Helper()
	opts := new(Options)
	info := Info{Auth: true}
	for _, k := range keys {
		opts.Keys = append(opts.Keys, k.public)
		info.Keys = append(info.Keys, ssh.FingerprintSHA256(k.public))
	}
	return startAt(t, filepath.Join(shortDir(t), "s"), info, kerneltest.Around(t, nil, introspect.Module), opts, func(s *Server) { s.watchEvery = time.Millisecond })
}

func TestDialAnswersAChallengeWithTheAgent(t *testing.T) {
	for name, key := range map[string]identity{"Ed25519": newEd25519(t), "RSA": newRSA(t)} {
		t.Run(name, func(t *testing.T) {
			runAgent(t, newEd25519(t), key) // the daemon does not want the first
			p := guarded(t, newEd25519(t), key).dial()
			p.say(ping("1"), ping("2"))
			p.want(pong("1"), pong("2"))
		})
	}
}

func TestDialSaysWhyItCantAuthenticate(t *testing.T) {
	key, other := newEd25519(t), newEd25519(t)
	d := guarded(t, key)
	refused := func(want string, dialer Dialer) {
		t.Helper()
		c, err := dialer.Dial(t.Context(), d.path)
		if err == nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an agent that is gone is taken for a daemon that is: %v", err)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	refused("SSH_AUTH_SOCK is not set", Dialer{})
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(t.TempDir(), "none"))
	refused("does not answer", Dialer{})
	runAgent(t)
	refused("has no key of these types", Dialer{})
	runAgent(t, other)
	refused(ssh.FingerprintSHA256(key.public)+", and the ssh-agent has "+ssh.FingerprintSHA256(other.public), Dialer{})
	refused("did not accept the signature", Dialer{Signer: other.sign})
	refused("belongs to the user with the number", Dialer{peer: func(*net.UnixConn) (int, error) { return os.Geteuid() + 1, nil }})
	testkit.Until(t, "it is counted", func() bool { return d.s.Stats().Refused[refusedUnauthenticated] >= 5 })

	late, cancel := context.WithCancel(t.Context())
	hangs := Dialer{Signer: func([]byte) ([]byte, error) {
		cancel()
		return key.sign(nil)
	}}
	if _, err := hangs.Dial(late, d.path); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got %v", err)
	}
	c, err := (&Dialer{Signer: key.sign}).Dial(t.Context(), d.path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// What tidies temporary directories may take away the file that says whether a daemon wants a
// signature. The daemon makes it again.
func TestDialFindsOutWhetherASignatureIsWanted(t *testing.T) {
	sweep := func(d *daemon) *daemon {
		t.Helper()
		if err := os.Remove(lockName(d.path)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Run("by any process", func(t *testing.T) {
		t.Setenv("SSH_AUTH_SOCK", "")
		p := sweep(start(t, kerneltest.Around(t, nil, introspect.Module), nil, func(s *Server) { s.watchEvery = time.Millisecond })).dial()
		p.say(ping("1"))
		p.want(pong("1"))
	})
	t.Run("by a key", func(t *testing.T) {
		key := newEd25519(t)
		runAgent(t, newEd25519(t), newRSA(t), key)
		p := sweep(guarded(t, key)).dial()
		p.say(ping("1"), ping("2"))
		p.want(pong("1"), pong("2"))
	})
	t.Run("by a key that is not there", func(t *testing.T) {
		d := sweep(guarded(t, newEd25519(t)))
		other := newEd25519(t)
		runAgent(t, other)
		if _, err := new(Dialer).Dial(t.Context(), d.path); err == nil || !strings.Contains(err.Error(), "the ssh-agent has "+ssh.FingerprintSHA256(other.public)) {
			t.Errorf("got %v", err)
		}
		if _, err := (&Dialer{Signer: other.sign}).Dial(t.Context(), d.path); err == nil || !strings.Contains(err.Error(), "did not accept the signature") {
			t.Errorf("got %v", err)
		}
	})
}

// A process may serve the socket that knows nothing of locks.
func TestDialGivesUpOnWhatIsNoDaemon(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	if _, err := new(Dialer).Dial(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A signature over another text could be the key to sealed secrets.
func TestDialSignsNothingButChallenges(t *testing.T) {
	good, challenge := newChallenge()
	stamp(&good)
	if _, got, err := readChallenge(message.Append(nil, &good)); err != nil || string(got) != string(challenge) {
		t.Fatalf("got %q, %v", got, err)
	}
	for name, data := range map[string]any{
		"another text":   challengeData{scheme, []byte("PromptWareOS::pwenc::v1")},
		"the prefix":     challengeData{scheme, []byte(challengePrefix)},
		"another prefix": challengeData{scheme, []byte("x" + string(challenge))},
		"nothing":        challengeData{scheme, nil},
		"another scheme": challengeData{"none", challenge},
		"a number":       1,
		"no base64":      map[string]string{"scheme": scheme, "challenge": "%"},
	} {
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		m := good
		m.Data = text
		if _, got, err := readChallenge(message.Append(nil, &m)); err == nil || got != nil {
			t.Errorf("%s is signed: %q", name, got)
		}
	}
}

// raw connects without looking at who is there.
func (d *daemon) raw() *peer {
	d.t.Helper()
	c, err := connect(d.t.Context(), d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return newPeer(d.t, &Conn{c})
}

// challenged returns the first message of a daemon.
func (p *peer) challenged() (request message.Message, challenge []byte) {
	p.t.Helper()
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	request, challenge, err = readChallenge(line[:len(line)-1])
	if err != nil {
		p.t.Fatal(err)
	}
	return request, challenge
}

// answer is the line that answers a challenge.
func answer(request message.Message, signature []byte) string {
	data, _ := json.Marshal(answerData{signature})
	reply := request.Reply(data)
	stamp(&reply)
	return string(message.Append(nil, &reply)) + "\n"
}

func TestServeServesWhatComesWithTheSignature(t *testing.T) {
	key := newEd25519(t)
	p := guarded(t, key).raw()
	request, challenge := p.challenged()
	signature, _ := key.sign(challenge)
	p.say(answer(request, signature) + ping("1") + ping("2") + ping("3")[:10])
	p.want(pong("1"), pong("2"))
	p.say(ping("3")[10:])
	p.want(pong("3"))
}

func TestServeRefusesASignatureOfAnotherConnection(t *testing.T) {
	key := newEd25519(t)
	d := guarded(t, key)
	first := d.raw()
	request, challenge := first.challenged()
	signature, _ := key.sign(challenge)
	old := answer(request, signature)
	first.say(old, ping("1"))
	first.want(pong("1"))

	again := d.raw()
	fresh, other := again.challenged()
	if string(other) == string(challenge) || fresh.Metadata.ID == request.Metadata.ID {
		t.Fatal("a challenge comes twice")
	}
	again.say(old + ping("2"))
	again.refused()
	third := d.raw()
	fresh, _ = third.challenged()
	third.say(answer(fresh, signature) + ping("3"))
	third.refused()
}

// refused reads to the end, and nothing may come before it.
func (p *peer) refused() {
	p.t.Helper()
	if got := p.hear(); got != "EOF" && !strings.Contains(got, "reset") {
		p.t.Errorf("got %s", got)
	}
}

func TestServeServesNothingWithoutASignature(t *testing.T) {
	key := newEd25519(t)
	d := guarded(t, key)
	for name, say := range map[string]func(request message.Message, challenge []byte) string{
		"nothing signed":     func(message.Message, []byte) string { return ping("1") },
		"no JSON":            func(message.Message, []byte) string { return "hello\n" },
		"a line too long":    func(message.Message, []byte) string { return strings.Repeat("x", 2*message.MaxLine) },
		"an empty line":      func(message.Message, []byte) string { return "\n" },
		"an empty signature": func(r message.Message, _ []byte) string { return answer(r, nil) },
		"a wrong signature":  func(r message.Message, _ []byte) string { return answer(r, make([]byte, 64)) },
		"another key's": func(r message.Message, challenge []byte) string {
			signature, _ := newEd25519(t).sign(challenge)
			return answer(r, signature)
		},
		"for another request": func(r message.Message, challenge []byte) string {
			signature, _ := key.sign(challenge)
			r.Metadata.ID = "another"
			return answer(r, signature)
		},
		"as an event": func(r message.Message, challenge []byte) string {
			signature, _ := key.sign(challenge)
			return strings.Replace(answer(r, signature), `"kind":"reply"`, `"kind":"event"`, 1)
		},
		"of another type": func(r message.Message, challenge []byte) string {
			signature, _ := key.sign(challenge)
			r.Type = "Ping"
			return answer(r, signature)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.t = t
			p := d.raw()
			request, challenge := p.challenged()
			_, _ = p.Write([]byte(say(request, challenge) + ping("after"))) // it may be refused before it is written
			p.refused()
		})
	}
	testkit.Until(t, "all are counted", func() bool { return d.s.Stats().Refused[refusedUnauthenticated] == 10 })
}

func TestServeDoesNotWaitForeverForASignature(t *testing.T) {
	key := newEd25519(t)
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{Keys: []ssh.PublicKey{key.public}}, c.use)
	p := d.raw()
	p.challenged()
	if _, err := p.Write([]byte(`{"kind":`)); err != nil {
		t.Fatal(err)
	}
	c.until(t, "it is refused", d.s.patience, func() bool { return d.s.Stats().Refused[refusedUnauthenticated] == 1 })
	p.refused()
	half := d.raw()
	half.challenged()
	_ = half.CloseWrite()
	half.refused()
}

func TestServeEndsWhileItWaitsForASignature(t *testing.T) {
	d := guarded(t, newEd25519(t))
	p := d.raw()
	p.challenged()
	d.stop()
	p.want("disconnected 503", "EOF")
	if err := d.ended(); err != nil {
		t.Errorf("got %v", err)
	}
}

// Who was about to sign learns that the daemon ends, and not that its key is the wrong one.
func TestDialKnowsThatTheDaemonEnds(t *testing.T) {
	key := newEd25519(t)
	d := guarded(t, key)
	late := &Dialer{Signer: func(challenge []byte) ([]byte, error) {
		d.stop()
		if err := d.ended(); err != nil {
			t.Error(err)
		}
		return ed25519.Sign(key.private.(ed25519.PrivateKey), challenge), nil
	}}
	if _, err := late.Dial(t.Context(), d.path); !errors.Is(err, message.ErrServerStopping) {
		t.Errorf("got %v", err)
	}
}

// A bare RSA signature does not say what it was made with.
func TestRSASignaturesAreTakenWithSHA2Only(t *testing.T) {
	key := newRSA(t)
	request, challenge := newChallenge()
	stamp(&request)
	private := key.private.(*rsa.PrivateKey)
	sum256, sum1 := sha256.Sum256(challenge), sha1.Sum(challenge)
	for _, c := range []struct {
		hash crypto.Hash
		sum  []byte
		good bool
	}{{crypto.SHA256, sum256[:], true}, {crypto.SHA1, sum1[:], false}} {
		signature, err := rsa.SignPKCS1v15(rand.Reader, private, c.hash, c.sum)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(answer(request, signature), "\n")
		if err := verify([]byte(line), request.Metadata.ID, challenge, []ssh.PublicKey{key.public}); (err == nil) != c.good {
			t.Errorf("%v: got %v", c.hash, err)
		}
	}
}

func TestServeRefusesKeysAndListenersThatDoNotFit(t *testing.T) {
	l, err := Listen(filepath.Join(shortDir(t), "s"), Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := NewServer(kerneltest.Around(t, nil, introspect.Module), &Options{Keys: []ssh.PublicKey{newEd25519(t).public}}).Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "Auth false, and the server has 1 keys") {
		t.Errorf("got %v", err)
	}
}

func FuzzAuthenticate(f *testing.F) {
	key := newIdentity(f, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	challenge := []byte(challengePrefix + strings.Repeat("c", challengeBytes))
	request := message.Message{Kind: message.KindCommand, Type: authenticate, Metadata: message.Metadata{ID: "challenge", Timestamp: 1735000000000}}
	signature, _ := key.sign(challenge)
	good := answer(request, signature)
	f.Add([]byte(good))
	f.Add([]byte(answer(request, nil)))
	f.Add([]byte(answer(request, make([]byte, 64))))
	f.Add([]byte(strings.Replace(good, "reply", "event", 1)))
	f.Add([]byte(strings.Replace(good, "challenge", "other", 1)))
	f.Add([]byte(`{"kind":"reply","type":"Syscall.Authenticate","data":{"signature":1},"metadata":{"id":"1","timestamp":1,"causation":"challenge"}}` + "\n"))
	f.Add([]byte("hello\nworld"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		in := strings.NewReader(string(sent))
		line, err := readLine(in)
		if err != nil {
			return
		}
		if string(line)+"\n" != string(sent[:len(line)+1]) || in.Len() != len(sent)-len(line)-1 {
			t.Errorf("%q became %q, and %d bytes are left", sent, line, in.Len())
		}
		if verify(line, "challenge", challenge, []ssh.PublicKey{key.public}) != nil {
			return
		}
		// Whatever else it says, it must have the signature in it.
		m, err := message.Decode(line)
		var got answerData
		if err != nil || json.Unmarshal(m.Data, &got) != nil || string(got.Signature) != string(signature) {
			t.Errorf("accepted: %q", sent)
		}
	})
}
