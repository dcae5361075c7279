package pebble

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// Where there is room, the library must not want a new table: those who read wait for it.
func TestTablesAreFullWhenTheyAreReplaced(t *testing.T) {
	for _, size := range []int{0, 10, 100, 900} {
		e := mustOpen(t, "store", &Options{FS: vfs.NewMem(), MemTableSize: 1 << 20})
		replaced := 0
		for i := range 30_000 {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "m%06d", i*7919%30_011), bytes.Repeat([]byte("x"), size))
			b.Delete(fmt.Appendf(nil, "n%06d", i))
			table, used := e.memtable.size.Load(), e.memtable.used.Load()
			if _, err := e.Apply(&b); err != nil {
				t.Fatal(err)
			}
			if e.memtable.used.Load() >= used {
				continue
			}
			replaced++
			if least := table - min(maxGroup, table/8) - 4096; used < least {
				t.Errorf("values of %d bytes: a table of %d bytes was replaced when %d were used", size, table, used)
			}
		}
		if replaced < 3 {
			t.Errorf("values of %d bytes: %d tables were full", size, replaced)
		}
	}
}
