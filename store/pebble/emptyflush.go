package pebble

import (
	"errors"
	"sync"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// flushFailed reports whether the error of a flush is a failure. Pebble also reports an
// error for a flush that had nothing to write.
func flushFailed(err error) bool {
	return err != nil && !errors.Is(err, errEmptyFlush())
}

// errEmptyFlush returns the error of a flush that had nothing to write. Pebble does not
// export it, so a flush of an empty store in memory provokes it once.
var errEmptyFlush = sync.OnceValue(func() (empty error) {
	db, err := crdb.Open("", &crdb.Options{
		FS:           vfs.NewMem(),
		Logger:       silent{},
		MemTableSize: 64 << 10,
		EventListener: &crdb.EventListener{
			FlushEnd: func(info crdb.FlushInfo) { empty = info.Err },
		},
	})
	if err != nil {
		return err
	}
	_ = db.Flush()
	_ = db.Close()
	return empty
})

// silent is a logger of Pebble that drops everything.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
