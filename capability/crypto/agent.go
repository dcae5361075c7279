package crypto

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kernos/internal/sealed"
	"kernos/message"
)

// Socket returns how to reach the agent that listens at a path, usually that in
// SSH_AUTH_SOCK, or nil for "".
func Socket(path string) func(context.Context) (net.Conn, error) {
	if path == "" {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// Errors about agents and keys. They go to the caller as causes.
var (
	errStopping = message.Errorf(503, "The kernel is stopping")

	errNoAgent = message.Errorf(503, "No ssh-agent is running: start one, add a key to it with ssh-add, and start kernos where SSH_AUTH_SOCK is set")
	errRefused = message.Errorf(403, "ssh-agent refuses to sign with the key: it is locked, the key has a restriction, or a person has declined; unlock it, confirm, or use another key")
	errForm    = message.Errorf(502, "ssh-agent does not sign with the hash that it is asked for: use a newer agent, or an Ed25519 key")
)

func (k *Keyring) late() error {
	if k.life.Err() != nil {
		return errStopping
	}
	return message.Errorf(504, "ssh-agent has not answered within %v: it hangs, or waits for a confirmation; confirm and try again, or see what ssh-add -l prints", agentTimeout)
}

type form struct {
	name  string
	flags agent.SignatureFlags
}

// forms has the forms of the signatures of a type of key. An RSA signature is that of a hash:
// SHA-512 is what we seal with; the format does not name it, so what others have sealed may
// need another one. Other types (ECDSA, DSA, hardware keys with their counters) sign differently
// each time.
var forms = map[string][]form{
	ssh.KeyAlgoED25519: {{ssh.KeyAlgoED25519, 0}},
	ssh.KeyAlgoRSA: {
		{ssh.KeyAlgoRSASHA512, agent.SignatureFlagRsaSha512},
		{ssh.KeyAlgoRSASHA256, agent.SignatureFlagRsaSha256},
		{ssh.KeyAlgoRSA, 0}, // SHA-1
	},
}

// maxForms is how many forms the signatures of a key can have.
const maxForms = 3

// ask derives the key of a slot by the agent, before ctx ends.
func (k *Keyring) ask(ctx context.Context, s slot) (*key, error) {
	conn, err := k.opts.Agent(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, k.late()
		}
		return nil, message.Errorf(503, "ssh-agent can't be reached (%v): SSH_AUTH_SOCK is out of date, or the agent has ended; start kernos where ssh-add -l works, or without SSH_AUTH_SOCK to use its key file", err)
	}
	defer func() { _ = conn.Close() }()
	// A call of the client can't be cancelled otherwise.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	found, err := k.converse(agent.NewClient(struct{ io.ReadWriter }{conn}), s)
	if err != nil && ctx.Err() != nil {
		return nil, k.late()
	}
	return found, err
}

type holder interface {
	List() ([]*agent.Key, error)
	SignWithFlags(ssh.PublicKey, []byte, agent.SignatureFlags) (*ssh.Signature, error)
}

func (k *Keyring) converse(a holder, s slot) (*key, error) {
	held, err := a.List()
	if err != nil {
		return nil, message.Errorf(502, "ssh-agent does not list its keys: %v", err)
	}
	public, err := pick(held, s.kid)
	if err != nil {
		return nil, err
	}
	all := forms[public.Type()]
	if s.nth >= len(all) {
		return nil, errForm
	}
	found := &key{kid: kidOf(public), kind: public.Type(), forms: len(all)}
	signature, err := k.sign(a, public, slot{found.kid, s.nth}, all[s.nth])
	if err != nil {
		return nil, err
	}
	found.cipher, err = newCipher(signature)
	return found, err
}

func kidOf(public ssh.PublicKey) sealed.Kid {
	return sealed.Kid{Source: sealed.Agent, Digest: sha256.Sum256(public.Marshal())}
}

// pick finds the key of a kid, or the one to seal with: the first Ed25519 key, else the
// first RSA key.
func pick(held []*agent.Key, kid sealed.Kid) (ssh.PublicKey, error) {
	wanted := kid != sealed.Kid{}
	var best ssh.PublicKey
	var others []string
	for _, h := range held {
		public, err := ssh.ParsePublicKey(h.Blob)
		if err != nil { // the key has a type that isn't known here
			others = append(others, h.Format)
			continue
		}
		usable := forms[public.Type()] != nil
		switch {
		case wanted && kidOf(public) == kid && usable:
			return public, nil
		case wanted && kidOf(public) == kid:
			return nil, message.Errorf(422, "The key %s is of the type %s; only Ed25519 and RSA keys will do, since the signatures of others differ each time", kid, public.Type())
		case !usable:
			others = append(others, public.Type())
		case best == nil || best.Type() == ssh.KeyAlgoRSA && public.Type() == ssh.KeyAlgoED25519:
			best = public
		}
	}
	switch {
	case wanted:
		return nil, message.Errorf(404, "ssh-agent does not hold the key %s (ssh-add -l shows what it holds): add it with ssh-add, or unlock the agent", kid)
	case best != nil:
		return best, nil
	case len(others) > 0:
		slices.Sort(others)
		return nil, message.Errorf(404, "ssh-agent holds no key that can be used, only %s: add an Ed25519 or RSA key with ssh-add, since the signatures of others differ each time", strings.Join(slices.Compact(others), ", "))
	}
	return nil, message.Errorf(404, "ssh-agent holds no key, or is locked: add an Ed25519 key with ssh-add, or start kernos without SSH_AUTH_SOCK to use its key file")
}

// sign has the agent sign the challenge. The signature is checked: what is sealed with the
// key of a wrong one could never be opened.
func (k *Keyring) sign(a holder, public ssh.PublicKey, s slot, f form) ([]byte, error) {
	first, err := signOnce(a, public, f)
	if err != nil {
		return nil, err
	}
	if _, proven := k.proven.Load(s); proven {
		return first, nil
	}
	// Some agents sign differently each time even with Ed25519, which is allowed.
	second, err := signOnce(a, public, f)
	if err != nil {
		return nil, err
	}
	defer clear(second)
	if !bytes.Equal(first, second) {
		clear(first)
		return nil, message.Errorf(422, "ssh-agent signs the same text with the key %s differently each time, so that no key can be derived from it: use another agent", s.kid)
	}
	k.proven.Store(s, true)
	return first, nil
}

func signOnce(a holder, public ssh.PublicKey, f form) ([]byte, error) {
	signature, err := a.SignWithFlags(public, []byte(sealed.Challenge), f.flags)
	if err != nil {
		return nil, errRefused
	}
	if signature.Format != f.name { // an agent that knows nothing of flags
		clear(signature.Blob)
		return nil, errForm
	}
	if public.Verify([]byte(sealed.Challenge), signature) != nil {
		clear(signature.Blob)
		return nil, message.Errorf(502, "ssh-agent has made a wrong signature with the key %s: use another agent", kidOf(public))
	}
	return signature.Blob, nil
}
