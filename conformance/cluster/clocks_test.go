//go:build linux

package cluster

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A wallClock moves the wall clock of a process whose program was built by shiftedProgram, while it runs. The monotonic clock stays
// as it is, as it does when the clock of a machine is set.
type wallClock struct {
	t    testing.TB
	file string
}

func newWallClock(t testing.TB, file string) *wallClock {
	c := &wallClock{t, file}
	if err := os.WriteFile(file, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *wallClock) variable() string { return clockVariable + "=" + c.file }

// move moves the clock to a time that differs from the true one.
func (c *wallClock) move(by time.Duration) {
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0) // the file is mapped, so it is changed in its place
	if err == nil {
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second)), 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		c.t.Error(err)
	}
}

const clockVariable = "KERNOS_TEST_CLOCK"

// shift is what the package time gets: the number of seconds by which the clock is moved is in a file that is mapped.
const shift = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var shifted = func() *atomic.Int64 {
	name, _ := syscall.Getenv("` + clockVariable + `")
	if name == "" {
		return new(atomic.Int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("open " + name + ": " + err.Error())
	}
	at, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("map " + name + ": " + err.Error())
	}
	_ = syscall.Close(fd)
	return (*atomic.Int64)(unsafe.Pointer(&at[0]))
}()
`

// shiftedProgram builds the program with a package time whose wall clock can be moved. Everything in it is compiled anew the
// first time, which takes a few minutes; then it is in Go's build cache.
func shiftedProgram(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), "func Now() Time {\n\t"+now) != 1 {
		t.Fatalf("%s has another Now than this test knows", source)
	}
	dir := t.TempDir()
	changed := strings.Replace(string(text), "func Now() Time {\n\t"+now, "func Now() Time {\n\t"+now+"\tsec += shifted.Load()\n", 1)
	files := map[string]string{source: filepath.Join(dir, "time.go"), filepath.Join(filepath.Dir(source), "zshift.go"): filepath.Join(dir, "zshift.go")}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "kernos")
	for name, text := range map[string]string{"time.go": changed, "zshift.go": shift, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "kernos/cmd/kernos")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
