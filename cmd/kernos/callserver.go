package main

import (
	"os"
	"path/filepath"
	"strings"

	"kernos/client"
	"kernos/transport/unix"
)

// target is where the daemon of this user answers calls. One that wants signatures on its
// other socket wants its token on this one.
func (a *address) target() client.Target {
	t := client.Target{URL: "unix://" + unix.HTTPPath(a.socket)}
	if text, err := os.ReadFile(filepath.Join(a.home, "token")); err == nil {
		t.Token = strings.TrimSpace(string(text))
	}
	return t
}
