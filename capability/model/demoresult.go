package model

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// demoElements is how many elements of a list the model inside is shown. It was trained with five at most.
const demoElements = 5

// demoDepth is how deep the objects and lists of a result are that the model is shown. Of a tool that it wasn't
// trained with, it is shown one level.
const demoDepth = 3

// result is what the model inside is shown of a result: of a tool that it was trained with, the members that it
// knows. What is long is cut so that JSON stays JSON: the model repeats it.
func (d *demo) result(name message.Type, r *answered) string {
	t := trainedTool(name)
	value := jsontext.Value(r.text)
	switch {
	case t != nil && t.most > 0 && !r.isError:
		return d.short(r.text, t.most)
	case !jsonscan.Valid(value):
		return d.short(oneLine(r.text), demoResult)
	case r.isError:
		return d.short(demoError(value), demoResult)
	}
	if p := jsonscan.Member(value, "process"); p != nil { // a job, as a session keeps it
		value = fmt.Appendf(nil, `{"jobId":%s,"status":%s}`, cmp.Or(string(jsonscan.Member(p, "id")), "null"), cmp.Or(string(jsonscan.Member(p, "status")), "null"))
	}
	depth := 1
	if t != nil && t.results != nil {
		value, depth = keep(value, t), demoDepth
	}
	return d.short(spaced(d.brief(value, demoResult*2/3, depth)), demoResult)
}

// demoError is what the model is shown of an error: what has failed, without the next step, which it can't take.
func demoError(failure jsontext.Value) string {
	code := cmp.Or(string(jsonscan.Member(failure, "code")), "500")
	var text string
	_ = json.Unmarshal(jsonscan.Member(failure, "message"), &text)
	text, _, _ = strings.Cut(text, "; ")
	text, _, _ = strings.Cut(text, ": did you mean")
	if code == "409" && strings.Contains(text, "not known") {
		text = "The outcome is not known"
	}
	return `{"error": {"code": ` + code + `, "message": ` + string(jsonscan.AppendQuoted(nil, text)) + `}}`
}

// keep returns an object with the members that the model was trained with, in this order, and of a list at most
// demoElements and how many more there are.
func keep(object jsontext.Value, t *demoTool) jsontext.Value {
	var members [][]byte
	add := func(name string, value []byte) {
		members = append(members, append(append(jsonscan.AppendQuoted(nil, name), ':'), value...))
	}
	for _, name := range t.results {
		value := jsonscan.Member(object, name)
		switch {
		case value == nil:
		case t.element != nil && value[0] == '[':
			var all [][]byte
			jsonscan.Elements(value, 0, func(one []byte) bool {
				all = append(all, t.element(one))
				return true
			})
			n := min(len(all), demoElements)
			add(name, slices.Concat([]byte("["), bytes.Join(all[:n], []byte(",")), []byte("]")))
			if more := len(all) - n; more > 0 {
				add("more", strconv.AppendInt(nil, int64(more), 10))
			}
		case name == "body" && value[0] == '"':
			add(name, readable(jsonscan.Unquote(value)))
		default:
			add(name, value)
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

// markup is what isn't text in HTML.
var markup = regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->|<[^>]*>`)

// readable is what the model is shown of a page: JSON as a value, and of HTML the text.
func readable(page string) jsontext.Value {
	page = strings.TrimSpace(page)
	if strings.HasPrefix(page, "{") || strings.HasPrefix(page, "[") {
		if value := jsontext.Value(page); jsonscan.Valid(value) {
			return value
		}
	}
	if strings.HasPrefix(page, "<") {
		page = html.UnescapeString(markup.ReplaceAllString(page, " "))
	}
	return jsonscan.AppendQuoted(nil, page)
}

// brief returns a value with at most about so many tokens, and so deep. What is left out of an object is counted by its
// member "…"; a list that was cut ends with "…".
func (d *demo) brief(value jsontext.Value, room, depth int) jsontext.Value {
	var parts [][]byte
	left := 0
	add := func(name, one []byte) bool {
		if left > 0 || room < 8 {
			left++
			return true
		}
		part := append(name, d.brief(one, room-room/4, depth-1)...)
		room -= len(d.model.Tokens(string(part))) + 1
		parts = append(parts, part)
		return true
	}
	switch kind := value.Kind(); {
	case kind == '"':
		return jsonscan.AppendQuoted(nil, d.short(oneLine(jsonscan.Unquote(value)), room))
	case kind != '{' && kind != '[':
		return value
	case depth == 0:
		return jsontext.Value(`"…"`)
	case kind == '{':
		jsonscan.Members(value, 0, func(name, one []byte) bool { return add(append(slices.Clone(name), ':'), one) })
		if left > 0 {
			parts = append(parts, fmt.Appendf(nil, `"…":%d`, left))
		}
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
	}
	jsonscan.Elements(value, 0, func(one []byte) bool { return add(nil, one) })
	if left > 0 {
		parts = append(parts, []byte(`"…"`))
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// oneLine is a text with single spaces: the model was trained without others.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// short returns the beginning of a text that is longer than so many tokens.
func (d *demo) short(text string, most int) string {
	tokens := d.model.Tokens(text)
	if len(tokens) <= most {
		return text
	}
	var b strings.Builder
	for _, t := range tokens[:most-1] {
		b.WriteString(d.model.Text(t))
	}
	return strings.ToValidUTF8(b.String(), "") + "…"
}

// spaced writes JSON with a space after each comma and colon, as the model was trained with.
func spaced(value jsontext.Value) string {
	if len(value) == 0 {
		return "{}"
	}
	text, err := jsontext.AppendFormat(nil, value, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return string(value)
	}
	return string(text)
}
