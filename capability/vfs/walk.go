package vfs

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"kernos/kernel"
	"kernos/kernel/principal"
)

// Walk goes over what is below a directory: files and directories, in the order of their
// URIs. Mounts below it are part of it; links to directories are given and not followed, so
// that every file comes once.
//
// A directory below that can't be read is an error with its URI in the Info; the walk
// continues if the loop does. An entry that no URI can name is an [ErrUnnamed]. What the caller
// doesn't reach is left out, but for directories on the way to what it reaches.
func (t *Tree) Walk(ctx context.Context, uri string) iter.Seq2[Info, error] {
	at, err := t.locate(uri)
	if err != nil {
		return func(yield func(Info, error) bool) { yield(Info{URI: uri}, err) }
	}
	return t.walk(ctx, at.path, "", true)
}

// walk gives the entries of a directory after one of them, and those below if it is recursive.
func (t *Tree) walk(ctx context.Context, p, after string, recursive bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		w := walk{t, ctx, kernel.PrincipalOf(ctx), recursive, yield}
		m, _ := t.find(p)
		e := w.caller.Directory(scheme + p)
		if e == nil && !t.isPoint(p) {
			e = m.admit(w.caller, false)
		}
		if e != nil {
			yield(Info{URI: scheme + p}, e)
			return
		}
		w.directory(p, after)
	}
}

type walk struct {
	t         *Tree
	ctx       context.Context
	caller    *principal.Principal
	recursive bool
	yield     func(Info, error) bool
}

// directory gives what is in a directory after an entry, which is named by its path from
// there, with a slash at its end if it is a directory. It reports whether to continue.
func (w *walk) directory(p, after string) bool {
	from, inside, rest := "", "", ""
	if first, below, ok := strings.Cut(after, "/"); ok && w.recursive {
		// It was given, and perhaps some of what is in it.
		from, inside, rest = first+"/", first, below
	} else if after != "" {
		from = After(after)
	}
	for info, err := range w.t.children(w.ctx, p, from) {
		if err == nil {
			err = w.ctx.Err()
		}
		if err != nil {
			if !w.yield(Info{URI: scheme + p}, err) {
				return false
			}
			continue
		}
		if !w.reaches(&info) {
			continue
		}
		below := ""
		if info.Dir && info.Name == inside {
			below = rest
		} else if !w.yield(info, nil) {
			return false
		}
		at := info.URI[len(scheme):]
		if w.recursive && info.Dir && !info.Link && w.t.listable(at) && !w.directory(at, below) {
			return false
		}
	}
	return true
}

// reaches reports whether an entry is shown to the caller.
func (w *walk) reaches(info *Info) bool {
	if m, _ := w.t.find(info.URI[len(scheme):]); m.admit(w.caller, false) != nil && !w.t.isPoint(info.URI[len(scheme):]) {
		return false
	}
	if info.Dir {
		return w.caller.Directory(info.URI) == nil
	}
	return w.caller.File(info.URI, false) == nil
}

// listable reports whether it makes sense to look into a directory.
func (t *Tree) listable(p string) bool {
	m, _ := t.find(p)
	return t.isPoint(p) || m != nil && m.lister() != nil
}

func (m *Mount) lister() Lister {
	if l, ok := m.Driver.(Lister); ok && m.Driver.Can().Read {
		return l
	}
	return nil
}

// children lists a directory from a name on: what its driver has, and what is mounted there,
// which hides what the driver has of that name.
func (t *Tree) children(ctx context.Context, p, from string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		points := t.mountedBelow(p)
		var mounted []Info
		for _, name := range points {
			info := Info{Dir: true}
			m, _ := t.find(Join(p, name))
			if m.complete(&info, Join(p, name)); info.Key() >= from {
				mounted = append(mounted, info)
			}
		}
		for info, err := range t.own(ctx, p, from, len(points) > 0) {
			if err == nil && slices.Contains(points, info.Name) {
				continue
			}
			for err == nil && len(mounted) > 0 && mounted[0].Key() < info.Key() {
				if !yield(mounted[0], nil) {
					return
				}
				mounted = mounted[1:]
			}
			if !yield(info, err) {
				return
			}
		}
		for _, info := range mounted {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// own lists what the driver of a directory has in it. That may be nothing if it is there
// only because something is mounted below.
func (t *Tree) own(ctx context.Context, p, from string, virtual bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		at := resolved{uri: scheme + p, path: p}
		at.mount, at.name = t.find(p)
		if at.mount == nil {
			if !virtual && p != "" {
				yield(Info{}, at.readable())
			}
			return
		}
		l := at.mount.lister()
		if l == nil {
			if !virtual {
				yield(Info{}, explain(at.uri, ErrUnlistable))
			}
			return
		}
		for info, err := range l.List(at.follow(ctx, false), at.name, from) {
			switch {
			case err == nil:
				at.mount.complete(&info, Join(p, info.Name))
			case errors.Is(err, ErrUnnamed):
			case virtual && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnlistable)):
				return
			default:
				err = explain(at.uri, err)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
