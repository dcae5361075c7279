package vfs

import (
	"context"

	"kernos/message"
)

// locate finds what a URI means.
func (t *Tree) locate(uri string) (printed string, p string, m *mount, name string, err error) {
	if remote(uri) {
		return "", "", nil, "", message.Errorf(422, "%s is on a server: fetch it with Http.Fetch, or mount the server", message.Clip(uri, 200))
	}
	if isPrinted(uri) {
		printed, p = uri, uri[len(scheme):]
	} else {
		if p, err = parse(uri, ""); err != nil {
			return "", "", nil, "", err
		}
		printed = scheme + p
	}
	m, name = t.find(p)
	return printed, p, m, name, nil
}

// Read reads a file. Its errors are *message.Error, or those of ctx:
//
//	403  a mount that can't be read; a way out of it; no regular file
//	404  no such file
//	413  more than MaxFile bytes
//	422  no URI; a directory
//	502  a server that fails; no mount at all
//	504  a server that is too slow
//
// Others are for the log.
func (t *Tree) Read(ctx context.Context, uri string) (File, error) {
	uri, p, m, name, err := t.locate(uri)
	if err != nil {
		return File{}, err
	}
	if t.isPoint(p) {
		return File{}, explain(uri, ErrDirectory)
	}
	if m == nil {
		return File{}, unmounted(p)
	}
	if !m.can.Read {
		return File{}, refused(uri, "read", m)
	}
	f, err := m.driver.Read(ctx, name)
	if err != nil {
		return File{}, explain(uri, err)
	}
	f.URI = uri
	return f, nil
}

// Stat returns what is known of a file or a directory without reading it. Its errors are
// those of Read.
func (t *Tree) Stat(ctx context.Context, uri string) (Info, error) {
	uri, p, m, name, err := t.locate(uri)
	if err != nil {
		return Info{}, err
	}
	var info Info
	switch {
	case p == "" || m != nil && name == "" || t.isPoint(p):
		info = Info{Dir: true} // whatever the driver says: there is something below it
	case m == nil:
		return Info{}, unmounted(p)
	case !m.can.Read:
		return Info{}, refused(uri, "read", m)
	default:
		if info, err = m.driver.Stat(ctx, name); err != nil {
			return Info{}, explain(uri, err)
		}
	}
	m.complete(&info, p)
	return info, nil
}

// Version returns the version of a file, as Read would; for most drivers without reading it.
func (t *Tree) Version(ctx context.Context, uri string) (string, error) {
	info, err := t.Stat(ctx, uri)
	switch {
	case err != nil:
		return "", err
	case info.Dir:
		return "", explain(info.URI, ErrDirectory)
	case info.Version != "":
		return info.Version, nil
	}
	f, err := t.Read(ctx, uri)
	return f.Version, err
}

// complete fills in what a driver does not know.
func (m *mount) complete(info *Info, p string) {
	info.URI, info.Name = scheme+p, base(p)
	info.Writable = m != nil && m.can.Write
	info.Executable = info.Executable && m.can.Execute
}

// base returns the last segment of a path.
func base(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[i+1:]
		}
	}
	return p
}

// Write gives a file its content, whole or not at all, and returns its new version. When it
// returns, the file lasts. Directories above it are made. Its errors are those of Read, and
//
//	409  the file has not the version that was expected
//	507  the disk is full
//
// The memory mount is written to by a call, so ctx must be that of a command.
func (t *Tree) Write(ctx context.Context, uri string, data []byte, expect Expect) (Info, error) {
	uri, p, m, name, err := t.locate(uri)
	if err != nil {
		return Info{}, err
	}
	w, err := t.writer(uri, p, m, "written")
	if err != nil {
		return Info{}, err
	}
	if name == "" || t.isPoint(p) {
		return Info{}, explain(uri, ErrDirectory)
	}
	if len(data) > MaxFile {
		return Info{}, explain(uri, ErrTooLarge)
	}
	version, err := w.Write(ctx, name, data, expect)
	if err != nil {
		return Info{}, explain(uri, err)
	}
	info := Info{Size: int64(len(data)), Version: version}
	m.complete(&info, p)
	return info, nil
}

// Delete removes a file or a directory. Its errors are those of Write; a directory that is
// not empty is a 409 unless recursive.
func (t *Tree) Delete(ctx context.Context, uri string, recursive bool) error {
	uri, p, m, name, err := t.locate(uri)
	if err != nil {
		return err
	}
	w, err := t.writer(uri, p, m, "deleted")
	if err != nil {
		return err
	}
	if name == "" || t.isPoint(p) {
		return message.Errorf(403, "Operation not allowed: %s can't be deleted, since something is mounted there or below", message.Clip(uri, 400))
	}
	return explain(uri, w.Delete(ctx, name, recursive))
}

// writer returns the driver of a mount that can be written to.
func (t *Tree) writer(uri, p string, m *mount, what string) (Writer, error) {
	if m == nil {
		return nil, unmounted(p)
	}
	w, ok := m.driver.(Writer)
	if !ok || !m.can.Write {
		return nil, refused(uri, what, m)
	}
	return w, nil
}

// Local returns the path of the file of this machine that a URI means, if it is a regular
// file of a mount whose files may be executed. It has no symbolic links in it, and is not
// outside of the mount.
func (t *Tree) Local(uri string) (string, bool) {
	_, _, m, name, err := t.locate(uri)
	if err != nil || m == nil || !m.can.Execute || name == "" {
		return "", false
	}
	l, ok := m.driver.(Locator)
	if !ok {
		return "", false
	}
	return l.Local(name)
}
