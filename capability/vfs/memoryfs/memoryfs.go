// Package memoryfs shows the kernel's memory in the tree of files: a key is a file.
package memoryfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"kernos/capability/memory"
	"kernos/capability/vfs"
	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// values is the memory as files: a string is a file with its text, any other value a file
// with its JSON. What is written is always a string, so that it is read back as it was. It is
// written by the syscalls Memory.Set and Memory.Delete, so that the rules, the record and the
// durability of those hold.
type values struct {
	of    *memory.Memory
	blobs kernel.BlobPutter
}

// New returns the driver of the memory. The blobs are those that Memory.Set takes
// pointers to; without them, only small files can be written.
func New(of *memory.Memory, blobs kernel.BlobPutter) vfs.Driver { return &values{of, blobs} }

func (v *values) Can() vfs.Can { return vfs.Can{Read: true, Write: true} }

func (v *values) String() string { return "memory" }

// Secret implements [vfs.SecretChecker].
func (v *values) Secret(name string) bool { return v.of.Secret(name) }

// Sounds implements [vfs.SecretChecker]. What goes to a blob isn't judged, as by Memory.Set.
func (v *values) Sounds(name string, data []byte) string {
	if len(data) > maxInline {
		return ""
	}
	return v.of.Sounds(name, string(data))
}

func (v *values) Read(ctx context.Context, name string) (vfs.File, error) {
	text, revision, updated, err := v.of.Get(ctx, name)
	if err != nil {
		return vfs.File{}, v.absent(ctx, name, err)
	}
	data := contentOf(text)
	return vfs.File{Data: data, Version: revisionOf(revision, updated, data), Modified: updated}, nil
}

// absent returns the error for a name without a value: it may be a folder, or not exist.
func (v *values) absent(ctx context.Context, name string, err error) error {
	if !notFound(err) {
		return err
	}
	inside, err := v.of.List(ctx, name, "", 1, true)
	switch {
	case err != nil:
		return err
	case len(inside) > 0:
		return vfs.ErrDirectory
	}
	return fs.ErrNotExist
}

func notFound(err error) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == 404
}

func contentOf(text []byte) []byte {
	if len(text) > 0 && text[0] == '"' {
		return []byte(jsonscan.Unquote(text))
	}
	return bytes.Clone(text)
}

// revisionOf returns the version of a value. The revisions of a key that was deleted start again
// some day, so the time is part of it.
func revisionOf(revision uint64, updated time.Time, data []byte) string {
	if revision == 0 {
		return vfs.Digest(data)
	}
	b := strconv.AppendUint([]byte{'r'}, revision, 10)
	return string(strconv.AppendInt(append(b, '-'), updated.UnixMilli(), 36))
}

func (v *values) Stat(ctx context.Context, name string) (vfs.Info, error) {
	text, revision, updated, err := v.of.Stat(ctx, name)
	if err != nil {
		if err = v.absent(ctx, name, err); errors.Is(err, vfs.ErrDirectory) {
			return vfs.Info{Dir: true}, nil
		}
		return vfs.Info{}, err
	}
	info := vfs.Info{Size: -1, Modified: updated}
	var data []byte
	if text != nil {
		data = contentOf(text)
		info.Size = int64(len(data))
	}
	info.Version = revisionOf(revision, updated, data)
	return info, nil
}

const listed = 1000

// List implements [vfs.Lister].
func (v *values) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	return func(yield func(vfs.Info, error) bool) {
		if err := v.directory(ctx, name); err != nil {
			yield(vfs.Info{}, err)
			return
		}
		for {
			names, err := v.of.List(ctx, name, from, listed, false)
			if err != nil {
				yield(vfs.Info{}, err)
				return
			}
			for _, n := range names {
				if !v.entry(ctx, name, n, yield) {
					return
				}
			}
			if len(names) < listed {
				return
			}
			from = vfs.After(names[listed-1])
		}
	}
}

// directory fails unless a name is that of a folder.
func (v *values) directory(ctx context.Context, name string) error {
	inside, err := v.of.List(ctx, name, "", 1, true)
	if err != nil || len(inside) > 0 || name == "" {
		return err
	}
	if _, err := v.Stat(ctx, name); err != nil {
		return err
	}
	return vfs.ErrNotDirectory
}

// entry gives one name of a folder, and reports whether to continue.
func (v *values) entry(ctx context.Context, folder, name string, yield func(vfs.Info, error) bool) bool {
	bare, dir := strings.CutSuffix(name, "/")
	if !vfs.Nameable(bare) {
		return yield(vfs.Info{}, vfs.ErrUnnamed)
	}
	if dir {
		return yield(vfs.Info{Name: bare, Dir: true}, nil)
	}
	info, err := v.Stat(ctx, vfs.Join(folder, bare))
	if errors.Is(err, fs.ErrNotExist) || info.Dir {
		return true // the file has gone since
	}
	info.Name = bare
	return yield(info, err)
}

// maxInline is how long a text may be that is given to Memory.Set as it is.
const maxInline = 8 << 10

// Write implements [vfs.Writer]. A writer that expects nothing has no condition, so that it waits for its turn where many write.
func (v *values) Write(ctx context.Context, name string, data []byte, expect vfs.Expect) (string, error) {
	if !utf8.Valid(data) {
		return "", message.Errorf(422, "The memory holds text, and the content is not UTF-8: encode it, for example as base64")
	}
	set, err := v.arguments(ctx, name, data)
	if err != nil {
		return "", err
	}
	if expect == "" {
		return v.set(ctx, set)
	}
	for {
		revision, actual, err := v.current(ctx, name)
		if err != nil {
			return "", err
		}
		if err := expect.Check(actual); err != nil {
			return "", err
		}
		set.IfRevision = &revision
		version, err := v.set(ctx, set)
		if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 409 && ctx.Err() == nil {
			continue // the file was changed meanwhile: the check has the words for that
		}
		return version, err
	}
}

// setArguments are the arguments of Memory.Set.
type setArguments struct {
	Key          string               `json:"key"`
	Value        *string              `json:"value,omitzero"`
	As           string               `json:"as,omitzero"`
	ValueRef     *message.BlobPointer `json:"valueRef,omitzero"`
	IfRevision   *uint64              `json:"ifRevision,omitzero"`
	WithRevision bool                 `json:"withRevision"`
}

// arguments returns what gives Memory.Set a content. What may be a secret never goes to a blob:
// Memory.Set would refuse it when it is on the disk.
func (v *values) arguments(ctx context.Context, name string, data []byte) (*setArguments, error) {
	if len(data) <= maxInline || v.of.Secret(name) {
		text := string(data)
		return &setArguments{Key: name, Value: &text, WithRevision: true}, nil
	}
	if v.blobs == nil {
		return nil, message.Errorf(413, "The content has %d bytes, and this kernel has no place for more than %d of a file in memory", len(data), maxInline)
	}
	p, err := v.blobs.Put(ctx, data)
	if err != nil {
		return nil, err
	}
	return &setArguments{Key: name, As: "text", ValueRef: &p, WithRevision: true}, nil
}

// current returns the revision of a key, 0 if it is not there, and its version.
func (v *values) current(ctx context.Context, name string) (revision uint64, version string, err error) {
	_, revision, updated, err := v.of.Stat(ctx, name)
	if notFound(err) {
		return 0, string(vfs.Absent), nil
	}
	return revision, revisionOf(revision, updated, nil), err
}

// set calls Memory.Set, and returns the version that it makes: "" if that was replaced by another at once.
func (v *values) set(ctx context.Context, a *setArguments) (string, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	reply, err := kernel.Invoke(ctx, "Memory.Set", data)
	if err != nil {
		return "", err
	}
	var made struct {
		Revision uint64 `json:"revision"`
	}
	if err := json.Unmarshal(reply, &made); err != nil {
		return "", err
	}
	if now, version, err := v.current(ctx, a.Key); err == nil && now == made.Revision {
		return version, nil
	}
	return "", nil
}

// Delete implements [vfs.Writer]. A folder is there only because of what is in it.
func (v *values) Delete(ctx context.Context, name string, recursive bool) error {
	err := v.remove(ctx, name)
	if err != nil && !notFound(err) {
		return err
	}
	missing := err != nil
	if !recursive {
		if !missing {
			return nil
		}
		if err = v.absent(ctx, name, err); errors.Is(err, vfs.ErrDirectory) {
			return vfs.ErrNotEmpty
		}
		return err
	}
	for from := ""; ; {
		names, err := v.of.List(ctx, name, from, listed, true)
		if err != nil {
			return err
		}
		if len(names) == 0 && missing {
			return fs.ErrNotExist
		}
		for _, n := range names {
			if err := v.remove(ctx, vfs.Join(name, n)); err != nil && !notFound(err) {
				e, _ := message.ErrorOf(err)
				return message.Errorf(e.Code, "Only some of what is below it was deleted: %w", e)
			}
		}
		if len(names) < listed {
			return nil
		}
		missing, from = false, vfs.After(names[listed-1])
	}
}

func (v *values) remove(ctx context.Context, name string) error {
	data, err := json.Marshal(map[string]string{"key": name})
	if err == nil {
		_, err = kernel.Invoke(ctx, "Memory.Delete", data)
	}
	return err
}
