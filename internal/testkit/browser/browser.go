// Package browser starts the browser that tests and measurements drive: the one that make npm installs.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/chromedp/chromedp"

	"kernos/internal/testkit/tool"
)

// Start starts the browser with flags beside those that it needs, in a directory of its own. It
// reaches this machine only. stop ends it, and removes the directory. A browser that crashes when it
// starts, which happens, is started again.
func Start(flags ...chromedp.ExecAllocatorOption) (ctx context.Context, stop func(), err error) {
	for range 3 {
		if ctx, stop, err = start(flags...); err == nil {
			return ctx, stop, nil
		}
	}
	return nil, nil, err
}

func start(flags ...chromedp.ExecAllocatorOption) (ctx context.Context, stop func(), err error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, nil, err
	}
	installed, err := Install(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(installed.Path), chromedp.NoInheritEnv, chromedp.Env(installed.Env...),
		chromedp.NoSandbox, // root can't use the sandbox; the pages are our own
		chromedp.Flag("disable-gpu", true), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Flag("host-resolver-rules", "EXCLUDE 127.0.0.1, MAP * ~NOTFOUND"))
	allocator, free := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop = func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		free()
		_ = os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // starts it
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// An Installation is a browser that was unpacked.
type Installation struct {
	Path string   // path of the program
	Env  []string // the program's whole environment
}

// Install returns the browser, which then writes into a directory only. It is the one that npm has installed; on a
// system for which npm has none, it is the machine's own.
func Install(dir string) (Installation, error) {
	if !tool.BrowserOfNPM {
		path, err := tool.SystemBrowser()
		return Installation{Path: path, Env: append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)}, err
	}
	unpacked, err := unpack()
	if err != nil {
		return Installation{}, err
	}
	// The package's own configuration has its fonts in another directory.
	fonts := filepath.Join(dir, "fonts.conf")
	config := fmt.Appendf(nil, "<fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>", filepath.Join(unpacked, "fonts"), filepath.Join(dir, "fonts-cache"))
	return Installation{
		Path: filepath.Join(unpacked, "chromium"),
		Env:  []string{"HOME=" + dir, "TMPDIR=" + dir, "FONTCONFIG_FILE=" + fonts, "LD_LIBRARY_PATH=" + filepath.Join(unpacked, "al2023", "lib")},
	}, os.WriteFile(fonts, config, 0o600)
}

// unpack unpacks the browser beside what npm has installed, unless it is there: that takes seconds. It returns
// the directory, which no longer changes.
func unpack() (string, error) {
	modules, err := tool.ModuleFolder()
	if err != nil {
		return "", err
	}
	var installed struct{ Version string }
	text, err := os.ReadFile(filepath.Join(modules, "@sparticuz", "chromium", "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &installed)
	}
	if err != nil {
		return "", fmt.Errorf("the browser isn't there; make npm installs it: %w", err)
	}
	cache := filepath.Join(modules, ".cache")
	unpacked := filepath.Join(cache, "browser-"+installed.Version)
	if _, err := os.Stat(unpacked); err == nil {
		return unpacked, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("node", "unpack.js")
	cmd.Dir, cmd.Env = filepath.Dir(modules), append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("the browser can't be unpacked; make npm installs it: %w\n%s", err, out)
	}
	if err := os.Rename(dir, unpacked); err != nil {
		_ = os.RemoveAll(dir)
		if _, missing := os.Stat(unpacked); missing != nil { // no other process was faster
			return "", err
		}
	}
	return unpacked, nil
}
