package vfs

import (
	"context"
	"io/fs"
	"iter"
	"strings"
	"sync"

	"kernos/message"
)

// A Setting is a value that can be seen, and perhaps changed, while the kernel runs.
type Setting struct {
	Name  string // segments with slashes between them: log/level
	Value string // a single line
}

// Settings are what the sys mount shows. They are safe for concurrent use.
type Settings interface {
	List() []Setting

	// Get returns the value of a setting. The error for one that is not there wraps
	// [fs.ErrNotExist].
	Get(name string) (string, error)

	// Set changes a setting, and what depends on it, at once. Its errors are
	// *message.Error: 422 says which values there are, 403 that it can't be changed.
	Set(name, value string) error
}

// settings is a driver that shows each setting as a file with one line.
type settings struct {
	of      Settings
	writing sync.Mutex // looking at a version and writing are one step
}

// Sys returns the driver of some settings.
func Sys(of Settings) Driver { return &settings{of: of} }

func (s *settings) Can() Can { return Can{Read: true, Write: true} }

func (s *settings) String() string { return "settings" }

func (s *settings) names() flat {
	var names flat
	for _, one := range s.of.List() {
		names = append(names, one.Name)
	}
	return names
}

func (s *settings) Read(_ context.Context, name string) (File, error) {
	value, err := s.of.Get(name)
	if err != nil {
		if s.names().directory(name) {
			err = errDirectory
		}
		return File{}, err
	}
	return File{Data: []byte(value), Version: digest([]byte(value))}, nil
}

func (s *settings) Stat(ctx context.Context, name string) (Info, error) {
	if s.names().directory(name) {
		return Info{Dir: true}, nil
	}
	f, err := s.Read(ctx, name)
	return Info{Size: int64(len(f.Data)), Version: f.Version}, err
}

// List implements [Lister].
func (s *settings) List(ctx context.Context, name, from string) iter.Seq2[Info, error] {
	return listFlat(ctx, s, s.names(), name, from)
}

// listFlat lists a directory of a driver whose files are known by name.
func listFlat(ctx context.Context, d Driver, names flat, dir, from string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if !names.directory(dir) {
			err := errNotDirectory
			if _, statErr := d.Stat(ctx, dir); statErr != nil {
				err = statErr
			}
			yield(Info{}, err)
			return
		}
		for _, child := range names.children(dir, from) {
			info, err := child, error(nil)
			if !child.Dir {
				info, err = d.Stat(ctx, join(dir, child.Name))
				info.Name = child.Name
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Write implements [Writer]. A newline at the end is dropped, since editors add one.
func (s *settings) Write(_ context.Context, name string, data []byte, expect Expect) (string, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	old, err := s.of.Get(name)
	if err != nil {
		if s.names().directory(name) {
			err = errDirectory
		}
		return "", err
	}
	if actual := digest([]byte(old)); expect != "" && string(expect) != actual {
		return "", &versionError{expected: string(expect), actual: actual}
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if strings.ContainsAny(value, "\n\v\f\r\u0085\u2028\u2029\x00") {
		return "", message.Errorf(422, "Invalid value format: a setting is a single line (got a line break for %s)", name)
	}
	if err := s.of.Set(name, value); err != nil {
		return "", err
	}
	now, err := s.of.Get(name)
	return digest([]byte(now)), err
}

// Delete implements [Writer]: a setting stays.
func (s *settings) Delete(_ context.Context, name string, _ bool) error {
	if _, err := s.of.Get(name); err != nil && !s.names().directory(name) {
		return err
	}
	return message.Errorf(403, "Operation not allowed: the setting %s can be changed, not deleted", name)
}

// A Variable is a setting that is read and changed by functions. Without Set it can't be
// changed.
type Variable struct {
	Name string
	Get  func() string
	Set  func(value string) error
}

// Variables implements [Settings].
type Variables []Variable

// List implements [Settings].
func (v Variables) List() []Setting {
	all := make([]Setting, len(v))
	for i, one := range v {
		all[i] = Setting{Name: one.Name, Value: one.Get()}
	}
	return all
}

func (v Variables) find(name string) (*Variable, error) {
	for i := range v {
		if v[i].Name == name {
			return &v[i], nil
		}
	}
	return nil, fs.ErrNotExist
}

// Get implements [Settings].
func (v Variables) Get(name string) (string, error) {
	one, err := v.find(name)
	if err != nil {
		return "", err
	}
	return one.Get(), nil
}

// Set implements [Settings].
func (v Variables) Set(name, value string) error {
	one, err := v.find(name)
	if err != nil {
		return err
	}
	if one.Set == nil {
		return message.Errorf(403, "Operation not allowed: the setting %s can't be changed while the kernel runs", name)
	}
	return one.Set(value)
}
