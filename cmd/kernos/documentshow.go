package main

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// Show writes a document to a screen. A terminal gets text only, and no commands that are in it.
func (d documents) Show(ctx context.Context, p location, s *terminal.Screen) error {
	doc, err := d.read(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = doc.Close() }()
	switch {
	case doc.JSON && !s.IsTerminal():
		return exit.Wrap(jsonvalue.Indent(d.stdout, doc))
	case s.IsTerminal():
		data, err := io.ReadAll(doc)
		switch {
		case err != nil:
			return exit.Wrap(err)
		case doc.JSON:
			return s.Line(s.Pretty(data))
		case !utf8.Valid(data):
			return &exit.Error{Status: exit.Failure, Cause: errors.New(p.String() + " isn't text: write it to a file, kernos cp " + p.String() + " FILE")}
		}
		return s.Write(visible.Lines(string(data)))
	}
	_, err = io.Copy(d.stdout, doc)
	return exit.Wrap(err)
}
