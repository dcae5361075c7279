package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"kernos/store"
)

const (
	maxClasses  = 1 << 16         // distinct classes
	maxClassed  = 32 << 20        // messages, with 2 bytes each
	classesKept = 5 * time.Minute // how long classes are kept after the last search that used them
)

// selective reports whether the filter wants something else than times.
func (m *matcher) selective() bool {
	return m.text() != nil || m.byClass() || len(m.words) > 0
}

// byClass reports whether the filter asks for the class of messages.
func (m *matcher) byClass() bool {
	return len(m.kinds)+len(m.types)+len(m.codes)+len(m.principals)+len(m.own) > 0
}

// prepareFilter finds out which messages the filter wants, if that takes less than reading the pages of all that have words.
func (x *search) prepareFilter() (err error) {
	m := &x.match
	few := maxListed
	if m.text() == nil && m.byClass() && len(m.words) == 0 {
		if few = fewListed; x.j.classes.loaded(x.horizon.Seq) {
			few = 0
		}
	}
	if few > 0 && m.name() != 0 {
		if x.among, err = x.listed(few); err != nil || x.among != nil {
			return err
		}
	}
	if few < maxListed {
		x.classed, err = x.j.classes.view(x.ctx, x.s, x.j.oldest(), x.horizon.Seq, *m)
	}
	return err
}

const (
	maxListed = 16_384 // messages of a filter that are listed before a search
	fewListed = 512    // if their classes could be read instead
)

// listed returns the numbers of the messages that the filter wants, or nil if they are too many.
func (x *search) listed(most int) ([]uint64, error) {
	among := []uint64{}
	err := each(x.ctx, x.s, x.within, &x.match, false, func(r *record) bool {
		among = append(among, r.seq)
		return len(among) <= most
	})
	if err != nil || len(among) > most {
		return nil, err
	}
	return among, nil
}

// oldest returns the number of the first message that retention hasn't dropped.
func (j *Journal) oldest() uint64 {
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	return j.dropped.Seq + 1
}

// classes is what filters ask for of all messages: their class is their kind, type, code and principal. A search that a
// filter narrows would otherwise read most pages. They are read from the pages when a search needs them, take two bytes of memory
// for each message, and are dropped some minutes after the last such search.
type classes struct {
	mu    sync.Mutex
	first uint64   // the number of the first message in of
	of    []uint16 // the class of each message from first on; only appended to
	list  []record // a record with the fields of each class
	known map[string]uint16
	buf   []byte
	over  bool // too many messages or classes to count
	drop  *time.Timer
}

// A classView is the messages whose class a filter wants.
type classView struct {
	first  uint64
	of     []uint16
	wanted []bool // whether the filter wants the class
}

func (v *classView) wants(seq uint64) bool {
	at := seq - v.first // wraps to a very large number for a message before the first
	return at < uint64(len(v.of)) && v.wanted[v.of[at]]
}

// loaded reports whether most messages up to a number have their class in memory.
func (c *classes) loaded(last uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first+uint64(len(c.of))+spanMessages > last
}

// view returns the messages up to a number whose class a filter wants, or nil if there are too many messages or classes. What is
// before the oldest message has been dropped.
func (c *classes) view(ctx context.Context, s store.Reader, oldest, last uint64, m matcher) (*classView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[string]uint16)
	}
	if c.drop == nil {
		c.drop = time.AfterFunc(classesKept, c.forget)
	}
	c.drop.Reset(classesKept)
	if gone := oldest - c.first; c.first < oldest && gone < uint64(len(c.of)) {
		c.first, c.of = oldest, c.of[gone:]
	}
	if err := c.extend(ctx, s, last); err != nil || c.over {
		return nil, err
	}
	v := &classView{first: c.first, of: c.of, wanted: make([]bool, len(c.list))}
	m.since, m.until = 0, 1
	for i := range c.list {
		v.wanted[i] = m.matches(&c.list[i])
	}
	return v, nil
}

// extend reads the classes of the messages up to a number.
func (c *classes) extend(ctx context.Context, s store.Reader, last uint64) error {
	next := c.first + uint64(len(c.of))
	if c.over || next > last {
		return nil
	}
	var f found
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, next), To: seqKey(spacePages, last+1)}) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = f.read(e, everything, &matcher{until: 1<<63 - 1, data: noData})
		}
		if err != nil {
			return err
		}
		for i := range f.records {
			r := &f.records[i]
			if r.seq != c.first+uint64(len(c.of)) { // retention has dropped what was in between
				c.first, c.of = r.seq, nil
			}
			class, ok := c.class(r)
			if !ok || len(c.of) == maxClassed {
				c.over, c.of = true, nil
				return nil
			}
			c.of = append(c.of, class)
		}
	}
	return nil
}

// class returns the class of a record.
func (c *classes) class(r *record) (class uint16, ok bool) {
	b := append(c.buf[:0], r.flags>>flagKind)
	b = binary.AppendVarint(b, int64(r.code))
	for _, text := range [][]byte{r.typ, r.principal, r.name} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	c.buf = b
	if class, ok = c.known[string(b)]; ok || len(c.list) == maxClasses {
		return class, ok
	}
	class = uint16(len(c.list))
	c.list = append(c.list, record{flags: r.flags, code: r.code, typ: bytes.Clone(r.typ), principal: bytes.Clone(r.principal), name: bytes.Clone(r.name)})
	c.known[string(b)] = class
	return class, true
}

func (c *classes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first, c.of, c.list, c.known, c.over = 0, nil, nil, nil, false
}
