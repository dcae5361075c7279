package clientconfig

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"kernos/internal/durable"
)

// A Change is a change of a client's file.
type Change struct {
	Path          string
	Before, After string
	Token         bool // a token was made for the client

	absent bool   // the file doesn't exist before the change
	remove bool   // the file doesn't exist after the change
	record string // path of the record that an undo needs
	undo   bool
}

// A record has what is needed to undo an installation.
type record struct {
	Before string `json:"before"`
	Absent bool   `json:"absent,omitzero"`
	After  string `json:"after"`
	Token  bool   `json:"token,omitzero"`
}

// Install returns the change that adds a server to the client's file. Records of changes are kept in
// the folder.
func (c *Client) Install(s Server, folder string) (*Change, error) {
	ch, _, err := c.read(folder)
	if err == nil {
		ch.After, err = c.add(ch.Before, s)
	}
	return ch, err
}

// Undo returns the change that takes an installation back: the file becomes what it was. If the file
// was changed since then, only the server is taken out, or replaced by the one that was there.
func (c *Client) Undo(folder string) (*Change, error) {
	ch, r, err := c.read(folder)
	if err != nil {
		return nil, err
	}
	ch.undo, ch.Token = true, r.Token
	if r.After != "" && r.After == ch.Before {
		ch.After, ch.remove = r.Before, r.Absent
		return ch, nil
	}
	ch.After, err = c.remove(ch.Before, r.Before)
	return ch, err
}

// read reads the client's file, and the record of its installation if there is one.
func (c *Client) read(folder string) (*Change, record, error) {
	var r record
	path, err := c.Path()
	if err != nil {
		return nil, r, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	ch := &Change{Path: path, record: filepath.Join(folder, c.Name+".json")}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		ch.absent, err = true, nil
	}
	if err != nil {
		return nil, r, err
	}
	ch.Before = string(text)
	kept, err := os.ReadFile(ch.record)
	if errors.Is(err, fs.ErrNotExist) {
		return ch, r, nil
	}
	if err == nil {
		err = json.Unmarshal(kept, &r)
	}
	return ch, r, err
}

// Empty reports whether nothing would be changed.
func (ch *Change) Empty() bool { return ch.Before == ch.After && !ch.remove }

// Apply writes the file, and what is needed to undo it.
func (ch *Change) Apply() error {
	if ch.undo {
		if ch.remove {
			if err := durable.Remove(ch.Path); err != nil {
				return err
			}
		} else if err := write(ch.Path, ch.After); err != nil {
			return err
		}
		return durable.Remove(ch.record)
	}
	r := record{ch.Before, ch.absent, ch.After, ch.Token}
	var last record
	if kept, err := os.ReadFile(ch.record); err == nil && json.Unmarshal(kept, &last) == nil {
		r.Token = r.Token || last.Token
		if last.After == ch.Before { // only kernos has changed the file since then
			r.Before, r.Absent = last.Before, last.Absent
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Dir(ch.record)); err != nil {
		return err
	}
	if err := durable.WriteFile(ch.record, text); err != nil {
		return err
	}
	return write(ch.Path, ch.After)
}

// write replaces a file, with the mode that it has, or makes it for its owner only.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	name, err := durable.Temporary(filepath.Dir(path), func(f io.Writer) error {
		_, err := io.WriteString(f, text)
		return err
	})
	if err != nil {
		return err
	}
	if err := os.Chmod(name, mode); err != nil {
		return errors.Join(err, durable.Remove(name))
	}
	return durable.Rename(name, path)
}
