package pebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// Each opening writes a table. When there are several, a compaction begins after the next opening,
// and closing waits for it.
func TestACompactionBeginsAfterOpening(t *testing.T) {
	fs := vfs.NewMem()
	for i := range 2 * l0Tables {
		e, err := Open("", &Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		var b store.Batch
		b.Set(fmt.Appendf(nil, "m%d", i), nil)
		b.Set([]byte("m"), nil) // so that the tables overlap
		commit, err := e.Apply(&b)
		if err == nil {
			err = commit.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := e.db.Metrics().Levels[0].Sublevels; n > l0Tables/2+2 {
			t.Errorf("opening %d: %d tables overlap", i, n)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
