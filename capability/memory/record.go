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
//	m h KEY 0 REVISION   earlier versions, and deletions
//	m x TIME KEY         keys that expire at a time
//	m g TIME KEY         keys that went at a time, whose history will go
//	m l KEY              the remains of a deleted key: its revisions continue from there
//
// A version moves from v to h when another takes its place; nothing is ever in both. Each
// knows which of those before it are still in the history, and whether they need blobs, so
// that they can be removed unseen.
// Numbers are 8 bytes, the most significant first.
const (
	current = 'v'
	former  = 'h'
	expires = 'x'
	gone    = 'g'
	left    = 'l'
)

func currentKey(key memoryKey) []byte {
	return appendCurrentKey(make([]byte, 0, currentKeySize(key)), key)
}

func currentKeySize(key memoryKey) int { return 2 + len(key) }

func appendCurrentKey(b []byte, key memoryKey) []byte {
	return append(append(b, store.SpaceMemory, current), key...)
}

// historyKey is also the owner of the version's blobs, wherever the version is.
func historyKey(key memoryKey, revision uint64) []byte {
	return appendHistoryKey(make([]byte, 0, historyKeySize(key)), key, revision)
}

func historyKeySize(key memoryKey) int { return 3 + len(key) + 8 }

func appendHistoryKey(b []byte, key memoryKey, revision uint64) []byte {
	b = append(append(append(b, store.SpaceMemory, former), key...), 0)
	return binary.BigEndian.AppendUint64(b, revision)
}

func leftKey(key memoryKey) []byte {
	b := make([]byte, 0, 2+len(key))
	return append(append(b, store.SpaceMemory, left), key...)
}

func timeKey(index byte, ms int64, key memoryKey) []byte {
	b := make([]byte, 0, 2+8+len(key))
	b = binary.BigEndian.AppendUint64(append(b, store.SpaceMemory, index), uint64(ms))
	return append(b, key...)
}

// splitTimeKey takes apart what timeKey has made.
func splitTimeKey(b []byte) (ms int64, key memoryKey) {
	return int64(binary.BigEndian.Uint64(b[2:10])), memoryKey(b[10:])
}

// A versionSpan is the range of versions that a key has, known without reading them.
type versionSpan struct {
	revision uint64 // the revision of the last version
	oldest   uint64 // the oldest revision that is kept
	blobbed  uint64 // no revision after this one needs a blob; 0: none does
}

// A version is one value that a key has or had, or its deletion. Times are milliseconds
// of Unix time.
type version struct {
	versionSpan // up to this version
	updated     int64
	expires     int64  // 0: never
	message     []byte // id of the command that wrote it
	deleted     bool
	text        []byte     // JSON, if it is not in a blob
	blob        blobs.Hash // if large is not 0
	large       int64      // size of the text in the blob

	// mentions are the blobs that the value points to. They are kept for it, as its own is.
	mentions []blobs.Hash
}

// needsBlobs reports whether the version has references to blobs.
func (v *version) needsBlobs() bool { return v.large != 0 || len(v.mentions) > 0 }

// Flags of a version as it is stored.
const (
	flagDeleted = 1 << iota
	flagExpires
	flagLarge
	flagBlobbed // a version before needs a blob, and this one does not
	flagMentions
	flagsKnown = flagDeleted | flagExpires | flagLarge | flagBlobbed | flagMentions
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
	if len(v.mentions) > 0 {
		flags |= flagMentions
	}
	if v.blobbed != 0 && !v.needsBlobs() {
		flags |= flagBlobbed
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, v.revision)
	b = binary.AppendUvarint(b, v.revision-v.oldest)
	if flags&flagBlobbed != 0 {
		b = binary.AppendUvarint(b, v.blobbed)
	}
	b = binary.AppendUvarint(b, uint64(v.updated))
	if v.expires != 0 {
		b = binary.AppendUvarint(b, uint64(v.expires))
	}
	b = binary.AppendUvarint(b, uint64(len(v.message)))
	b = append(b, v.message...)
	if len(v.mentions) > 0 {
		b = binary.AppendUvarint(b, uint64(len(v.mentions)))
		for i := range v.mentions {
			b = append(b, v.mentions[i][:]...)
		}
	}
	if v.large != 0 {
		b = binary.AppendUvarint(b, uint64(v.large))
		return append(b, v.blob[:]...)
	}
	return append(b, v.text...)
}

// recordHead is how long a stored version is as a rule, without its id and its text.
const recordHead = 40

var errRecord = errors.New("a record of the memory keyspace can't be read; it was written by a newer version, or is damaged")

// parseVersion reads what append has written. Its slices are parts of b.
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
	v.oldest = v.revision - number()
	switch {
	case flags&(flagLarge|flagMentions) != 0:
		v.blobbed = v.revision
	case flags&flagBlobbed != 0:
		v.blobbed = number()
	}
	v.updated = int64(number())
	if flags&flagExpires != 0 {
		v.expires = int64(number())
	}
	id := number()
	if err != nil || v.oldest > v.revision || v.blobbed > v.revision || id > uint64(len(b)) {
		return version{}, errRecord
	}
	v.message, b = b[:id], b[id:]
	if flags&flagMentions != 0 {
		n := number()
		if err != nil || n == 0 || n > uint64(len(b)/len(v.blob)) {
			return version{}, errRecord
		}
		v.mentions = make([]blobs.Hash, n)
		for i := range v.mentions {
			b = b[copy(v.mentions[i][:], b):]
		}
	}
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
func find(r store.Reader, key memoryKey) (version, store.Entry, error) {
	return findAt(r, currentKey(key))
}

// findAt is find with the key in the store.
func findAt(r store.Reader, at []byte) (v version, e store.Entry, err error) {
	if e, err = r.Get(at); err != nil || e.Revision == 0 {
		return v, e, err
	}
	v, err = parseVersion(e.Value)
	return v, e, err
}

// last returns what a key that has no current version has left: nothing if none is known.
// The entry is for conditions.
func last(r store.Reader, key memoryKey) (t versionSpan, e store.Entry, err error) {
	if e, err = r.Get(leftKey(key)); err != nil || e.Revision == 0 {
		return t, e, err
	}
	b := e.Value
	for _, n := range []*uint64{&t.revision, &t.oldest, &t.blobbed} {
		size := 0
		if *n, size = binary.Uvarint(b); size <= 0 {
			return versionSpan{}, e, errRecord
		}
		b = b[size:]
	}
	return t, e, nil
}

// noteDeleted notes the versions of a key that is deleted.
func noteDeleted(b *store.Batch, key memoryKey, t versionSpan) {
	value := binary.AppendUvarint(nil, t.revision)
	value = binary.AppendUvarint(value, t.oldest)
	b.Set(leftKey(key), binary.AppendUvarint(value, t.blobbed))
}

// versions returns the range of a key's history, before a revision if that is not 0.
func versions(key memoryKey, before uint64, reverse bool) store.Range {
	r := store.Range{From: historyKey(key, 0), Reverse: reverse}
	if before != 0 {
		r.To = historyKey(key, before)
	} else {
		r.To = append(historyKey(key, ^uint64(0)), 0)
	}
	return r
}

// prior is the state of a key before it changes.
type prior struct {
	version             // the current one, or only the versionSpan that a deleted key has left
	entry   store.Entry // the entry of the current version
	left    store.Entry // the entry that a deleted key has left, if there is no current version
}

// supersede moves a key's current version into its history, if it has one, and removes
// the versions from there that are too many. It returns the versionSpan of the next version.
func (m *Memory) supersede(d *draft, key memoryKey, old *prior) (next versionSpan, err error) {
	next = old.versionSpan
	next.revision++
	e := old.entry
	d.IfRevision(e.Key, e.Revision)
	if e.Revision == 0 {
		// It may have come and gone since we looked.
		d.IfRevision(old.left.Key, old.left.Revision)
		if old.left.Revision != 0 {
			d.Delete(old.left.Key)
		}
	} else {
		d.Set(d.keep(appendHistoryKey(d.buf, key, old.revision)), e.Value)
		if old.expires != 0 {
			d.Delete(timeKey(expires, old.expires, key))
		}
	}
	if next.oldest == 0 {
		next.oldest = next.revision // this is the first revision
	}
	// One goes for each that comes. There are more if fewer are kept than before.
	for n := 0; next.revision-next.oldest >= uint64(m.opts.Versions) && n < maxForgotten; n++ {
		if err := m.outdate(d, key, old, next.oldest); err != nil {
			return next, err
		}
		next.oldest++
	}
	if next.blobbed < next.oldest {
		next.blobbed = 0
	}
	return next, nil
}

// maxForgotten bounds how many old versions one change removes.
const maxForgotten = 32

// outdate removes a version from the history that is too many. It looks at the version
// only if it may need a blob.
func (m *Memory) outdate(d *draft, key memoryKey, old *prior, revision uint64) error {
	switch {
	case revision > old.blobbed:
		d.Delete(d.keep(appendHistoryKey(d.buf, key, revision)))
		return nil
	case revision == old.revision && old.entry.Revision != 0:
		forget(&d.Batch, key, &old.version) // the version is not in the history yet
		return nil
	}
	e, err := m.store.Get(historyKey(key, revision))
	if err != nil || e.Revision == 0 {
		return err
	}
	v, err := parseVersion(e.Value)
	if err == nil {
		forget(&d.Batch, key, &v)
	}
	return err
}

// forget removes a version from the history, and what it needs.
func forget(b *store.Batch, key memoryKey, v *version) {
	owner := historyKey(key, v.revision)
	b.Delete(owner)
	if v.large != 0 {
		blobs.Unrefer(b, v.blob, owner)
	}
	for _, h := range v.mentions {
		blobs.Unrefer(b, h, owner)
	}
}
