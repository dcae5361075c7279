// Package backup writes the state of a server into one file, and makes the content of such a
// file the state of its origin on this machine.
package backup

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/internal/durable"
	"kernos/message"
	"kernos/store/archive"
)

// Write writes the state of a kernel into a file, or to out if its name is "-", and reports what it
// has. The key may be nil.
func Write(ctx context.Context, call request.Caller, name string, key *archive.Key, out, report io.Writer) (made lifecycle.Backup, err error) {
	if name == "-" {
		if made, err = receive(ctx, call, key, out); err != nil {
			return made, err
		}
		return made, incomplete(made)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return made, fmt.Errorf("%s exists and isn't a regular file; name another one, or - for standard output", name)
	}
	fresh, err := durable.Temporary(filepath.Dir(name), func(f io.Writer) (err error) {
		w := bufio.NewWriterSize(f, 256<<10)
		made, err = receive(ctx, call, key, w)
		return cmp.Or(err, w.Flush())
	})
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "open" && filepath.Dir(p.Path) == filepath.Dir(name) {
		return made, fmt.Errorf("can't create a file in %s: %w; create that directory, or name a file elsewhere", filepath.Dir(name), p.Err)
	}
	if err != nil {
		return made, err
	}
	if err := durable.Rename(fresh, name); err != nil {
		return made, errors.Join(err, durable.Remove(fresh))
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s\n", name, made.Entries, made.Blobs, made.Origin)
	return made, incomplete(made)
}

// receive asks a kernel for a backup, and writes the parts as they come.
func receive(ctx context.Context, call request.Caller, key *archive.Key, out io.Writer) (made lifecycle.Backup, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var written int64
	var failed error
	data, err := request.Send(ctx, call, message.KindQuery, lifecycle.BackupType, lifecycle.BackupInput{Key: key}, func(data json.RawMessage) {
		var part lifecycle.BackupPart
		if failed != nil {
			return
		}
		if failed = request.Decode(lifecycle.BackupType, data, &part); failed == nil && part.Offset != written {
			failed = fmt.Errorf("the server sent the part at byte %d after %d bytes; try again", part.Offset, written)
		}
		if failed == nil {
			_, failed = out.Write(part.Data)
		}
		if written += int64(len(part.Data)); failed != nil {
			cancel()
		}
	})
	if failed != nil {
		return made, exit.Wrap(failed)
	}
	if err != nil {
		return made, err
	}
	if err := request.Decode(lifecycle.BackupType, data, &made); err != nil {
		return made, err
	}
	if made.Bytes != written {
		return made, fmt.Errorf("the server sent %d of %d bytes; try again", written, made.Bytes)
	}
	return made, nil
}

// incomplete returns the error for a backup that was written without some blobs.
func incomplete(made lifecycle.Backup) error {
	if len(made.Missing) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is written, without blobs that are damaged or missing: %s", strings.Join(made.Missing, ", "))
}
