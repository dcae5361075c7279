package rpc

import (
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// The types of items.
const (
	typeProgress = "progress"
	typeData     = "data"
	typeGuidance = "guidance"
	typeError    = "error"
	typeDone     = "done"
)

// appendData appends the members of a data item.
func appendData(dst []byte, contentType string, data []byte) []byte {
	dst = append(dst, `,"content_type":"`...)
	dst = append(dst, contentType...)
	dst = append(dst, `","data":`...)
	return append(dst, data...)
}

// appendProgress appends the members of a progress item. Data that a program has
// sent may be anything; a message is required.
func appendProgress(dst, data []byte) []byte {
	note, percentage := []byte(`""`), []byte(nil)
	if i := jsonscan.Space(data, 0); data[i] == '{' {
		jsonscan.Members(data, i, func(name, value []byte) bool {
			switch {
			case string(name) == `"message"` && value[0] == '"':
				note = value
			case string(name) == `"percentage"` && isFraction(value):
				percentage = value
			}
			return true
		})
	}
	dst = append(append(dst, `,"message":`...), note...)
	if percentage != nil {
		dst = append(append(dst, `,"percentage":`...), percentage...)
	}
	return dst
}

func isFraction(value []byte) bool {
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f >= 0 && f <= 1
}

// appendError appends the members of an error item. The code, which the specification doesn't
// have, is an HTTP status, as in all of the kernel's errors.
func appendError(dst []byte, e *message.Error, recoverable bool) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `,"error":`...), message.Clip(e.Error(), message.MaxErrorText))
	dst = strconv.AppendBool(append(dst, `,"recoverable":`...), recoverable)
	return strconv.AppendInt(append(dst, `,"code":`...), int64(e.Code), 10)
}

// recoverable reports whether the same call may go well later: nothing is wrong with it.
func recoverable(code int) bool {
	switch code {
	case 429, 502, 503, 504:
		return true
	}
	return false
}

// notification is the method of the notifications that carry items.
const notification = "service_subscription"

// The frame of an item is what stands before the id of its stream, the id, what stands
// between it and the item, the item, and the end.
const (
	frameStart = `{"jsonrpc":"2.0","method":"` + notification + `","params":{"subscription":"`
	frameItem  = `","result":`
	frameEnd   = `}}`
)

// An Item is one item of a stream.
type Item struct {
	Type string          // progress, data, guidance, error or done
	Seq  int64           // the item's number in its stream
	JSON json.RawMessage // the whole item
}

// itemOf takes an item out of its frame.
func itemOf(frame []byte) Item {
	start := len(frameStart)
	for frame[start] != '"' { // an id has no signs that need escapes
		start++
	}
	text := frame[start+len(frameItem) : len(frame)-len(frameEnd)]
	i := Item{JSON: text}
	jsonscan.Members(text, 0, func(name, value []byte) bool {
		if string(name) == `"type"` {
			i.Type = jsonscan.Unquote(value)
		}
		return i.Type == ""
	})
	seq := len(text) - 1 // seq is the last member
	for text[seq-1] != ':' {
		seq--
	}
	i.Seq, _ = strconv.ParseInt(string(text[seq:len(text)-1]), 10, 64) // we wrote it
	return i
}

// An Outcome is what came of a call for a caller that does not take its items.
type Outcome struct {
	Request  message.ID      // the call's id in the kernel; "" if the kernel didn't get the call
	Data     json.RawMessage // the reply's data
	Err      *message.Error  // the error; nil if there was a reply
	Guidance json.RawMessage // the item that would have come before the error; nil if none

	Note       string             // how the kernel has read the parameters; "" if as they are
	Deprecated kernel.Deprecation // the deprecated form that the call has used; empty if none
}

// ErrorKind returns the kind of error that there is guidance about, such as method_not_found; ""
// if there is none.
func (o *Outcome) ErrorKind() string {
	return jsonscan.Unquote(jsonscan.Member(o.Guidance, "error_kind"))
}
