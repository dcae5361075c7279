package daemon

import (
	"cmp"
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

// scan registers the files that have changed, and removes the scripts of those that are gone. Those whose folder has left the
// tree are withdrawn. A folder that exists and can't be listed changes nothing else.
func (f *scriptFiles) scan(ctx context.Context) {
	f.withdraw(ctx)
	present := make(map[string]bool)
	for info, err := range f.d.state.tree.Walk(ctx, scriptFolder) {
		if errors.Is(err, vfs.ErrUnnamed) {
			continue
		}
		if missing(err) {
			break
		}
		if err != nil {
			return
		}
		if info.Dir || scriptLanguages[path.Ext(info.URI)] == "" || strings.HasSuffix(info.URI, ".d.ts") {
			continue
		}
		present[info.URI] = true
		place, err := f.trusted(info.URI)
		version := info.Version + info.Modified.String() + "\x00" + place.Root
		if err == nil && f.seen[info.URI] != version {
			f.seen[info.URI] = version
			err = f.register(ctx, info.URI, place)
			f.report(info.URI, err)
		} else if err != nil { // it is tried again with each scan: what is wrong with its mode doesn't change its version
			delete(f.seen, info.URI)
			f.report(info.URI, err)
		}
	}
	f.forget(ctx, present)
}

// withdraw stops serving the scripts whose folders have left the tree.
func (f *scriptFiles) withdraw(ctx context.Context) {
	gone, err := f.d.scripts.Withdraw()
	if err != nil {
		return // the store can't be read, which is logged elsewhere
	}
	for t, file := range gone {
		delete(f.seen, file.URI) // when the folder is back, the file is as it was
		f.d.opts.Log.Info("a script is no longer served: its folder has left os://", "name", t, "why", f.d.away(t))
	}
}

// report keeps the outcome of loading a file, and logs an error.
func (f *scriptFiles) report(uri string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failed, uri)
		return
	}
	if f.failed[uri] == err.Error() {
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
	for t, file := range files {
		uri := file.URI
		if present[uri] {
			continue
		}
		if _, err := f.d.state.tree.Stat(ctx, uri); !missing(err) {
			continue // it can't be seen at the moment
		}
		if !f.d.isRoot(file.Folder, uri) {
			continue // the file is missing since its folder has left the tree, maybe at this moment
		}
		if err := f.send(ctx, "Syscall.Unregister", map[string]any{"name": t}); err != nil {
			f.d.opts.Log.Warn("a script whose file is gone can't be removed", "name", t, "file", uri, "error", err)
		}
	}
}

// missing reports whether an error means that a file doesn't exist.
func missing(err error) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == 404
}

// register registers a file.
func (f *scriptFiles) register(ctx context.Context, uri string, place vfs.Place) error {
	if path.Ext(uri) == ".wasm" {
		return fmt.Errorf("a WebAssembly module doesn't say its kind and schemas; register it by hand: kernos register %s --kind query inputSchema:={} outputSchema:={}", path.Base(uri))
	}
	file, err := f.d.state.tree.Read(ctx, uri)
	if err != nil {
		delete(f.seen, uri) // a chmod that makes it readable doesn't change its version
		return err
	}
	if len(file.Data) > script.MaxCode {
		return fmt.Errorf("it has %d bytes, and code may have %d", len(file.Data), script.MaxCode)
	}
	ext := path.Ext(uri)
	name, language, code := strings.TrimSuffix(path.Base(uri), ext), scriptLanguages[ext], string(file.Data)
	source := script.File{URI: uri, Folder: place.Root}
	if current, err := f.d.scripts.IsCurrent(message.Type(name), source, language, code); current || err != nil {
		return err
	}
	if was, ok, err := f.d.scripts.FileOf(message.Type(name)); err != nil || ok && was.URI == "" && f.d.state.isTrusted(place.Root) {
		return cmp.Or(err, fmt.Errorf("code that came without a file is registered as %s; a file of a trusted folder takes its place when it is removed: kernos unregister %s", name, name))
	}
	return f.send(script.FromFile(ctx, source), "Syscall.Register", map[string]any{"name": name, "language": language, "code": code})
}

// trusted returns where a file is, if the owner alone can write it.
func (f *scriptFiles) trusted(uri string) (p vfs.Place, err error) {
	p, ok := f.d.state.tree.Local(uri)
	if !ok || !p.Can.Code {
		return p, errors.New("its mount isn't a directory of this machine that the owner alone can write; mount one without tokens=write and noexec")
	}
	for _, path := range []string{p.Path, filepath.Dir(p.Path)} {
		info, err := os.Stat(path)
		if err == nil {
			err = owned.Check(info)
		}
		if err != nil {
			return p, fmt.Errorf("%s %w", path, err)
		}
	}
	return p, nil
}

// isRoot reports whether a directory has its files at a URI of the tree now.
func (d *Daemon) isRoot(folder, uri string) bool { return d.state.tree.IsRoot(folder, uri) }

// away returns why code whose folder has left the tree isn't served, as a clause that ends with what brings it back; "" if
// the type isn't such code.
func (d *Daemon) away(t message.Type) string {
	f, away := d.scripts.Away(t)
	switch {
	case !away:
		return ""
	case f.Folder == "":
		return fmt.Sprintf("it is code of the file %s of a folder that isn't trusted; kernos trust DIR brings it back, where DIR is the directory whose folder os has the file", f.URI)
	}
	if f.Folder == d.home.Files() {
		return fmt.Sprintf("it is code of %s, and another root is mounted now; start the daemon without --mount /=DIRECTORY", f.Folder)
	}
	dir := filepath.Dir(f.Folder)
	if filepath.Base(f.Folder) != filesName {
		return fmt.Sprintf("it is code of the file %s of %s, which isn't mounted now; start the daemon with --mount, or move the folder to DIR/os and use kernos trust DIR", f.URI, f.Folder)
	}
	trusted, err := d.home.Trusted()
	if err != nil {
		return fmt.Sprintf("it is code of %s, and %v", dir, err)
	}
	for _, folder := range trusted {
		if folder.Path == dir && folder.Problem != "" {
			return fmt.Sprintf("it is code of %s, which isn't used now: %s", dir, folder.Problem)
		}
	}
	return fmt.Sprintf("it is code of %s, which isn't trusted now; kernos trust %s brings it back", dir, dir)
}

// AwayNames returns the names of code that isn't served, since its folder isn't a part of os:// now.
func (d *Daemon) AwayNames() (names []string) {
	files, err := d.scripts.Files()
	if err != nil {
		return nil
	}
	for t := range files {
		if _, away := d.scripts.Away(t); away {
			names = append(names, string(t))
		}
	}
	slices.Sort(names)
	return names
}

// absent is away for the owner, or for others: a token isn't told where the owner's folders are.
func (d *Daemon) absent(t message.Type, owner bool) string {
	why := d.away(t)
	if why != "" && !owner {
		return "it is code of a folder that the owner doesn't trust now; the owner brings it back with kernos trust DIR"
	}
	return why
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
