package door

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"kernos/internal/patience"
)

// A Way leads a visitor to the owner. It waits for an owner if there is none at the moment, until ctx is done. The
// connection also has CloseWrite.
type Way func(ctx context.Context, v Visitor) (net.Conn, error)

// dialing is how long a door may take to let a visitor in.
const dialing = 5 * time.Second

// Dial connects a visitor to the owner whose door it is. The error is [ErrElsewhere] if the node isn't the owner any more.
func Dial(ctx context.Context, to Info, v Visitor) (net.Conn, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience.For(dialing))
	defer cancel()
	plain, err := new(net.Dialer).DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	c := &outConn{Conn: tls.Client(plain, clientConfig(to.Pin)), plain: plain}
	stop := context.AfterFunc(ctx, func() { _ = plain.SetDeadline(past) })
	err = c.introduce(&introductionLine{to.Key, v})
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("the owner's door at %s doesn't let in: %w", to.Address, err)
	}
	return c, nil
}

// clientConfig accepts the one certificate that has the pin.
func clientConfig(pin string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
		InsecureSkipVerify: true, // the pin decides, in place of a name and a signature
		VerifyPeerCertificate: func(certificates [][]byte, _ [][]*x509.Certificate) error {
			if len(certificates) != 1 || subtle.ConstantTimeCompare([]byte(pinOf(certificates[0])), []byte(pin)) != 1 {
				return errors.New("its certificate isn't the one that the owner has published")
			}
			return nil
		},
	}
}

// outConn is a connection to the door of an owner.
type outConn struct {
	*tls.Conn
	plain net.Conn
}

// introduce sends the first line, and waits for the answer.
func (c *outConn) introduce(first *introductionLine) error {
	if _, err := c.Write(first.line()); err != nil {
		return err
	}
	var sign [1]byte
	switch _, err := io.ReadFull(c, sign[:]); {
	case err != nil:
		return err
	case sign[0] == elsewhere:
		return ErrElsewhere
	case sign[0] != letIn:
		return errors.New("it answers in another way than a door does")
	}
	return nil
}

// Close hangs up at once: TLS would wait for a peer that doesn't read.
func (c *outConn) Close() error { return c.plain.Close() }
