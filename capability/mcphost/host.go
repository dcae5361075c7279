// Package mcphost mounts servers of the Model Context Protocol: their tools become syscalls, their
// resources and prompts files below os://mcp/NAME.
//
//	Mcp.Add      mount a server: a program, or an address
//	Mcp.Remove   take one away
//	Mcp.List     the servers
//	Mcp.Show     one of them, with its tools
//	Mcp.Allow    accept what a server offers, and let sessions call its tools without asking
//	Mcp.Refresh  ask a server again what it offers
//
// The tool create_issue of the server github is the syscall Github.CreateIssue: validated, recorded,
// with a deadline, and usable from scripts and jobs like any other.
//
// A server is started when it is first needed. What it offers is in the store, so that it can be
// listed and described without the server. A server that ends fails the requests that it has not
// answered with 502, and is started again for the next one, after pauses that grow.
//
// A server is not trusted. Its description of itself is data: bounded, on one line, and marked as
// its own. Its tools are commands that act outside of the kernel, whatever it claims, so that sessions
// ask before they call one, until the owner has allowed it. When a tool is described in another way
// than before, an event reports it, the earlier description stays in use, and sessions ask again, until
// the owner has accepted the change.
//
// # Goroutines
//
//   - A dial, one per server: the call that needs the server starts it, and it ends when the server is connected, or
//     has failed.
//   - Following the changes of a server, one per connection, with which it ends.
//   - Closing a server, one per server: [Host.Close] starts it, and waits for it.
//   - The login of a server, one per login: Mcp.Add or Mcp.Refresh starts it, and it ends when the browser has come
//     back, or the wait is over.
package mcphost

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// Options are the settings of a Host. The zero value is usable.
type Options struct {
	// Store keeps the servers. Nil keeps them while the process runs.
	Store store.Store

	// Seal and Open seal and open the secrets of servers: variables, headers, tokens. Nil keeps
	// them as they are, in memory.
	Seal func(ctx context.Context, plaintext string, to sealed.Destination) (string, error)
	Open func(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error)

	// HTTP reaches servers that have an address.
	HTTP *http.Client

	// Home is the directory that programs run in, unless they are given another one. The working directory of this process may
	// be a repository, and a program such as npx takes what it runs from there.
	Home string

	// Taken reports whether a program has registered a name, and may do so again.
	Taken func(message.Type) (bool, error)

	// Schemas is what the schemas of tools are charged to. Nil means 256 MB.
	Schemas *kernel.Budget

	// Version is this program's version, which servers get.
	Version string

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// The events of servers.
const (
	changedEvent   message.Type = "Mcp.Changed"
	authorizeEvent message.Type = "Mcp.LoginRequested"
)

// A Host has the servers that are mounted. It is safe for concurrent use. Its creator closes it.
type Host struct {
	registry *kernel.Registry
	opts     Options
	kernel   atomic.Pointer[kernel.Kernel]

	mu      sync.Mutex // serialises changes
	loaded  bool
	servers map[string]*server

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup
}

// New returns the servers of a registry; none until Load has read them. Nil options mean defaults.
func New(r *kernel.Registry, opts *Options) *Host {
	h := &Host{registry: r, servers: make(map[string]*server)}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.Log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
	if h.opts.Schemas == nil {
		h.opts.Schemas = kernel.NewBudget("registered schemas", 256<<20, 32<<20)
	}
	if h.opts.Taken == nil {
		h.opts.Taken = func(message.Type) (bool, error) { return false, nil }
	}
	if h.opts.Seal == nil {
		h.opts.Seal = func(_ context.Context, text string, _ sealed.Destination) (string, error) { return text, nil }
	}
	if h.opts.Open == nil {
		h.opts.Open = func(_ context.Context, text string, _ sealed.Use) ([]byte, sealed.Destination, error) {
			return []byte(text), nil, nil
		}
	}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Begin sets which kernel records that servers have changed.
func (h *Host) Begin(k *kernel.Kernel) { h.kernel.Store(k) }

// Close ends the connections to all servers, and their processes.
func (h *Host) Close() {
	h.end()
	h.mu.Lock()
	all := h.sorted()
	h.mu.Unlock()
	for _, s := range all {
		h.work.Go(s.close)
	}
	h.work.Wait()
}

// Load reads the servers that the store has, once, and adds their tools to the registry.
func (h *Host) Load() error {
	err := h.lock()
	h.mu.Unlock()
	return err
}

// lock locks mu, and loads the servers unless they are loaded.
func (h *Host) lock() error {
	h.mu.Lock()
	if h.loaded || h.opts.Store == nil {
		return nil
	}
	for e, err := range h.opts.Store.Scan(store.Prefix([]byte{store.SpaceMcp})) {
		if err != nil {
			return err
		}
		r, err := decodeRecord(e)
		if err != nil {
			h.opts.Log.Error("an MCP server can't be read, and is left out", "name", string(e.Key[1:]), "error", err)
			continue
		}
		s := newServer(h, r)
		if err := s.publish(nil, r); err != nil {
			h.opts.Log.Error("an MCP server can't be mounted, and is left out", "name", r.Name, "error", err)
			continue
		}
		h.servers[r.Name] = s
	}
	h.loaded = true
	return nil
}

// lookup returns a server, or a 404. mu is held.
func (h *Host) lookup(name string) (*server, error) {
	for _, s := range h.servers {
		if s.name == name || s.now.Load().Domain == name {
			return s, nil
		}
	}
	text := "none is mounted; kernos mcp add mounts one"
	if len(h.servers) > 0 {
		text = "mounted are " + message.Clip(strings.Join(slices.Sorted(maps.Keys(h.servers)), ", "), 200)
	}
	return nil, message.Errorf(404, "No MCP server is called %s; %s", message.Clip(name, 64), text)
}

// find is lookup for a caller that holds nothing.
func (h *Host) find(name string) (*server, error) {
	err := h.lock()
	defer h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h.lookup(name)
}

// sorted returns the servers by name. mu is held.
func (h *Host) sorted() []*server {
	all := make([]*server, 0, len(h.servers))
	for _, s := range h.servers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.name, b.name) })
	return all
}

// save stores a record and waits until that lasts; a nil one removes it.
func (h *Host) save(ctx context.Context, name string, r *record) error {
	if h.opts.Store == nil {
		return nil
	}
	var b store.Batch
	if r == nil {
		b.Delete(recordKey(name))
	} else {
		text, err := r.encode()
		if err != nil {
			return err
		}
		b.Set(recordKey(name), text)
	}
	commit, err := h.opts.Store.Apply(&b)
	if err != nil {
		return err
	}
	return commit.Wait(ctx)
}

// recordEvent records an event that belongs to no call.
func (h *Host) recordEvent(t message.Type, data []byte) {
	k := h.kernel.Load()
	if k == nil {
		return
	}
	m := message.Message{Kind: message.KindEvent, Type: t, Data: data}
	k.Stamp(&m)
	k.Record(m, kernel.Within, kernel.From(principal.TheOwner(), ""))
}
