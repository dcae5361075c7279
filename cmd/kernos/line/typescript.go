package line

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"kernos/capability/script"
	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/message"
)

// Types returns the declarations, in TypeScript, of what a kernel serves.
func Types(ctx context.Context, call server.Caller) (string, error) {
	all, err := Catalog(ctx, call)
	if err != nil {
		return "", err
	}
	described := make([]script.Described, len(all))
	for i, e := range all {
		if err := server.Read(ctx, call, message.KindQuery, "Syscall.Describe", map[string]any{"name": e.Type}, &described[i]); err != nil {
			return "", err
		}
	}
	return script.Types(described), nil
}

// CheckTypes checks the types of a file with tsc.
func CheckTypes(ctx context.Context, call server.Caller, tsc, file string) error {
	types, err := Types(ctx, call)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kernos-types-")
	if err != nil {
		return exit.Wrap(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	declared := filepath.Join(dir, "kernos.d.ts")
	if err := os.WriteFile(declared, []byte(types), 0o600); err != nil {
		return exit.Wrap(err)
	}
	found, err := exec.CommandContext(ctx, tsc, append(script.CompilerOptions(declared), file)...).CombinedOutput()
	if err == nil {
		return nil
	}
	return exit.Wrap(fmt.Errorf("tsc finds errors in %s; correct them, or leave the check out with --no-check:\n%s", file, bytes.TrimSpace(found)))
}
