package attack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// swapEnv names the directory in which a copy of the test exchanges files for links.
const swapEnv = "KERNOS_ATTACK_SWAP"

// TestSwapper is the other process of TestExchangedLinks. It exchanges a file for a link to the
// token, and a directory for a link to the home, until its input ends.
func TestSwapper(t *testing.T) {
	dir := os.Getenv(swapEnv)
	if dir == "" {
		return
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("home/token", filepath.Join(dir, "link")))
	must(os.Symlink("home", filepath.Join(dir, "dirlink")))
	fmt.Println("swapping")
	// The daemon makes a directory that is missing for a moment: that one goes.
	rename := func(from, to string) {
		for os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) != nil && !ended.Load() {
			_ = os.RemoveAll(filepath.Join(dir, to)) // it may be written to meanwhile
		}
	}
	for !ended.Load() {
		for _, names := range [][2]string{{"x", "link"}, {"d", "dirlink"}} {
			rename(names[0], "aside")
			rename(names[1], names[0])
			rename(names[0], names[1])
			rename("aside", names[0])
		}
	}
}

// TestExchangedLinks: a path that leads to a file at one moment and into the home at the next
// gives nothing of the home away, and puts nothing there.
func TestExchangedLinks(t *testing.T) {
	dir := t.TempDir()
	const secret = "THE TOKEN"
	home := filepath.Join(dir, "home")
	for name, text := range map[string]string{"home/token": secret, "x": "harmless", "d/file": "harmless"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := daemon.Open(&daemon.Options{Home: home, Files: daemon.Files{Mounts: []string{"/=" + dir}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()

	swapper := exec.Command(os.Args[0], "-test.run=^TestSwapper$")
	swapper.Env = append(os.Environ(), swapEnv+"="+dir)
	input, lines := testkit.Piped(t, swapper)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	var asked, answered, leaked atomic.Int64
	calls := []struct {
		kind message.Kind
		what message.Type
		data func(i int) string
	}{
		{message.KindQuery, "VFS.Read", func(int) string { return `{"uri":"os://x"}` }},
		{message.KindQuery, "VFS.Read", func(int) string { return `{"uri":"os://d/token"}` }},
		{message.KindQuery, "VFS.List", func(int) string { return `{"uri":"os://d"}` }},
		{message.KindCommand, "VFS.Write", func(i int) string { return fmt.Sprintf(`{"uri":"os://d/made-%d","content":""}`, i%8) }},
		{message.KindCommand, "VFS.Write", func(i int) string { return fmt.Sprintf(`{"uri":"os://d/made-in-%d/x","content":""}`, i) }},
		{message.KindCommand, "VFS.Delete", func(int) string { return `{"uri":"os://d/token"}` }},
		{message.KindQuery, "Content.Hydrate", func(int) string { return `{"uri":"os://x"}` }},
		{message.KindCommand, "Memory.Set", func(int) string {
			return fmt.Sprintf(`{"key":"copy","as":"text","valueRef":{"scheme":"file","path":%q}}`, filepath.Join(dir, "x"))
		}},
		{message.KindQuery, "Memory.Get", func(int) string { return `{"key":"copy"}` }},
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range times(900, 9000) {
				c := calls[i%len(calls)]
				m := kerneltest.Query(message.ID(fmt.Sprintf("m%d-%d", g, i)), c.what, c.data(i))
				m.Kind = c.kind
				out, err := d.Call(t.Context(), m, nil)
				if err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if out.Kind == message.KindReply {
					answered.Add(1)
				}
				if text := string(out.Data); strings.Contains(text, secret) || strings.Contains(text, "origins") {
					leaked.Add(1)
				}
			}
		})
	}
	group.Wait()
	_ = input.Close()
	rest, _ := io.ReadAll(lines)
	if err := swapper.Wait(); err != nil {
		t.Errorf("the swapper failed: %v\n%s", err, rest)
	}
	t.Logf("%d calls, of which %d were answered", asked.Load(), answered.Load())
	if leaked.Load() > 0 || answered.Load() == 0 {
		t.Errorf("%d of %d calls showed something of the home; %d were answered", leaked.Load(), asked.Load(), answered.Load())
	}
	if text, err := os.ReadFile(filepath.Join(home, "token")); err != nil || string(text) != secret {
		t.Errorf("the token is %q, %v", text, err)
	}
	err = filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, "made-") || strings.HasPrefix(name, ".kernos-new") {
			t.Errorf("%s was made in the home", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHardLinks: another name of a file of the home doesn't lead to it.
func TestHardLinks(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	mount := filepath.Join(dir, "mount")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(mount, 0o700), os.WriteFile(filepath.Join(home, "token"), []byte("THE TOKEN"), 0o600),
		os.Link(filepath.Join(home, "token"), filepath.Join(mount, "hard")),
		os.WriteFile(filepath.Join(mount, "a"), []byte("harmless"), 0o600), os.Link(filepath.Join(mount, "a"), filepath.Join(mount, "b"))); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Open(&daemon.Options{Home: home, Files: daemon.Files{Mounts: []string{"/=" + mount}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	pointer := func(name string) string {
		return fmt.Sprintf(`{"key":"x","as":"text","valueRef":{"scheme":"file","path":%q}}`, filepath.Join(mount, name))
	}
	for _, c := range []struct {
		m  message.Message
		ok bool
	}{
		{kerneltest.Query("1", "VFS.Read", `{"uri":"os://hard"}`), false},
		{kerneltest.Command("2", "Memory.Set", pointer("hard")), false},
		{kerneltest.Query("3", "VFS.Read", `{"uri":"os://b"}`), true},
		{kerneltest.Command("4", "Memory.Set", pointer("b")), true},
	} {
		out, err := d.Call(t.Context(), c.m, nil)
		if err != nil || (out.Kind == message.KindReply) != c.ok || !c.ok && !strings.Contains(string(out.Data), "belongs to the kernel") {
			t.Errorf("%s %s: %s, %v", c.m.Type, c.m.Data, out.Data, err)
		}
	}
}
