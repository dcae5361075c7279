package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// The engine's own keys. They begin with a zero byte.
const (
	schemaKey   = "\x00kernos/schema"   // a uvarint, then the version of kernos that it came with
	revisionKey = "\x00kernos/revision" // a uvarint: no revision up to it is given out again
)

// A schema is the form of what is stored, as one version of it.
type schema struct {
	version uint64

	// kernos is the first version of kernos that knows it.
	kernos string

	// migrations make the next version of a store. What one puts into the batch and the
	// new version become part of the store in one step.
	migrations map[uint64]func(*crdb.DB, *crdb.Batch) error
}

// current returns the schema of this engine. Version 1: a value is stored after its revision,
// a uvarint. Version 2: nothing moves, but what is stored may have forms that earlier versions
// of kernos take for damage, such as records of messages with metadata that they don't know.
func current() *schema {
	return &schema{version: 2, kernos: "0.20.0", migrations: map[uint64]func(*crdb.DB, *crdb.Batch) error{
		1: func(*crdb.DB, *crdb.Batch) error { return nil },
	}}
}

func (s schema) encode() []byte {
	return append(binary.AppendUvarint(nil, s.version), s.kernos...)
}

func parseSchema(value []byte) (version uint64, kernos string, ok bool) {
	version, n := binary.Uvarint(value)
	if n <= 0 || version == 0 || len(value) > 64 || !printable(string(value[n:])) {
		return 0, "", false
	}
	return version, string(value[n:]), true
}

// check refuses a store that this engine can't migrate from.
func (s schema) check(dir string, version uint64, kernos string) error {
	if version > s.version {
		return store.Errorf(503, fmt.Errorf("it has schema version %d, this kernos knows %d", version, s.version),
			"The store in %s was written by a newer kernos; use kernos %s or later", dir, kernos)
	}
	for v := version; v < s.version; v++ {
		if s.migrations[v] == nil {
			return store.Errorf(500, fmt.Errorf("it has schema version %d, and migrations start from %v", version, slices.Sorted(maps.Keys(s.migrations))),
				"The store in %s was written by a kernos that is too old; export it with that one, and restore the backup with `kernos restore FILE`", dir)
		}
	}
	return nil
}

// migrate brings a store to the schema. A store without one is new.
func (s schema) migrate(dir string, db *crdb.DB) error {
	version, kernos, err := readSchema(dir, db)
	if err != nil {
		return err
	}
	if version == 0 {
		if err := db.Set([]byte(schemaKey), s.encode(), crdb.Sync); err != nil {
			return err
		}
		// Pebble makes a store of its oldest form and then brings it to the present
		// one. Its first log has no record of what was synced, so damage could not be distinguished
		// from a torn end (records.go). With the flush, another one begins.
		return db.Flush()
	}
	if err := s.check(dir, version, kernos); err != nil {
		return err
	}
	for ; version < s.version; version++ {
		b := db.NewBatch()
		next := schema{version: version + 1, kernos: s.kernos}
		err := s.migrations[version](db, b)
		if err == nil {
			err = b.Set([]byte(schemaKey), next.encode(), nil)
		}
		if err == nil {
			err = b.Commit(crdb.Sync)
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return store.Errorf(500, err, "The store in %s can't be migrated from version %d to %d; it is unchanged", dir, version, version+1)
		}
	}
	return nil
}

// readSchema returns the schema of a store: version 0 if it has none.
func readSchema(dir string, db *crdb.DB) (version uint64, kernos string, err error) {
	value, err := readOwn(db, schemaKey)
	if err != nil || value == nil {
		return 0, "", err
	}
	version, kernos, ok := parseSchema(value)
	if !ok {
		return 0, "", damage(dir, "", errors.New("its schema version is unreadable"))
	}
	return version, kernos, nil
}

// readOwn returns a copy of the value of one of the engine's own keys, or nil.
func readOwn(db *crdb.DB, key string) ([]byte, error) {
	value, closer, err := db.Get([]byte(key))
	if errors.Is(err, crdb.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// readLease returns the revision that no other was given out above.
func readLease(dir string, db *crdb.DB) (store.Revision, error) {
	value, err := readOwn(db, revisionKey)
	if err != nil || value == nil {
		return 0, err
	}
	r, n := binary.Uvarint(value)
	if n != len(value) || r > math.MaxInt64 {
		return 0, damage(dir, "", errors.New("its revision counter is unreadable"))
	}
	return store.Revision(r), nil
}
