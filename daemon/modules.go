package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"kernos/capability/blob"
	"kernos/capability/content"
	"kernos/capability/crypto"
	"kernos/capability/history"
	fetch "kernos/capability/http"
	"kernos/capability/introspect"
	"kernos/capability/job"
	"kernos/capability/lifecycle"
	"kernos/capability/mcphost"
	"kernos/capability/memory"
	"kernos/capability/model"
	"kernos/capability/register"
	"kernos/capability/script"
	"kernos/capability/script/engine"
	"kernos/capability/session"
	"kernos/capability/token"
	"kernos/capability/vector"
	"kernos/capability/vfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/archive"
	"kernos/transport/mcp"
)

// modules are the capabilities of Kernos. A new one is a line here and a line in Definitions.
func (d *Daemon) modules(r *kernel.Registry) ([]kernel.Module, error) {
	s, o := d.state, d.opts
	s.process = &kernelfs.Process{
		Version: o.Version, Args: os.Args, Begun: d.started, Registry: r,
		Stats:  func() kernel.Stats { return d.kernel.Stats() },
		Mounts: func() []vfs.Mount { return s.tree.Mounts() },
	}
	life := lifecycle.Options{Registry: r, Status: d.Status, Backup: func(ctx context.Context, key *archive.Key, out io.Writer) (lifecycle.Backup, error) {
		return d.home.backup(ctx, o.Version, key, out)
	}}
	if o.Socket != nil || o.Web != nil {
		life.Shutdown = d.Shutdown
	}
	d.engine = engine.New(&engine.Options{Cache: filepath.Join(d.home.State(), "engine")})
	d.scripts = script.New(r, &script.Options{Store: s.store, Find: d.tokens.Find, Open: s.resolve, Engine: d.engine, Log: o.Log})
	d.mcp = mcphost.New(r, &mcphost.Options{
		Store: s.store, Seal: s.keys.Seal, Open: s.keys.Open, HTTP: s.asking, Taken: d.claimed, Schemas: d.scripts.Schemas(), Version: o.Version, Log: o.Log,
	})
	if err := s.openTree(&o.Files, d.variables(o.Level), d.mcp); err != nil {
		return nil, err
	}
	return []kernel.Module{
		s.tree.Module(),
		content.New(contentFiles{s.tree}, &content.Options{Client: s.client, Registry: r, Meaning: s.meaning, Execute: o.Execute}).Module(),
		fetch.Module(fetch.Options{Client: s.client, Blobs: s, Open: s.keys.Open, MaxBody: o.Fetch.MaxBody, Retries: o.Fetch.Retries}),
		s.keys.Module(),
		blob.Module(blob.Options{Dir: s.blobs, Reaches: s.callerReaches, Log: o.Log}),
		introspect.Module(r),
		lifecycle.Module(life),
		register.Module(r, &register.Options{Scripts: d.scripts, Store: s.store, Find: d.tokens.Find}),
		d.scripts.Module(),
		s.memory.Module(),
		history.Module(s.journal, d.tokens.Find),
		token.Module(d.tokens),
		d.jobs.Module(),
		d.sessions.Module(),
		model.Module(s.models(&o)),
		mcp.Module(&d.tasks),
		d.mcp.Module(),
		d.vectors.Module(),
	}, nil
}

// claimed reports whether a program has registered a syscall, and may do so again.
func (d *Daemon) claimed(t message.Type) (bool, error) {
	return register.Claimed(d.state.store, d.tokens.Find, t)
}

// Definitions returns a registry of the same modules as data: they can be listed, described and
// hashed with nothing opened, and not called.
func Definitions() (*kernel.Registry, error) {
	return kernel.Describe(
		vfs.Definitions(),
		content.Definitions(),
		fetch.Definitions(),
		crypto.Definitions(),
		blob.Definitions(),
		introspect.Definitions(),
		lifecycle.Definitions(),
		register.Definitions(),
		script.Definitions(),
		memory.Definitions(),
		history.Definitions(),
		token.Definitions(),
		job.Definitions(),
		session.Definitions(),
		model.Definitions(),
		mcp.Definitions(),
		mcphost.Definitions(),
		vector.Definitions(),
	)
}
