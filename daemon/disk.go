package daemon

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// diskSize caches how many bytes something has on disk. Measuring many files takes a while, so
// a result is used for ten times as long as it took.
type diskSize struct {
	mu    sync.Mutex
	bytes int64
	until time.Time
}

func (s *diskSize) of(measure func() int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := time.Now()
	if begun.After(s.until) {
		s.bytes = measure()
		now := time.Now()
		s.until = now.Add(10 * now.Sub(begun))
	}
	return s.bytes
}

// diskUsage returns how many bytes the files in a directory have. A file that is removed
// meanwhile does not count.
func diskUsage(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
