package mcp

import "encoding/json"

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

var emptyObject = []byte("{}")
