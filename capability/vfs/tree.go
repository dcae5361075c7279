package vfs

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"syscall"

	"kernos/kernel"
	"kernos/message"
)

// A resolved is what a URI means.
type resolved struct {
	uri   string // the URI in its printed form
	path  string // the URI without its scheme
	mount *Mount // nil if no mount has the path
	name  string // the name in the mount
}

func (t *Tree) locate(uri string) (at resolved, err error) {
	if remote(uri) {
		return at, message.Errorf(422, "%s is on a server: fetch it with Http.Fetch, or mount the server", message.Clip(uri, 200))
	}
	if at.path, err = parse(uri, ""); err != nil {
		return at, err
	}
	at.uri = scheme + at.path
	at.mount, at.name = t.find(at.path)
	return at, nil
}

// allow fails unless there is a mount that can do what is asked.
func (at *resolved) allow(what string, can func(Can) bool) error {
	if at.mount == nil {
		return NoMount(at.path)
	}
	if all := at.mount.Driver.Can(); !can(all) {
		why := fmt.Sprintf("the mount /%s is %s", at.mount.Path, all)
		if all.Because != "" && !all.Write {
			why += ": " + all.Because
		}
		return message.Errorf(403, "Operation not allowed: %s can't be %s (%s)", message.Clip(at.uri, 400), what, why)
	}
	return nil
}

// reach is locate, and refuses what the caller doesn't reach. Whatever reads or changes a file
// begins with it.
func (t *Tree) reach(ctx context.Context, uri string, write bool) (resolved, error) {
	at, err := t.locate(uri)
	if err != nil {
		return at, err
	}
	caller := kernel.PrincipalOf(ctx)
	if e := cmp.Or(caller.File(at.uri, write), at.mount.admit(caller, write)); e != nil {
		return at, e
	}
	return at, nil
}

func (at *resolved) readable() error { return at.allow("read", func(c Can) bool { return c.Read }) }

// change is reach for what changes a file, or deletes one.
func (t *Tree) change(ctx context.Context, uri, what string) (at resolved, w Writer, err error) {
	if at, err = t.reach(ctx, uri, true); err == nil {
		w, err = at.writer(what)
	}
	if err == nil {
		err = t.reachesCode(ctx, &at)
	}
	return at, w, err
}

func (at *resolved) writer(what string) (w Writer, err error) {
	err = at.allow(what, func(c Can) (ok bool) {
		w, ok = at.mount.Driver.(Writer)
		return ok && c.Write
	})
	return w, err
}

// Read reads a file. Its errors are *message.Error, or those of ctx:
//
//	403  a mount that can't be read; a way out of it; no regular file
//	404  the file doesn't exist
//	413  more than MaxFile bytes
//	422  no URI; a directory
//	502  a server that fails or doesn't have the file, with the cause; no mount at all
//	504  a server that is too slow
//
// Others are for the log.
func (t *Tree) Read(ctx context.Context, uri string) (File, error) {
	at, err := t.reach(ctx, uri, false)
	if err != nil {
		return File{}, err
	}
	point := t.isPoint(at.path)
	if !point {
		err = at.readable()
	}
	switch {
	case err != nil:
		return File{}, err
	case point || at.name == "":
		return File{}, explain(at.uri, ErrDirectory)
	}
	f, err := at.mount.Driver.Read(at.follow(ctx, false), at.name)
	f.URI = at.uri
	return f, explain(at.uri, err)
}

// Stat returns what is known of a file or a directory without reading it. Its errors are
// those of Read.
func (t *Tree) Stat(ctx context.Context, uri string) (Info, error) {
	at, err := t.reach(ctx, uri, false)
	if err != nil {
		return Info{}, err
	}
	info := Info{Dir: true} // whatever the driver returns, if there is something below it
	if at.path != "" && (at.mount == nil || at.name != "") && !t.isPoint(at.path) {
		if err := at.readable(); err != nil {
			return Info{}, err
		}
		if info, err = at.mount.Driver.Stat(at.follow(ctx, false), at.name); err != nil {
			return Info{}, explain(at.uri, err)
		}
	}
	at.mount.complete(&info, at.path)
	return info, nil
}

// Version returns the version of a file, as Read would; for most drivers without reading it.
func (t *Tree) Version(ctx context.Context, uri string) (string, error) {
	info, err := t.Stat(ctx, uri)
	switch {
	case err != nil:
		return "", err
	case info.Dir:
		return "", explain(info.URI, syscall.EISDIR)
	case info.Version != "":
		return info.Version, nil
	}
	f, err := t.Read(ctx, uri)
	return f.Version, err
}

// complete fills in what a driver does not know.
func (m *Mount) complete(info *Info, p string) {
	info.URI, info.Name = scheme+p, ""
	if p != "" {
		info.Name = path.Base(p)
	}
	if m != nil {
		can := m.Driver.Can()
		info.Writable = can.Write && !info.ReadOnly
		info.Executable = info.Executable && can.Execute
	}
}

// Write gives a file its content, whole or not at all, and returns its new version. When it
// returns, the file lasts. Directories above it are made. Its errors are those of Read, and
//
//	409  the file has not the version that was expected
//	507  the disk is full
//
// The memory mount is written to by a call, so ctx must be that of a command.
func (t *Tree) Write(ctx context.Context, uri string, data []byte, expect Expect) (Info, error) {
	at, w, err := t.change(ctx, uri, "written")
	switch {
	case err != nil:
		return Info{}, err
	case at.name == "" || t.isPoint(at.path):
		return Info{}, explain(at.uri, ErrDirectory)
	case len(data) > MaxFile:
		return Info{}, explain(at.uri, ErrTooLarge)
	}
	version, err := w.Write(at.follow(ctx, true), at.name, data, expect)
	if err != nil {
		return Info{}, explain(at.uri, err)
	}
	t.wrote(at.uri)
	info := Info{Size: int64(len(data)), Version: version}
	at.mount.complete(&info, at.path)
	return info, nil
}

// Delete removes a file or a directory. Its errors are those of Write; a directory that is
// not empty is a 409 unless recursive.
func (t *Tree) Delete(ctx context.Context, uri string, recursive bool) error {
	at, w, err := t.change(ctx, uri, "deleted")
	if err != nil {
		return err
	}
	if at.name == "" || t.isPoint(at.path) {
		return message.Errorf(403, "Operation not allowed: %s can't be deleted, since something is mounted there or below", message.Clip(at.uri, 400))
	}
	err = w.Delete(at.follow(ctx, true), at.name, recursive)
	t.wrote(at.uri) // a part may be gone although it failed
	return explain(at.uri, err)
}

// Local returns where the file of this machine is that a URI means, if it is a regular file that tokens may not write by
// any mount.
func (t *Tree) Local(uri string) (p Place, ok bool) {
	at, err := t.locate(uri)
	if err != nil || at.mount == nil || at.name == "" {
		return p, false
	}
	l, ok := at.mount.Driver.(Locator)
	if !ok {
		return p, false
	}
	p, ok = l.Local(at.name)
	return p, ok && !t.writes(p.Path, func(m *Mount) bool { return m.Tokens == TokensWrite })
}

// IsRoot reports whether the files of a directory of this machine are where a URI is, whether or not the URI has one.
func (t *Tree) IsRoot(directory, uri string) bool {
	at, err := t.locate(uri)
	if err != nil || at.mount == nil {
		return false
	}
	l, ok := at.mount.Driver.(Locator)
	return ok && slices.Contains(l.Roots(), directory)
}

// Program returns the path of the file that a URI means, if tools in its folder are executed, and the file can't be written
// by way of any mount: what a caller or a model can write is never executed.
func (t *Tree) Program(uri string) (path string, ok bool) {
	p, ok := t.Local(uri)
	return p.Path, ok && p.Can.Execute && !t.writes(p.Path, func(*Mount) bool { return true })
}

// Owned reports whether a URI means a file of this machine that is the owner's: it may be registered as code, and tokens can't
// write it.
func (t *Tree) Owned(uri string) bool {
	p, ok := t.Local(uri)
	return ok && p.Can.Code
}

// writes reports whether a file of this machine can be written by way of one of some mounts.
func (t *Tree) writes(file string, some func(*Mount) bool) bool {
	return slices.ContainsFunc(t.mounts, func(m Mount) bool {
		l, ok := m.Driver.(Locator)
		return ok && some(&m) && l.Writes(file)
	})
}
