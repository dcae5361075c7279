// Package browser finds the browser that tests drive: the one that make npm installs.
package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// An Installation is a browser that was unpacked.
type Installation struct {
	Path string   // of the program
	Dir  string   // all that it needs and writes is below it
	Env  []string // its whole environment
}

// Unpack unpacks the browser into a directory.
func Unpack(dir string) (Installation, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return Installation{}, fmt.Errorf("the browser needs Node.js to be unpacked: %w", err)
	}
	root, err := moduleRoot()
	if err != nil {
		return Installation{}, err
	}
	unpack := exec.Command(node, "unpack.js")
	unpack.Dir, unpack.Env = filepath.Join(root, "conformance", "npm"), append(os.Environ(), "TMPDIR="+dir)
	if out, err := unpack.CombinedOutput(); err != nil {
		return Installation{}, fmt.Errorf("the browser can't be unpacked; make npm installs it: %w\n%s", err, out)
	}
	// The package's own configuration has its fonts in another directory.
	fonts := filepath.Join(dir, "fonts.conf")
	config := fmt.Appendf(nil, "<fontconfig><dir>%s</dir><cachedir>%[1]s-cache</cachedir></fontconfig>", filepath.Join(dir, "fonts"))
	return Installation{
		Path: filepath.Join(dir, "chromium"), Dir: dir,
		Env: []string{"HOME=" + dir, "TMPDIR=" + dir, "FONTCONFIG_FILE=" + fonts, "LD_LIBRARY_PATH=" + filepath.Join(dir, "al2023", "lib")},
	}, os.WriteFile(fonts, config, 0o600)
}

// moduleRoot returns the directory of go.mod, above the package whose tests run.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("go.mod isn't above the test")
	}
	return "", err
}
