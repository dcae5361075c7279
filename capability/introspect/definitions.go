package introspect

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
)

// shared collects the definitions of several schemas that stand in one document, where a reference such as #/$defs/Name
// finds them.
type shared struct{ definitions jsonvalue.Object }

// take returns a schema without its definitions, which are collected. One that has the name of another gets another name.
func (s *shared) take(text jsontext.Value) jsontext.Value {
	all := jsonvalue.Members(json.RawMessage(text))
	own := jsonvalue.Members(all.Get("$defs"))
	if own == nil {
		return text
	}
	body := all.Without("$defs").Text()
	for i := range own {
		name := own[i].Name
		as := name
		for n := 2; s.definitions.Has(as) && !jsonvalue.Same(s.definitions.Get(as), own[i].Value); n++ {
			as = fmt.Sprintf("%s%d", name, n)
		}
		if as != name {
			old, renamed := reference(name), reference(as)
			body = bytes.ReplaceAll(body, old, renamed)
			for j := range own {
				own[j].Value = bytes.ReplaceAll(own[j].Value, old, renamed)
			}
		}
		s.definitions = s.definitions.Set(as, own[i].Value)
	}
	return jsontext.Value(body)
}

// takeReply is take for the schema of a reply: what stands in place of a large one is collected, too.
func (s *shared) takeReply(text jsontext.Value) jsontext.Value {
	own := kernel.WithoutReference(json.RawMessage(text))
	if len(own) == len(text) {
		return s.take(text)
	}
	forms := jsonvalue.Elements(jsonvalue.Members(json.RawMessage(text)).Get("anyOf"))
	s.definitions = s.definitions.Set(inPlace, forms[1])
	body := s.take(jsontext.Value(own))
	return jsontext.Value(fmt.Sprintf(`{"anyOf":[%s,{"$ref":"#/$defs/%s"}]}`, body, inPlace))
}

// inPlace is the name of the definition of what stands in place of a large reply.
const inPlace = "Reference"

func reference(name string) []byte { return jsonvalue.Marshal("#/$defs/" + name) }
