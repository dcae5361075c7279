// Package browser starts the browser that tests and measurements drive: the one that make npm installs.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/chromedp/chromedp"
)

// Start starts the browser with flags beside those that it needs, in a directory of its own. It
// reaches this machine only. stop ends it, and removes the directory.
func Start(flags ...chromedp.ExecAllocatorOption) (ctx context.Context, stop func(), err error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, nil, err
	}
	installed, err := unpack(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(installed.path), chromedp.NoInheritEnv, chromedp.Env(installed.env...),
		chromedp.NoSandbox, // it could not be root otherwise; the pages are our own
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

// An installation is a browser that was unpacked.
type installation struct {
	path string   // of the program
	env  []string // its whole environment
}

// unpack unpacks the browser into a directory.
func unpack(dir string) (installation, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return installation{}, fmt.Errorf("the browser needs Node.js to be unpacked: %w", err)
	}
	root, err := moduleRoot()
	if err != nil {
		return installation{}, err
	}
	cmd := exec.Command(node, "unpack.js")
	cmd.Dir, cmd.Env = filepath.Join(root, "conformance", "npm"), append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return installation{}, fmt.Errorf("the browser can't be unpacked; make npm installs it: %w\n%s", err, out)
	}
	// The package's own configuration has its fonts in another directory.
	fonts := filepath.Join(dir, "fonts.conf")
	config := fmt.Appendf(nil, "<fontconfig><dir>%s</dir><cachedir>%[1]s-cache</cachedir></fontconfig>", filepath.Join(dir, "fonts"))
	return installation{
		path: filepath.Join(dir, "chromium"),
		env:  []string{"HOME=" + dir, "TMPDIR=" + dir, "FONTCONFIG_FILE=" + fonts, "LD_LIBRARY_PATH=" + filepath.Join(dir, "al2023", "lib")},
	}, os.WriteFile(fonts, config, 0o600)
}

// moduleRoot returns the directory of the module kernos, above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "conformance", "npm")); missing == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("conformance/npm isn't above the working directory")
	}
	return "", err
}
