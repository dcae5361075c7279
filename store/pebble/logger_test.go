package pebble

import (
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/internal/testkit"
)

// An operator reads what is wrong, and not where in the library it was noticed.
func TestTheLogSaysTheCauseInALine(t *testing.T) {
	var said testkit.Notes
	f := &fault{err: syscall.ENOSPC, match: onTables}
	e := mustOpen(t, "store", &Options{
		FS:  errorfs.Wrap(vfs.NewMem(), f),
		Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	f.on.Store(true)
	set(t, e, "m/1", "x")
	if _, err := e.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a line", func() bool { return strings.Contains(said.String(), "can't tidy up") })
	f.on.Store(false)

	log := &logger{log: e.opts.Log}
	_, err := crdb.Open("none", &crdb.Options{FS: vfs.NewMem(), ErrorIfNotExists: true})
	log.Errorf("%+v", err)
	log.Fatalf("%+v", err)
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, `\n`) || strings.Contains(line, "stack") || strings.Contains(line, ".go:") {
			t.Errorf("%s", line)
		}
	}
	for _, want := range []string{syscall.ENOSPC.Error(), "pebble: database does not exist"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, said.String())
		}
	}
}

// What Pebble repeats is logged once, although each text names another file. Another cause, or another call in Pebble, is
// another problem.
func TestRepeatedProblemsAreLoggedOnce(t *testing.T) {
	var said testkit.Notes
	log := &logger{log: slog.New(slog.NewTextHandler(&said, nil))}
	for i, cause := range []error{syscall.ENOSPC, syscall.ENOSPC, syscall.ENOSPC, syscall.EIO, syscall.EIO} {
		log.Errorf("background error: %s", fmt.Errorf("create %06d.sst: %w", i, cause))
	}
	log.Errorf("metrics error: %s", fmt.Errorf("create 000004.sst: %w", syscall.EIO))
	if lines := strings.Count(said.String(), "\n"); lines != 3 {
		t.Errorf("%d lines:\n%s", lines, said.String())
	}
}
