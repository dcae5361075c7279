package line

import (
	"encoding/json"
	"fmt"
	"strings"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
)

// A tree is an object that is put together one parameter at a time. Its values are
// json.RawMessage, map[string]any (an object of which single members were given) and
// []json.RawMessage (a list of which single elements were).
type tree struct {
	root  map[string]any
	given map[string]bool // keys are paths
}

func newTree() tree { return tree{root: make(map[string]any), given: make(map[string]bool)} }

// parent returns the object that has the last step of a path, and makes the objects above it.
func (t *tree) parent(path []string) (map[string]any, error) {
	at := t.root
	for i, step := range path[:len(path)-1] {
		var next map[string]any
		switch inner := at[step].(type) {
		case map[string]any:
			next = inner
		case nil:
			next = make(map[string]any)
		case json.RawMessage: // the value of --data, or of NAME:=JSON
			members := jsonvalue.Members(inner)
			if members == nil {
				return nil, &Invalid{fmt.Sprintf("%s is given as %s, and as an object", strings.Join(path[:i+1], "."), terminal.Clip(string(inner), 40))}
			}
			next = make(map[string]any, len(members))
			for _, m := range members {
				next[m.Name] = m.Value
			}
		default:
			return nil, &Invalid{strings.Join(path[:i+1], ".") + " is given as a list, and as an object"}
		}
		at[step] = next
		at = next
	}
	return at, nil
}

// has reports whether a parameter is given by itself, and not by --data.
func (t *tree) has(name string) bool { return t.given[name] }

// mark notes that a parameter is given, and reports whether it was given before.
func (t *tree) mark(path []string) (again bool) {
	name := strings.Join(path, "\x00")
	again = t.given[name]
	t.given[name] = true
	return again
}

const givenAsBoth = " is given as a whole, and element by element"

// set sets a value.
func (t *tree) set(path []string, value json.RawMessage) error {
	at, err := t.parent(path)
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	if t.mark(path) {
		if _, list := at[last].([]json.RawMessage); list {
			return &Invalid{strings.Join(path, ".") + givenAsBoth}
		}
		return &Invalid{strings.Join(path, ".") + " is given twice"}
	}
	at[last] = value
	return nil
}

// add adds elements to a list. The elements that --data gave are replaced.
func (t *tree) add(path []string, elements []json.RawMessage) error {
	at, err := t.parent(path)
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	list := []json.RawMessage{}
	if t.mark(path) {
		var ok bool
		if list, ok = at[last].([]json.RawMessage); !ok {
			return &Invalid{strings.Join(path, ".") + givenAsBoth}
		}
	}
	at[last] = append(list, elements...)
	return nil
}
