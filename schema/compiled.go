package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kernos/internal/secret"
	"kernos/internal/when"
)

// compiled is the library's form of a schema.
type compiled struct {
	root     *jsonschema.Schema
	parts    []*jsonschema.Schema // all parts, the root included
	anchored []*jsonschema.Schema // the parts that dynamic references may mean
	secret   bool                 // some part is marked as a secret

	// about has, for each part from which a mark of a secret can be reached, those parts that
	// are about the same value. Data is redacted once per message, so this is found once.
	about map[*jsonschema.Schema][]*jsonschema.Schema
}

// root is the URL under which the library knows a schema.
const root = "kernos://schema/root"

// compile compiles a schema. The library asks the vocabularies that it is given about every
// part of the schema, those that only a dynamic reference finds included.
func compile(text json.RawMessage) (*compiled, error) {
	full := new(compiled)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "kernos://schema/parts",
		Compile: func(ctx *jsonschema.CompilerContext, keywords map[string]any) (jsonschema.SchemaExt, error) {
			full.parts = append(full.parts, ctx.Enqueue(nil))
			writeOnly, _ := keywords["writeOnly"].(bool)
			format, _ := keywords["format"].(string)
			if secret.Marked(writeOnly, format) {
				full.secret = true
				return secretMark{}, nil
			}
			if format == when.FormatTime || format == when.FormatSpan {
				return newTimeText(format, keywords), nil
			}
			return nil, nil
		},
	})
	doc, err := parseInstance(text)
	if err != nil {
		return nil, err
	}
	if err := c.AddResource(root, doc); err != nil {
		return nil, err
	}
	full.root, err = c.Compile(root)
	for _, part := range full.parts {
		if part.DynamicAnchor != "" || part.RecursiveAnchor {
			full.anchored = append(full.anchored, part)
		}
	}
	if full.secret && err == nil {
		full.findSecrets()
	}
	return full, err
}

// findSecrets fills about.
func (full *compiled) findSecrets() {
	full.about = make(map[*jsonschema.Schema][]*jsonschema.Schema)
	leads := func(part *jsonschema.Schema) bool { return full.about[part] != nil }
	for changed := true; changed; {
		changed = false
		for _, part := range full.parts {
			if !leads(part) && (secretPart(part) || slices.ContainsFunc(full.inPlace(part), leads) || slices.ContainsFunc(childSubschemas(part), leads)) {
				full.about[part] = []*jsonschema.Schema{part}
				changed = true
			}
		}
	}
	for part := range full.about {
		same := []*jsonschema.Schema{part}
		for i := 0; i < len(same); i++ {
			for _, other := range full.inPlace(same[i]) {
				if leads(other) && !slices.Contains(same, other) {
					same = append(same, other)
				}
			}
		}
		full.about[part] = slices.Clip(same)
	}
}

// secretPart reports whether the values of a part are secrets.
func secretPart(part *jsonschema.Schema) bool {
	return slices.Contains(part.Extensions, jsonschema.SchemaExt(secretMark{}))
}

// noLoader refuses references that leave the schema: a caller that registers a
// schema must not make the kernel read files or call servers.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema may not refer to other documents: " + url)
}

// secretMark is the extension of a part whose values are secrets. It checks nothing.
type secretMark struct{}

func (secretMark) Validate(*jsonschema.ValidatorContext, any) {}

// inPlaceSubschemas lists the subschemas of a part that apply to the same value: those of in-place applicators and references.
func inPlaceSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else})
	if s.DynamicRef != nil {
		parts = append(parts, s.DynamicRef.Ref)
	}
	parts = slices.AppendSeq(parts, maps.Values(s.DependentSchemas))
	for _, dependency := range s.Dependencies {
		parts = append(parts, asSchema(dependency))
	}
	return slices.DeleteFunc(parts, func(part *jsonschema.Schema) bool { return part == nil })
}

// inPlace lists the parts that are about the same value as a part. Where a dynamic reference
// leads depends on the value; it is taken for all that it may mean.
func (full *compiled) inPlace(part *jsonschema.Schema) []*jsonschema.Schema {
	parts := inPlaceSubschemas(part)
	if part.DynamicRef != nil || part.RecursiveRef != nil {
		parts = append(parts, full.anchored...)
	}
	return parts
}

// childSubschemas lists the parts that are about members and elements of a part's values.
func childSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	leading, _ := s.Items.([]*jsonschema.Schema)
	parts := slices.Concat(leading, s.PrefixItems, slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		[]*jsonschema.Schema{asSchema(s.AdditionalProperties), s.UnevaluatedProperties, asSchema(s.Items), s.Items2020, asSchema(s.AdditionalItems), s.Contains, s.UnevaluatedItems})
	return slices.DeleteFunc(parts, func(part *jsonschema.Schema) bool { return part == nil })
}

// asSchema returns what stands where the library allows a schema or something else; nil if it
// is something else.
func asSchema(v any) *jsonschema.Schema {
	part, _ := v.(*jsonschema.Schema)
	return part
}
