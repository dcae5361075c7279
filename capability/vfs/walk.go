package vfs

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"strings"
)

// Walk goes over what is below a directory: files and directories, in the order of their
// URIs, at most limit of them if limit is not 0. Mounts below it are part of it; links to
// directories are given and not followed, so that every file comes once.
//
// A directory below that can't be read is an error with its URI in the Info; the walk
// continues if the loop does. An entry that no URI can name is an [ErrUnnamed].
func (t *Tree) Walk(ctx context.Context, uri string, limit int) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		_, p, _, _, err := t.locate(uri)
		if err != nil {
			yield(Info{URI: uri}, err)
			return
		}
		n := 0
		w := walk{t: t, ctx: ctx, recursive: true, yield: func(i Info, err error) bool {
			n++
			return yield(i, err) && n != limit
		}}
		w.directory(p, "")
	}
}

// walk gives the entries of a directory, and those below if it is recursive.
type walk struct {
	t         *Tree
	ctx       context.Context
	recursive bool
	yield     func(Info, error) bool
}

// directory gives what is in a directory behind an entry, which is named by its path from
// there, with a slash at its end if it is a directory. It reports whether to go on.
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
		below := ""
		if info.Dir && info.Name == inside {
			below = rest
		} else if !w.yield(info, nil) {
			return false
		}
		if w.recursive && info.Dir && !info.Link && w.t.listable(info.URI[len(scheme):]) {
			if !w.directory(info.URI[len(scheme):], below) {
				return false
			}
		}
	}
	return true
}

// listable reports whether it makes sense to look into a directory.
func (t *Tree) listable(p string) bool {
	if t.isPoint(p) {
		return true
	}
	m, _ := t.find(p)
	return m != nil && m.lister() != nil
}

func (m *mount) lister() Lister {
	l, ok := m.driver.(Lister)
	if !ok || !m.can.Read {
		return nil
	}
	return l
}

// children lists a directory from a name on: what its driver has, and what is mounted there.
func (t *Tree) children(ctx context.Context, p, from string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		points := t.mountedBelow(p)
		mounted := make(map[string]bool, len(points))
		for _, name := range points {
			mounted[name] = true
		}
		// until gives the mounts that come before a name.
		until := func(key string) bool {
			for len(points) > 0 && (key == "" || strings.Compare(points[0]+"/", key) < 0) {
				name := points[0]
				points = points[1:]
				if strings.Compare(name+"/", from) < 0 {
					continue
				}
				info := Info{Dir: true}
				at := Join(p, name)
				m, _ := t.find(at)
				m.complete(&info, at)
				if !yield(info, nil) {
					return false
				}
			}
			return true
		}
		for info, err := range t.own(ctx, p, from, len(points) > 0) {
			if err != nil {
				if !yield(info, err) {
					return
				}
				continue
			}
			if mounted[info.Name] {
				continue // what is mounted there hides it
			}
			if !until(info.Key()) || !yield(info, nil) {
				return
			}
		}
		until("")
	}
}

// own lists what the driver of a directory has in it. That may be nothing if it is there
// only because something is mounted below.
func (t *Tree) own(ctx context.Context, p, from string, virtual bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m, name := t.find(p)
		if m == nil {
			if !virtual && p != "" {
				yield(Info{}, unmounted(p))
			}
			return
		}
		l := m.lister()
		if l == nil {
			if !virtual {
				yield(Info{}, explain(scheme+p, errUnlistable))
			}
			return
		}
		for info, err := range l.List(ctx, name, from) {
			switch {
			case err == nil:
				m.complete(&info, Join(p, info.Name))
			case errors.Is(err, ErrUnnamed):
			case virtual && errors.Is(err, fs.ErrNotExist):
				return
			default:
				err = explain(scheme+p, err)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
