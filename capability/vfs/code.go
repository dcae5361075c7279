package vfs

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"

	"kernos/kernel"
	"kernos/store/blobs"
)

// reachesCode decides about a change of a file, or of a directory, that changes code: it is in one of the folders
// of [Options.Code], by whatever mount or link, it has one of them in it, or a link in one of them leads to it.
func (t *Tree) reachesCode(ctx context.Context, at *resolved) error {
	if t.opts.Code == nil || kernel.SenderOf(ctx).Scope() == "" {
		return nil
	}
	for _, folder := range t.opts.Code() {
		if t.holdsCode(at, folder) {
			return kernel.Reaching(ctx, kernel.ToCode, at.uri)
		}
	}
	return nil
}

// holdsCode reports whether a change of what a URI means changes the code in a folder.
func (t *Tree) holdsCode(at *resolved, folder string) bool {
	dirs := []string{folder}
	if strings.HasPrefix(folder, scheme) {
		code, err := t.locate(folder)
		if err != nil {
			return false
		}
		if isBelow(at.path, code.path) || isBelow(code.path, at.path) {
			return true
		}
		dirs = code.locals()
	}
	for _, file := range at.locals() {
		for _, dir := range dirs {
			if blobs.Within(dir, file) || blobs.Within(file, dir) || linkedFrom(dir, file) {
				return true
			}
		}
	}
	return false
}

// isBelow reports whether a path is another one or below it, also for file systems that don't distinguish case.
func isBelow(p, top string) bool {
	_, ok := below(strings.ToLower(p), strings.ToLower(top))
	return ok
}

// locals returns the paths of the files of this machine that a URI may mean, whether or not they are there.
func (at *resolved) locals() (files []string) {
	if at.mount == nil {
		return nil
	}
	if l, ok := at.mount.Driver.(Locator); ok {
		for _, root := range l.Roots() {
			files = append(files, filepath.Join(root, filepath.FromSlash(at.name)))
		}
	}
	return files
}

// linkedFrom reports whether a symbolic link in a folder leads to a file, or to one that is below it.
func linkedFrom(folder, file string) (found bool) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false // nothing is there
	}
	_ = filepath.WalkDir(folder, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&fs.ModeSymlink != 0 && blobs.Within(file, p) {
			found = true
			return filepath.SkipAll
		}
		return nil // what can't be read isn't registered
	})
	return found
}
