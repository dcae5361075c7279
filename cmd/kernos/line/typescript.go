package line

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kernos/capability/script"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/message"
)

// Types is what Syscall.Types replies.
type Types struct{ Declarations string }

// Show writes the declarations.
func (t *Types) Show(s *terminal.Screen) error {
	return s.Line(strings.TrimSuffix(t.Declarations, "\n"))
}

// CheckTypes checks the types of a file with tsc.
func CheckTypes(ctx context.Context, call server.Caller, tsc, file string) error {
	var types Types
	if err := server.Read(ctx, call, message.KindQuery, "Syscall.Types", struct{}{}, &types); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kernos-types-")
	if err != nil {
		return exit.Wrap(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	declared := filepath.Join(dir, "kernos.d.ts")
	if err := os.WriteFile(declared, []byte(types.Declarations), 0o600); err != nil {
		return exit.Wrap(err)
	}
	found, err := exec.CommandContext(ctx, tsc, append(script.CompilerOptions(declared), file)...).CombinedOutput()
	if err == nil {
		return nil
	}
	return exit.Wrap(fmt.Errorf("tsc finds errors in %s; correct them, or leave the check out with --no-check:\n%s", file, bytes.TrimSpace(found)))
}
