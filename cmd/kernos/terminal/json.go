package terminal

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"kernos/internal/visible"
)

// tokens finds the tokens of indented JSON: names with their colon, strings, numbers and words.
var tokens = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"(?:[^"\\]|\\.)*":?|-?[0-9][0-9.eE+-]*|true|false|null`)
})

// Pretty indents a value, and paints it if there are colours.
func (s *Screen) Pretty(data json.RawMessage) string {
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return visible.Lines(string(data))
	}
	return tokens().ReplaceAllStringFunc(indented.String(), func(token string) string {
		name, isName := strings.CutSuffix(token, `":`)
		switch {
		case isName:
			return s.Paint(Blue, visible.Text(name)+`"`) + ":"
		case token[0] == '"':
			return s.Paint(Green, visible.Text(token))
		case token == "true", token == "false", token == "null":
			return s.Paint(Yellow, token)
		}
		return s.Paint(Cyan, token)
	})
}
