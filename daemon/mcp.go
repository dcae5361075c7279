package daemon

import (
	"context"
	"net/url"
	"strings"
	"time"

	"kernos/store"
	"kernos/transport/mcp"
)

// MCP returns the server of the Model Context Protocol; nil if there is no Web.
func (d *Daemon) MCP() *mcp.Server { return d.clients }

// watchPause is how often a file is looked at that a client of the Model Context Protocol watches.
const watchPause = time.Second

// watchResource calls changed each time when a value of memory or a file has another version, until ctx
// ends. The context acts for the caller; what it may not read has no version.
func (d *Daemon) watchResource(ctx context.Context, uri string, changed func()) {
	if key, ok := strings.CutPrefix(uri, "memory://"); ok {
		key, err := url.PathUnescape(key)
		if err != nil {
			return
		}
		uri = "os://memory/" + strings.TrimPrefix(key, "/")
	}
	if !strings.HasPrefix(uri, "os://") {
		return // a message and a blob never change
	}
	memory := d.state.store.Watch([]byte{store.SpaceMemory})
	defer memory.Stop()
	pause := time.NewTicker(watchPause)
	defer pause.Stop()
	version := func() string {
		v, err := d.state.tree.Version(ctx, uri)
		if err != nil {
			return ""
		}
		return v
	}
	for known := version(); ; {
		select {
		case <-ctx.Done():
			return
		case <-memory.C:
		case <-pause.C:
		}
		if now := version(); now != known && ctx.Err() == nil {
			known = now
			changed()
		}
	}
}
