package jsonscan

import "bytes"

const (
	quoted = iota + 1
	opens
	closes
)

// structure marks the bytes that Skip has to look at.
var structure = [256]uint8{'"': quoted, '{': opens, '[': opens, '}': closes, ']': closes}

// Skip returns the offset after the value at or after b[i], which Value has
// accepted.
func Skip(b []byte, i int) int {
	i = Space(b, i)
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch structure[b[i]] {
			case quoted:
				i = skipString(b, i)
				continue
			case opens:
				depth++
			case closes:
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(b[i:], '"')
		i += n + 1
		if b[i-2] != '\\' {
			return i
		}
		// The quote is escaped if an odd number of backslashes stands before it.
		slashes := 1
		for b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// Members calls visit for each member of the object at or after b[i], which Value
// has accepted, with the name's token and the value's text, until visit returns
// false. It returns the offset after the object, if it got there. A value that isn't an object,
// or is absent, has none: callers read members that no schema has checked.
func Members(b []byte, i int, visit func(name, value []byte) bool) int {
	if i = Space(b, i); i >= len(b) || b[i] != '{' {
		return i
	}
	i = Space(b, i+1)
	for b[i] != '}' {
		name := skipString(b, i)
		start := Space(b, Space(b, name)+1)
		end := Skip(b, start)
		if !visit(b[i:name], b[start:end]) {
			return end
		}
		i = next(b, end)
	}
	return i + 1
}

// Elements calls visit for each element of the array at or after b[i], which Value has
// accepted, until visit returns false. A value that isn't an array, or is absent, has none.
func Elements(b []byte, i int, visit func(value []byte) bool) {
	if i = Space(b, i); i >= len(b) || b[i] != '[' {
		return
	}
	i = Space(b, i+1)
	for b[i] != ']' {
		end := Skip(b, i)
		if !visit(b[i:end]) {
			return
		}
		i = next(b, end)
	}
}

// Member returns the value of a member of an object; nil if there is none, or the text is not
// an object.
func Member(object []byte, name string) (found []byte) {
	Members(object, 0, func(token, value []byte) bool {
		if string(Content(token)) == name {
			found = value
		}
		return found == nil
	})
	return found
}

// next passes over what stands between two values, and before a bracket.
func next(b []byte, i int) int {
	i = Space(b, i)
	if b[i] == ',' {
		return Space(b, i+1)
	}
	return i
}

// AppendCompact appends text without the white space between its tokens. It comes
// back from text that is not JSON, too, and what it appends never has a newline.
func AppendCompact(dst, text []byte) []byte {
	inString, escaped, start := false, false, 0
	for i, c := range text {
		switch {
		case c == '\n' || c == '\r': // between tokens, or wrong
		case inString:
			inString = escaped || c != '"'
			escaped = !escaped && c == '\\'
			continue
		case c == ' ' || c == '\t':
		default:
			inString = c == '"'
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
	}
	return append(dst, text[start:]...)
}
