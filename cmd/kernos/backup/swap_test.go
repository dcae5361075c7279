package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestSwapKeepsWhatWasThere(t *testing.T) {
	for name, c := range map[string]struct {
		exchange func(a, b string) error
		fails    bool
	}{
		"in one step": {exchange: exchange},
		"in two":      {exchange: func(string, string) error { return errors.ErrUnsupported }},
		"not at all":  {exchange: func(string, string) error { return fs.ErrPermission }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			dir, fresh, aside := filepath.Join(home, "dir"), filepath.Join(home, "fresh"), filepath.Join(home, "aside")
			for _, d := range []string{dir, fresh} {
				if err := os.MkdirAll(filepath.Join(d, "from "+filepath.Base(d)), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{dir: "from fresh", aside: "from dir"}
			if err := swap(fresh, dir, aside, c.exchange); (err != nil) != c.fails {
				t.Errorf("swap: %v", err)
			}
			if c.fails {
				want = map[string]string{dir: "from dir", fresh: "from fresh"}
			}
			names, err := os.ReadDir(home)
			if err != nil || len(names) != len(want) {
				t.Errorf("there is %v, %v", names, err)
			}
			for d, what := range want {
				if _, err := os.Stat(filepath.Join(d, what)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
