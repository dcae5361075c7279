package jsonscan

import (
	"bytes"
	"sync"
)

// A Rewriter copies a JSON text, which must be valid, and replaces some of its values. As
// long as nothing is replaced it allocates nothing.
type Rewriter struct {
	src, dst []byte
	copied   int // how much of src is in dst
}

// Rewrite returns a Rewriter of src.
func Rewrite(src []byte) Rewriter { return Rewriter{src: src} }

// Result returns the text with its replacements, and whether there are any.
func (w *Rewriter) Result() ([]byte, bool) {
	if w.dst == nil {
		return w.src, false
	}
	return append(w.dst, w.src[w.copied:]...), true
}

// Replace writes a token in the place of src[start:end]. Replacements are made in order.
func (w *Rewriter) Replace(start, end int, token string) {
	if w.dst == nil {
		w.dst = make([]byte, 0, len(w.src)+64)
	}
	w.dst = append(append(w.dst, w.src[w.copied:start]...), token...)
	w.copied = end
}

// Object calls visit for each member of the object at src[i] with the name, without its
// quotes and escapes, and the offset of the value. Visit returns the offset after the value,
// and Object that after the object.
func (w *Rewriter) Object(i int, visit func(name []byte, value int) (end int)) int {
	i = Space(w.src, i+1)
	for w.src[i] != '}' {
		end := skipString(w.src, i)
		i = next(w.src, visit(Content(w.src[i:end]), Space(w.src, Space(w.src, end)+1)))
	}
	return i + 1
}

// Array is Object for the elements of the array at src[i]; n counts them.
func (w *Rewriter) Array(i int, visit func(n, value int) (end int)) int {
	i = Space(w.src, i+1)
	for n := 0; w.src[i] != ']'; n++ {
		i = next(w.src, visit(n, i))
	}
	return i + 1
}

// ReplaceMembers returns an object with the tokens that replace returns in the place of the
// values of its members. A value for which replace returns "" is kept. Data that is not an object
// is returned as it is.
func ReplaceMembers(data []byte, replace func(name string, value []byte) (token string)) []byte {
	start := Space(data, 0)
	if start == len(data) || data[start] != '{' {
		return data
	}
	w := Rewrite(data)
	w.Object(start, func(name []byte, i int) int {
		end := Skip(data, i)
		if token := replace(string(name), data[i:end]); token != "" {
			w.Replace(i, end, token)
		}
		return end
	})
	out, _ := w.Result()
	return out
}

// Content is Unquote without a copy where it can be: a part of the token if it has no escapes.
func Content(token []byte) []byte {
	if len(token) < 2 || token[0] != '"' {
		return nil
	}
	if bytes.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	return []byte(Unquote(token))
}

var scanners = sync.Pool{New: func() any { return new(Scanner) }}

// Valid reports whether a text is strict JSON.
func Valid(text []byte) bool {
	s := scanners.Get().(*Scanner)
	defer scanners.Put(s)
	return s.Text(text) == nil
}
