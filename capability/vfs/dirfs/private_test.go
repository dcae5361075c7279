package dirfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/vfstest"
)

// homely makes a directory with the home of a kernel in it, and ways there.
func homely(t *testing.T) (dir, home string) {
	t.Helper()
	dir = t.TempDir()
	home = filepath.Join(dir, "below", "home")
	vfstest.Put(t, dir, map[string]string{
		"file": "open", "below/file": "open", "homely/file": "open",
		"below/home/token": "SECRET", "below/home/origins/mine/key": "SECRET", "below/home/origins/mine/os/file": "SECRET",
	})
	for name, to := range map[string]string{
		"alias": "below/home", "middle": "below/home/origins/mine", "key": "below/home/origins/mine/key",
		"twice": "alias", "harmless": "below/file", "below/up": "../homely",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, home
}

// TestThePrivateDirectoryIsNotInTheTree: neither read, written, deleted, executed nor listed,
// by whatever way.
func TestThePrivateDirectoryIsNotInTheTree(t *testing.T) {
	dir, home := homely(t)
	for _, private := range []string{home, filepath.Join(dir, "alias")} {
		d, err := Open(dir, Options{Private: []string{private}})
		if err != nil {
			t.Fatal(err)
		}
		tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}})
		for _, uri := range []string{
			"os://below/home", "os://below/home/token", "os://below/home/origins/mine/key", "os://below/home/none", "os://below/home/none/none",
			"os://alias", "os://alias/token", "os://alias/none", "os://middle", "os://middle/key", "os://middle/none", "os://key",
			"os://twice", "os://twice/origins/mine/key", "os://below/up/../home/token",
		} {
			_, err := tree.Read(t.Context(), uri)
			vfstest.WantCode(t, "Read "+uri, err, 403)
			_, err = tree.Stat(t.Context(), uri)
			vfstest.WantCode(t, "Stat "+uri, err, 403)
			_, err = tree.Write(t.Context(), uri, []byte("new"), "")
			vfstest.WantCode(t, "Write "+uri, err, 403)
			vfstest.WantCode(t, "Delete "+uri, tree.Delete(t.Context(), uri, true), 403)
			if path, ok := tree.Local(uri); ok {
				t.Errorf("Local(%s) = %s", uri, path)
			}
			for info, err := range tree.Walk(t.Context(), uri) {
				vfstest.WantCode(t, "Walk "+uri, err, 403)
				if info.Name != "" {
					t.Errorf("Walk(%s) shows %s", uri, info.URI)
				}
			}
		}
		vfstest.WantList(t, "what is listed", vfstest.Walk(t, tree, "os://", 0), []string{
			"os://below/", "os://below/file", "os://below/up/", "os://file", "os://harmless", "os://homely/", "os://homely/file",
		})
		// What is above it stays, with or without what else is there.
		vfstest.WantCode(t, "Delete", tree.Delete(t.Context(), "os://below", false), 403)
		vfstest.WantCode(t, "Delete", tree.Delete(t.Context(), "os://below", true), 403)
		for _, uri := range []string{"os://file", "os://harmless", "os://below/file", "os://below/up/file", "os://homely/file"} {
			if f, err := tree.Read(t.Context(), uri); err != nil || string(f.Data) != "open" {
				t.Errorf("Read(%s) = %q, %v", uri, f.Data, err)
			}
		}
		if _, err := tree.Write(t.Context(), "os://below/new/file", nil, ""); err != nil {
			t.Error(err)
		}
		vfstest.WantCode(t, "Delete", tree.Delete(t.Context(), "os://below/new", true), 0)
	}
	for _, name := range []string{"token", "origins/mine/key"} {
		if data, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(data) != "SECRET" {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
}

func TestAMountThatIsPrivate(t *testing.T) {
	dir, home := homely(t)
	for _, target := range []string{home, home + "/origins/mine", filepath.Join(dir, "alias"), filepath.Join(dir, "middle")} {
		d, err := Open(target, Options{Private: []string{home}})
		if err != nil {
			t.Fatal(err)
		}
		tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/m", Driver: d}}})
		for _, uri := range []string{"os://m/token", "os://m/key", "os://m/origins/mine/key"} {
			_, err := tree.Read(t.Context(), uri)
			vfstest.WantCode(t, target, err, 403)
			_, err = tree.Write(t.Context(), uri, nil, "")
			vfstest.WantCode(t, target, err, 403)
		}
		for info, err := range tree.Walk(t.Context(), "os://m") {
			vfstest.WantCode(t, "Walk "+target+info.Name, err, 403)
		}
	}
}

// TestAPrivateDirectoryThatIsNotThere: no call makes it by way of the tree.
func TestAPrivateDirectoryThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, Options{Private: []string{filepath.Join(dir, "later", "home")}})
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}})
	_, err = tree.Write(t.Context(), "os://later/home/token", []byte("mine"), "")
	vfstest.WantCode(t, "Write", err, 403)
	if _, err := tree.Write(t.Context(), "os://later/file", nil, ""); err != nil {
		t.Error(err)
	}
	vfstest.Put(t, dir, map[string]string{"later/home/token": "SECRET"})
	_, err = tree.Read(t.Context(), "os://later/home/token")
	vfstest.WantCode(t, "Read", err, 403)
	if err == nil || !strings.Contains(err.Error(), "belongs to the kernel") {
		t.Errorf("the error says: %v", err)
	}
}

// A name that leads to a file at one moment and home at the next tells nothing of the home: neither
// the size of a file there, nor a path that could be executed, nor what is in a directory.
func TestAFileThatIsExchangedForOneOfTheHome(t *testing.T) {
	dir := t.TempDir()
	vfstest.Put(t, dir, map[string]string{"home/token": "SECRET", "home/tool": "SECRET", "file": "", "d/token": "", "d/tool": ""})
	if err := errors.Join(os.Chmod(filepath.Join(dir, "home/token"), 0o700), os.Chmod(filepath.Join(dir, "file"), 0o700),
		os.Symlink("home/token", filepath.Join(dir, "link")), os.Symlink("home", filepath.Join(dir, "dirlink"))); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(dir, Options{Private: []string{filepath.Join(dir, "home")}})
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*directory)
	t.Cleanup(func() { _ = d.Close() })

	var over atomic.Bool
	var swapping sync.WaitGroup
	defer swapping.Wait()
	defer over.Store(true)
	for name, link := range map[string]string{"file": "link", "d": "dirlink"} {
		name, link, aside := filepath.Join(dir, name), filepath.Join(dir, link), filepath.Join(dir, name+"-aside")
		swapping.Go(func() {
			for !over.Load() {
				if err := errors.Join(os.Rename(name, aside), os.Rename(link, name), os.Rename(name, link), os.Rename(aside, name)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	seen := make(map[string]int)
	for round := 0; round < 500 || len(seen) < 4; round++ { // until the loop has met what may be seen, too
		for _, name := range []string{"file", "d/token"} {
			switch info, err := d.Stat(t.Context(), name); {
			case err != nil:
			case info.Size > 0:
				t.Fatalf("Stat(%s) = %+v", name, info)
			default:
				seen["Stat "+name]++
			}
		}
		switch path, ok := d.Local("file"); {
		case ok && filepath.Base(path.Path) == "token":
			t.Fatalf("Local = %+v", path)
		case ok:
			seen["Local"]++
		}
		for info, err := range d.List(t.Context(), "d", "") {
			if err != nil {
				break
			}
			if info.Size > 0 {
				t.Fatalf("List shows %+v", info)
			}
			seen["List"]++
		}
	}
}
