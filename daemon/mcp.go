package daemon

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/store"
	"kernos/transport/mcp"
)

// MCP returns the server of the Model Context Protocol; nil if there is no Web.
func (d *Daemon) MCP() *mcp.Server { return d.clients }

// watchPause is how often a file or a folder is looked at that a client of the Model Context Protocol watches:
// programs change files without a word to the kernel.
const watchPause = time.Second

// watchResource watches a value of memory, the names of all, a file, or a folder of agents and skills, whose URI ends with a slash.
// What it returns waits for the next change, and reports whether there was one: it is false when ctx has ended. The
// context acts for the caller; what the caller may not read has no version.
func (d *Daemon) watchResource(ctx context.Context, uri string) (next func() bool) {
	if uri == "memory://" {
		return d.watchKeys(ctx)
	}
	if key, ok := strings.CutPrefix(uri, "memory://"); ok {
		if key, err := url.PathUnescape(key); err == nil {
			uri = "os://memory/" + strings.TrimPrefix(key, "/")
		}
	}
	switch {
	case !strings.HasPrefix(uri, "os://"): // a message and a blob never change
		return func() bool {
			<-ctx.Done()
			return false
		}
	case strings.HasSuffix(uri, "/"):
		return d.folders.follow(ctx, d, uri)
	}
	memory := d.state.store.Watch([]byte{store.SpaceMemory})
	changes := sync.OnceValue(func() func() bool {
		return d.changes(ctx, uri, memory.C, func() string {
			v, err := d.state.tree.Version(ctx, uri)
			if err != nil {
				return ""
			}
			return v
		})
	})
	if !strings.HasPrefix(uri, "os://mcp/") { // a mounted server may take its time, and the connection waits
		changes()
	}
	return func() bool {
		if !changes()() {
			memory.Stop()
			return false
		}
		return true
	}
}

// maxNames is how many names of keys are compared to notice that their list has changed.
const maxNames = 1000

// watchKeys watches the names of the keys that the caller reaches. It looks once per pause at most.
func (d *Daemon) watchKeys(ctx context.Context) (next func() bool) {
	memory := d.state.store.Watch([]byte{store.SpaceMemory})
	names := func() string {
		sum, n := fnv.New128a(), 0
		for info, err := range d.state.tree.Walk(ctx, "os://memory") {
			if n++; err != nil || n > maxNames {
				break
			}
			_, _ = io.WriteString(sum, info.URI+"\n")
		}
		return string(sum.Sum(nil))
	}
	known := names()
	return func() bool {
		for {
			select {
			case <-ctx.Done():
				memory.Stop()
				return false
			case <-memory.C:
			}
			if now := names(); now != known && ctx.Err() == nil {
				known = now
				return true
			}
			pause := backoff.Backoff{First: watchPause, Longest: watchPause}
			pause.Wait(ctx.Done())
		}
	}
}

// changes returns a function that waits until version returns another text. It looks after each change that is made
// through the tree below a URI, after each token, and after a pause.
func (d *Daemon) changes(ctx context.Context, below string, tokens <-chan struct{}, version func() string) (next func() bool) {
	pause := time.NewTicker(watchPause)
	written := d.state.tree.Written(below)
	known := version()
	return func() bool {
		for {
			select {
			case <-ctx.Done():
				pause.Stop()
				return false
			case <-tokens:
			case <-pause.C:
			case <-written:
			}
			written = d.state.tree.Written(below)
			if now := version(); now != known && ctx.Err() == nil {
				known = now
				return true
			}
		}
	}
}

// folderVersion is one of all Markdown files below a folder that the caller may read.
func (d *Daemon) folderVersion(ctx context.Context, uri string) string {
	sum := fnv.New128a()
	for info, err := range d.state.tree.Walk(ctx, uri) {
		if err == nil && !info.Dir && strings.EqualFold(path.Ext(info.URI), ".md") {
			_, _ = fmt.Fprintf(sum, "%s\n%s %d %d\n", info.URI, info.Version, info.Size, info.Modified.UnixNano())
		}
	}
	return string(sum.Sum(nil))
}

// folders are those that clients follow. Each is looked at once per pause, however many follow it; only after a
// change it is looked at as each of them.
type folders struct {
	mu  sync.Mutex
	all map[string]*folder
}

type folder struct {
	followers map[chan struct{}]struct{}
	stop      context.CancelFunc
	stopped   chan struct{}
}

// follow watches a folder for a caller.
func (f *folders) follow(ctx context.Context, d *Daemon, uri string) (next func() bool) {
	news := make(chan struct{}, 1)
	f.mu.Lock()
	one := f.all[uri]
	if one == nil {
		one = d.pollFolder(f, uri)
	}
	one.followers[news] = struct{}{}
	f.mu.Unlock()
	known := d.folderVersion(ctx, uri)
	return func() bool {
		for {
			select {
			case <-ctx.Done():
				f.leave(uri, news)
				return false
			case <-news:
			}
			if now := d.folderVersion(ctx, uri); now != known && ctx.Err() == nil {
				known = now
				return true
			}
		}
	}
}

// pollFolder looks at a folder as the owner, until its last follower leaves. mu is held.
func (d *Daemon) pollFolder(f *folders, uri string) *folder {
	life, stop := context.WithCancel(context.Background())
	one := &folder{followers: make(map[chan struct{}]struct{}), stop: stop, stopped: make(chan struct{})}
	changed := d.changes(life, strings.TrimSuffix(uri, "/"), nil, func() string { return d.folderVersion(life, uri) })
	go func() {
		defer close(one.stopped)
		for changed() {
			f.mu.Lock()
			for news := range one.followers {
				select {
				case news <- struct{}{}:
				default:
				}
			}
			f.mu.Unlock()
		}
	}()
	if f.all == nil {
		f.all = make(map[string]*folder)
	}
	f.all[uri] = one
	return one
}

// leave ends what a follower has begun.
func (f *folders) leave(uri string, news chan struct{}) {
	f.mu.Lock()
	one := f.all[uri]
	delete(one.followers, news)
	last := len(one.followers) == 0
	if last {
		delete(f.all, uri)
		one.stop()
	}
	f.mu.Unlock()
	if last {
		<-one.stopped
	}
}
