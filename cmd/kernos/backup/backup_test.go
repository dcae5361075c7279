package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/daemon"
	"kernos/message"
)

// caller asks a kernel of a home in this process.
func caller(t *testing.T, home daemon.Home) server.Caller {
	t.Helper()
	d, err := daemon.Open(&daemon.Options{Home: home.Dir, Origin: home.Origin, Unrecorded: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
		var failed error
		outcome, err := d.Call(ctx, m, func(m message.Message) { failed = cmp.Or(failed, event(m.Data)) })
		if failed != nil {
			return nil, failed
		}
		if outcome.Err != nil {
			return nil, cmp.Or(ctx.Err(), error(outcome.Err))
		}
		return outcome.Data, err
	}
}

// What a signal ends leaves nothing behind, and changes nothing.
func TestBackupAndRestoreCanBeInterrupted(t *testing.T) {
	home := newHome(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := write(interrupted, caller(t, home), name, nil, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("backup: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("after backup there is %v, %v", names, err)
	}
	if _, err := write(t.Context(), caller(t, home), name, nil, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := (Restore{Name: name, Home: home, AnyOrigin: true, Replace: true, Report: io.Discard}).Run(interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("restore: %v", err)
	}
	if names, err := os.ReadDir(home.Origins()); err != nil || len(names) != 1 || names[0].Name() != home.Origin.Folder() {
		t.Errorf("after restore there is %v, %v", names, err)
	}
}

// The local key and the records of installations in LLM clients are in no backup. A restore that took them away would make
// every secret useless, and the installations final.
func TestRestoreKeepsWhatIsInNoBackup(t *testing.T) {
	home := newHome(t)
	kept := []string{home.Key(), filepath.Join(home.Clients(), "cursor.json")}
	for _, file := range kept {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("precious"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "file")
	if _, err := write(t.Context(), caller(t, home), name, nil, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := (Restore{Name: name, Home: home, AnyOrigin: true, Replace: true, Report: io.Discard}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, file := range kept {
		if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
			t.Errorf("%s is %q, %v", file, text, err)
		}
	}
}
