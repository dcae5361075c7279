package line

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// Files completes the name of a file after a sign that shells don't know.
func Files(before, path string) []string {
	dir, name := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return []string{}
	}
	found := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name) || name == "" && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		completion := before + dir + e.Name()
		if info, err := os.Stat(dir + e.Name()); err == nil && info.IsDir() {
			completion += "/"
		}
		found = append(found, completion)
	}
	return found
}
