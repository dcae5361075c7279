package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kernos/kernel"
)

const (
	sweepEvery = time.Minute

	// A process that answers some messages and ends should not come to it.
	firstSweep = 5 * time.Second

	// When only such processes use the store, the one that finds it due does it before it
	// ends, for so long at most. The next one goes on.
	sweepDue  = time.Hour
	lastSweep = 2 * time.Second
)

// maintain forgets what has expired, once there is a store, as long as ctx lasts. A journal
// that becomes too large is trimmed at once.
func (s *state) maintain(ctx context.Context, k *kernel.Kernel) {
	select {
	case <-s.opened:
	case <-ctx.Done():
		select {
		case <-s.opened:
		default:
			return
		}
	}
	var expiring sync.WaitGroup
	expiring.Go(func() { s.memory.Expire(ctx) })
	defer expiring.Wait()
	timer := time.NewTimer(firstSweep)
	defer timer.Stop()
	said := "" // what is wrong, and was told: a disk that can't be written stays so for long
	tell := func(err error) {
		wrong := ""
		if err != nil && ctx.Err() == nil {
			if wrong = err.Error(); wrong != said {
				s.log.Warn("can't forget what has expired", "error", err)
			}
		}
		said = wrong
	}
	over := s.journal.Over()
	for {
		select {
		case now := <-timer.C:
			tell(s.sweep(ctx, k, now))
			over = s.journal.Over()
			timer.Reset(sweepEvery)
		case <-over:
			if _, err := s.journal.Trim(ctx, time.Now()); err != nil {
				tell(err)
				over = nil // until the next sweep, or it would be tried with every write
			}
		case <-ctx.Done():
			now := time.Now()
			if info, err := os.Stat(s.swept()); err == nil && now.Sub(info.ModTime()).Abs() < sweepDue {
				return
			}
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSweep)
			defer cancel()
			_ = s.sweep(ending, k, now) // nobody waits for it, and the next one tries again
			return
		}
	}
}

// swept is the file whose time is that of the last sweep.
func (s *state) swept() string { return filepath.Join(s.dir, "swept") }

// unused is how long a blob that nothing refers to is kept: as long as the outcome of an
// idempotent command, which may point to it, and some more.
func (s *state) unused() time.Duration { return s.outcomes + time.Hour }

func (s *state) sweep(ctx context.Context, k *kernel.Kernel, now time.Time) error {
	_, err := k.Sweep(ctx, now)
	_, memoryErr := s.memory.Sweep(ctx, now)
	_, journalErr := s.journal.Trim(ctx, now)
	err = errors.Join(err, memoryErr, journalErr, s.collectBlobs(ctx, now))
	if err != nil {
		return err
	}
	return os.WriteFile(s.swept(), []byte(now.Format(time.RFC3339)+"\n"), 0o600)
}

// collectBlobs removes the blobs that nothing refers to, unless a backup is being made, which
// may still come to them.
func (s *state) collectBlobs(ctx context.Context, now time.Time) error {
	release, err := lockBlobs(s.dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, errBlobsInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	_, err = s.blobs.Collect(ctx, s.store, s.unused(), now)
	return err
}
