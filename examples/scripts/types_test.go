package scripts

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/capability/script"
	"kernos/daemon"
	"kernos/internal/testkit/tool"
	"kernos/message"
)

// The compiler of TypeScript takes what kernos types prints of all syscalls, and the examples fit it.
func TestTypes(t *testing.T) {
	tool.Need(t, "node")
	compiler := filepath.Join(tool.Modules(t), "typescript", "bin", "tsc")
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	declared := write("kernos.d.ts", declarations(t))
	right, err := filepath.Glob("*.ts")
	if err != nil || len(right) != 5 {
		t.Fatal(right, err)
	}
	right = append(right,
		write("computed.ts", `export const handler = (name: string) => kernos.call("Own." + name, { anything: 1 });`),
		write("later.ts", `declare global { interface KernosSyscalls { "Own.Later": { kind: "query"; input: { n: number }; output: string } } }
export const handler = async () => (await kernos.call("Own.Later", { n: 1 })).length;`))
	wrong := []string{
		write("name.ts", `export const handler = () => kernos.call("Memory.Gte", { key: "a" });`),
		write("field.ts", `export const handler = () => kernos.call("Memory.Get", { ke: "a" });`),
		write("kind.ts", `export const handler = () => kernos.call("Memory.Get", { key: 7 });`),
	}
	// All in one run, which takes half as long as two: the compiler reads mostly libraries.
	args := slices.Concat([]string{compiler}, script.CompilerOptions(declared), right, wrong)
	out, err := exec.CommandContext(t.Context(), "node", args...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		t.Errorf("the compiler: %v", err)
	}
	reported := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, " ") {
			continue // more about the problem before
		}
		file, _, _ := strings.Cut(line, "(")
		reported[filepath.Base(file)] = true
		if !slices.ContainsFunc(wrong, func(w string) bool { return filepath.Base(w) == filepath.Base(file) }) {
			t.Errorf("the compiler reports: %s", line)
		}
	}
	for _, file := range wrong {
		if !reported[filepath.Base(file)] {
			t.Errorf("the compiler doesn't report %s:\n%s", file, out)
		}
	}
}

// declarations returns what a daemon declares.
func declarations(t *testing.T) string {
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer, err := d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Syscall.Types", Data: json.RawMessage(`{}`)}, nil)
	var types struct{ Declarations string }
	if err == nil {
		err = json.Unmarshal(answer.Data, &types)
	}
	if err != nil || types.Declarations == "" {
		t.Fatal(string(answer.Data), err)
	}
	return types.Declarations
}
