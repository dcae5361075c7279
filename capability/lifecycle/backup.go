package lifecycle

import (
	"context"
	"io"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/archive"
)

// BackupType and backedUp are the query for a backup, and the event that has a part of it.
const (
	BackupType message.Type = "Kernel.Backup"
	backedUp   message.Type = "Kernel.BackedUp"
)

// BackupInput is the data of Kernel.Backup.
type BackupInput struct {
	Key *archive.Key `json:"key,omitempty" jsonschema_extras:"writeOnly=true" jsonschema_description:"The sealing key of the home, which the caller has sealed with a passphrase; it is put into the backup as it is. The kernel never sends the key."`
}

// A Backup describes the content of a backup.
type Backup struct {
	Origin  store.Origin `json:"origin" jsonschema_description:"Of which origin the backup is."`
	Entries uint64       `json:"entries" jsonschema_description:"How many entries of the store are in it."`
	Blobs   uint64       `json:"blobs" jsonschema_description:"How many blobs are in it."`
	Bytes   int64        `json:"bytes" jsonschema_description:"How many bytes the backup has: those of all parts."`
	Missing []string     `json:"missing,omitempty" jsonschema_description:"Blobs that values need and that are damaged or missing, 50 at most. They are not in the backup."`
	KeyFile string       `json:"keyFile,omitempty" jsonschema_description:"The key file of the home, if there is one and no key was put into the backup. Without the key, what was sealed with it can't be opened after a restore."`
}

// A BackupPart is the data of Kernel.BackedUp. The parts come in order.
type BackupPart struct {
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"` // in base64
}

// maxPart is how many bytes a part has at most, so that its event fits into a line.
const maxPart = 9000

const maxBackup = 24 * time.Hour

var backup = kernel.DefineQuery[BackupInput, Backup](kernel.Definition{
	Type:    BackupType,
	Summary: "Stream a backup of the whole state, as it is at one moment: memory, journal, tokens, jobs, and the blobs that they refer to.",
	Emits:   []kernel.EventDefinition{{Type: backedUp, Summary: "The next part of the backup: {offset, data}, the data in base64."}},
	Presentation: kernel.Presentation{
		Title: "Back up everything",
		Words: "dump, snapshot, export the state, copy all data, save everything, make a backup, in case the disk breaks, copy of the whole system, archive all data, " +
			"download all my data, take a snapshot, export everything",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the caller reaches only a part of the memory or of the files"},
			{Code: 404, When: "there is no state yet"},
			{Code: 503, When: "the state can't be copied, such as when the disk is full"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToOthers}, Runs: kernel.Slow, Timeout: maxBackup, Short: true},
	Journaled: kernel.Journaled{
		Answers:   kernel.FromJournal, // the parts are what is stored already
		Recording: kernel.InWorkflows,
	},
	Access: principal.ByName,
})

func (o Options) backup(ctx context.Context, in BackupInput, stream *kernel.Stream) (Backup, error) {
	if p := kernel.PrincipalOf(ctx); len(p.Grant().Memory)+len(p.Grant().Files) > 0 {
		return Backup{}, message.Errorf(403, "The token %q may not make a backup, which has all keys and files: it reaches only some of them; use a token without --memory and --files", p.Name())
	}
	if o.Backup == nil {
		return Backup{}, message.Errorf(404, "This kernel has no state of which a backup could be made")
	}
	w := &parts{ctx: ctx, stream: stream}
	out, err := o.Backup(ctx, in.Key, w)
	if err == nil {
		err = w.flush()
	}
	if e, _ := message.ErrorOf(err); err != nil && ctx.Err() == nil && e.Code == 500 {
		err = message.Errorf(500, "%v", err) // the caller may know all, and has to act on it
	}
	out.Bytes = w.sent
	return out, err
}

// parts is a writer that sends what is written as events.
type parts struct {
	ctx     context.Context
	stream  *kernel.Stream
	waiting []byte
	sent    int64
}

var _ io.Writer = (*parts)(nil)

// Write implements [io.Writer].
func (w *parts) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		taken := min(len(b), maxPart-len(w.waiting))
		w.waiting, b, n = append(w.waiting, b[:taken]...), b[taken:], n+taken
		if len(w.waiting) == maxPart {
			err = w.flush()
		}
	}
	return n, err
}

func (w *parts) flush() error {
	if err := w.ctx.Err(); err != nil || len(w.waiting) == 0 {
		return err
	}
	err := w.stream.Emit(backedUp, BackupPart{w.sent, w.waiting})
	w.sent, w.waiting = w.sent+int64(len(w.waiting)), w.waiting[:0]
	return err
}
