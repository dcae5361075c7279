package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kernos/capability/job"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
)

const (
	sweepEvery = time.Minute

	// The first sweep is late enough that a process which answers a few messages does none.
	firstSweep = 5 * time.Second

	// If only such processes use the store, the first one to end sweepDue after the last sweep
	// sweeps before it ends, for at most lastSweep. The next sweep continues where it stopped.
	sweepDue  = time.Hour
	lastSweep = 2 * time.Second
)

// maintain removes what has expired until ctx is done: every minute, and a journal that has
// become too large at once. It begins when the store is opened.
func (s *state) maintain(ctx context.Context, k *kernel.Kernel, jobs *job.Jobs) {
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
	var sweeping, trimming cause // a disk that can't be written is reported once, not every minute
	report := func(reported *cause, err error) {
		if ctx.Err() != nil {
			return
		}
		found := causeOf(err)
		if err != nil && found != *reported {
			s.log.Warn("can't remove what has expired", "error", err)
		}
		*reported = found
	}
	over := s.journal.Over()
	defer s.reportDropped()
	for {
		select {
		case now := <-timer.C:
			report(&sweeping, s.sweep(ctx, k, jobs, now))
			s.reportDropped()
			over = s.journal.Over()
			timer.Reset(sweepEvery)
		case <-over:
			err := s.trim(ctx, time.Now())
			report(&trimming, err)
			if err != nil {
				over = nil // no further attempt before the next sweep: otherwise every write would cause one
			}
		case <-ctx.Done():
			now := time.Now()
			if info, err := os.Stat(s.swept()); err == nil && now.Sub(info.ModTime()).Abs() < sweepDue {
				return
			}
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSweep)
			defer cancel()
			_ = s.sweep(ending, k, jobs, now) // the next process tries again
			return
		}
	}
}

// A cause tells apart the errors of maintenance; the zero cause is that of no error.
type cause struct {
	code  int
	errno syscall.Errno
}

func causeOf(err error) (c cause) {
	if err != nil {
		known, _ := message.ErrorOf(err)
		c.code = known.Code
		errors.As(err, &c.errno)
	}
	return c
}

// swept returns a file that was written by the last sweep.
func (s *state) swept() string { return filepath.Join(s.home.State(), "swept") }

// unused returns how long a blob that nothing refers to is kept: longer than the outcome of an
// idempotent command, which may point to it.
func (s *state) unused() time.Duration { return s.outcomes + time.Hour }

// sweep removes outcomes, values, jobs, messages and blobs that have expired.
func (s *state) sweep(ctx context.Context, k *kernel.Kernel, jobs *job.Jobs, now time.Time) error {
	_, kernelErr := k.Sweep(ctx, now)
	_, memoryErr := s.memory.Sweep(ctx, now)
	_, jobsErr := jobs.Sweep(ctx, now)
	if err := errors.Join(kernelErr, memoryErr, jobsErr, s.trim(ctx, now), s.collectBlobs(ctx, now)); err != nil {
		return err
	}
	return os.WriteFile(s.swept(), []byte(now.Format(time.RFC3339)+"\n"), 0o600)
}

// trim drops what the journal has too much of, and counts it for reportDropped.
func (s *state) trim(ctx context.Context, now time.Time) error {
	d, err := s.journal.Trim(ctx, now)
	if d.Messages > 0 {
		d.Messages += s.dropped.Messages
		d.Bytes += s.dropped.Bytes
		s.dropped = d
	}
	return err
}

// reportDropped logs what the journal has dropped since the last report. A
// journal that is full is trimmed all the time, so that a line for each would be too many.
func (s *state) reportDropped() {
	d := s.dropped
	if s.dropped = (journal.Dropped{}); d.Messages == 0 {
		return
	}
	level := slog.LevelInfo
	if d.Why == journal.ByBytes { // younger than what the retention by age keeps
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "the journal has dropped its oldest messages", "messages", d.Messages, "bytes", d.Bytes,
		"until", time.UnixMilli(d.At).UTC().Format(time.RFC3339), "why", d.Why)
}

// collectBlobs removes the blobs that nothing refers to, unless a backup is being made, which
// may still need them.
func (s *state) collectBlobs(ctx context.Context, now time.Time) error {
	release, err := lockBlobs(s.home.State(), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, errBlobsInUse) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	collected, err := s.blobs.Collect(ctx, s.store, s.unused(), now)
	return errors.Join(err, s.blobs.Release(s.store, collected.Removed))
}
