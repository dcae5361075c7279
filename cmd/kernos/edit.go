package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/message"
)

// Edit lets a person change a document with an editor, which a shell runs. What was changed meanwhile
// isn't overwritten: the error names the file of the edited text.
func (d documents) Edit(ctx context.Context, p location, editor string, s *terminal.Screen) error {
	old, doc, err := d.editable(ctx, p)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kernos-edit-")
	if err != nil {
		return exit.Wrap(err)
	}
	file := filepath.Join(dir, fileName(p, doc.JSON))
	keep := func(err error) error {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("%w; the edited text is in %s", err, file)}
	}
	if err := os.WriteFile(file, old, 0o600); err != nil {
		return exit.Wrap(err)
	}
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, s.Out, s.Err
	failure := c.Run()
	edited, err := os.ReadFile(file)
	switch {
	case failure != nil && (err != nil || bytes.Equal(edited, old)):
		return errors.Join(&exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the editor (%s) failed: %w", editor, failure)}, os.RemoveAll(dir))
	case failure != nil:
		return keep(fmt.Errorf("the editor (%s) failed, so nothing is changed: %w", editor, failure))
	case err != nil:
		return exit.Wrap(err)
	}
	if !bytes.HasSuffix(old, []byte("\n")) { // most editors add one
		edited = bytes.TrimSuffix(edited, []byte("\n"))
	}
	if bytes.Equal(edited, old) {
		s.Note("%s is unchanged", p)
		return os.RemoveAll(dir)
	}
	if doc.JSON && !json.Valid(edited) {
		return keep(fmt.Errorf("%s held JSON, and this isn't JSON, so nothing is changed", p))
	}
	changed := &document{ReadCloser: io.NopCloser(bytes.NewReader(edited)), JSON: doc.JSON}
	err = d.write(ctx, p, changed, &doc.Version)
	if hasCode(err, 409) {
		return keep(fmt.Errorf("%s was changed while you edited it, so your text isn't stored", p))
	}
	if err != nil {
		return keep(err)
	}
	return os.RemoveAll(dir)
}

// editable returns the text of a document, and what else is known of it. One that doesn't exist is empty.
func (d documents) editable(ctx context.Context, p location) ([]byte, *document, error) {
	doc, err := d.readVersion(ctx, p)
	if hasCode(err, 404) {
		return nil, new(document), nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = doc.Close() }()
	text, err := io.ReadAll(doc)
	if err != nil {
		return nil, nil, exit.Wrap(err)
	}
	if !utf8.Valid(text) {
		return nil, nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("%s isn't text; copy it with kernos cp, change it, and copy it back", p)}
	}
	if doc.JSON {
		var indented bytes.Buffer
		if json.Indent(&indented, text, "", "  ") == nil {
			text = append(indented.Bytes(), '\n')
		}
	}
	return text, doc, nil
}

// hasCode reports whether a kernel answered with an error of this code.
func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == code
}

// fileName returns what the editor calls the document: its ending determines the colours.
func fileName(p location, isJSON bool) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || r == filepath.Separator {
			return '_'
		}
		return r
	}, p.base())
	if isJSON && !strings.HasSuffix(name, ".json") {
		name += ".json"
	}
	return name
}
