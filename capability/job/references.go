package job

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
)

// references returns what a payload takes from earlier results.
func references(payload jsontext.Value) (from []string, err error) {
	_, err = replace(payload, func(path string) (jsontext.Value, error) {
		if path == "" {
			return nil, errors.New("$from names a step, and then what of its result: fetch.body")
		}
		from = append(from, path)
		return jsontext.Value("null"), nil
	})
	return from, err
}

// replace puts what f returns in the place of every {"$from": path}, and changes nothing else of the text.
func replace(payload jsontext.Value, f func(path string) (jsontext.Value, error)) (_ jsontext.Value, failed error) {
	if !strings.Contains(string(payload), `"$from"`) {
		return payload, nil
	}
	w := jsonscan.Rewrite(payload)
	var visit func(i int) (end int)
	visit = func(i int) int {
		end := jsonscan.Skip(payload, i)
		switch from, is := reference(payload[i:end]); {
		case failed != nil:
		case is && from.Kind() != '"':
			failed = errors.New("$from: expected a text such as fetch.body")
		case is:
			var part jsontext.Value
			if part, failed = f(jsonscan.Unquote(from)); failed == nil {
				w.Replace(i, end, string(part))
			}
		case payload[i] == '{':
			w.Object(i, func(_ []byte, i int) int { return visit(i) })
		case payload[i] == '[':
			w.Array(i, func(_, i int) int { return visit(i) })
		}
		return end
	}
	visit(jsonscan.Space(payload, 0))
	replaced, _ := w.Result()
	return replaced, failed
}

// reference returns the value of $from, if a value is an object that has nothing else.
func reference(value jsontext.Value) (from jsontext.Value, is bool) {
	if value.Kind() != '{' {
		return nil, false
	}
	members := 0
	jsonscan.Members(value, 0, func(name, v []byte) bool {
		members++
		is, from = string(jsonscan.Content(name)) == "$from", v
		return is
	})
	return from, is && members == 1
}

// payload returns the data of a step, with the results that it takes.
func (p *pipeline) payload(s step) (jsontext.Value, error) {
	return replace(s.Payload, func(path string) (jsontext.Value, error) {
		id, rest, _ := strings.Cut(path, ".")
		return p.part(id, rest)
	})
}

// part returns a part of the result of a step: a.b.0. What the result has by reference is fetched. The
// result of a step that has failed is null, and so are its parts.
func (p *pipeline) part(id, path string) (v jsontext.Value, err error) {
	p.mu.Lock()
	v = p.done[id].Result
	p.mu.Unlock()
	if len(v) == 0 {
		return jsontext.Value("null"), nil
	}
	if v, err = p.resolve(v); err != nil || path == "" {
		return v, err
	}
	for i, name := range strings.Split(path, ".") {
		if i > 0 && member(v, name) == nil { // a reply of Job.Result may hold a whole reply by reference
			if v, err = p.resolve(v); err != nil {
				return nil, err
			}
		}
		next := member(v, name)
		if pointer := member(v, name+"Ref"); next == nil && pointer != nil {
			if next, err = p.referred(pointer, i > 0 || p.declaresText(id, name)); err != nil {
				return nil, message.Errorf(422, "%s of the step %q can't be used: %w", message.Clip(path, 100), id, err)
			}
		}
		if next == nil {
			return nil, message.Errorf(422, "The result of the step %q has no %s", id, message.Clip(path, 100))
		}
		v = next
	}
	return v, nil
}

// member returns a member of an object, or an element of a list; nil if there is none.
func member(v jsontext.Value, name string) (found jsontext.Value) {
	if v.Kind() != '[' {
		return jsonscan.Member(v, name)
	}
	i, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return nil
	}
	jsonscan.Elements(v, 0, func(element []byte) bool {
		if i == 0 {
			found = element
		}
		i--
		return found == nil
	})
	return found
}

// resolve returns a reply that was too large for a line from the blob that it refers to.
func (p *pipeline) resolve(v jsontext.Value) (jsontext.Value, error) {
	pointer, ok := kernel.ReferenceIn(v)
	if !ok {
		return v, nil
	}
	return p.open(pointer, false)
}

// referred returns what a member of a reply is that was too large for a line: a text, or JSON.
func (p *pipeline) referred(pointer jsontext.Value, isText bool) (jsontext.Value, error) {
	at, err := message.ParseBlobPointer(json.RawMessage(pointer))
	if err != nil {
		return nil, err
	}
	return p.open(at, isText)
}

// declaresText reports whether a member of the reply of a step is a text, as far as the schema of its syscall declares it.
func (p *pipeline) declaresText(id, name string) bool {
	i := slices.IndexFunc(p.spec.Steps, func(s step) bool { return s.ID == id })
	s, ok := p.k.Registry().Lookup(p.spec.Steps[i].Name)
	if !ok {
		return true
	}
	properties := jsonvalue.Members(jsonvalue.Members(s.Output.JSON()).Get("properties"))
	declared := jsonvalue.Members(properties.Get(name)).Get("type")
	return declared == nil || string(declared) == `"string"`
}

// open returns what a pointer in a result points to, as JSON: a blob that the job may fetch, or data.
func (p *pipeline) open(at message.BlobPointer, isText bool) (jsontext.Value, error) {
	if p.j.opts.Open == nil {
		return nil, message.Errorf(503, "This kernel has no blobs, so a result by reference can't be used")
	}
	data, err := p.j.opts.Open(kernel.Inside(p.ctx), at)
	switch {
	case err != nil:
		return nil, err
	case isText && utf8.Valid(data):
		return jsonscan.AppendQuoted(nil, string(data)), nil
	case isText:
		return nil, message.Errorf(422, "it isn't text; give the reference itself to a syscall that takes one")
	case !jsonscan.Valid(data):
		return nil, message.Errorf(422, "it isn't JSON")
	}
	return data, nil
}
