package crypto

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// maxPlaintext is how many bytes Crypto.Seal takes: what it makes of them fits into a line,
// so that it can be sent to Crypto.Open. A plaintext that does not fit into a line could not
// be answered, since it must not go to a blob.
const maxPlaintext = 8 << 10

type sealInput struct {
	Plaintext string `json:"plaintext" aliases:"secret" jsonschema:"format=password,writeOnly=true" jsonschema_description:"The secret: text of at most 8,192 bytes."`
	Key       string `json:"key,omitempty" jsonschema_description:"The key to seal with: a kid as Crypto.Derive names it (ssh-fp:SHA256:…, kernos-local:SHA256:…), or a fingerprint as ssh-add -l does (SHA256:…). Without it, the kernel's own choice: the first Ed25519 key of ssh-agent, else its first RSA key; the local key where there is no agent."`
	AAD       string `json:"aad,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Text that the sealed string is bound to, such as what the secret is for. It can be read in the sealed string and can't be changed."`

	For sealed.Destination `json:"for,omitempty" jsonschema:"maxItems=8" jsonschema_description:"What the secret is for: hosts (api.example.com, *.example.com for every host below it, localhost:8080), syscalls (Http.Fetch, Mail.*), or both. It is opened for no other use, and only the owner reads it with Crypto.Open. It can be read in the sealed string and can't be changed. Without it, the secret can be used for anything, and only by the owner."`
}

var seal = kernel.DefineCommand[sealInput, string](kernel.Definition{
	Type:    "Crypto.Seal",
	Summary: "Encrypt a secret. The reply is a sealed string (pwenc:v1:…, or pwenc:v2:… if it is for something) that is safe to store and to show.",
	Output:  schema.Written(`{"type":"string","description":"The sealed string, pwenc:v1:… or pwenc:v2:…"}`),
	Presentation: kernel.Presentation{
		Title: "Seal a secret",
		Words: "encrypt, secret, password, vault, credential, key, hash, sign, decrypt, protect, keep a password safe, hide a secret, lock it away, " +
			"make it unreadable, store a password, put a key in the vault, encrypt an api key, save a credential safely",
		Stdin: "plaintext",
		Errors: []kernel.ErrorDefinition{
			{Code: 400, When: "the key id is malformed"},
			{Code: 413, When: "the plaintext is too long"},
			{Code: 422, When: "the destination is invalid"},
			{Code: 500, When: "the key can't be used; the cause says why"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow}, // a person may have to confirm
})

// Seal seals a secret of the kernel's own for a destination, with the kernel's choice of a key.
func (k *Keyring) Seal(ctx context.Context, plaintext string, to sealed.Destination) (string, error) {
	return k.sealing(ctx, sealInput{Plaintext: plaintext, For: to})
}

func (k *Keyring) sealing(ctx context.Context, in sealInput) (string, error) {
	if len(in.Plaintext) > maxPlaintext {
		return "", message.Errorf(413, "The plaintext has %d bytes, and %d are allowed: encrypt large data with a key of its own, and seal that key", len(in.Plaintext), maxPlaintext)
	}
	if err := in.For.Check(); err != nil {
		return "", message.Invalid("for", "for: %v", err)
	}
	s, err := k.slotOf(in.Key)
	if err != nil {
		return "", err
	}
	found, err := k.key(ctx, s)
	if errors.Is(err, errNoFile) && s == (slot{}) {
		if err = makeKeyFile(k.opts.KeyFile); err == nil {
			found, err = k.key(ctx, s)
		}
	}
	if err != nil {
		return "", because(ctx, "Encryption failed", err)
	}
	return found.cipher.Seal(found.kid, []byte(in.Plaintext), in.AAD, in.For), nil
}

// CheckKey finds what is wrong with a name that is to be [Options].Key.
func CheckKey(name string) error {
	_, err := parseKey(name)
	return err
}

// parseKey returns the kid that a caller has named, the zero one for "".
func parseKey(name string) (sealed.Kid, error) {
	if name == "" {
		return sealed.Kid{}, nil
	}
	if strings.HasPrefix(name, "SHA256:") {
		name = string(sealed.Agent) + ":" + name
	}
	return sealed.ParseKid(name)
}

// slotOf returns the slot of the key that a caller has named, or of the default one.
func (k *Keyring) slotOf(name string) (slot, error) {
	kid, err := parseKey(cmp.Or(name, k.opts.Key))
	if err != nil {
		// The text that the specification has for it.
		return slot{}, message.Errorf(400, "Invalid encryption key format: %w", message.Errorf(400, "%v; Crypto.Derive returns the key in use", err))
	}
	return slot{kid: kid}, nil
}

// A sealed string isn't a secret. Ciphertext is marked as one in case a caller sends the
// plaintext by mistake: it is neither recorded nor quoted. The example is well formed; its
// key does not exist.
type openInput struct {
	Ciphertext string  `json:"ciphertext" jsonschema:"writeOnly=true,example=pwenc:v1:eyJ2IjoxLCJraWQiOiJrZXJub3MtbG9jYWw6U0hBMjU2OlNIMmZLNWdRQVZsR3ZrelZMS3VkMUhJdjBVaTVyZkRSVHJwaFMtX1NUb1UiLCJhbGciOiJBMjU2R0NNIiwibm9uY2UiOiJUQ1haMHNCM0VHRVdCZmhMIiwiY3QiOiJrZWhLbXZCdEctZkswT1NIUzZJbWxIb3hYQXMifQ" jsonschema_description:"A sealed string, as Crypto.Seal replies it: pwenc:v1:… or pwenc:v2:… It is not recorded, in case it is the secret itself."`
	AAD        *string `json:"aad,omitempty" jsonschema_description:"Open the string only if it is bound to this text."`
}

var open = kernel.DefineQuery[openInput, string](kernel.Definition{
	Type:    "Crypto.Open",
	Summary: "Decrypt a sealed string (pwenc:v1:… or pwenc:v2:…). The reply is the secret.",
	Output:  schema.Written(`{"type":"string","writeOnly":true,"description":"The plaintext. It is not recorded."}`),
	Presentation: kernel.Presentation{
		Title: "Open a sealed secret",
		Words: "decrypt, unseal, reveal, what was the password, show the secret, get a password back, unlock a secret, make it readable again, " +
			"read an encrypted text, decode a sealed string",
		Stdin: "ciphertext",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the string is sealed for another use"},
			{Code: 422, When: "the string isn't a sealed one, or was altered"},
			{Code: 500, When: "its key can't be used; the cause says why"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow},
	Access:   principal.ByName,
})

func (k *Keyring) opening(ctx context.Context, in openInput) (string, error) {
	box, err := sealed.Parse(in.Ciphertext)
	if err != nil {
		return "", message.Errorf(422, "Invalid sealed string: %v", err)
	}
	if in.AAD != nil && *in.AAD != box.AAD {
		return "", message.Errorf(422, "The sealed string is not bound to the aad that was given: it was made for something else")
	}
	// The owner reads every secret, whatever it is for.
	if p := kernel.PrincipalOf(ctx); !p.IsOwner() {
		if err := k.permit(p, &box, sealed.Use{Syscall: "Crypto.Open"}); err != nil {
			return "", err
		}
	}
	plaintext, err := k.open(ctx, &box)
	if err != nil {
		return "", err
	}
	defer clear(plaintext)
	if !utf8.Valid(plaintext) {
		return "", message.Errorf(422, "What is sealed is not UTF-8 text, and a reply can hold nothing else; encode data, for example as base64, before sealing it")
	}
	return string(plaintext), nil
}

type deriveInput struct {
	Key string `json:"key,omitempty" jsonschema:"writeOnly=true" jsonschema_description:"The key that is meant, as in Crypto.Seal. Without it, the one that Crypto.Seal would use."`
}

type deriveOutput struct {
	Kid     string `json:"kid" jsonschema_description:"What the key is called in sealed strings: ssh-fp:SHA256:… for a key of ssh-agent, kernos-local:SHA256:… for the local one."`
	Alg     string `json:"alg" jsonschema_description:"What it is used with: A256GCM."`
	Source  string `json:"source" jsonschema:"enum=ssh-agent,enum=file" jsonschema_description:"Where it comes from."`
	Type    string `json:"type,omitempty" jsonschema_description:"The type of the SSH key: ssh-ed25519 or ssh-rsa."`
	Warning string `json:"warning,omitempty" jsonschema_description:"A warning about the key."`
}

var derive = kernel.DefineQuery[deriveInput, deriveOutput](kernel.Definition{
	Type:    "Crypto.Derive",
	Summary: "Derive a key and identify it: its id and its source, never the key itself.",
	Presentation: kernel.Presentation{
		Title: "Identify a key",
		Words: "key id, fingerprint, which key is used, public id of a key, where does the key come from, check the encryption key, master key, " +
			"is it the same key",
		Arguments: []string{"key"},
		Errors: []kernel.ErrorDefinition{
			{Code: 400, When: "the key id is malformed"},
			{Code: 500, When: "the key can't be used; the cause says why"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow},
	Access:   principal.ForPeople,
})

func (k *Keyring) deriving(ctx context.Context, in deriveInput) (deriveOutput, error) {
	s, err := k.slotOf(in.Key)
	if err != nil {
		return deriveOutput{}, err
	}
	found, err := k.key(ctx, s)
	if err != nil {
		return deriveOutput{}, because(ctx, "Key derivation failed", err)
	}
	out := deriveOutput{Kid: found.kid.String(), Alg: "A256GCM", Source: "ssh-agent", Type: found.kind}
	if found.kid.Source == sealed.Local {
		out.Source, out.Warning = "file", localWarning
	}
	return out, nil
}
