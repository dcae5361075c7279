package unix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// signWithAgent lets the ssh-agent sign a challenge with a key that the daemon accepts; its
// fingerprint is in accepted. If that is empty, any key may do.
func signWithAgent(ctx context.Context, challenge []byte, accepted []string) ([]byte, error) {
	path := os.Getenv("SSH_AUTH_SOCK")
	if path == "" {
		return nil, errors.New("it wants a signature, and there is no ssh-agent to give one (SSH_AUTH_SOCK is not set); start one with: eval $(ssh-agent) && ssh-add")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("it wants a signature, and the ssh-agent at SSH_AUTH_SOCK does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	client := agent.NewClient(conn)
	keys, err := client.List()
	if err != nil {
		return nil, fmt.Errorf("the ssh-agent does not list its keys: %w", err)
	}
	key, err := choose(keys, accepted)
	if err != nil {
		return nil, err
	}
	var flags agent.SignatureFlags
	if key.Type() == ssh.KeyAlgoRSA {
		flags = agent.SignatureFlagRsaSha512 // without it an agent may use SHA-1
	}
	signature, err := client.SignWithFlags(key, challenge, flags)
	if err != nil {
		return nil, fmt.Errorf("the ssh-agent does not sign with %s: %w", ssh.FingerprintSHA256(key), err)
	}
	if !slices.Contains(signatureFormats[key.Type()], signature.Format) {
		return nil, fmt.Errorf("the ssh-agent has signed with %s, which is not taken; use a newer agent or an Ed25519 key", signature.Format)
	}
	return signature.Blob, nil
}

func choose(keys []*agent.Key, accepted []string) (*agent.Key, error) {
	var have []string
	for _, key := range keys {
		if _, ok := signatureFormats[key.Type()]; !ok {
			continue
		}
		print := ssh.FingerprintSHA256(key)
		if len(accepted) == 0 || slices.Contains(accepted, print) {
			return key, nil
		}
		have = append(have, print)
	}
	want := "an Ed25519 or RSA key"
	if len(accepted) > 0 {
		want = strings.Join(accepted, " or ")
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("it wants a signature by %s, and the ssh-agent has no key of these types; add one with ssh-add", want)
	}
	return nil, fmt.Errorf("it wants a signature by %s, and the ssh-agent has %s; add the right one with ssh-add", want, strings.Join(have, ", "))
}
