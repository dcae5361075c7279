package chat

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/message"
)

// A file that no kernel takes is refused before it is read: it may be larger than the memory.
func TestAFileThatIsTooLargeIsntRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, maxFile+1); err != nil {
		t.Fatal(err)
	}
	keep := func(io.Reader) (message.BlobPointer, error) {
		t.Error("it is kept")
		return message.BlobPointer{}, nil
	}
	if _, err := attached("look at @"+name, keep); err == nil || !strings.Contains(err.Error(), "image has more than 64 MB") {
		t.Errorf("got %v", err)
	}
}
