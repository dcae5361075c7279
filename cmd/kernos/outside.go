package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/content"
	"kernos/capability/crypto"
	fetch "kernos/capability/http"
	"kernos/capability/vfs"
	"kernos/cmd/kernos/exit"
	"kernos/internal/outbound"
	"kernos/kernel"
)

// keyFile is the name of the local key in the folder of an origin.
const keyFile = "key"

// outsideSettings say what of the world around it a kernel reaches, and how.
type outsideSettings struct {
	mounts       []string
	execute      string
	sealKey      string
	requireAgent bool
	fetchAllow   []string
	fetchDeny    []string
	fetchOnly    bool
	maxBody      size
	retries      int
	directory    string
	from         string // the directory if nobody says one; "" means the working directory
	development  bool
	public       bool // other machines reach the kernel
}

// defaultOutside is what a kernel reaches if nobody says anything: what its owner does.
var defaultOutside = outsideSettings{execute: string(content.ExecuteLocal), maxBody: fetch.DefaultMaxBody}

// add adds the flags.
func (o *outsideSettings) add(c *cobra.Command) {
	*o = defaultOutside
	f := c.Flags()
	f.StringArrayVar(&o.mounts, "mount", nil, "show a directory or an https server in the tree of files: `PATH=TARGET[:ro][:noexec]`; can be given again")
	f.StringVar(&o.execute, "execute", o.execute, "which `TOOLS` may be executed to describe themselves: local or none")
	f.StringVar(&o.sealKey, "seal-key", "", "the `KEY` that seals: a fingerprint as ssh-add -l shows it; without it, the agent's first one that will do")
	f.BoolVar(&o.requireAgent, "require-agent", false, "seal and open with ssh-agent only, never with a key file")
	f.StringArrayVar(&o.fetchAllow, "fetch-allow", nil, "let Http.Fetch reach this `PLACE` (a host, an address or a block such as 10.0.0.0/8) although it would be refused; can be given again")
	f.StringArrayVar(&o.fetchDeny, "fetch-deny", nil, "keep Http.Fetch from this `PLACE`; can be given again")
	f.BoolVar(&o.fetchOnly, "fetch-only", false, "let Http.Fetch reach nothing but what --fetch-allow names")
	f.Var(&o.maxBody, "max-body", "how much Http.Fetch takes of one answer")
	f.IntVar(&o.retries, "fetch-retries", 0, "how often Http.Fetch tries again what may be repeated, if the network fails")
	f.StringVar(&o.directory, "directory", "", "the `DIR` whose folder os is the root of the tree of files, if no root is mounted (default: the working directory)")
	f.BoolVar(&o.development, "development", false, "let plain http be mounted")
}

// check finds what is wrong with the settings before anything is opened.
func (o *outsideSettings) check() error {
	if o.execute != string(content.ExecuteLocal) && o.execute != string(content.ExecuteNone) {
		return fmt.Errorf("--execute is local or none, got %q", o.execute)
	}
	if o.retries < 0 || o.retries > 10 {
		return fmt.Errorf("--fetch-retries is a number from 0 to 10, got %d", o.retries)
	}
	if o.maxBody == 0 {
		return errors.New("--max-body must be more than 0")
	}
	if err := crypto.CheckKey(o.sealKey); err != nil {
		return fmt.Errorf("--seal-key: %w", err)
	}
	if o.directory != "" {
		if info, err := os.Stat(o.directory); err != nil {
			return fmt.Errorf("--directory: %w; say a directory that is there", err)
		} else if !info.IsDir() {
			return fmt.Errorf("--directory: %s is not a directory; say one that is", o.directory)
		}
	}
	_, err := o.policy()
	return err
}

// policy returns where connections may go: anywhere but to link-local addresses for the owner
// of the machine, and to public ones for callers from elsewhere; but for the exceptions that
// are set.
func (o *outsideSettings) policy() (outbound.Policy, error) {
	base := outbound.Personal
	if o.public {
		base = outbound.Policy{}
	}
	base.Only = o.fetchOnly
	var err error
	if base.Allow, err = outbound.ParseRules(o.fetchAllow...); err != nil {
		return base, fmt.Errorf("--fetch-allow: %w", err)
	}
	if base.Deny, err = outbound.ParseRules(o.fetchDeny...); err != nil {
		return base, fmt.Errorf("--fetch-deny: %w", err)
	}
	return base, nil
}

// outside is what a kernel reaches of the world around it.
type outside struct {
	settings *outsideSettings
	client   *http.Client
	keys     *crypto.Keyring

	// Those are there when the syscalls are.
	tree      *vfs.Tree
	directory string // whose folder os is the root of the tree; "" if a root is mounted
	process   *vfs.Process
}

// A view is what the kernel shows of itself in its tree of files.
type view struct {
	started   time.Time
	stats     func() kernel.Stats
	variables vfs.Variables
}

// reach prepares for what the settings allow.
func (s *state) reach(o *outsideSettings) error {
	policy, err := o.policy()
	if err != nil {
		return err
	}
	s.settings = o
	s.client = outbound.NewClient(policy, nil)
	s.keys = crypto.New(&crypto.Options{
		Agent: crypto.Socket(os.Getenv("SSH_AUTH_SOCK")), Key: o.sealKey,
		KeyFile: filepath.Join(s.dir, keyFile), RequireAgent: o.requireAgent, Log: s.log,
	})
	return nil
}

// outsideModules returns the syscalls that reach the world outside.
func (s *state) outsideModules(r *kernel.Registry, v view) ([]kernel.Module, error) {
	o := s.settings
	mounts, directory, err := o.tree(s.client, s.home)
	s.directory = directory
	if err != nil {
		return nil, err
	}
	s.process = &vfs.Process{
		Version: version, Args: os.Args, Begun: v.started, Registry: r, Stats: v.stats,
		Mounts: func() []vfs.Mount { return s.tree.Mounts() },
	}
	mounts = append(mounts,
		vfs.Mount{Path: "/memory", Driver: vfs.Memory(s.memory, s)},
		vfs.Mount{Path: "/sys", Driver: vfs.Sys(v.variables)},
		vfs.Mount{Path: "/proc", Driver: vfs.Proc(s.process.Files)},
	)
	if s.tree, err = vfs.New(&vfs.Options{Mounts: mounts, Blobs: s, Resolve: s.resolve}); err != nil {
		return nil, err
	}
	hydration := content.New(files{s.tree}, &content.Options{Fetch: content.Fetcher(s.client), Execute: content.Policy(o.execute)})
	return []kernel.Module{
		s.tree.Module(),
		hydration.Module(),
		fetch.Module(&fetch.Options{Client: s.client, Blobs: s.blobs, Open: s.keys.Open, MaxBody: int64(o.maxBody), Retries: o.retries}),
		s.keys.Module(),
	}, nil
}

// tree returns the mounts that are set, and a root if none of them is one, with the directory
// that it is of. Nothing of the home is in them.
func (o *outsideSettings) tree(client *http.Client, home string) (mounts []vfs.Mount, directory string, err error) {
	root := false
	for _, text := range o.mounts {
		m, err := vfs.ParseMount(text, &vfs.MountOptions{Client: client, Development: o.development, Private: home})
		if err != nil {
			flag := "--mount"
			if at, _, ok := strings.Cut(text, "="); ok { // what follows may hold a password
				flag += " " + at + "=…"
			}
			return nil, "", &exit.Error{Status: exit.Usage, Cause: fmt.Errorf("%s: %w", flag, err)}
		}
		root = root || m.Path == "/"
		mounts = append(mounts, m)
	}
	if root {
		return mounts, "", nil
	}
	if directory, err = filepath.Abs(cmp.Or(o.directory, o.from, ".")); err != nil {
		return nil, "", err
	}
	m, err := vfs.DefaultRoot(directory, home)
	return append(mounts, m), directory, err
}

// proc is the value of a key in proc: the text that the file of this name has.
func (s *state) proc(ctx context.Context, key string) (json.RawMessage, error) {
	if s.process == nil {
		return nil, nil
	}
	compute, ok := s.process.Files()[strings.TrimPrefix(key, "proc/")]
	if !ok {
		return nil, nil
	}
	text, err := compute(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(strings.TrimSuffix(string(text), "\n"))
}

// procKeys are the keys in proc.
func (s *state) procKeys() (keys []string) {
	if s.process != nil {
		for name := range s.process.Files() {
			keys = append(keys, "proc/"+name)
		}
	}
	return keys
}

// files is the tree as hydration sees it.
type files struct{ *vfs.Tree }

// Read implements [content.Files].
func (f files) Read(ctx context.Context, uri string) (content.File, error) {
	file, err := f.Tree.Read(ctx, uri)
	return content.File{Data: file.Data, Version: file.Version, Modified: file.Modified}, err
}

// Walk implements [content.Files].
func (f files) Walk(ctx context.Context, uri string) iter.Seq2[content.Entry, error] {
	return func(yield func(content.Entry, error) bool) {
		for info, err := range f.Tree.Walk(ctx, uri, 0) {
			if err == nil && info.Dir || errors.Is(err, vfs.ErrUnnamed) {
				continue
			}
			if !yield(content.Entry{URI: info.URI, Version: info.Version}, err) {
				return
			}
		}
	}
}

// leave lets go of what was opened.
func (o *outside) leave() error {
	if o.client == nil {
		return nil
	}
	o.client.CloseIdleConnections()
	o.keys.Close()
	if o.tree == nil {
		return nil
	}
	return o.tree.Close()
}
