package main

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kernos/capability/lifecycle"
	"kernos/kernel"
	"kernos/transport/unix"
)

// A report says how the kernel of this process is doing. Its kernel, and the server of a
// daemon, are given to it before it is asked.
type report struct {
	address *address
	state   *state
	started time.Time
	kernel  *kernel.Kernel
	server  *unix.Server // nil if this is no daemon
	rates   rates

	size usage

	listening []string                                 // where else a daemon serves than at its socket
	elsewhere func() (connections int, refused uint64) // what it does there
}

// view is what the kernel shows of itself in its tree of files. The server is nil if this is
// no daemon.
func (r *report) view(level *slog.LevelVar, server func() *unix.Server) view {
	k := func() *kernel.Kernel { return r.kernel }
	return view{
		started:   r.started,
		stats:     func() kernel.Stats { return r.kernel.Stats() },
		variables: variables(level, r.state.journal, k, server),
	}
}

func (r *report) messages() uint64 { return r.kernel.Stats().Messages }

func (r *report) status() lifecycle.Status {
	now := time.Now()
	k := r.kernel.Stats()
	s := lifecycle.Status{
		Version:     version,
		PID:         os.Getpid(),
		Started:     r.started.UnixMilli(),
		Uptime:      now.Sub(r.started).Round(time.Millisecond).Seconds(),
		Home:        r.address.home,
		Origin:      string(r.address.origin),
		Directory:   r.state.directory,
		Connections: k.Connections,
		Messages: lifecycle.Traffic{
			Total:     k.Messages,
			PerSecond: tenth(r.rates.over(time.Second, now, k.Messages)),
			PerMinute: tenth(r.rates.over(time.Minute, now, k.Messages)),
		},
		Errors:   k.Errors,
		InFlight: k.InFlight,
		Waiting:  k.Waiting,
		Store:    r.stored(),
	}
	if r.server != nil {
		s.Socket = r.address.socket
		s.Listening = append([]string{"unix://" + r.address.socket}, r.listening...)
		now := r.server.Stats()
		s.Connections = now.Connections
		s.Throttled = now.Throttled
		s.Refused = now.Rejected()
		connections, refused := r.elsewhere()
		s.Connections += connections
		s.Refused += refused
	}
	return s
}

// tenth rounds what is measured to what is worth reading.
func tenth(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// stored says what is kept, if the store is open. It does not open it.
func (r *report) stored() lifecycle.Store {
	select {
	case <-r.state.opened:
	default:
		return lifecycle.Store{}
	}
	kept := lifecycle.Store{Open: true, Bytes: r.size.of(func() int64 {
		return diskUsage(filepath.Join(r.state.dir, "store")) + diskUsage(r.state.blobs.Root())
	})}
	if j, err := r.state.journal.Stats(); err == nil {
		kept.Messages = j.Messages
	}
	return kept
}

// usage is how much room something takes. With many files that takes a while to find out, so
// it is not found out anew before ten times as long has passed.
type usage struct {
	mu    sync.Mutex
	bytes int64
	until time.Time // it is good
}

func (u *usage) of(measure func() int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	begun := time.Now()
	if begun.After(u.until) {
		u.bytes = measure()
		now := time.Now()
		u.until = now.Add(10 * now.Sub(begun))
	}
	return u.bytes
}

// diskUsage is how many bytes the files in a directory have. Files that go while it looks
// do not count.
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
