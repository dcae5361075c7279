package mcp

import (
	"strconv"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
)

// How long a client may keep a result.
const (
	never = 0
	soon  = 5 * time.Second
	hour  = time.Hour
)

// respond answers with a result, of which it gets the members.
func (x *exchange) respond(members []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sendResult(append(x.beginResult(resultComplete, len(members)), members...))
}

// respondFor is respond with a result that the client may keep for a time. It is for the caller alone, as everything is.
func (x *exchange) respondFor(fresh time.Duration, members []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	dst := append(x.beginResult(resultComplete, len(members)), members...)
	if x.client.modern {
		dst = strconv.AppendInt(append(dst, `,"ttlMs":`...), fresh.Milliseconds(), 10)
		dst = append(dst, `,"cacheScope":"private"`...)
	}
	x.sendResult(dst)
}

// Types of a result, which clients of the stateless era get with it.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

// beginResult returns the beginning of a response, with room for that many bytes of members; sendResult sends it. Both
// are called with mu held.
func (x *exchange) beginResult(resultType string, size int) []byte {
	dst := make([]byte, 0, size+len(x.s.info)+len(x.meta)+len(x.ID)+256)
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), x.ID...), `,"result":{`...)
	if x.client.modern {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
	}
	return dst
}

// sendResult appends _meta and the end of a response, and sends it.
func (x *exchange) sendResult(dst []byte) {
	if x.client.modern || len(x.meta) > 0 {
		if c := dst[len(dst)-1]; c != '{' && c != ',' {
			dst = append(dst, ',')
		}
		dst = append(dst, `"_meta":{`...)
		dst = append(dst, x.meta...)
		if x.client.modern {
			if len(x.meta) > 0 {
				dst = append(dst, ',')
			}
			info := x.s.info
			if x.Method == "server/discover" {
				info = x.s.about
			}
			dst = append(append(dst, `"`+mcp.MetaServerInfo+`":`...), info...)
		}
		dst = append(dst, '}')
	}
	x.send(append(dst, "}}"...), nil)
}

// appendResult appends the members of a result: what is shown of it as text, links to what isn't, and, if the list has said
// what it looks like, the same as JSON: clients that prefer that have the excerpt of a large result, too. To other clients it would
// be the same once more.
func (x *exchange) appendResult(dst, shown, data []byte, large []kernel.Moved, note string) []byte {
	dst = append(dst, `"content":[`...)
	dst = x.appendLinks(appendText(dst, shown), large)
	if note != "" {
		dst = appendText(append(dst, ','), jsonscan.AppendQuoted(nil, "note: "+note))
	}
	dst = append(dst, ']')
	if len(large) > 0 {
		data = shown
	}
	if !x.choice.isCore() && (data[0] == '{' || x.client.modern) {
		dst = jsonscan.AppendCompact(append(dst, `,"structuredContent":`...), data)
	}
	return dst
}

// appendText appends a block of content: the text of a string, the JSON of anything else.
func appendText(dst, data []byte) []byte {
	dst = append(dst, `{"type":"text","text":`...)
	if data[0] == '"' {
		dst = append(dst, data...)
	} else {
		dst = jsonscan.AppendQuoted(dst, string(data))
	}
	return append(dst, '}')
}

// appendError appends the members of the result of a call that has failed. The error is in the text alone: as structured
// content it would have to fit the tool's output schema.
func appendError(dst, body []byte) []byte {
	return append(appendText(append(dst, `"content":[`...), body), `],"isError":true`...)
}
