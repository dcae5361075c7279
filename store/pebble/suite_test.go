package pebble_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/storetest"
)

func TestEngine(t *testing.T) {
	storetest.Run(t, storetest.Engine{
		Open:   func(dir string) (store.Store, error) { return pebble.Open(dir, nil) },
		OpenFS: func(fs vfs.FS, dir string) (store.Store, error) { return pebble.Open(dir, &pebble.Options{FS: fs}) },
	})
}
