package unix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oklog/ulid/v2"

	"kernos/internal/backoff"
	"kernos/message"
	"kernos/transport"
)

// A Dialer connects to a daemon. The zero value is usable.
type Dialer struct {
	// Signer signs what a daemon with keys wants signed, and returns the bare signature:
	// 64 bytes of Ed25519, or RSA PKCS #1 v1.5 with SHA-512 or SHA-256. Nil means the
	// ssh-agent at SSH_AUTH_SOCK.
	Signer func(challenge []byte) (signature []byte, err error)

	peer func(*net.UnixConn) (uid int, err error) // nil means peerUser
}

// A Conn is a connection to a daemon: lines of NDJSON in both directions. After CloseWrite the
// daemon answers everything, and closes the connection. After Close, queries that the daemon
// still works on are cancelled, and commands are completed.
type Conn struct{ *net.UnixConn }

// Dial connects to the daemon at path and, if the daemon wants it, authenticates. Ctx
// bounds that and has no effect on the connection later. If no daemon serves the socket the
// error is an fs.ErrNotExist or a syscall.ECONNREFUSED; if it can't be convinced, a *NotSigned.
func (d *Dialer) Dial(ctx context.Context, path string) (*Conn, error) {
	return d.dial(ctx, path, false)
}

// DialHTTP is Dial for a client that speaks HTTP. A daemon that doesn't accept the signature closes the connection.
func (d *Dialer) DialHTTP(ctx context.Context, path string) (*Conn, error) {
	return d.dial(ctx, path, true)
}

func (d *Dialer) dial(ctx context.Context, path string, http bool) (*Conn, error) {
	c, err := d.open(ctx, path)
	if err != nil {
		return nil, err
	}
	info, known := Inspect(path)
	// What tidies temporary directories may take the lock file of a daemon away, and with it the
	// word whether the daemon wants a signature. The daemon makes the file again.
	pauses := backoff.Backoff{First: time.Millisecond, Longest: 100 * time.Millisecond}
	for begun := time.Now(); !known && time.Since(begun) < 2*watchEvery; info, known = Inspect(path) {
		if !pauses.Wait(ctx.Done()) {
			_ = c.Close()
			return nil, fmt.Errorf("the daemon at %s does not report whether it wants a signature: %w", path, context.Cause(ctx))
		}
	}
	if !info.Auth {
		return c, nil
	}
	sign := d.Signer
	if sign == nil {
		sign = func(challenge []byte) ([]byte, error) { return signWithAgent(ctx, challenge, info.Keys) }
	}
	err = c.authenticate(ctx, path, func() error {
		if err := c.answerChallenge(sign); err != nil || http {
			return err
		}
		return c.confirm()
	})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (d *Dialer) open(ctx context.Context, path string) (*Conn, error) {
	socket, err := connect(ctx, path)
	if err != nil {
		return nil, err
	}
	peer := d.peer
	if peer == nil {
		peer = peerUser
	}
	uid, err := peer(socket)
	switch {
	case err != nil:
		err = fmt.Errorf("can't tell whose daemon serves %s: %w", path, err)
	case uid != os.Geteuid() && !keptByInit(uid, path):
		err = fmt.Errorf("the daemon at %s belongs to the user with the number %d, and you are %d; nothing was sent", path, uid, os.Geteuid())
	default:
		return &Conn{socket}, nil
	}
	_ = socket.Close()
	return nil, err
}

// keptByInit reports whether root is at the other end of a socket that belongs to this user. That is systemd, which listens
// for a service of this user and is about to start it; a daemon of root's own has a socket that belongs to root.
func keptByInit(uid int, path string) bool {
	var stat unix.Stat_t
	return uid == 0 && unix.Lstat(path, &stat) == nil && int(stat.Uid) == os.Geteuid()
}

// connect connects. When many do so at the same moment, the daemon's queue may be full,
// and a socket does not wait for room by itself.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	pauses := backoff.Backoff{First: time.Millisecond, Longest: 100 * time.Millisecond}
	for {
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil, err
		}
		if !pauses.Wait(ctx.Done()) {
			return nil, fmt.Errorf("the daemon at %s does not accept connections: %w", path, ctx.Err())
		}
	}
}

// authenticate calls what convinces the daemon at path. Ctx bounds it.
func (c *Conn) authenticate(ctx context.Context, path string, convince func() error) error {
	cancelled := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		_ = c.SetDeadline(past)
	})
	err := convince()
	if !forget() {
		<-cancelled
		return fmt.Errorf("the daemon at %s was not convinced in time: %w", path, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("can't authenticate to the daemon at %s: %w", path, err)
	}
	return nil
}

// A NotSigned is the error of a client that has no signature which the daemon accepts.
type NotSigned struct{ Err error }

func (e *NotSigned) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NotSigned) Unwrap() error { return e.Err }

// answerChallenge answers the challenge, which is the first line.
func (c *Conn) answerChallenge(sign func(challenge []byte) ([]byte, error)) error {
	line, err := readLine(c)
	if err != nil {
		return fmt.Errorf("it sent no challenge: %w", err)
	}
	request, challenge, err := readChallenge(line)
	if err != nil {
		return err
	}
	signature, err := sign(challenge)
	if err != nil {
		return &NotSigned{err}
	}
	data, _ := json.Marshal(answerData{signature}) // never fails
	reply := request.Reply(data)
	c.send(&reply)
	return nil
}

// send sends a message. An error is left to the next read: a daemon that doesn't take the message may have sent the
// reason.
func (c *Conn) send(m *message.Message) {
	stamp(m)
	_, _ = c.Write(append(message.Append(nil, m), '\n'))
}

// confirm makes sure, with a Ping, that the daemon has accepted the signature: a daemon that hasn't closes the connection
// without a message.
func (c *Conn) confirm() error {
	ping := message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":null}`)}
	c.send(&ping)
	line, err := readLine(c)
	if err != nil {
		return &NotSigned{fmt.Errorf("it did not accept the signature (%w); sign with one of the keys that it was started with", err)}
	}
	m, err := message.Decode(line)
	if err == nil {
		err, _ = Disconnection(m)
	}
	if err != nil {
		return err
	}
	if m.Metadata.Causation != ping.Metadata.ID {
		return errors.New("it does not answer what it is asked; use the same version of both")
	}
	return nil
}

// Disconnection returns why the daemon closes the connection, if m is the message about
// that. The reason of the error is [message.ErrServerStopping] or [ErrFull] where one of them is.
func Disconnection(m message.Message) (error, bool) {
	if m.Type != transport.Disconnected || m.Kind != message.KindError {
		return nil, false
	}
	e, err := message.ParseError(m.Data)
	if err != nil {
		return err, true
	}
	switch e.Code {
	case 429:
		e.Reason = ErrFull
	case 503:
		e.Reason = message.ErrServerStopping
	}
	return e, true
}

// readChallenge returns the challenge in a line, if it is one that may be signed.
func readChallenge(line []byte) (request message.Message, challenge []byte, err error) {
	request, err = message.Decode(line)
	if err != nil {
		return request, nil, fmt.Errorf("its first line isn't a message: %w", err)
	}
	if err, ok := Disconnection(request); ok {
		return request, nil, err
	}
	var data challengeData
	if request.Kind != message.KindCommand || request.Type != authenticate || json.Unmarshal(request.Data, &data) != nil {
		return request, nil, fmt.Errorf("its first message, %s %s, isn't a challenge", request.Kind, request.Type)
	}
	if data.Scheme != scheme {
		return request, nil, fmt.Errorf("it wants the scheme %q, and this client knows %q only; use the same version of both", message.Clip(data.Scheme, 64), scheme)
	}
	if !strings.HasPrefix(string(data.Challenge), challengePrefix) || len(data.Challenge) < len(challengePrefix)+challengeBytes {
		return request, nil, fmt.Errorf("its challenge is not %q and %d random bytes; a signature over anything else could open your secrets, so it was not given", challengePrefix, challengeBytes)
	}
	return request, data.Challenge, nil
}

func stamp(m *message.Message) {
	if m.Metadata.ID == "" {
		m.Metadata.ID = message.ID(ulid.Make().String())
	}
	if m.Metadata.Timestamp == 0 {
		m.Metadata.Timestamp = time.Now().UnixMilli()
	}
}
