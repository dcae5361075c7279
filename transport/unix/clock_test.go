package unix

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// A clock is the time of a server's connections. It stands still until a test moves it.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	conns []*timed
}

// use makes a server use the clock.
func (c *clock) use(s *Server) {
	c.at = time.Now()
	s.now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.at
	}
	s.deadlines = func(conn net.Conn) deadlines {
		c.mu.Lock()
		defer c.mu.Unlock()
		timed := &timed{clock: c, conn: conn}
		c.conns = append(c.conns, timed)
		return timed
	}
}

// advance moves the clock, and ends the reads and writes whose deadlines have passed.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	for _, t := range c.conns {
		if t.passed(t.read) {
			_ = t.conn.SetReadDeadline(past)
		}
		if t.passed(t.write) {
			_ = t.conn.SetWriteDeadline(past)
		}
	}
}

// until moves the clock in steps until something is so.
func (c *clock) until(t *testing.T, what string, step time.Duration, is func() bool) {
	t.Helper()
	testkit.Until(t, what, func() bool {
		c.advance(step)
		return is()
	})
}

// silence moves the clock several times, and waits each time until the server has dealt with the reads
// that ended: a read that begins while the clock is moved ends at the next time only.
func (c *clock) silence(t *testing.T, step time.Duration) {
	t.Helper()
	for range 3 {
		c.advance(step)
		testkit.Until(t, "no read has passed its deadline", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, t := range c.conns {
				if t.passed(t.read) && !errors.Is(t.conn.SetReadDeadline(past), net.ErrClosed) {
					return false
				}
			}
			return true
		})
	}
}

// A timed is a connection whose deadlines pass when the clock is moved.
type timed struct {
	clock       *clock
	conn        net.Conn
	read, write time.Time
}

// passed reports whether a deadline has passed. The clock is held.
func (t *timed) passed(deadline time.Time) bool {
	return !deadline.IsZero() && !deadline.After(t.clock.at)
}

// SetReadDeadline implements [deadlines].
func (t *timed) SetReadDeadline(at time.Time) error {
	return t.set(&t.read, at, t.conn.SetReadDeadline)
}

// SetWriteDeadline implements [deadlines].
func (t *timed) SetWriteDeadline(at time.Time) error {
	return t.set(&t.write, at, t.conn.SetWriteDeadline)
}

func (t *timed) set(deadline *time.Time, at time.Time, set func(time.Time) error) error {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	*deadline = at
	if t.passed(at) {
		return set(past)
	}
	return set(time.Time{})
}
