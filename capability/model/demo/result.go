package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// maxElements is how many elements of a list the model inside is shown. It was trained with five at most.
const maxElements = 5

// maxDepth is how deep the objects and lists of a result are that the model is shown. Of a tool that it wasn't
// trained with, it is shown one level.
const maxDepth = 3

// result returns what the model inside is shown of a result: of a tool that it was trained with, the members that it
// knows. What is long is cut so that JSON stays JSON: the model repeats it.
func (d *Model) result(name message.Type, r *conversation.Answered) string {
	t := findTrained(name)
	value := jsontext.Value(r.Text)
	switch {
	case t != nil && t.most > 0 && !r.IsError:
		return d.short(r.Text, t.most)
	case !jsonscan.Valid(value):
		return d.short(oneLine(r.Text), resultTokens)
	case r.IsError:
		var text string
		_ = json.Unmarshal(jsonscan.Member(value, "message"), &text)
		return d.short(shortError(cmp.Or(string(jsonscan.Member(value, "code")), "500"), text), resultTokens)
	}
	if p := jsonscan.Member(value, "process"); p != nil { // a job, as a session keeps it
		value = jsonvalue.Marshal(struct {
			JobID  jsontext.Value `json:"jobId"`
			Status jsontext.Value `json:"status"`
		}{jsonscan.Member(p, "id"), jsonscan.Member(p, "status")})
	}
	if value = withoutBlocks(value); value.Kind() == '"' {
		return d.short(oneLine(jsonscan.Unquote(value)), resultTokens)
	}
	switch name {
	case memorySearch:
		value = facts(value)
	case "Http.Fetch":
		if failure := failedFetch(value); failure != "" {
			return failure
		}
	}
	depth := 1
	if t != nil && t.results != nil {
		value, depth = keep(value, t), maxDepth
	}
	return d.short(spaced(d.abridge(value, resultTokens*2/3, depth)), resultTokens)
}

// endingID matches an id at the end of an error: the model would stumble over it.
var endingID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`:? [0-9A-Z]{26}$`)
})

// shortError returns what the model is shown of an error: what has failed, without the cause and the next step, which
// the model can't take. A step follows a semicolon, is in parentheses, or is a question at the end.
func shortError(code, text string) string {
	text, _, _ = strings.Cut(text, "; ")
	text, _, _ = strings.Cut(text, " (")
	if end := strings.LastIndex(text, ": "); end > 0 && strings.HasSuffix(text, "?") {
		text = text[:end]
	}
	text = endingID().ReplaceAllString(text, "")
	type failure struct {
		Code    jsontext.Value `json:"code"`
		Message string         `json:"message"`
	}
	return spaced(jsonvalue.Marshal(struct {
		Error failure `json:"error"`
	}{failure{jsontext.Value(code), text}}))
}

// withoutBlocks returns the content of the result of a tool of an MCP server: its data, or else its texts. Any other value is
// returned as it is.
func withoutBlocks(value jsontext.Value) jsontext.Value {
	blocks := jsontext.Value(jsonscan.Member(value, "content"))
	if blocks.Kind() != '[' {
		return value
	}
	if data := jsonscan.Member(value, "structuredContent"); data != nil {
		return data
	}
	var texts []string
	jsonscan.Elements(blocks, 0, func(block []byte) bool {
		if text := jsonscan.Member(block, "text"); text != nil {
			texts = append(texts, jsonscan.Unquote(text))
		}
		return true
	})
	return readable(strings.Join(texts, "\n"))
}

// trainedStatuses are the statuses of a server that the model was trained with. It takes any other one for one of them.
var trainedStatuses = []int{200, 301, 404, 500}

// failedFetch returns what the model is shown of a page with a status that it doesn't know, or "".
func failedFetch(page jsontext.Value) string {
	status, _ := strconv.Atoi(string(jsonscan.Member(page, "status")))
	if status < 300 || slices.Contains(trainedStatuses, status) {
		return ""
	}
	return shortError("502", strings.TrimSpace(fmt.Sprintf("The server answered %d %s", status, http.StatusText(status))))
}

// keep returns an object with the members that the model was trained with, in this order, and of a list at most
// maxElements and how many more there are.
func keep(object jsontext.Value, t *trainedTool) jsontext.Value {
	kept := jsonvalue.Object{}
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
			n := min(len(all), maxElements)
			kept = kept.Set(name, slices.Concat([]byte("["), bytes.Join(all[:n], []byte(",")), []byte("]")))
			if more := len(all) - n; more > 0 {
				kept = kept.Set("more", strconv.AppendInt(nil, int64(more), 10))
			}
		case name == "body" && value[0] == '"':
			kept = kept.Set(name, []byte(readable(jsonscan.Unquote(value))))
		default:
			kept = kept.Set(name, value)
		}
	}
	return jsontext.Value(kept.Text())
}

// markup is what isn't text in HTML.
var markup = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)<(script|style)\b.*?</(script|style)>|<!--.*?-->|<[^>]*>`)
})

// readable returns what the model is shown of a page: JSON as a value, and of HTML the text.
func readable(page string) jsontext.Value {
	page = strings.TrimSpace(page)
	if strings.HasPrefix(page, "{") || strings.HasPrefix(page, "[") {
		if value := jsontext.Value(page); jsonscan.Valid(value) {
			return value
		}
	}
	if strings.HasPrefix(page, "<") {
		page = html.UnescapeString(markup().ReplaceAllString(page, " "))
	}
	return jsonscan.AppendQuoted(nil, page)
}

// abridge returns a value cut to about room tokens and to depth levels. What is left out of an object is counted by its
// member "…"; a list that was cut ends with "…".
func (d *Model) abridge(value jsontext.Value, room, depth int) jsontext.Value {
	var parts [][]byte
	left := 0
	add := func(name, one []byte) bool {
		if left > 0 || room < 8 {
			left++
			return true
		}
		part := append(name, d.abridge(one, room-room/4, depth-1)...)
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

// oneLine returns a text with single spaces: the model was trained without others.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// short returns a text, or its beginning if it is longer than most tokens.
func (d *Model) short(text string, most int) string {
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
