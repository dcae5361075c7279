// Package memory is the kernel's memory: JSON values under keys that are paths.
//
//	Memory.Set {"key":"notes/1","value":"hello"}  →  {"success":true}
//	Memory.Get {"key":"notes/1"}                  →  "hello"
//
// A value is kept as the JSON text that came, so that numbers come back exactly as they
// were written. Every change of a key makes a version with a number, and the last ones
// stay readable. A command stages its change together with its reply, under the condition
// that what it has read is still so; see [kernel.Stage].
//
// Three namespaces have rules: vault holds sealed strings only, proc can't be written,
// sys holds values of a single line. The settings of language models, below models, are written by
// principals that may change settings, and hold a key only if it is sealed. [parseKey] makes sure that no other spelling gets
// around the rules.
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
)

// Options are the settings of a Memory. The zero value is usable.
type Options struct {
	// Versions is how many versions of a key are kept, the current one among them. 0
	// means 100.
	Versions int

	// Remember is how long the history of a deleted key is kept. 0
	// means 30 days. After that, its revisions start again from 1.
	Remember time.Duration

	// Resolve fetches what a valueRef points to; see [blobs.Resolver]. Nil takes data
	// pointers, and blobs of the kernel.
	Resolve func(context.Context, message.BlobPointer) ([]byte, error)

	// Reaches reports whether the caller of ctx may have a blob, so that a value of its may point
	// to it for others. Nil means all of them.
	Reaches func(ctx context.Context, h blobs.Hash) (bool, error)

	// Proc returns the value of a key in proc, which is computed when it is read, or nil
	// if there is none. Nil means that proc is empty.
	Proc func(ctx context.Context, key string) (json.RawMessage, error)

	// ProcKeys lists the keys that Proc knows, such as proc/uptime. Nil means none.
	ProcKeys func() []string

	// Meaning finds values by what they mean. Nil means by the model that is inside.
	Meaning *ranked.Meaning

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

const (
	defaultVersions = 100
	defaultRemember = 30 * 24 * time.Hour
)

// maxInline is how long the text of a value may be that is kept in the store itself;
// longer ones go to a blob. MaxValue is how long it may be at all.
const (
	maxInline = 16 << 10
	MaxValue  = 64 << 20
)

// A Memory keeps values in a store. It is safe for concurrent use and starts no
// goroutines; its owner may give one to [Memory.Expire].
type Memory struct {
	store    store.Store
	blobs    *blobs.Dir
	opts     Options
	recorder atomic.Pointer[kernel.Recorder] // records changes that no call makes
}

// New returns the memory that is in a store, with its large values in a directory of
// blobs. Nil options mean defaults.
func New(s store.Store, b *blobs.Dir, opts *Options) *Memory {
	m := &Memory{store: s, blobs: b}
	if opts != nil {
		m.opts = *opts
	}
	m.opts.Versions = cmp.Or(m.opts.Versions, defaultVersions)
	m.opts.Remember = cmp.Or(m.opts.Remember, defaultRemember)
	if m.opts.Resolve == nil {
		m.opts.Resolve = (&blobs.Resolver{Dir: b, Confined: true, Limit: MaxValue}).Resolve
	}
	if m.opts.Meaning == nil {
		m.opts.Meaning = ranked.NewMeaning(nil)
	}
	if m.opts.Now == nil {
		m.opts.Now = time.Now
	}
	m.opts.Log = cmp.Or(m.opts.Log, slog.New(slog.DiscardHandler))
	return m
}

// changedType is the event that a key has been set or deleted, or has expired.
const changedType message.Type = "Memory.Changed"

var changed = []kernel.EventDefinition{{
	Type:    changedType,
	Summary: "A key was set or deleted, or has expired: {key, revision, deleted?, expired?}. It is sent to watchers, not to the caller.",
}}

// Module returns the syscalls of the memory.
func (m *Memory) Module() kernel.Module {
	return kernel.Module{
		Name:    "memory",
		Version: "1.0.0",
		Summary: "Durable JSON values under keys that are paths, with their history.",
		Domains: []string{"Memory"},
		Syscalls: []kernel.Syscall{
			get.Bind(m.get), set.Bind(m.set), increment.Bind(m.increment), remove.Bind(m.delete), restore.Bind(m.restore),
			list.Bind(m.list), search.Bind(m.search), history.Bind(m.history),
		},
	}
}

func notFound(asked string) *message.Error {
	return &message.Error{Code: 404, Message: "Key not found: " + asked}
}

// reach is parseKey, and refuses keys that the caller doesn't reach. Whatever reads or changes
// a key begins with it.
func reach(ctx context.Context, asked string) (memoryKey, error) {
	key, err := parseKey(asked)
	if err != nil {
		return "", err
	}
	if e := kernel.PrincipalOf(ctx).Key(string(key)); e != nil {
		return "", e
	}
	return key, nil
}

// reachWritable is reach, and refuses keys that the caller can't write.
func reachWritable(ctx context.Context, asked string) (memoryKey, error) {
	key, err := reach(ctx, asked)
	if err != nil {
		return "", err
	}
	switch space := key.space(); {
	case space == proc:
		return "", message.Errorf(403, "Operation not allowed: proc/* paths are read-only (attempted write to %s)", key)
	case key.isModel():
		if e := kernel.PrincipalOf(ctx).Model(string(key)); e != nil {
			return "", e
		}
	case space == sys:
		if e := kernel.PrincipalOf(ctx).Setting(string(key)); e != nil {
			return "", e
		}
	case space != vault:
		return key, nil
	}
	return key, kernel.Reaching(ctx, kernel.ToSettings, string(key))
}

// mismatch returns the error for a key that is not at the revision that the caller expects.
func mismatch(asked string, expected, actual uint64) *message.Error {
	switch {
	case expected == 0:
		return message.Errorf(409, "Revision mismatch: %s was expected not to exist (revision 0) and is at revision %d; read it again and retry", asked, actual)
	case actual == 0:
		return message.Errorf(409, "Revision mismatch: %s was expected at revision %d and does not exist (revision 0); read it again and retry", asked, expected)
	}
	return message.Errorf(409, "Revision mismatch: %s was expected at revision %d and is at revision %d; read it again and retry", asked, expected, actual)
}

// value returns the JSON text of a version.
func (m *Memory) value(v *version) ([]byte, error) {
	if v.large == 0 {
		return v.text, nil
	}
	return m.blobs.Read(v.blob)
}

// backend puts a failure of what is below into words for the caller, and the rest into
// the log. Other errors stay as they are.
func (m *Memory) backend(err error) error {
	if err == nil {
		return nil
	}
	cause, known := message.ErrorOf(err)
	if known {
		return err
	}
	if errors.Is(err, store.ErrClosed) {
		cause = &message.Error{Code: 503, Message: "The store is closed: the kernel is shutting down"}
	} else if _, ok := errors.AsType[*store.Error](err); !ok {
		cause.Message = "The stored data can't be read or written; the kernel's log has the details"
	}
	m.opts.Log.Error("memory backend failure", "error", err)
	return &message.Error{Code: cause.Code, Message: "Memory backend failure", Cause: cause}
}
