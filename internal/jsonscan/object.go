package jsonscan

import "strconv"

// An Object is a JSON object that is written member by member, without reflection. Members that
// are empty, 0 or false are left out. Names are plain: nothing in them has to be escaped.
type Object []byte

// Text adds a text.
func (o *Object) Text(name, value string) {
	if value != "" {
		*o = AppendQuoted(o.member(name), value)
	}
}

// Number adds a number.
func (o *Object) Number(name string, n int64) {
	if n != 0 {
		*o = strconv.AppendInt(o.member(name), n, 10)
	}
}

// Flag adds true.
func (o *Object) Flag(name string, set bool) {
	if set {
		*o = append(o.member(name), "true"...)
	}
}

// JSON adds a value that is JSON.
func (o *Object) JSON(name string, text []byte) {
	if len(text) > 0 {
		*o = append(o.member(name), text...)
	}
}

func (o *Object) member(name string) []byte {
	before := byte(',')
	if len(*o) == 0 {
		before = '{'
	}
	return append(append(append(*o, before, '"'), name...), `":`...)
}

// End returns the whole object.
func (o Object) End() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(o, '}')
}
