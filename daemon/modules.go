package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"kernos/capability/blob"
	"kernos/capability/content"
	"kernos/capability/history"
	fetch "kernos/capability/http"
	"kernos/capability/introspect"
	"kernos/capability/lifecycle"
	"kernos/capability/mcphost"
	"kernos/capability/model"
	"kernos/capability/register"
	"kernos/capability/script"
	"kernos/capability/script/engine"
	"kernos/capability/token"
	"kernos/capability/vfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/archive"
	"kernos/transport/mcp"
)

// capabilities returns the modules of Kernos. A new one is a line here. What they need is open after [Daemon.prepare];
// before, they are made of what isn't there, to be described.
func (d *Daemon) capabilities(r *kernel.Registry) []kernel.Module {
	s, o := d.state, &d.opts
	all := []kernel.Module{
		s.tree.Module(),
		content.New(contentFiles{s.tree}, &content.Options{Client: s.client, Registry: r, Meaning: s.meaning, Execute: o.Execute}).Module(),
		fetch.Module(fetch.Options{Client: s.client, Blobs: s, Open: s.keys.Open, MaxBody: o.Fetch.MaxBody, Retries: o.Fetch.Retries}),
		s.keys.Module(),
		blob.Module(blob.Options{Dir: s.blobs, Reaches: s.callerReaches, Log: o.Log}),
		introspect.Module(r),
		lifecycle.Module(d.lifecycle(r)),
		register.Module(r, &register.Options{Scripts: d.scripts, Store: s.store, Find: d.tokens.Find}),
		d.scripts.Module(),
		s.memory.Module(),
		history.Module(s.journal, &history.Options{Find: d.tokens.Find, Transient: register.Served}),
		token.Module(d.tokens),
		d.jobs.Module(),
		d.sessions.Module(),
		model.Module(s.models(o)),
		mcp.Module(&d.tasks),
		d.mcp.Module(),
		d.vectors.Module(),
		d.notes.Module(),
	}
	if o.member != nil {
		all = append(all, o.member.module())
	}
	return all
}

// Definitions returns a registry of the capabilities as data: they can be listed, described and
// hashed with nothing opened. Only the syscalls that list and describe can be called.
func Definitions() (*kernel.Registry, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	closed := &Daemon{state: new(state)}
	modules := closed.capabilities(r)
	for i, m := range modules {
		switch m.Name {
		case "syscall": // lists and describes syscalls
		case "kernel":
			modules[i] = lifecycle.Module(lifecycle.Options{Registry: r})
		default:
			modules[i] = m.Described()
		}
	}
	return r, r.Add(modules...)
}

// builtIn reports whether a type is in a domain of a capability, where there is no kernel yet.
func builtIn(t message.Type) bool {
	r, err := Definitions()
	return err != nil || r.BuiltIn(t)
}

// prepare makes what several capabilities share.
func (d *Daemon) prepare(r *kernel.Registry) error {
	s, o := d.state, d.opts
	s.process = &kernelfs.Process{
		Version: o.Version, Args: os.Args, Begun: d.started, Registry: r,
		Stats:  func() kernel.Stats { return d.kernel.Stats() },
		Mounts: func() []vfs.Mount { return s.tree.Mounts() },
	}
	d.engine = engine.New(&engine.Options{Cache: filepath.Join(d.home.State(), "engine")})
	d.scripts = script.New(r, &script.Options{Store: s.store, Find: d.tokens.Find, Open: s.resolve, Engine: d.engine, IsRoot: d.isRoot, Log: o.Log})
	d.mcp = mcphost.New(r, &mcphost.Options{
		Store: s.store, Seal: s.keys.Seal, Open: s.keys.Open, HTTP: s.asking, Home: d.home.Dir, Taken: d.registered, Schemas: d.scripts.Schemas(), Version: o.Version, Log: o.Log,
	})
	return s.openTree(&o.Files, d.variables(o.Level), d.mcp)
}

func (d *Daemon) lifecycle(r *kernel.Registry) lifecycle.Options {
	o := lifecycle.Options{Registry: r, Status: d.Status, Backup: func(ctx context.Context, key *archive.Key, out io.Writer) (lifecycle.Backup, error) {
		return d.home.backup(ctx, d.state.blobs, d.opts.Version, key, out)
	}}
	if d.opts.Socket != nil || d.opts.Web != nil {
		o.Shutdown = d.Shutdown
	}
	if d.opts.member != nil {
		o.Shutdown = d.opts.member.Shutdown // another node takes over first
	}
	return o
}

// registered reports whether a program has registered a syscall, and may do so again.
func (d *Daemon) registered(t message.Type) (bool, error) {
	return register.Claimed(d.state.store, d.tokens.Find, t)
}
