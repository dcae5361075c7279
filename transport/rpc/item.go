package rpc

import (
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

// beginItem appends what every item begins with. via names the nested calls that it came
// through.
func (st *stream) beginItem(dst []byte, kind string, via []message.Type) []byte {
	dst = append(dst, `{"service_hash":"`...)
	dst = append(dst, st.svc.Hash()...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","provenance":["`...)
	dst = append(dst, st.namespace...) // lower case and digits, and nothing that needs escapes
	for _, t := range via {
		namespace, _ := kernel.Method(t)
		dst = append(dst, `","`...)
		dst = append(dst, namespace...)
	}
	return append(dst, `"]`...)
}

// endItem appends what every item ends with.
func (st *stream) endItem(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `,"seq":`...), st.seq+1, 10)
	return append(dst, '}')
}

// appendData appends the members of a data item.
func appendData(dst []byte, contentType string, data []byte) []byte {
	dst = append(dst, `,"content_type":"`...)
	dst = append(dst, contentType...)
	dst = append(dst, `","data":`...)
	return append(dst, data...)
}

// appendProgress appends the members of a progress item. Data that a program outside has
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

// appendError appends the members of an error item. The code is an HTTP status, as in all
// of the kernel's errors.
func appendError(dst []byte, e *message.Error) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `,"error":`...), message.Clip(e.Error(), message.MaxErrorText))
	dst = strconv.AppendBool(append(dst, `,"recoverable":`...), recoverable(e.Code))
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
