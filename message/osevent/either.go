package osevent

import "kernos/message"

// Either reads lines of both dialects, each as what it is. It is not safe for
// concurrent use.
type Either struct {
	current, older message.Decoder
}

// NewEither returns an Either whose decoders are lenient, or not.
func NewEither(lenient bool) *Either {
	return &Either{
		current: message.Decoder{Lenient: lenient},
		older:   message.Decoder{Dialect: Dialect, Lenient: lenient},
	}
}

// Decode reads the message that is all of line, and tells in which dialect it, or an
// answer to it, is written. A message of the older dialect is not translated. The
// error is a *message.Rejection.
func (e *Either) Decode(line []byte) (message.Message, *message.Dialect, error) {
	m, err := e.current.Decode(line)
	if err == nil || !Spoken(message.SalvageLine(line)) {
		return m, message.Current, err
	}
	m, err = e.older.Decode(line)
	return m, Dialect, err
}

// Extend is for [kernos/message/ndjson.ReaderOptions]: it lets a line grow past the
// current limit if its head is one of the older dialect.
func Extend(head []byte) int {
	if Spoken(message.SalvageLine(head)) {
		return Dialect.MaxLine
	}
	return 0
}
