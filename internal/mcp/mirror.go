package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// annotation is the keyword by which the schema of a tool declares that requests over HTTP mirror a
// parameter in a header.
const annotation = "x-mcp-header"

// A Mirrored is such a parameter.
type Mirrored struct {
	Path   []string `json:"path"`   // path of the parameter
	Header string   `json:"header"` // the header's name after HeaderParam
}

var headerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") })

// ValidHeader reports whether a text can be the name of a header.
func ValidHeader(name string) bool { return headerName().MatchString(name) }

// Mirrors returns the parameters that a schema declares as mirrored. The error reports why the schema is
// one that clients have to refuse.
func Mirrors(schema jsontext.Value) ([]Mirrored, error) {
	var root map[string]any
	if !bytes.Contains(schema, []byte(annotation)) || json.Unmarshal(schema, &root) != nil {
		return nil, nil
	}
	m := mirrors{taken: make(map[string]bool)}
	err := m.object(root, nil)
	return m.all, err
}

type mirrors struct {
	all   []Mirrored
	taken map[string]bool // names in lower case
}

// object looks at the schema of a parameter, or of all of them.
func (m *mirrors) object(schema map[string]any, path []string) error {
	for keyword, value := range schema {
		switch keyword {
		case annotation:
			if err := m.add(schema, value, path); err != nil {
				return err
			}
		case "properties":
			properties, _ := value.(map[string]any)
			for name, one := range properties {
				if of, ok := one.(map[string]any); ok {
					if err := m.object(of, append(path[:len(path):len(path)], name)); err != nil {
						return err
					}
				}
			}
		case "const", "default", "enum", "examples":
		default:
			if annotated(value) {
				return fmt.Errorf("%s stands below %s, where requests can't mirror it", annotation, keyword)
			}
		}
	}
	return nil
}

func (m *mirrors) add(schema map[string]any, value any, path []string) error {
	name, _ := value.(string)
	lower := strings.ToLower(name)
	switch kind := schema["type"]; {
	case !ValidHeader(name):
		return fmt.Errorf("%s is %.40q, which isn't the name of a header", annotation, fmt.Sprint(value))
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s is that of a parameter that is neither a string nor an integer nor a boolean", annotation)
	case m.taken[lower]:
		return fmt.Errorf("%s names %.40q twice", annotation, name)
	case len(path) == 0:
		return fmt.Errorf("%s is that of no parameter", annotation)
	}
	m.taken[lower] = true
	m.all = append(m.all, Mirrored{path, name})
	return nil
}

// annotated reports whether the keyword is somewhere in a value.
func annotated(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if key == annotation || annotated(one) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, annotated)
	}
	return false
}

// Headers returns the headers that mirror parameters of a request.
func Headers(all []Mirrored, arguments jsontext.Value) http.Header {
	var root any
	if len(all) == 0 || json.Unmarshal(arguments, &root) != nil {
		return nil
	}
	h := make(http.Header)
	for _, m := range all {
		value := root
		for _, name := range m.Path {
			of, _ := value.(map[string]any)
			value = of[name]
		}
		switch v := value.(type) {
		case string:
			h.Set(HeaderParam+m.Header, EncodeHeader(v))
		case bool:
			h.Set(HeaderParam+m.Header, strconv.FormatBool(v))
		case float64:
			h.Set(HeaderParam+m.Header, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	return h
}
