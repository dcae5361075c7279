package rpc

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"kernos/kernel/principal"
)

// all returns the streams that came over this connection, or whose items go or went there.
func (c *conn) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(c.streams)), maps.Keys(c.resumed))
}

// leave gives up the streams of a peer that has closed its connection.
func (c *conn) leave() {
	for _, st := range c.all() {
		st.abandon(func() bool { return st.at == c })
	}
}

// expire gives up all streams when the caller's rights have ended: no caller may resume them.
func (c *conn) expire() {
	for _, st := range c.all() {
		st.abandon(func() bool { return true })
	}
}

// lose keeps the streams of a peer that may come back.
func (c *conn) lose() {
	for _, st := range c.all() {
		st.mu.Lock()
		if st.at == c {
			st.detach()
			c.svc.kept.lose(st)
		}
		st.mu.Unlock()
	}
	c.svc.kept.sweep()
}

// moveTo makes a connection the one that items go to, as soon as it is acknowledged.
func (st *stream) moveTo(c *conn, after int64) *failure {
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, ok := st.after(after); !ok {
		if after > st.seq || after < 0 {
			return &failure{codeInvalidParams, "Invalid params: the stream has " + strconv.FormatInt(st.seq, 10) + " items"}
		}
		return &failure{codeNotKept, "Not kept: the items up to " + strconv.FormatInt(st.seq-int64(st.logged), 10) + " are gone; make the call again"}
	}
	if st.at == c {
		st.held = true
		return nil
	}
	c.mu.Lock()
	full := !st.over && c.open >= c.svc.opts.Subscriptions
	if !full {
		if st.origin != c {
			if c.resumed == nil {
				c.resumed = make(map[*stream]bool)
			}
			c.resumed[st] = true
		}
		if st.over {
			c.retire(st)
		} else {
			c.open++
		}
	}
	c.mu.Unlock()
	if full {
		return &failure{codeTooMany, "Too many subscriptions: " + strconv.Itoa(c.svc.opts.Subscriptions) + " streams of this connection are open"}
	}
	st.detach()
	st.at, st.held = c, true
	c.bound()
	return nil
}

// replay sends what is kept after an item, after which new items follow.
func (st *stream) replay(c *conn, after int64) {
	st.mu.Lock()
	if st.at != c {
		st.mu.Unlock()
		return // another connection has resumed the stream
	}
	frames, _ := st.after(after)
	for len(frames) > 0 {
		n := 4 + int(binary.LittleEndian.Uint32(frames))
		c.wire.Write(frames[4:n], true)
		frames = frames[n:]
	}
	st.held = false
	ended := st.ended
	st.mu.Unlock()
	c.wire.Flush()
	if ended {
		st.abandon(func() bool { return st.at == c && !st.held })
	}
}

// Unsubscribe ends a stream of a caller and forgets it, as service_unsubscribe does. It reports
// whether the caller had such a stream.
func (s *Service) Unsubscribe(caller *principal.Principal, id string) bool {
	st := s.kept.find(caller, id)
	if st == nil {
		return false
	}
	st.cancel()
	return true
}
