// Package cursor writes where the next page of a listing begins, and reads it back.
//
// A cursor is the name that was listed last, and a letter for the listing that it belongs to:
// in another listing it has no meaning.
package cursor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"kernos/message"
	"kernos/store"
)

// New returns the cursor after a name, which is not empty.
func New(listing byte, last string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{listing}, last...))
}

// Parse returns the name that a cursor comes after; most limits its length in bytes. Without a
// cursor it is "". The error is [ErrInvalid].
func Parse(listing byte, text string, most int) (last string, err error) {
	if text == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < 2 || len(data) > 1+most || data[0] != listing {
		return "", ErrInvalid
	}
	return string(data[1:]), nil
}

// Numbers returns the cursor of a listing that continues at some numbers.
func Numbers(listing byte, numbers ...uint64) string {
	return New(listing, strings.Trim(fmt.Sprint(numbers), "[]"))
}

// ParseNumbers reads what [Numbers] has written. Without a cursor, the numbers stay as they are. The error is [ErrInvalid].
func ParseNumbers(listing byte, text string, numbers ...*uint64) error {
	const longest = 20 // digits of a number
	last, err := Parse(listing, text, (longest+1)*len(numbers))
	if err != nil || last == "" {
		return err
	}
	parts := strings.Split(last, " ")
	if len(parts) != len(numbers) {
		return ErrInvalid
	}
	for i, part := range parts {
		if *numbers[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return ErrInvalid
		}
	}
	return nil
}

// ErrInvalid is the error for a cursor of another listing, or of none.
var ErrInvalid = &message.Error{Code: 422, Message: "Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again"}

// A Page is a part of a listing of names in a store, from the last to the first.
type Page struct {
	Listing byte   // the listing that the cursor belongs to
	Prefix  []byte // prefix of the keys; the rest of a key is a name
	Longest int    // most bytes of a name
	Cursor  string // cursor of the previous page; "" means the first page
	Limit   int    // how many names the page has at most
	Looked  int    // how many names it looks at at most; such a page may be short, and has a cursor

	Skip func(value []byte) bool // reports that a name isn't part of the listing, by its value; or nil
}

// skips is how many names are passed over by their values in the time in which one is looked at.
const skips = 50

// Each calls take with one name after another until the page is full. take reports whether the name is
// part of the page, or returns [ErrEnd]. next is the cursor of the next page; "" means that it was the
// last one.
func (p *Page) Each(ctx context.Context, s store.Reader, take func(name string) (bool, error)) (next string, err error) {
	last, err := Parse(p.Listing, p.Cursor, p.Longest)
	if err != nil {
		return "", err
	}
	keys := store.Prefix(p.Prefix)
	keys.Reverse = true
	if last != "" {
		keys.To = append(append([]byte(nil), p.Prefix...), last...)
	}
	taken, looked, most := 0, 0, p.Looked*skips
	for e, err := range s.Scan(keys) {
		if err != nil {
			return "", err
		}
		if taken == p.Limit || looked >= most {
			return New(p.Listing, last), nil
		}
		if looked%1000 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		last = string(e.Key[len(p.Prefix):])
		if p.Skip != nil && p.Skip(e.Value) {
			looked++
			continue
		}
		looked += skips
		ok, err := take(last)
		if err == ErrEnd {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if ok {
			taken++
		}
	}
	return "", nil
}

// ErrEnd is the error of a function that wants no more names.
var ErrEnd = errors.New("the listing ends here")
