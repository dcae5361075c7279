package daemon

import (
	"os"

	"kernos/capability/content"
	"kernos/capability/history"
	fetch "kernos/capability/http"
	"kernos/capability/introspect"
	"kernos/capability/lifecycle"
	"kernos/capability/register"
	"kernos/capability/vfs"
	"kernos/kernel"
)

// modules are the capabilities of Kernos. A new one is a line here and a line in Definitions.
func (d *Daemon) modules(r *kernel.Registry) ([]kernel.Module, error) {
	s, o := d.state, d.opts
	s.process = &vfs.Process{
		Version: o.Version, Args: os.Args, Begun: d.started, Registry: r,
		Stats:  func() kernel.Stats { return d.kernel.Stats() },
		Mounts: func() []vfs.Mount { return s.tree.Mounts() },
	}
	if err := s.openTree(&o.Files, d.variables(o.Level)); err != nil {
		return nil, err
	}
	life := lifecycle.Options{Registry: r, Status: d.Status}
	if o.Socket != nil || o.Web != nil {
		life.Shutdown = d.Shutdown
	}
	return []kernel.Module{
		s.tree.Module(),
		content.New(contentFiles{s.tree}, &content.Options{Fetch: content.Fetcher(s.client), Execute: o.Execute}).Module(),
		fetch.Module(&fetch.Options{Client: s.client, Blobs: s.blobs, Open: s.keys.Open, MaxBody: o.Fetch.MaxBody, Retries: o.Fetch.Retries}),
		s.keys.Module(),
		introspect.Module(r),
		lifecycle.Module(life),
		register.Module(r, nil),
		s.memory.Module(),
		history.Module(s.journal),
	}, nil
}

// Definitions returns a registry of the modules of Kernos whose syscalls can be listed and
// described, and not called.
func Definitions() (*kernel.Registry, error) {
	d, err := Open(&Options{Home: os.DevNull, Unrecorded: true}) // nothing there is opened
	if err != nil {
		return nil, err
	}
	return d.kernel.Registry(), d.Close()
}
