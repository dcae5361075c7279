package memory

import (
	"encoding/binary"
	"errors"

	"kernos/store"
	"kernos/store/blobs"
)

// The keyspace. A key in its normal form has no zero byte.
//
//	m v KEY              the current version of a key
//	m h KEY 0 REVISION   versions that are not current any more, and deletions
//	m x TIME KEY         keys that expire at a time
//	m g TIME KEY         keys that went at a time, whose history will go
//	m l KEY              the last revision of a key that went: it goes on from there
//
// A version moves from v to h when another takes its place; nothing is ever in both.
// Numbers are 8 bytes, the most significant first.
const (
	current = 'v'
	history = 'h'
	expires = 'x'
	gone    = 'g'
	left    = 'l'
)

func currentKey(key Key) []byte {
	b := make([]byte, 0, 2+len(key))
	return append(append(b, store.SpaceMemory, current), key...)
}

// historyKey is also the owner of the version's blob, wherever the version is.
func historyKey(key Key, revision uint64) []byte {
	b := make([]byte, 0, 3+len(key)+8)
	b = append(append(append(b, store.SpaceMemory, history), key...), 0)
	return binary.BigEndian.AppendUint64(b, revision)
}

func leftKey(key Key) []byte {
	b := make([]byte, 0, 2+len(key))
	return append(append(b, store.SpaceMemory, left), key...)
}

func timeKey(index byte, ms int64, key Key) []byte {
	b := make([]byte, 0, 2+8+len(key))
	b = binary.BigEndian.AppendUint64(append(b, store.SpaceMemory, index), uint64(ms))
	return append(b, key...)
}

// splitTimeKey takes apart what timeKey has made.
func splitTimeKey(b []byte) (ms int64, key Key) {
	return int64(binary.BigEndian.Uint64(b[2:10])), Key(b[10:])
}

// A version is one value that a key has or had, or its deletion. Times are milliseconds
// of Unix time.
type version struct {
	revision uint64
	updated  int64
	expires  int64  // 0: never
	message  []byte // id of the command that wrote it
	deleted  bool
	text     []byte     // JSON, if it is not in a blob
	blob     blobs.Hash // if large is not 0
	large    int64      // size of the text in the blob
}

// Flags of a version as it is stored.
const (
	flagDeleted = 1 << iota
	flagExpires
	flagLarge
	flagsKnown = flagDeleted | flagExpires | flagLarge
)

func (v *version) append(b []byte) []byte {
	var flags byte
	if v.deleted {
		flags |= flagDeleted
	}
	if v.expires != 0 {
		flags |= flagExpires
	}
	if v.large != 0 {
		flags |= flagLarge
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, v.revision)
	b = binary.AppendUvarint(b, uint64(v.updated))
	if v.expires != 0 {
		b = binary.AppendUvarint(b, uint64(v.expires))
	}
	b = binary.AppendUvarint(b, uint64(len(v.message)))
	b = append(b, v.message...)
	if v.large != 0 {
		b = binary.AppendUvarint(b, uint64(v.large))
		return append(b, v.blob[:]...)
	}
	return append(b, v.text...)
}

func (v *version) encode() []byte {
	return v.append(make([]byte, 0, 1+4*binary.MaxVarintLen64+len(v.message)+len(v.text)+len(v.blob)))
}

var errRecord = errors.New("a record of the memory keyspace can't be read; it was written by a newer version, or is damaged")

// parseVersion reads what encode has written. Its slices are parts of b.
func parseVersion(b []byte) (v version, err error) {
	if len(b) == 0 || b[0]&^flagsKnown != 0 {
		return v, errRecord
	}
	flags, b := b[0], b[1:]
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err = errRecord
			return 0
		}
		b = b[size:]
		return n
	}
	v.deleted = flags&flagDeleted != 0
	v.revision = number()
	v.updated = int64(number())
	if flags&flagExpires != 0 {
		v.expires = int64(number())
	}
	id := number()
	if err != nil || id > uint64(len(b)) {
		return version{}, errRecord
	}
	v.message, b = b[:id], b[id:]
	if flags&flagLarge == 0 {
		v.text = b
		return v, nil
	}
	v.large = int64(number())
	if err != nil || v.large <= 0 || len(b) != len(v.blob) {
		return version{}, errRecord
	}
	copy(v.blob[:], b)
	return v, nil
}

// expired reports whether the version is over: for every reader, it is not there.
func (v *version) expired(now int64) bool { return v.expires != 0 && v.expires <= now }

// live reports whether a stored current version is one that a listing shows, without
// reading all of it.
func live(value []byte, now int64) (bool, error) {
	if len(value) > 0 && value[0]&flagExpires == 0 {
		return true, nil
	}
	v, err := parseVersion(value)
	return err == nil && !v.expired(now), err
}

// find reads the current version of a key. The entry has its key in the store, and the
// store's revision, for conditions; it is 0 if there is no version.
func find(r store.Reader, key Key) (v version, e store.Entry, err error) {
	if e, err = r.Get(currentKey(key)); err != nil || e.Revision == 0 {
		return v, e, err
	}
	v, err = parseVersion(e.Value)
	return v, e, err
}

// last returns the last revision of a key that has no current version: 0 if none is
// known. The entry is for conditions.
func last(r store.Reader, key Key) (revision uint64, e store.Entry, err error) {
	if e, err = r.Get(leftKey(key)); err != nil || e.Revision == 0 {
		return 0, e, err
	}
	revision, n := binary.Uvarint(e.Value)
	if n <= 0 {
		return 0, e, errRecord
	}
	return revision, e, nil
}

// leave notes the last revision of a key that goes.
func leave(b *store.Batch, key Key, revision uint64) {
	b.Set(leftKey(key), binary.AppendUvarint(nil, revision))
}

// versions is the range of a key's history, before a revision if that is not 0.
func versions(key Key, before uint64, reverse bool) store.Range {
	r := store.Range{From: historyKey(key, 0), Reverse: reverse}
	if before != 0 {
		r.To = historyKey(key, before)
	} else {
		r.To = append(historyKey(key, ^uint64(0)), 0)
	}
	return r
}

// was is how a key was found before it changes.
type was struct {
	version             // the current one, if entry has a revision
	entry   store.Entry // of the current version
	left    store.Entry // of what a key that is gone has left, if there is no current version
}

// supersede moves a key's current version into its history, if it has one, and makes
// room there for the versions that follow up to a revision.
func (m *Memory) supersede(b *store.Batch, key Key, old *was, next uint64) error {
	e := old.entry
	b.IfRevision(e.Key, e.Revision)
	if e.Revision == 0 {
		// It may have come and gone since we looked.
		b.IfRevision(old.left.Key, old.left.Revision)
		if old.left.Revision != 0 {
			b.Delete(old.left.Key)
		}
	} else {
		b.Set(historyKey(key, old.revision), e.Value)
		if old.expires != 0 {
			b.Delete(timeKey(expires, old.expires, key))
		}
	}
	keep := uint64(m.opts.Versions)
	if next <= keep || next%m.step() != 0 {
		return nil
	}
	// As many go as have come since the last time. There are more if fewer are kept than
	// before.
	n := 0
	outdated := versions(key, next-keep+1, false)
	if next%(64*m.step()) != 0 && next-keep > maxForgotten {
		// Those before are gone, and looking at where they were would take its time.
		outdated.From = historyKey(key, next-keep-maxForgotten)
	}
	for e, err := range m.store.Scan(outdated) {
		if err != nil {
			return err
		}
		v, err := parseVersion(e.Value)
		if err != nil {
			return err
		}
		forget(b, key, &v)
		if n++; n == maxForgotten {
			break
		}
	}
	if e.Revision != 0 && old.revision <= next-keep {
		forget(b, key, &old.version) // after the Set above
	}
	return nil
}

// step is how many versions come before as many go: looking for them has its price, so it
// is paid every now and then, and some more than need be are kept.
func (m *Memory) step() uint64 { return max(1, uint64(m.opts.Versions)/8) }

// maxForgotten bounds how many old versions one change removes.
const maxForgotten = 32

// forget removes a version from the history, and what it needs.
func forget(b *store.Batch, key Key, v *version) {
	owner := historyKey(key, v.revision)
	b.Delete(owner)
	if v.large != 0 {
		blobs.Unrefer(b, v.blob, owner)
	}
}
