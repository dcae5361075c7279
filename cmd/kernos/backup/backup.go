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
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/store/archive"
)

// A Save writes the state of a server into a file.
type Save struct {
	Context   string                         // of the server; "" is the current one
	Name      string                         // name of the file; "-" writes to Out
	Key       Passphrase                     // seals the key file for the backup; nil leaves the key out
	InProcess func() (*daemon.Daemon, error) // opens the state of this user
	Out       io.Writer
	Report    io.Writer // gets what was done
}

// Run saves.
func (o Save) Run(ctx context.Context) error {
	found, err := server.FindServer(o.Context, "")
	if err != nil {
		return err
	}
	key, err := o.sealKey(found)
	if err != nil {
		return err
	}
	opened, err := found.Open(ctx, server.Options{InProcess: o.InProcess, Alone: true})
	if err != nil {
		return err
	}
	made, err := write(ctx, opened.Call, o.Name, key, o.Out, o.Report)
	if made.KeyFile != "" {
		where := "keep a copy of " + made.KeyFile + ", or put it in with --with-key"
		if found.Daemon == nil {
			where = "keep a copy of " + made.KeyFile + " of the server, or run kernos backup --with-key there"
		}
		fmt.Fprintln(o.Report, "the sealing key isn't in the backup; "+visible.Text(where))
	}
	return exit.Wrap(errors.Join(err, opened.Close()))
}

// sealKey returns the sealed key file of this user, or nil if the backup has none.
func (o Save) sealKey(server *server.Server) (*archive.Key, error) {
	if server.Daemon == nil {
		if o.Key != nil {
			return nil, &exit.Error{Status: exit.Usage, Cause: fmt.Errorf("the server of context %s never sends its sealing key; run kernos backup --with-key on its machine, or leave out --with-key", server.Context)}
		}
		return nil, nil
	}
	home, err := settings.UsableHome()
	if err != nil || o.Key == nil {
		return nil, err
	}
	key, err := sealKey(home, o.Key)
	return key, exit.Wrap(err)
}

// write writes the state of a kernel into a file, or to out if its name is "-", and reports what it
// has. The key may be nil.
func write(ctx context.Context, call server.Caller, name string, key *archive.Key, out, report io.Writer) (made lifecycle.Backup, err error) {
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
	fmt.Fprintf(report, "%s: %s of %s\n", name, counted(made.Entries, made.Blobs), made.Origin)
	return made, incomplete(made)
}

// receive asks a kernel for a backup, and writes the parts as they come.
func receive(ctx context.Context, call server.Caller, key *archive.Key, out io.Writer) (made lifecycle.Backup, err error) {
	var written int64
	data, err := server.Send(ctx, call, message.KindQuery, lifecycle.BackupType, lifecycle.BackupInput{Key: key}, func(data json.RawMessage) error {
		var part lifecycle.BackupPart
		if err := server.Decode(lifecycle.BackupType, data, &part); err != nil {
			return err
		}
		if part.Offset != written {
			return fmt.Errorf("the server sent the part at byte %d after %d bytes; try again", part.Offset, written)
		}
		written += int64(len(part.Data))
		_, err := out.Write(part.Data)
		return err
	})
	if err != nil {
		return made, err
	}
	if err := server.Decode(lifecycle.BackupType, data, &made); err != nil {
		return made, err
	}
	if made.Bytes != written {
		return made, fmt.Errorf("the server sent %d of %d bytes; try again", written, made.Bytes)
	}
	return made, nil
}

// counted describes how much is in a backup.
func counted(entries, blobs uint64) string {
	return terminal.Count(int(entries), "entry", "entries") + " and " + terminal.Count(int(blobs), "blob", "blobs")
}

// incomplete returns the error for a backup that was written without some blobs.
func incomplete(made lifecycle.Backup) error {
	if len(made.Missing) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is written, without blobs that are damaged or missing: %s", strings.Join(made.Missing, ", "))
}
