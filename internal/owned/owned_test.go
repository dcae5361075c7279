package owned_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/internal/owned"
)

func TestWhatOthersMayWriteIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, safe := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o755: true, 0o660: false, 0o602: false, 0o777: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := owned.Check(info); (err == nil) != safe || err != nil && !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("%o: %v", mode, err)
		}
	}
}
