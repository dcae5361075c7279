package jsonvalue

import (
	"bufio"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotText is the error for data that isn't UTF-8 text, and ErrNotJSON for data that isn't one JSON value.
var (
	ErrNotText = errors.New("the data isn't UTF-8 text")
	ErrNotJSON = errors.New("the data isn't JSON")
)

// Quote returns a reader of the JSON string for a text, which it reads as it goes. The error of
// what isn't text is ErrNotText.
func Quote(text io.Reader) io.Reader {
	return &quoter{from: text, in: make([]byte, 32<<10), out: []byte{'"'}}
}

type quoter struct {
	from   io.Reader
	in     []byte
	waits  int // bytes at the beginning of in: a character that is not complete
	quoted []byte
	out    []byte // the unread part of quoted
	err    error
}

func (q *quoter) Read(b []byte) (int, error) {
	for len(q.out) == 0 && q.err == nil {
		q.fill()
	}
	if len(q.out) == 0 {
		return 0, q.err
	}
	n := copy(b, q.out)
	q.out = q.out[n:]
	return n, nil
}

func (q *quoter) fill() {
	n, err := q.from.Read(q.in[q.waits:])
	n += q.waits
	end := n
	for at := n - 1; err == nil && at >= 0 && at >= n-utf8.UTFMax; at-- {
		if utf8.RuneStart(q.in[at]) {
			if !utf8.FullRune(q.in[at:n]) {
				end = at
			}
			break
		}
	}
	if q.err = err; !utf8.Valid(q.in[:end]) {
		q.err = ErrNotText
		return
	}
	q.quoted, _ = jsontext.AppendQuote(q.quoted[:0], q.in[:end]) // no error: the text is valid UTF-8
	q.out = q.quoted[1 : len(q.quoted)-1]
	if err == io.EOF {
		q.out = q.quoted[1:] // the last part includes the closing quotation mark
	}
	q.waits = copy(q.in, q.in[end:n])
}

// Unquote returns a reader of the text of a JSON string, which it reads as it goes. The error of
// what isn't a string is ErrNotJSON.
func Unquote(quoted io.Reader) io.Reader { return &unquoter{from: bufio.NewReaderSize(quoted, 32<<10)} }

type unquoter struct {
	from  *bufio.Reader
	begun bool
	out   []byte // decoded bytes that did not fit
	err   error
}

func (u *unquoter) Read(b []byte) (n int, err error) {
	for n < len(b) && (len(u.out) > 0 || u.err == nil) {
		if len(u.out) > 0 {
			c := copy(b[n:], u.out)
			n, u.out = n+c, u.out[c:]
			continue
		}
		u.next()
	}
	if n > 0 {
		return n, nil
	}
	return 0, u.err
}

// next reads one step: the plain bytes and short escapes in the buffer, or one long escape.
func (u *unquoter) next() {
	if _, err := u.from.Peek(1); err != nil {
		u.fail(err)
		return
	}
	head, _ := u.from.Peek(u.from.Buffered())
	if !u.begun {
		if u.begun = true; head[0] != '"' {
			u.err = ErrNotJSON
		}
		_, _ = u.from.Discard(1)
		return
	}
	n := 0
	for u.out = u.out[:0]; n < len(head) && head[n] != '"'; n++ {
		c := head[n]
		if c == '\\' {
			if n+1 == len(head) || short[head[n+1]] == 0 {
				break
			}
			n++
			c = short[head[n]]
		}
		u.out = append(u.out, c)
	}
	_, _ = u.from.Discard(n)
	switch {
	case n > 0:
	case head[0] == '"':
		u.err = io.EOF
	default:
		u.escape()
	}
}

// short are the escapes of two bytes.
var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (u *unquoter) fail(err error) {
	if u.err = err; err == io.EOF {
		u.err = ErrNotJSON // the string has no end
	}
}

// escape reads one escape: two bytes, six, or twelve for two halves of a character.
func (u *unquoter) escape() {
	head, err := u.from.Peek(2)
	if err != nil {
		u.fail(err)
		return
	}
	length := 2
	if head[1] == 'u' {
		length = 6
		// Halves are \ud800 to \udfff.
		if both, err := u.from.Peek(12); err == nil && both[2]|0x20 == 'd' && both[3] >= '8' && both[6] == '\\' && both[7] == 'u' {
			length = 12
		}
	}
	if head, err = u.from.Peek(length); err != nil {
		u.fail(err)
		return
	}
	text, ok := String(append(append([]byte{'"'}, head...), '"'))
	if !ok {
		u.err = ErrNotJSON
		return
	}
	u.out = append(u.out[:0], text...)
	_, _ = u.from.Discard(length)
}

// Checked returns a reader of data that fails with ErrNotJSON if the data isn't one JSON value. The
// caller closes it.
func Checked(data io.Reader) io.ReadCloser {
	in, out := io.Pipe()
	c := &checked{from: data, to: out, end: make(chan error, 1)}
	go func() {
		err := check(in)
		_ = in.CloseWithError(ErrNotJSON) // further writes fail
		c.end <- err
	}()
	return c
}

type checked struct {
	from io.Reader
	to   *io.PipeWriter
	end  chan error
}

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	if _, invalid := c.to.Write(b[:n]); invalid != nil {
		return 0, ErrNotJSON
	}
	if err == io.EOF {
		_ = c.to.Close()
		if invalid := <-c.end; invalid != nil {
			return 0, invalid
		}
		c.end <- nil
	}
	return n, err
}

func (c *checked) Close() error { return c.to.Close() }

func check(data io.Reader) error {
	d := jsontext.NewDecoder(data, jsontext.AllowDuplicateNames(true))
	if d.SkipValue() != nil {
		return ErrNotJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return ErrNotJSON
	}
	return nil
}

// Indent copies one JSON value, indented, with its texts and numbers as they are.
func Indent(to io.Writer, data io.Reader) error {
	d := jsontext.NewDecoder(data, jsontext.AllowDuplicateNames(true))
	e := jsontext.NewEncoder(to, jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	for {
		token, err := d.ReadToken()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = e.WriteToken(token)
		}
		if err != nil {
			return err
		}
	}
}
