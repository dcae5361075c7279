// Package cursor writes where the next page of a listing begins, and reads it back.
//
// A cursor is the name that was listed last, and a letter for the listing that it belongs to:
// in another listing it has no meaning.
package cursor

import (
	"encoding/base64"

	"kernos/message"
)

// New returns the cursor after a name, which is not empty.
func New(listing byte, last string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{listing}, last...))
}

// Parse returns the name that a cursor comes after, of at most so many bytes. No cursor is no
// name. The error is [ErrInvalid].
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

// ErrInvalid is the error for a cursor of another listing, or of none.
var ErrInvalid = &message.Error{Code: 422, Message: "Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again"}
