// Package crypto is the kernel's keyring: secrets that are sealed for one identity and
// opened again by it.
//
//	Crypto.Seal {"plaintext":"hunter2"}         →  "pwenc:v1:eyJ2Ijox…"
//	Crypto.Open {"ciphertext":"pwenc:v1:eyJ…"}  →  "hunter2"
//	Crypto.Derive {}                            →  {"kid":"ssh-fp:SHA256:…",…}
//
// A key is derived from a signature that ssh-agent makes: a program that can have the agent
// sign can open sealed strings, the private key is never read, and nothing has to be stored.
// This needs keys whose signature of a text is always the same: Ed25519 and RSA. Without an
// agent, the key is in a file.
//
// A secret may be sealed for certain hosts or syscalls ([sealed.Destination]), and is then
// opened for nothing else. One without is for the owner to use.
//
// What a string was sealed with stands in the string, so an agent may hold many keys.
// Derived keys stay in memory for a while. Neither they nor plaintexts reach an error, a
// log or a disk; the schemas mark what must not be recorded.
//
// # Goroutines
//
//   - A key derivation, 64 at most, of which one asks the agent: the call that needs the key starts it, and it ends
//     when the agent has answered, after 5 s at most. What the end of a context causes: a request to the agent is
//     interrupted.
package crypto

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// Options are the settings of a Keyring. The zero value has neither an agent nor a file, so
// nothing can be sealed with it.
type Options struct {
	// Agent connects to ssh-agent; see [Socket]. Nil means that there is none, and the key
	// file serves.
	Agent func(context.Context) (net.Conn, error)

	// Key is what Crypto.Seal uses if its input names none: a kid as Crypto.Derive names it, or a
	// fingerprint as ssh-add -l does. "" means the first Ed25519 key of the agent, else its
	// first RSA key.
	Key string

	// KeyFile is the path of the local key. It is made, with its folder, when something is
	// sealed and there is no agent. "" means that there can be none.
	KeyFile string

	// RequireAgent forbids the local key, also for opening.
	RequireAgent bool

	// OpenUnbound lets tokens use sealed strings that name no destination, as the owner may.
	OpenUnbound bool

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

const (
	agentTimeout = 5 * time.Second  // how long ssh-agent may take
	keepTime     = 15 * time.Minute // a key which was taken from the agent then goes out of use
)

// A Keyring seals and opens. It is safe for concurrent use. Its creator closes it.
type Keyring struct {
	opts  Options
	turn  chan struct{} // held while talking to the agent
	local sync.Once     // logs once that the key is in a file

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup // derivations

	proven sync.Map // slots for which the agent has signed twice, and alike

	mu      sync.Mutex
	keys    map[slot]*key
	running map[slot]*derivation
}

// New returns a keyring. It doesn't connect to the agent before something is sealed or opened.
func New(opts Options) *Keyring {
	k := &Keyring{opts: opts, turn: make(chan struct{}, 1), keys: make(map[slot]*key), running: make(map[slot]*derivation)}
	k.opts.Log = cmp.Or(k.opts.Log, slog.New(slog.DiscardHandler))
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// Close forgets all keys. What is asked later fails.
func (k *Keyring) Close() {
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.work.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.keys)
}

// Open returns the plaintext of a sealed string for a use, and what it is sealed for. The
// error is a *message.Error that reveals nothing of the plaintext, or that of ctx:
//
//	403  it is sealed for another use, or for none and ctx acts for a token
//	422  the text is not a sealed string, or does not open with the key that it names
//	500  the key is not available; the cause reports why
func (k *Keyring) Open(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error) {
	box, err := sealed.Parse(text)
	if err != nil {
		return nil, nil, message.Errorf(422, "Invalid sealed string: %v", err)
	}
	if err := k.permit(kernel.PrincipalOf(ctx), &box, use); err != nil {
		return nil, nil, err
	}
	plaintext, err := k.open(ctx, &box)
	return plaintext, box.For, err
}

// permit decides whether a principal may have a sealed string opened for a use. Whether the
// destination is the one that it was sealed with shows when it is opened.
func (k *Keyring) permit(p *principal.Principal, box *sealed.Box, use sealed.Use) error {
	switch {
	case len(box.For) > 0:
		if err := box.For.Refuses(use); err != nil {
			return message.Errorf(403, "The sealed string is not for this use: %v", err)
		}
	case !p.IsOwner() && !k.opts.OpenUnbound:
		return message.Errorf(403, "The token %q may not use a sealed string that names no destination; the owner can seal the secret with one (kernos crypto seal --for HOST), or let tokens use all such strings (kernos serve --open-unbound-secrets)", p.Name())
	}
	return nil
}

func (k *Keyring) open(ctx context.Context, box *sealed.Box) ([]byte, error) {
	const failed = "Decryption failed"
	kid, err := sealed.ParseKid(box.Kid)
	if err != nil {
		return nil, message.Errorf(500, failed+": %w", message.Errorf(404,
			"It was sealed with a key of another kind than this kernel knows: %v", err))
	}
	// Which hash an RSA key signs is not settled, so it may have been any of them.
	var missing error // joins the errors of all candidates
	tried := false
	for nth, forms := 0, maxForms; nth < forms; nth++ {
		key, err := k.key(ctx, slot{kid: kid, nth: nth})
		switch {
		case err == nil:
			if plaintext, err := key.cipher.Open(box); err == nil {
				return plaintext, nil
			}
			tried, forms = true, key.forms
		case errors.Is(err, errForm), nth > 0 && errors.Is(err, errRefused):
			missing = err
		default:
			return nil, because(ctx, failed, err)
		}
	}
	if !tried {
		return nil, because(ctx, failed, missing)
	}
	return nil, message.Errorf(422, "The sealed string does not open with the key that it names, %s: %v", kid, sealed.ErrAltered)
}

// because returns the error for an operation whose key is not available.
func because(ctx context.Context, failed string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // the call was cancelled; the keyring did not fail
	}
	return message.Errorf(500, failed+": %w", err)
}

// Module returns the syscalls of the keyring.
func (k *Keyring) Module() kernel.Module {
	return kernel.Module{
		Name:     "crypto",
		Version:  "1.0.0",
		Summary:  "Secrets, sealed for one identity and opened by it. The key never leaves memory.",
		Domains:  []string{"Crypto"},
		Syscalls: []kernel.Syscall{seal.Bind(k.sealing), open.Bind(k.opening), derive.Bind(k.deriving)},
	}
}
