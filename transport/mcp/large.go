package mcp

import (
	"encoding/json"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

const (
	// maxShown is how many bytes a reply may have: some 10,000 tokens of a model's context. Of a larger one, the model gets
	// an excerpt, and links to the rest.
	maxShown     = 40_000
	maxBeginning = 4000 // bytes of each value that has moved, in the excerpt

	// maxData is how many bytes a reply may have that can't be kept in a blob, since it holds secrets.
	maxData = 1 << 20
)

// shorten returns a reply as it is passed on, what a model is shown of it, and what has moved to blobs.
func (x *exchange) shorten(m message.Message) (passed message.Message, shown []byte, large []kernel.Moved) {
	length := func(m *message.Message) int { return len(m.Data) }
	if x.tool.content {
		length = func(m *message.Message) int { return len(m.Data) - media(m.Data) }
	}
	passed = m
	if len(m.Data) > maxShown {
		if passed = x.s.k.Fit(x.ctx, m, maxShown, length); passed.Kind == message.KindError && len(m.Data) <= maxData {
			passed = m
		}
	}
	shown, large = x.s.k.Excerpt(x.ctx, passed.Data, maxBeginning)
	remote := blobs.RemoteOf(x.ctx)
	passed.Data, shown = remote.Outward(passed.Data), remote.Outward(shown)
	return passed, shown, large
}

// media returns how many bytes of a result of the protocol are images and sounds, which aren't text for a model.
func media(result []byte) (size int) {
	jsonscan.Elements(jsonscan.Member(result, "content"), 0, func(block []byte) bool {
		size += len(jsonscan.Member(block, "data"))
		return true
	})
	return size
}

// appendLinks appends links to what has moved to blobs, as blocks of content after another one.
func (x *exchange) appendLinks(dst []byte, large []kernel.Moved) []byte {
	if x.client.version < firstLinks {
		return dst
	}
	for _, one := range large {
		for _, hash := range x.s.opts.Blobs.Mentions(one.Pointer.Append(nil)) {
			dst = jsonscan.AppendQuoted(append(dst, `,{"type":"resource_link","uri":`...), blobScheme+hash.String())
			dst = jsonscan.AppendQuoted(append(dst, `,"name":`...), one.Name)
			dst = append(strconv.AppendInt(append(dst, `,"size":`...), one.Size, 10), '}')
		}
	}
	return dst
}

// withExcerpt returns the schema of a reply, or of a reference in its place, that allows the excerpt of a large one too.
func withExcerpt(reply json.RawMessage) json.RawMessage {
	all := jsonvalue.Members(reply)
	forms := jsonvalue.Elements(all.Get("anyOf"))
	for i, form := range forms {
		if object := jsonvalue.Members(form); object != nil {
			forms[i] = withBeginnings(object).Text()
		}
	}
	if forms != nil {
		all = all.Set("anyOf", jsonvalue.Marshal(forms))
	}
	return withBeginnings(all).Text()
}

// withBeginnings adds to the properties of an object what [kernel.Kernel.Excerpt] adds for those that point to blobs.
func withBeginnings(object jsonvalue.Object) jsonvalue.Object {
	text := json.RawMessage(`{"type":"string"}`)
	properties := jsonvalue.Members(object.Get("properties"))
	own := len(properties)
	for _, p := range properties[:own] {
		if name, ok := strings.CutSuffix(p.Name, "Ref"); ok && name != "" {
			properties = properties.Set(name+"Beginning", text)
		}
	}
	if len(properties) == own {
		return object
	}
	if !properties.Has("note") {
		properties = properties.Set("note", text)
	}
	return object.Set("properties", properties.Text())
}

// firstLinks is the revision of the protocol that has brought links.
const firstLinks = "2025-06-18"
