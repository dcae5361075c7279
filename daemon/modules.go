package daemon

import (
	"context"
	"errors"
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

// A capability is a module of Kernos.
type capability struct {
	definitions func() kernel.Module                          // as data, with nothing opened
	bind        func(*Daemon, *kernel.Registry) kernel.Module // with its handlers, after [Daemon.prepare]
}

// capabilities returns the modules of Kernos. A new one is a line here.
func capabilities() []capability {
	return []capability{
		{vfs.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.state.tree.Module() }},
		{content.Definitions, func(d *Daemon, r *kernel.Registry) kernel.Module {
			return content.New(contentFiles{d.state.tree}, &content.Options{Client: d.state.client, Registry: r, Meaning: d.state.meaning, Execute: d.opts.Execute}).Module()
		}},
		{fetch.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module {
			return fetch.Module(fetch.Options{Client: d.state.client, Blobs: d.state, Open: d.state.keys.Open, MaxBody: d.opts.Fetch.MaxBody, Retries: d.opts.Fetch.Retries})
		}},
		{crypto.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.state.keys.Module() }},
		{blob.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module {
			return blob.Module(blob.Options{Dir: d.state.blobs, Reaches: d.state.callerReaches, Log: d.opts.Log})
		}},
		{introspect.Definitions, func(_ *Daemon, r *kernel.Registry) kernel.Module { return introspect.Module(r) }},
		{lifecycle.Definitions, func(d *Daemon, r *kernel.Registry) kernel.Module { return lifecycle.Module(d.lifecycle(r)) }},
		{register.Definitions, func(d *Daemon, r *kernel.Registry) kernel.Module {
			return register.Module(r, &register.Options{Scripts: d.scripts, Store: d.state.store, Find: d.tokens.Find})
		}},
		{script.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.scripts.Module() }},
		{memory.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.state.memory.Module() }},
		{history.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module {
			return history.Module(d.state.journal, d.tokens.Find)
		}},
		{token.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return token.Module(d.tokens) }},
		{job.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.jobs.Module() }},
		{session.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.sessions.Module() }},
		{model.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return model.Module(d.state.models(&d.opts)) }},
		{mcp.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return mcp.Module(&d.tasks) }},
		{mcphost.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.mcp.Module() }},
		{vector.Definitions, func(d *Daemon, _ *kernel.Registry) kernel.Module { return d.vectors.Module() }},
	}
}

// Definitions returns a registry of the capabilities as data: they can be listed, described and
// hashed with nothing opened. Only the syscalls that list and describe can be called.
func Definitions() (*kernel.Registry, error) {
	var modules []kernel.Module
	for _, c := range capabilities() {
		if m := c.definitions(); m.Name != introspect.Definitions().Name && m.Name != lifecycle.Definitions().Name {
			modules = append(modules, m)
		}
	}
	r, err := kernel.Describe(modules...)
	if err != nil {
		return nil, err
	}
	// These list and describe syscalls, so they can be called.
	return r, errors.Join(r.Add(introspect.Module(r)), r.Add(lifecycle.Module(lifecycle.Options{Registry: r})))
}

// builtIn reports whether a type is in a domain of a capability, where there is no kernel yet.
func builtIn(t message.Type) bool {
	r, err := Definitions()
	return err != nil || r.BuiltIn(t)
}

// modules returns the capabilities with their handlers.
func (d *Daemon) modules(r *kernel.Registry) (modules []kernel.Module, err error) {
	if err := d.prepare(r); err != nil {
		return nil, err
	}
	for _, c := range capabilities() {
		modules = append(modules, c.bind(d, r))
	}
	return modules, nil
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
		return d.home.backup(ctx, d.opts.Version, key, out)
	}}
	if d.opts.Socket != nil || d.opts.Web != nil {
		o.Shutdown = d.Shutdown
	}
	return o
}

// registered reports whether a program has registered a syscall, and may do so again.
func (d *Daemon) registered(t message.Type) (bool, error) {
	return register.Claimed(d.state.store, d.tokens.Find, t)
}
