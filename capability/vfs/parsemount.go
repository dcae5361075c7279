package vfs

import (
	"fmt"
	"net/http"
	"strings"
)

// MountOptions are the settings of mounts that are given as text.
type MountOptions struct {
	Client      *http.Client // of servers; see [ServerOptions]
	Development bool         // plain http is allowed
	Private     string       // a directory of which nothing can be reached; see [DirectoryOptions]
}

// ParseMount makes a mount of a text PATH=TARGET[:ro][:noexec], where TARGET is a directory
// that exists or the https address of a server: /notes=/home/me/notes:ro. A server is
// read-only anyhow. Nil options mean defaults.
func ParseMount(text string, opts *MountOptions) (Mount, error) {
	if opts == nil {
		opts = new(MountOptions)
	}
	at, target, ok := strings.Cut(text, "=")
	target, noExec := strings.CutSuffix(target, ":noexec")
	target, readOnly := strings.CutSuffix(target, ":ro")
	if !ok || at == "" || target == "" {
		return Mount{}, fmt.Errorf("a mount is PATH=TARGET, PATH=TARGET:ro or PATH=TARGET:ro:noexec, such as /notes=/home/me/notes:ro")
	}
	if at[0] != '/' {
		return Mount{}, fmt.Errorf("a mount's path begins with a slash, such as /notes, got %q", at)
	}
	m := Mount{Path: at}
	var err error
	if strings.Contains(target, "://") {
		m.Driver, err = Server(target, &ServerOptions{Client: opts.Client, Development: opts.Development})
	} else {
		m.Driver, err = Directory(target, &DirectoryOptions{ReadOnly: readOnly, NoExec: noExec, Private: opts.Private})
	}
	if err == nil {
		_, err = arrange([]Mount{m})
	}
	if err != nil {
		return Mount{}, fmt.Errorf("mount %s: %w", at, err)
	}
	return m, nil
}
