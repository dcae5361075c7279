package terminal

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/visible"
)

// Pretty indents a value, and paints it if there are colours.
func (s *Screen) Pretty(data json.RawMessage) []byte {
	var b []byte
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	first := true // of its object or list
	for {
		kind := d.PeekKind()
		depth := d.StackDepth()
		if kind == '}' || kind == ']' {
			depth--
		}
		parent, n := d.StackIndex(d.StackDepth())
		isValue := parent == '{' && n%2 == 1
		text, err := d.ReadToken()
		if err != nil {
			return b
		}
		switch closing := kind == '}' || kind == ']'; {
		case isValue && !closing:
			b = append(b, ": "...)
		case closing && first:
		case depth > 0 || closing:
			if !first && !closing {
				b = append(b, ',')
			}
			b = append(b, '\n')
			b = append(b, strings.Repeat("  ", depth)...)
		}
		first = kind == '{' || kind == '['
		word := text.String()
		if kind == '"' {
			quoted, _ := json.Marshal(word)
			word = visible.Text(string(quoted))
		}
		b = append(b, s.Paint(tokenStyle(kind, parent == '{' && !isValue), word)...)
	}
}

func tokenStyle(kind jsontext.Kind, name bool) Style {
	switch {
	case kind == '"' && name:
		return Blue
	case kind == '"':
		return Green
	case kind == '0':
		return Cyan
	case kind == 't' || kind == 'f' || kind == 'n':
		return Yellow
	}
	return Plain
}
