package fence_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/fence"
)

// A bind mount shows what is private by another path, at whatever depth, and a single file, too.
// Mounts need a namespace of their own, so the test runs itself in one.
func TestBindMounts(t *testing.T) {
	const inside = "KERNOS_TEST_MOUNTS"
	if os.Getenv(inside) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBindMounts$", "-test.v")
		c.Env = append(os.Environ(), inside+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := c.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			t.Log("this system gives no namespaces: ", err)
			return
		}
		if err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	private, beside := world(t)
	deep := filepath.Join(private, "a", "b", "c", "d", "e f")
	for _, dir := range []string{deep, filepath.Join(beside, "deep"), filepath.Join(beside, "self")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(deep, "key"), filepath.Join(beside, "single")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{deep: "deep", filepath.Join(deep, "key"): "single", beside: "self"} {
		if err := syscall.Mount(from, filepath.Join(beside, to), "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(beside, to), syscall.MNT_DETACH) })
	}
	for name, want := range map[string]error{"deep/key": fence.ErrPrivate, "single": fence.ErrPrivate, "self/notes": nil, "notes": nil} {
		name = filepath.Join(beside, name)
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := (fence.Fence{private}).Check(f, name); !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		_ = f.Close()
	}
}
