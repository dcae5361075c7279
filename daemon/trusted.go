package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"kernos/capability/lifecycle"
	"kernos/internal/durable"
	"kernos/internal/owned"
	"kernos/internal/visible"
	"kernos/store/blobs"
)

// A TrustedFolder is a directory whose folder os the owner has made a part of os://. The owner's command kernos trust does
// that, and no syscall: neither a token nor a session can.
type TrustedFolder struct {
	Path    string `json:"path"`              // absolute, without symbolic links: a link that changes doesn't move the trust
	Execute bool   `json:"execute,omitempty"` // tools in it are executed to describe themselves

	Problem string `json:"-"` // why its files aren't used now; "" if they are
}

// Files returns the folder with the files that become a part of os://.
func (f TrustedFolder) Files() string { return filepath.Join(f.Path, filesName) }

func (f TrustedFolder) String() string {
	return lifecycle.Folder{Path: f.Path, Execute: f.Execute, Problem: f.Problem}.String()
}

// filesName is the name of the folder with the files of os://, in the home and in other directories.
const filesName = "os"

// Files returns the folder of the home that is os://.
func (h Home) Files() string { return filepath.Join(h.Dir, filesName) }

func (h Home) trustFile() string { return filepath.Join(h.Dir, "trusted.json") }

// Trusted returns the folders that the owner trusts, in the order in which they were. A folder that can't be used now, since
// others may write it or another one is at its path, has a Problem.
func (h Home) Trusted() ([]TrustedFolder, error) {
	all, err := h.readTrusted()
	for i := range all {
		if err := h.usable(all[i].Path); err != nil {
			all[i].Problem = err.Error()
		}
	}
	return all, err
}

// Trust makes a directory trusted, or changes whether its tools are executed. It returns the directory as it is remembered.
func (h Home) Trust(dir string, execute bool) (f TrustedFolder, err error) {
	var info fs.FileInfo
	if f.Path, err = resolved(dir); err == nil {
		info, err = os.Stat(f.Path)
	}
	switch {
	case dir == "":
		return f, errors.New("no directory is named; kernos trust . is for the working directory")
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("%s can't be trusted: it doesn't exist; name the directory whose folder os has the files", visible.Text(dir))
	case err != nil:
		return f, fmt.Errorf("%s can't be trusted: %w", visible.Text(dir), err)
	case !info.IsDir():
		return f, fmt.Errorf("%s can't be trusted: it is not a directory; name the directory whose folder os has the files", visible.Text(dir))
	case visible.Text(f.Path) != f.Path:
		return f, fmt.Errorf("%q can't be trusted: its name has control characters, and what is trusted must be seen; rename it", f.Path)
	}
	if err := h.usable(f.Path); err != nil {
		return f, fmt.Errorf("%s can't be trusted: %w", dir, err)
	}
	f.Execute = execute
	return f, h.changeTrusted(func(all []TrustedFolder) []TrustedFolder {
		i := slices.IndexFunc(all, func(o TrustedFolder) bool { return o.Path == f.Path })
		if i < 0 {
			return append(all, f)
		}
		all[i] = f
		return all
	})
}

// Untrust takes the trust in a directory back, which need not exist any more. It reports whether there was any.
func (h Home) Untrust(dir string) (f TrustedFolder, was bool, err error) {
	if dir == "" {
		return f, false, errors.New("no directory is named; kernos trust lists the directories that are trusted")
	}
	names := []string{}
	if path, err := resolved(dir); err == nil {
		names = append(names, path)
	}
	if path, err := filepath.Abs(dir); err == nil { // a directory that was removed, or replaced by a link
		names = append(names, path)
	}
	err = h.changeTrusted(func(all []TrustedFolder) []TrustedFolder {
		return slices.DeleteFunc(all, func(o TrustedFolder) bool {
			if !slices.Contains(names, o.Path) {
				return false
			}
			f, was = o, true
			return true
		})
	})
	return f, was, err
}

// resolved returns the absolute path of a directory, without symbolic links.
func resolved(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// usable returns why a trusted directory can't be used, or nil: it and its folder os must be where they were, in the hands
// of this user alone, and outside of the home.
func (h Home) usable(path string) error {
	if home, err := resolved(h.Dir); err == nil && (blobs.Within(home, path) || blobs.Within(home, filepath.Join(path, filesName))) {
		return fmt.Errorf("it is in the home of kernos, whose folder %s is os:// anyway", h.Files())
	}
	for at, above := path, false; ; at, above = filepath.Dir(at), true {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link now; trust the directory where it is", at)
		}
		sticky := above && info.Mode()&fs.ModeSticky != 0 // others can't replace what is in it
		if err := owned.Check(info); err != nil && !sticky {
			return fmt.Errorf("%s %w", at, err)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	files := filepath.Join(path, filesName)
	info, err := os.Lstat(files)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it may be made later
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link; make it a directory, or trust the one that it leads to", files)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", files)
	}
	if err := owned.Check(info); err != nil {
		return fmt.Errorf("%s %w", files, err)
	}
	return nil
}

type trustList struct {
	Folders []TrustedFolder `json:"folders"`
}

// readTrusted reads the list. One that other users can change is an error, and trusts nothing.
func (h Home) readTrusted() ([]TrustedFolder, error) {
	f, err := os.Open(h.trustFile())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil {
		err = owned.Check(info)
	}
	if err != nil {
		return nil, fmt.Errorf("the trusted folders in %s are not used: the file %w", h.trustFile(), err)
	}
	var list trustList
	if err := json.NewDecoder(f).Decode(&list); err != nil {
		return nil, fmt.Errorf("the trusted folders in %s are not used: %w; correct the file, or remove it and trust them again", h.trustFile(), err)
	}
	for _, t := range list.Folders {
		if !filepath.IsAbs(t.Path) || strings.ContainsRune(t.Path, 0) {
			return nil, fmt.Errorf("the trusted folders in %s are not used: %q is not an absolute path; correct it", h.trustFile(), t.Path)
		}
	}
	return list.Folders, nil
}

// changeTrusted changes the list. One change at a time is made, also of several processes.
func (h Home) changeTrusted(change func([]TrustedFolder) []TrustedFolder) error {
	if err := h.Make(); err != nil {
		return err
	}
	lock, err := os.Open(h.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("can't lock %s: %w", h.Dir, err)
	}
	all, err := h.readTrusted()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(trustList{change(all)}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(h.trustFile(), append(text, '\n'))
}
