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

// Lines returns the connection for a server of lines: a *net.UnixConn if the visitor is one of this process, and the [Conn] if
// it isn't.
func (c *Conn) Lines() net.Conn {
	if own, ok := c.Conn.(*net.UnixConn); ok {
		return own
	}
	return c
}
