package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/kernel"
)

// openRPCVersion is the version of OpenRPC that the document follows.
const openRPCVersion = "1.3.2"

// makeOpenRPC is the answer to rpc.discover. A method's result is the id of its stream, as
// it is on the wire; what the stream carries is in x-stream.
func (d *documents) makeOpenRPC() json.RawMessage {
	shared := newDefinitions("#/components/schemas/")
	dst := []byte(`{"openrpc":"` + openRPCVersion + `","info":{"title":"Kernos","description":"Every call is a stream: its result is the id of a subscription, and its items come as notifications of ` + Notification + `.","version":`)
	dst = append(jsonscan.AppendQuoted(dst, d.hash), `},"methods":[`...)
	at := 0
	for i := range d.spaces {
		for _, r := range d.spaces[i].Methods {
			if at > 0 {
				dst = append(dst, ',')
			}
			dst = appendMethod(dst, r, shared, at)
			at++
		}
	}
	for _, own := range ownMethods {
		if at > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, own...)
		at++
	}
	dst = append(dst, `],"components":{"schemas":`...)
	return append(shared.append(dst), `}}`...)
}

// streamResult is the result of every method that is a stream.
const streamResult = `"result":{"name":"subscription","description":"The id of the stream.","schema":{"type":"string"}}`

// ownMethods are the methods of the service itself.
var ownMethods = []string{
	`{"name":"service_schema","summary":"List the modules and their methods.","params":[],` + streamResult + `}`,
	`{"name":"service_module_schema","summary":"Give the JSON Schema of a module's methods.","params":[{"name":"namespace","required":true,"schema":{"type":"string"}}],` + streamResult + `}`,
	`{"name":"service_hash","summary":"Give the hash of all modules and methods.","params":[],` + streamResult + `}`,
	`{"name":"service_unsubscribe","summary":"End a stream and forget it.","params":[{"name":"subscription","required":true,"schema":{"type":"string"}}],"result":{"name":"ended","schema":{"type":"boolean"}}}`,
	`{"name":"service_resume","summary":"Go on with a stream, from another connection too.","params":[{"name":"subscription","required":true,"schema":{"type":"string"}},{"name":"after","description":"The seq of the last item that came, 0 if none did.","required":true,"schema":{"type":"integer","minimum":0}}],` + streamResult + `}`,
}

func appendMethod(dst []byte, r *kernel.Route, shared *definitions, at int) []byte {
	here := "#/methods/" + strconv.Itoa(at)
	input := shared.take(r.Syscall.Input.JSON(), here+"/x-input")
	required := make(map[string]bool)
	if list := member(input, "required"); len(list) > 0 && list[0] == '[' {
		elements(list, func(name []byte) bool {
			required[jsonscan.Unquote(name)] = true
			return true
		})
	}
	dst = append(append(dst, `{"name":"`...), r.Name()...)
	dst = append(append(dst, `","tags":[{"name":"`...), r.Namespace...)
	dst = append(jsonscan.AppendQuoted(append(dst, `"}],"summary":`...), r.Syscall.Summary), `,"params":[`...)
	// Those that are required first, as OpenRPC wants it: params go by name.
	began := false
	for _, pass := range []bool{true, false} {
		eachProperty(input, func(token, value []byte) {
			name := jsonscan.Unquote(token)
			if required[name] != pass {
				return
			}
			if began {
				dst = append(dst, ',')
			}
			began = true
			dst = append(append(dst, `{"name":`...), token...)
			if description := member(value, "description"); description != nil {
				dst = append(append(dst, `,"description":`...), description...)
			}
			dst = strconv.AppendBool(append(dst, `,"required":`...), pass)
			dst = append(append(append(dst, `,"schema":`...), value...), '}')
		})
	}
	dst = append(dst, `],"paramStructure":"by-name",`+streamResult...)
	if bytes.Contains(input, []byte(here+"/x-input")) { // it refers to itself
		dst = append(append(dst, `,"x-input":`...), input...)
	}
	output := shared.take(r.Syscall.Output.JSON(), here+"/x-stream/data")
	dst = append(append(dst, `,"x-stream":{"notification":"`+Notification+`","content_type":"`...), r.Namespace+"."+r.Method...)
	return append(append(append(dst, `","data":`...), output...), `}}`...)
}
