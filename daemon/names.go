package daemon

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kernos/internal/durable"
	"kernos/kernel"
)

// Names of syscalls are remembered while no daemon runs, so that a wrong word of a command line starts none.

func (h Home) namesFile() string { return filepath.Join(h.State(), "names.json") }

// AnyMethod stands in [Home.Names] for the methods of a module that may have others by now, such as Files.*: a mounted server has
// the tools that it lists when it is next asked.
const AnyMethod = "*"

// Names returns the types of the syscalls that the last daemon had when it ended, without those of programs, which have to
// register again; before the first daemon, those of kernos itself. They aren't known while a daemon runs, after one that was killed, and if the
// files that name syscalls may have changed since then.
func (h Home) Names() (names []string, known bool) {
	if _, err := os.Stat(h.State()); errors.Is(err, fs.ErrNotExist) {
		r, err := Definitions()
		if err != nil || h.changedSince(time.Time{}) {
			return nil, false
		}
		return namesIn(r), true
	}
	info, err := os.Stat(h.namesFile())
	if err != nil {
		return nil, false
	}
	text, err := os.ReadFile(h.namesFile())
	if err != nil || json.Unmarshal(text, &names) != nil || h.changedSince(info.ModTime()) {
		return nil, false
	}
	return names, true
}

// changedSince reports whether a file that decides about syscalls may have changed since a daemon ended, or a folder of code.
// The daemon hadn't seen the last changes before its end.
func (h Home) changedSince(end time.Time) (changed bool) {
	trusted, err := h.readTrusted()
	if err != nil {
		return true
	}
	look := func(top string, since time.Time) {
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real
		}
		_ = filepath.WalkDir(top, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // it doesn't exist, or the daemon can't read it either
			}
			info, err := e.Info()
			changed = changed || err != nil || info.ModTime().After(since)
			return nil
		})
	}
	look(filepath.Join(h.Dir, "config.yaml"), end) // read when a daemon starts
	seen := end.Add(-2 * watchEvery)
	look(h.trustFile(), seen)
	for _, folder := range append(trusted, TrustedFolder{Path: h.Dir}) {
		look(filepath.Join(folder.Files(), "syscalls"), seen)
	}
	return changed
}

// forgetNames makes the names unknown: what is served may change from now on.
func (h Home) forgetNames() error {
	err := os.Remove(h.namesFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// keepNames writes the names for [Home.Names]. A daemon that serves no files of code leaves what is there, or removes it if the
// registry has changed.
func (d *Daemon) keepNames() error {
	if d.opts.Unrecorded {
		select {
		case <-d.changed:
			return d.home.forgetNames()
		default:
			return nil
		}
	}
	text, err := json.Marshal(append(namesIn(d.kernel.Registry()), d.AwayNames()...)) // a call of the latter explains where they are
	if err != nil {
		return err
	}
	return durable.WriteFile(d.home.namesFile(), text)
}

// namesIn returns the types in a registry that aren't those of programs.
func namesIn(r *kernel.Registry) (names []string) {
	for s := range r.All().Syscalls() {
		if s.Provider != kernel.Program {
			names = append(names, string(s.Type))
		}
		if domain, _, ok := strings.Cut(string(s.Type), "."); ok && s.Provider == kernel.Mounted {
			names = append(names, domain+"."+AnyMethod)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
