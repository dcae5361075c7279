// Package mounts makes the mounts of a tree of files: from texts such as
// /notes=/home/me/notes:ro, and the root, which shows several folders as one.
package mounts

import (
	"fmt"
	"net/http"
	"strings"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/httpfs"
)

// Options are the settings of mounts that are given as text.
type Options struct {
	Client      *http.Client // client for servers; see [httpfs.Options]
	Development bool         // plain http is allowed
	Private     []string     // directories of which nothing can be reached; see [dirfs.Options]
}

// Parse makes a mount of a text PATH=TARGET[:ro][:noexec | :exec][:tokens=ACCESS], where TARGET is a
// directory that exists or the https address of a server: /notes=/home/me/notes:ro. A server is
// always read-only. With exec, tools in the directory are executed to describe themselves, and nothing in it can be
// written. With noexec, its files aren't registered as code either. ACCESS is what tokens may do there: read, which is
// the default; write, which implies noexec; or none.
func Parse(text string, opts Options) (vfs.Mount, error) {
	at, target, ok := strings.Cut(text, "=")
	target, tokens, err := tokensOf(target)
	if err != nil {
		return vfs.Mount{}, err
	}
	target, noExec := strings.CutSuffix(target, ":noexec")
	target, programs := strings.CutSuffix(target, ":exec")
	target, readOnly := strings.CutSuffix(target, ":ro")
	if !ok || at == "" || target == "" {
		return vfs.Mount{}, fmt.Errorf("a mount is PATH=TARGET, PATH=TARGET:ro, PATH=TARGET:ro:noexec, PATH=TARGET:exec or PATH=TARGET:tokens=write, such as /notes=/home/me/notes:ro")
	}
	if programs && (noExec || tokens == vfs.TokensWrite) {
		return vfs.Mount{}, fmt.Errorf("mount %s: exec contradicts noexec and tokens=write: what is executed can't be written; leave one out", at)
	}
	if at[0] != '/' {
		return vfs.Mount{}, fmt.Errorf("a mount's path begins with a slash, such as /notes, got %q", at)
	}
	m := vfs.Mount{Path: at, Tokens: tokens}
	if strings.Contains(target, "://") {
		m.Driver, err = httpfs.Open(target, httpfs.Options{Client: opts.Client, Development: opts.Development})
	} else {
		m.Driver, err = dirfs.Open(target, dirfs.Options{ReadOnly: readOnly, NoExec: noExec || tokens == vfs.TokensWrite, Programs: programs, Private: opts.Private})
	}
	if err == nil {
		_, err = vfs.New(vfs.Options{Mounts: []vfs.Mount{m}})
	}
	if err != nil {
		return vfs.Mount{}, fmt.Errorf("mount %s: %w", at, err)
	}
	return m, nil
}

// tokensOf takes what tokens may do off the end of a target.
func tokensOf(text string) (target string, a vfs.Access, err error) {
	at := strings.LastIndex(text, ":tokens=")
	if at < 0 {
		return text, vfs.TokensRead, nil
	}
	switch access := text[at+len(":tokens="):]; access {
	case "read":
		return text[:at], vfs.TokensRead, nil
	case string(vfs.TokensWrite), string(vfs.TokensNone):
		return text[:at], vfs.Access(access), nil
	default:
		return "", "", fmt.Errorf("tokens: expected read, write or none at the end of a mount, got %q", access)
	}
}
