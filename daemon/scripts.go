package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kernos/capability/lifecycle"
	"kernos/capability/script"
	"kernos/capability/vfs"
	"kernos/internal/owned"
	"kernos/kernel"
	"kernos/message"
)

// scriptFolder has files with the code of syscalls, whose names are those of the files:
// os://syscalls/Text.Count.ts is Text.Count.
const scriptFolder = "os://syscalls"

// codeFolders returns the folders whose files are registered as code.
func codeFolders() []string { return []string{scriptFolder} }

// scriptLanguages are the languages of script files, by file name extension.
var scriptLanguages = map[string]string{".ts": "ts", ".js": "js", ".wasm": "wasm"}

// watchEvery is how often the folder is looked at. A listing of one folder costs some microseconds, works
// on every mount, and misses nothing; notifications would be a dependency with rules for each system.
const watchEvery = time.Second

// scriptFiles registers the files of the folder for the owner. Since the owner's code acts with
// all the rights of its caller, a file must be one that the owner alone can write.
type scriptFiles struct {
	d    *Daemon
	seen map[string]string // the versions of the files that were tried, by their URIs

	mu     sync.Mutex
	failed map[string]string // why files can't be registered
}

// watch registers the files, now and when they change, until ctx is done.
func (f *scriptFiles) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		f.scan(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// scan registers the files that have changed, and removes the scripts of those that are gone. A
// folder that can't be listed changes nothing: the daemon may have been started in another
// directory.
func (f *scriptFiles) scan(ctx context.Context) {
	present := make(map[string]bool)
	for info, err := range f.d.state.tree.Walk(ctx, scriptFolder) {
		if errors.Is(err, vfs.ErrUnnamed) {
			continue
		}
		if err != nil {
			return
		}
		if info.Dir || scriptLanguages[path.Ext(info.URI)] == "" || strings.HasSuffix(info.URI, ".d.ts") {
			continue
		}
		present[info.URI] = true
		if version := info.Version + info.Modified.String(); f.seen[info.URI] != version {
			f.seen[info.URI] = version
			f.report(info.URI, f.register(ctx, info.URI))
		}
	}
	f.forget(ctx, present)
}

// report keeps the outcome of loading a file, and logs an error.
func (f *scriptFiles) report(uri string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failed, uri)
		return
	}
	f.failed[uri] = err.Error()
	f.d.opts.Log.Warn("a file of os://syscalls can't be registered", "file", uri, "error", err)
}

// forget removes the scripts whose files are gone.
func (f *scriptFiles) forget(ctx context.Context, present map[string]bool) {
	for uri := range f.seen {
		if !present[uri] {
			delete(f.seen, uri)
			f.report(uri, nil)
		}
	}
	files, err := f.d.scripts.Files()
	if err != nil {
		return // the store can't be read, which is logged elsewhere
	}
	for uri, t := range files {
		if present[uri] {
			continue
		}
		if err := f.send(ctx, "Syscall.Unregister", map[string]any{"name": t}); err != nil {
			f.d.opts.Log.Warn("a script whose file is gone can't be removed", "name", t, "file", uri, "error", err)
		}
	}
}

// register registers a file.
func (f *scriptFiles) register(ctx context.Context, uri string) error {
	if path.Ext(uri) == ".wasm" {
		return fmt.Errorf("a WebAssembly module doesn't say its kind and schemas; register it by hand: kernos register %s --kind query inputSchema:={} outputSchema:={}", path.Base(uri))
	}
	if err := f.trusted(uri); err != nil {
		return err
	}
	file, err := f.d.state.tree.Read(ctx, uri)
	if err != nil {
		return err
	}
	if len(file.Data) > script.MaxCode {
		return fmt.Errorf("it has %d bytes, and code may have %d", len(file.Data), script.MaxCode)
	}
	ext := path.Ext(uri)
	name, language, code := strings.TrimSuffix(path.Base(uri), ext), scriptLanguages[ext], string(file.Data)
	if current, err := f.d.scripts.IsCurrent(message.Type(name), uri, language, code); current || err != nil {
		return err
	}
	return f.send(script.FromFile(ctx, uri), "Syscall.Register", map[string]any{"name": name, "language": language, "code": code})
}

// trusted returns nil if the owner alone can write a file.
func (f *scriptFiles) trusted(uri string) error {
	local, ok := f.d.state.tree.Local(uri)
	if !ok {
		return errors.New("its mount isn't a directory of this machine that the owner alone can write; mount one without tokens=write and noexec")
	}
	for _, p := range []string{local, filepath.Dir(local)} {
		info, err := os.Stat(p)
		if err == nil {
			err = owned.Check(info)
		}
		if err != nil {
			return fmt.Errorf("%s %w", p, err)
		}
	}
	return nil
}

// send sends a request for the owner.
func (f *scriptFiles) send(ctx context.Context, t message.Type, input any) error {
	return f.d.ask(kernel.ActFor(ctx, kernel.Sender{}), t, message.KindCommand, input, nil)
}

// maxFileErrors is how many a status lists: with long texts they still fit into a line.
const maxFileErrors = 10

// errors lists the files that can't be registered.
func (f *scriptFiles) errors() (all []lifecycle.FileError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uri, text := range f.failed {
		all = append(all, lifecycle.FileError{URI: uri, Error: message.Clip(text, 500)})
	}
	slices.SortFunc(all, func(a, b lifecycle.FileError) int { return strings.Compare(a.URI, b.URI) })
	return all[:min(len(all), maxFileErrors)]
}
