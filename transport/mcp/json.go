package mcp

import (
	"encoding/json"

	"kernos/internal/jsonscan"
)

// membersOf returns the members of a Go value that is an object in JSON.
func membersOf(object any) []byte {
	text := marshal(object)
	return text[1 : len(text)-1]
}

// marshal returns a Go value as JSON. It is for what a person waits for; calls of tools are written by hand.
func marshal(v any) []byte {
	text, _ := json.Marshal(v) // never fails: the values are strings, numbers, JSON, and lists and objects of them
	return text
}

// eachMember goes through the members of an object, which may be nil.
func eachMember(object []byte, visit func(name string, value []byte)) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	jsonscan.Members(object, 0, func(name, value []byte) bool {
		visit(jsonscan.Unquote(name), value)
		return true
	})
}

// eachElement goes through the elements of a list, which may be nil.
func eachElement(list []byte, visit func(value []byte)) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	jsonscan.Elements(list, 0, func(value []byte) bool {
		visit(value)
		return true
	})
}

var emptyObject = []byte("{}")
