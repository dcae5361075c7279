package message_test

import (
	"encoding/json"
	"fmt"

	"kernos/message"
)

func ExampleDecode() {
	m, err := message.Decode([]byte(`{"kind":"query","type":"Memory.Get","data":{"key":"/notes/1"},"metadata":{"id":"q1","timestamp":1735000000000}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Kind, m.Type, string(m.Data), m.Metadata.ID)

	_, err = message.Decode([]byte(`{"kind":"query","type":"Memory.Get","data":{},"metadata":{"id":"q1"}}`))
	fmt.Println(err)
	// Output:
	// query Memory.Get {"key":"/notes/1"} q1
	// Missing required field: metadata.timestamp
}

func ExampleMessage_Reply() {
	request := message.Message{
		Kind: message.KindQuery, Type: "Memory.Get", Data: json.RawMessage(`{"key":"/notes/1"}`),
		Metadata: message.Metadata{ID: "q1", Timestamp: 1735000000000, Correlation: "user-req-123"},
	}
	reply := request.Reply(json.RawMessage(`"milk"`))
	reply.Metadata.ID, reply.Metadata.Timestamp = "r1", 1735000000001
	fmt.Println(string(message.Append(nil, &reply)))
	// Output:
	// {"kind":"reply","type":"Memory.Get","data":"milk","metadata":{"id":"r1","timestamp":1735000000001,"correlation":"user-req-123","causation":"q1"}}
}

func ExampleError() {
	missing := message.Errorf(404, "Encryption key not found in vault: %s", "/keys/master")
	err := message.Errorf(500, "Encryption failed: %w", missing)
	fmt.Println(err)
	fmt.Println(string(err.Append(nil)))
	// Output:
	// Encryption failed: Encryption key not found in vault: /keys/master
	// {"code":500,"message":"Encryption failed","cause":{"code":404,"message":"Encryption key not found in vault: /keys/master"}}
}
