package door

import "net"

// Within returns a visitor's connection within this process, for a visitor whose node has become the owner: near is the end of
// the visitor, and c is what [Door.Serve] would hand over.
func Within(v Visitor) (near *net.UnixConn, c *Conn, err error) {
	if err := v.check(); err != nil {
		return nil, nil, err
	}
	near, far, err := Pair()
	if err != nil {
		return nil, nil, err
	}
	return near, &Conn{Conn: far, plain: far, visitor: v, answer: func(byte) error { return nil }}, nil
}

// Socket returns the connection of a visitor as a socket of its own: over TLS, it is one end of a [Pair], which is joined with
// the connection until both have ended; then done is called.
func (c *Conn) Socket(done func()) (*net.UnixConn, error) {
	if own, ok := c.Conn.(*net.UnixConn); ok {
		done()
		return own, nil
	}
	near, far, err := Pair()
	if err != nil {
		return nil, err
	}
	go func() {
		defer done()
		Join(c, far)
	}()
	return near, nil
}
