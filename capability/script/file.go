package script

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"kernos/kernel"
	"kernos/message"
)

// A File is a file of the tree that a script is registered from. Its folder is the directory of this machine that has it; when
// that leaves the tree, the script is away: it is kept with its versions, and isn't served before the folder is back.
type File struct {
	URI    string
	Folder string
}

// fileKey is the key of the file that a registration comes from.
type fileKey struct{}

// FromFile returns a context for the registration of a file of the owner: the script belongs to the
// file, and its registration has no limit of rate.
func FromFile(ctx context.Context, f File) context.Context {
	return context.WithValue(ctx, fileKey{}, f)
}

func fileOf(ctx context.Context) File {
	f, _ := ctx.Value(fileKey{}).(File)
	return f
}

// file returns the file that the script is registered from; its URI is "" if there is none.
func (sc *script) file() File { return File{sc.File, sc.Folder} }

// notServed returns the error for code whose folder has left the tree.
func notServed(ctx context.Context, t message.Type) error {
	why := "its folder isn't a part of os:// now"
	if k, ok := kernel.Of(ctx); ok {
		why = cmp.Or(k.Absent(t, kernel.PrincipalOf(ctx)), why)
	}
	return message.Errorf(404, "%s isn't served: %s", t, why)
}

// isRoot reports whether the folder of a script is in the tree now. A script that has no file needs none.
func (s *Scripts) isRoot(sc *script) bool {
	return sc.File == "" || s.opts.IsRoot == nil || sc.Folder != "" && s.opts.IsRoot(sc.Folder, sc.File)
}

// Files returns the files that scripts were registered from, by the names of the scripts.
func (s *Scripts) Files() (map[message.Type]File, error) {
	err := s.lock()
	defer s.mu.Unlock()
	files := make(map[message.Type]File)
	for t, sc := range s.byName {
		if sc.File != "" {
			files[t] = sc.file()
		}
	}
	return files, err
}

// FileOf returns the file that the code of a type is registered from, and whether there is code of that type. Its URI is ""
// if the code came in a message.
func (s *Scripts) FileOf(t message.Type) (f File, ok bool, err error) {
	err = s.lock()
	defer s.mu.Unlock()
	if sc := s.byName[t]; sc != nil {
		return sc.file(), true, err
	}
	return f, false, err
}

// Away returns the file of a script whose folder has left the tree. It may be asked for by the name of its method, such as
// text.count.
func (s *Scripts) Away(t message.Type) (f File, away bool) {
	err := s.lock()
	defer s.mu.Unlock()
	sc := s.byName[t]
	if sc == nil {
		method := strings.Replace(string(t), ".", "_", 1)
		for name, other := range s.byName {
			if other.away && kernel.MethodName(name) == method {
				sc = other
			}
		}
	}
	if err != nil || sc == nil || s.isRoot(sc) && !sc.away {
		return f, false
	}
	return sc.file(), true
}

// IsCurrent reports whether a file is registered as it is now, so that a restart needn't compile it. A script that was away
// is served again then.
func (s *Scripts) IsCurrent(t message.Type, f File, language, code string) (bool, error) {
	err := s.lock()
	defer s.mu.Unlock()
	sc := s.byName[t]
	if err != nil || sc == nil || sc.file() != f {
		return false, err
	}
	v := sc.split().current()
	if v.Language != language || v.Bytes != len(code) {
		return false, nil
	}
	if stored, err := s.code(t, v); stored != code || err != nil {
		return false, err
	}
	if sc.away {
		if _, err := s.registry.Change(nil, s.addition(sc)); err != nil {
			return false, message.Errorf(409, "%s can't be served again: %v", t, err)
		}
		sc.away = false
	}
	return true, nil
}

// Withdraw stops serving the scripts whose folders have left the tree. They are kept. It returns their files.
func (s *Scripts) Withdraw() (gone map[message.Type]File, err error) {
	err = s.lock()
	defer s.mu.Unlock()
	gone = make(map[message.Type]File)
	for t, sc := range s.byName {
		if err == nil && !sc.away && !s.isRoot(sc) {
			sc.away = true
			s.registry.RemoveSyscall(t)
			gone[t] = sc.file()
		}
	}
	return gone, err
}

// keeps reports whether the versions of a script remain when it is registered again, as next: code of another folder has
// versions of its own.
func (sc *script) keeps(next *script, p *Prepared) bool {
	switch {
	case sc.Author.ID != next.Author.ID:
		return false
	case sc.Folder == "" && sc.away: // it is the same file if it has the same code
		return slices.ContainsFunc(sc.all, func(v *version) bool { return v.Hash == p.edition.Hash })
	case sc.File == "" || next.File == "":
		return !sc.away
	}
	return sc.Folder == next.Folder || sc.Folder == ""
}
