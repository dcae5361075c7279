package unix

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kernos/message"
)

// authenticate is the type of the first message that a daemon with keys sends, and of the
// reply that it wants.
const authenticate message.Type = "Syscall.Authenticate"

const (
	scheme = "signature"

	// challengePrefix begins everything that is signed here. A signature by the same key
	// over other texts opens secrets, so a client signs nothing that begins otherwise.
	challengePrefix = "kernos-authenticate:v1:"
	challengeBytes  = 32 // random ones after it

	// authPatience is how long an answer to a challenge may take.
	authPatience = 30 * time.Second
)

// signatureFormats lists which signatures of which keys are good. A bare signature does not
// state how it was made, so all of them are tried. SHA-1 is not among them.
var signatureFormats = map[string][]string{
	ssh.KeyAlgoED25519: {ssh.KeyAlgoED25519},
	ssh.KeyAlgoRSA:     {ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
}

// The data of a challenge and of the answer.
type (
	challengeData struct {
		Scheme    string `json:"scheme"`
		Challenge []byte `json:"challenge"`
	}
	answerData struct {
		Signature []byte `json:"signature"`
	}
)

// newChallenge returns a message with a challenge that was never used before.
func newChallenge() (request message.Message, challenge []byte) {
	challenge = make([]byte, len(challengePrefix)+challengeBytes)
	_, _ = rand.Read(challenge[copy(challenge, challengePrefix):]) // never fails
	data, _ := json.Marshal(challengeData{scheme, challenge})      // never fails
	return message.Message{Kind: message.KindCommand, Type: authenticate, Data: data}, challenge
}

// verify returns nil if a line answers a challenge with a signature by one of the keys.
func verify(line []byte, id message.ID, challenge []byte, keys []ssh.PublicKey) error {
	m, err := message.Decode(line)
	if err != nil {
		return fmt.Errorf("the answer to the challenge isn't a message: %w", err)
	}
	if m.Kind != message.KindReply || m.Type != authenticate || m.Metadata.Causation != id {
		return fmt.Errorf("the first message, %s %s, does not answer the challenge", m.Kind, m.Type)
	}
	var answer answerData
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return errors.New("the answer to the challenge has no signature in base64") // err would quote what the peer sent
	}
	for _, key := range keys {
		for _, format := range signatureFormats[key.Type()] {
			if key.Verify(challenge, &ssh.Signature{Format: format, Blob: answer.Signature}) == nil {
				return nil
			}
		}
	}
	return errors.New("the signature is by none of the keys, or over something else")
}

// signWithAgent lets the ssh-agent sign a challenge with a key that the daemon accepts; its
// fingerprint is in accepted. If that is empty, any key may do.
func signWithAgent(ctx context.Context, challenge []byte, accepted []string) ([]byte, error) {
	path := os.Getenv("SSH_AUTH_SOCK")
	if path == "" {
		return nil, errors.New("it wants a signature, and there is no ssh-agent to give one (SSH_AUTH_SOCK is not set); start one with: eval $(ssh-agent) && ssh-add")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil { // isn't wrapped, as it would mean that there is no daemon
		return nil, fmt.Errorf("it wants a signature, and the ssh-agent at SSH_AUTH_SOCK does not answer: %v", err)
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
		flags = agent.SignatureFlagRsaSha512 // without this flag an agent may use SHA-1
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

// readLine reads a line that comes before the conversation, without its end. It reads one byte
// at a time, and so nothing that comes after the line.
func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	for next := make([]byte, 1); len(line) <= message.MaxLine; line = append(line, next[0]) {
		if _, err := io.ReadFull(r, next); err != nil {
			return nil, err
		}
		if next[0] == '\n' {
			return line, nil
		}
	}
	return nil, fmt.Errorf("the first line is longer than %d bytes", message.MaxLine)
}
