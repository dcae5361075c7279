package daemon

import (
	"errors"
	"os"
	"time"

	"kernos/capability/lifecycle"
	"kernos/message"
)

// Status reports how the daemon is doing, as Kernel.Status does.
func (d *Daemon) Status() lifecycle.Status {
	now := time.Now()
	k := d.kernel.Stats()
	s := lifecycle.Status{
		Version:     d.opts.Version,
		PID:         os.Getpid(),
		Started:     d.started.UnixMilli(),
		Uptime:      now.Sub(d.started).Round(time.Millisecond).Seconds(),
		Home:        d.home.Dir,
		Origin:      string(d.home.Origin),
		Files:       d.state.files,
		Directory:   d.state.directory,
		Trusted:     d.trustedFolders(),
		Connections: k.Connections,
		Messages: lifecycle.Traffic{
			Total:     k.Messages,
			PerSecond: tenth(d.rates.over(time.Second, now, k.Messages)),
			PerMinute: tenth(d.rates.over(time.Minute, now, k.Messages)),
		},
		Errors:    k.Errors,
		InFlight:  k.InFlight,
		Waiting:   k.Waiting,
		Jobs:      d.jobStats(),
		Models:    d.configuredModels(),
		Sessions:  d.sessionStats(),
		Meaning:   d.meaningStats(),
		Store:     d.storeStats(),
		Listening: d.URLs(),

		FileErrors: d.files.errors(),
	}
	if d.lock != nil {
		s.Socket = d.lock.Path()
	}
	if m := d.opts.member; m != nil {
		about := m.ClusterStatus()
		s.Cluster = &about
	}
	if len(d.servers) > 0 {
		s.Connections = 0
	}
	for _, served := range d.servers {
		for _, w := range served.wires {
			now := w.stats()
			s.Connections += now.Connections
			s.Refused += now.Rejected()
			s.Throttled += now.Throttled
		}
	}
	return s
}

// maxTrusted is how many folders a status lists: with long paths they still fit into a line.
const maxTrusted = 20

// trustedFolders lists the folders that the owner trusts, unless a root is mounted.
func (d *Daemon) trustedFolders() (folders []lifecycle.Folder) {
	if d.state.files == "" {
		return nil
	}
	all, err := d.home.Trusted()
	if err != nil {
		return []lifecycle.Folder{{Path: d.home.trustFile(), Problem: message.Clip(err.Error(), 300)}}
	}
	for _, t := range all[:min(len(all), maxTrusted)] {
		folders = append(folders, lifecycle.Folder{Path: message.Clip(t.Path, 300), Execute: t.Execute, Problem: message.Clip(t.Problem, 300)})
	}
	return folders
}

// tenth rounds to one decimal.
func tenth(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// jobStats reports on jobs, if the store is open. It does not open it.
func (d *Daemon) jobStats() lifecycle.Jobs {
	if !d.state.isOpen() {
		return lifecycle.Jobs{}
	}
	s, err := d.jobs.Stats()
	if err != nil {
		d.opts.Log.Warn("jobs can't be counted", "error", err)
	}
	return lifecycle.Jobs{
		Running: s.Running, Completed: s.Completed, Failed: s.Failed, Schedules: s.Schedules,
		Oldest: s.Oldest.Round(time.Millisecond).Seconds(), Held: s.Held,
	}
}

// sessionStats reports on sessions, if the store is open. It does not open it.
func (d *Daemon) sessionStats() lifecycle.Sessions {
	if !d.state.isOpen() {
		return lifecycle.Sessions{}
	}
	s, err := d.sessions.Stats()
	if err != nil {
		d.opts.Log.Warn("sessions can't be counted", "error", err)
	}
	return lifecycle.Sessions(s)
}

// meaningStats reports on searches by meaning, if the store is open. It does not open it.
func (d *Daemon) meaningStats() lifecycle.Meaning {
	m := lifecycle.Meaning{Model: d.state.embed[0].ID()}
	if !d.state.isOpen() {
		return m
	}
	m.Bytes = d.state.vectors.Bytes()
	messages, err := d.state.journal.Embedded()
	items, itemsErr := d.vectors.Stats()
	if err := errors.Join(err, itemsErr); err != nil {
		d.opts.Log.Warn("embedded texts can't be counted", "error", err)
	}
	m.Behind = int(messages.Behind)
	for _, p := range append(items, messages.Progress) {
		m.Entries += p.Entries
		m.Behind += p.Pending
		if p.Next != "" {
			m.Again += p.Entries
			m.Done += p.Done
		}
		if p.Waiting != "" {
			m.Waiting = p.Waiting
		}
	}
	return m
}

// storeStats reports what the store holds, if it is open. It does not open it.
func (d *Daemon) storeStats() lifecycle.Store {
	if !d.state.isOpen() {
		return lifecycle.Store{}
	}
	kept := lifecycle.Store{Open: true, Bytes: d.size.of(func() int64 {
		return diskUsage(d.home.Store()) + diskUsage(d.state.blobs.Root())
	})}
	if j, err := d.state.journal.Stats(); err == nil {
		kept.Messages = j.Messages
	}
	return kept
}
