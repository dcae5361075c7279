package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// A documentKind describes where a document is.
type documentKind int

// The kinds of documents.
const (
	Memory documentKind = iota // a key of the memory
	File                       // a file of the os:// tree
	Local                      // a file of this machine; - is standard input or output
)

// A location is where a document is.
type location struct {
	Kind documentKind
	Name string
}

const memoryPrefix = "memory:"

// parseLocation reads the name of a document: os://… is a file of the tree, memory:KEY a key, and any other
// name is of the kind that is given.
func parseLocation(name string, bare documentKind) location {
	if key, ok := strings.CutPrefix(name, memoryPrefix); ok {
		return location{Memory, key}
	}
	if strings.HasPrefix(name, "os://") {
		return location{File, name}
	}
	return location{bare, name}
}

// String returns the place as a person writes it.
func (p location) String() string {
	if p.Kind == Memory {
		return memoryPrefix + p.Name
	}
	return p.Name
}

// base returns the last part of the name.
func (p location) base() string {
	if p.Kind == Local {
		return filepath.Base(p.Name)
	}
	return path.Base(p.Name)
}

// inside returns the place of a document that is put into a directory: the place itself, unless it is a
// directory of this machine or ends with a slash.
func (p location) inside(base string) location {
	isDir := strings.HasSuffix(p.Name, "/")
	if p.Kind == Local {
		info, err := os.Stat(p.Name)
		isDir = isDir || err == nil && info.IsDir()
	}
	if isDir {
		p.Name = strings.TrimSuffix(p.Name, "/") + "/" + base
	}
	return p
}

// A document is what a place has.
type document struct {
	io.ReadCloser        // the data: a text as it is, other values of the memory as JSON
	JSON          bool   // the data is a value of the memory, and not a text
	Version       string // version of the place; "" if it has none, or isn't known
}

// documents reads and writes documents.
type documents struct {
	call   server.Caller
	server *server.Server
	stdin  io.Reader
	stdout io.Writer
}

// openDocuments opens the documents of the server of a context, and returns the function that closes them. The daemon of
// this user is started if it isn't running. All reads and writes are one workflow.
func openDocuments(ctx context.Context, contextName string, stdin io.Reader, stdout io.Writer) (documents, func() error, error) {
	opened, err := server.Open(ctx, server.Options{Context: contextName, Start: true, References: true})
	if err != nil {
		return documents{}, nil, err
	}
	workflow := ulid.Make().String()
	call := func(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
		m.Metadata.Correlation = workflow
		return opened.Call(ctx, m, event)
	}
	return documents{call: call, server: opened.Server(), stdin: stdin, stdout: stdout}, opened.Close, nil
}

// read opens a document. The caller closes it.
func (d documents) read(ctx context.Context, p location) (*document, error) {
	switch p.Kind {
	case Memory:
		return d.readMemory(ctx, p.Name)
	case File:
		return d.readFile(ctx, p.Name)
	}
	if p.Name == "-" {
		return &document{ReadCloser: io.NopCloser(d.stdin)}, nil
	}
	f, err := os.Open(p.Name)
	if err != nil {
		return nil, exit.Wrap(err)
	}
	return &document{ReadCloser: f}, nil
}

// readMemory opens the value of a key as a stream, without its version.
func (d documents) readMemory(ctx context.Context, key string) (*document, error) {
	data, err := server.Send(ctx, d.call, message.KindQuery, "Memory.Get", map[string]any{"key": key}, nil)
	if err != nil {
		return nil, err
	}
	value := io.NopCloser(bytes.NewReader(data))
	if p, ok := client.Whole(data); ok {
		if value, err = d.server.Blob(ctx, p); err != nil {
			return nil, d.server.Explain(err)
		}
	}
	content := bufio.NewReader(value)
	if first, _ := content.Peek(1); string(first) == `"` {
		return &document{ReadCloser: reading{jsonvalue.Unquote(content), value}}, nil
	}
	return &document{ReadCloser: reading{content, value}, JSON: true}, nil
}

// reading is a reader that closes what it is made of.
type reading struct {
	io.Reader
	io.Closer
}

// readVersion opens a document, with its version.
func (d documents) readVersion(ctx context.Context, p location) (*document, error) {
	if p.Kind != Memory {
		return d.read(ctx, p)
	}
	data, err := server.Send(ctx, d.call, message.KindQuery, "Memory.Get", map[string]any{"key": p.Name, "withRevision": true}, nil)
	if err != nil {
		return nil, err
	}
	if whole, ok := client.Whole(data); ok {
		if data, err = d.server.Fetch(ctx, whole); err != nil {
			return nil, d.server.Explain(err)
		}
	}
	var reply struct {
		Value    json.RawMessage
		Revision uint64
	}
	if err := server.Decode("Memory.Get", data, &reply); err != nil {
		return nil, err
	}
	doc := &document{Version: strconv.FormatUint(reply.Revision, 10)}
	text, ok := jsonvalue.String(reply.Value)
	if !ok {
		doc.JSON, text = true, string(reply.Value)
	}
	doc.ReadCloser = io.NopCloser(strings.NewReader(text))
	return doc, nil
}

func (d documents) readFile(ctx context.Context, uri string) (*document, error) {
	var reply struct {
		Content    string
		ContentRef *message.BlobPointer
		Version    string
	}
	if err := server.Read(ctx, d.call, message.KindQuery, "VFS.Read", map[string]any{"uri": uri}, &reply); err != nil {
		return nil, err
	}
	if reply.ContentRef == nil {
		return &document{ReadCloser: io.NopCloser(strings.NewReader(reply.Content)), Version: reply.Version}, nil
	}
	blob, err := d.server.Blob(ctx, *reply.ContentRef)
	return &document{ReadCloser: blob, Version: reply.Version}, d.server.Explain(err)
}

// write puts a document at a place. If the version isn't nil, the place must have it still, and "" means
// that it must be empty; otherwise the error has the code 409.
func (d documents) write(ctx context.Context, p location, doc *document, version *string) error {
	if p.Kind == Local {
		return exit.Wrap(d.writeLocal(p.Name, doc))
	}
	input, put := map[string]any{"uri": p.Name}, d.putFile
	if p.Kind == Memory {
		input, put = map[string]any{"key": p.Name}, d.putValue
	}
	if version != nil && p.Kind == Memory {
		revision, err := strconv.ParseUint("0"+*version, 10, 64)
		if err != nil {
			return err
		}
		input["ifRevision"] = revision
	} else if version != nil {
		input["ifVersion"] = cmp.Or(*version, "none")
	}
	err := put(input, doc)
	switch e, _ := errors.AsType[*message.Error](err); {
	case errors.Is(err, jsonvalue.ErrNotText):
		return &exit.Error{Status: exit.Invalid, Cause: fmt.Errorf("%s holds text or JSON, and the data isn't UTF-8 text: keep it as a file, os://…", p)}
	case e != nil && e.Code == 413:
		return &exit.Error{Status: exit.Invalid, Cause: fmt.Errorf("%s: the data has more than 64 MB, which is the most that a value or a file can have", p)}
	case err != nil:
		return exit.Wrap(err)
	}
	t := message.Type("VFS.Write")
	if p.Kind == Memory {
		t = "Memory.Set"
	}
	return server.Read(ctx, d.call, message.KindCommand, t, input, new(json.RawMessage))
}

// putFile puts the content of a file into the input of VFS.Write, by reference if it has to.
func (d documents) putFile(input map[string]any, doc *document) error {
	data, rest, err := d.begin(doc)
	switch {
	case err != nil:
		return err
	case rest == nil && utf8.Valid(data):
		input["content"] = string(data)
		return nil
	case rest == nil:
		rest = bytes.NewReader(data)
	}
	input["contentRef"], err = d.server.Keep(rest)
	return err
}

// putValue puts a value into the input of Memory.Set, by reference if it has to.
func (d documents) putValue(input map[string]any, doc *document) error {
	var value io.Reader = doc
	if !doc.JSON {
		value = jsonvalue.Quote(doc)
	}
	data, rest, err := d.begin(value)
	switch {
	case err != nil:
		return err
	case rest == nil:
		input["value"] = json.RawMessage(data)
		return nil
	}
	input["valueRef"], err = d.server.Keep(rest)
	return err
}

// begin reads what may stand in a message. If there is more, rest reads all of it.
func (d documents) begin(content io.Reader) (data []byte, rest io.Reader, err error) {
	limit := d.server.MaxInline()
	data, err = io.ReadAll(io.LimitReader(content, int64(limit)+1))
	if err == nil && len(data) > limit {
		rest = io.MultiReader(bytes.NewReader(data), content)
	}
	return data, rest, err
}

// writeLocal writes a file of this machine, whole or not at all.
func (d documents) writeLocal(name string, doc io.Reader) error {
	if name == "-" {
		_, err := io.Copy(d.stdout, doc)
		return err
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // a device or a pipe
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, doc)
		return errors.Join(err, f.Close())
	}
	to := name
	if target, err := filepath.EvalSymlinks(name); err == nil {
		to = target
	}
	// Not os.CreateTemp, which would keep the file from others whatever the umask allows.
	f, err := os.OpenFile(filepath.Join(filepath.Dir(to), ".kernos-"+ulid.Make().String()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s doesn't exist", filepath.Dir(to))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, doc)
	if info, statErr := os.Stat(to); statErr == nil {
		err = errors.Join(err, f.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Copy copies a document. Between keys of the memory a value stays what it is.
func (d documents) Copy(ctx context.Context, from, to location) error {
	doc, err := d.read(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = doc.Close() }()
	if to.Kind != Memory && doc.JSON {
		doc.ReadCloser = reading{io.MultiReader(doc.ReadCloser, strings.NewReader("\n")), doc.ReadCloser}
	}
	return d.write(ctx, to.inside(from.base()), doc, nil)
}
