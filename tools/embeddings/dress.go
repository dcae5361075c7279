package main

import "math/rand/v2"

// People ask in questions, and what they look for is in messages. The words that both come with
// tell nothing about what is meant: the table learns that from pairs that are dressed in them.

var questions = []string{"which", "what", "who", "when did", "where is the", "show me all", "find", "was there a", "did", "is there", "list the", "how do I", "why did",
	"somebody", "someone", "I want to know", "messages about", "what happened to", "which one of them", "has it been", "the one that", "how much", "a", "the", "we", "my", "it was",
	"give me everything related to", "who did", "could not be", "which of our", "what is", "related to"}

var (
	types  = []string{"Session.Appended", "Session.Changed", "Memory.Changed", "Memory.Set", "Item.Created", "Item.Changed", "Event.Received", "Message.Received", "Entry.Created", "Status.Changed", "Data.Received", "Item.Done"}
	kinds  = []string{"event", "reply", "command", "query"}
	fields = []string{"code", "message", "text", "name", "value", "key", "data", "status", "url", "type", "kind", "id", "reason", "title", "by", "from", "to", "at", "role user", "role assistant", "state", "result", "count", "bytes", "path", "uri",
		"file", "attempt", "number", "https example test", "os root", "notes", "level", "place", "subject", "label", "device", "metric", "service"}
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// dress makes a question of one text and a message of the other, of half of the pairs.
func dress(r *rand.Rand, p [2]string) [2]string {
	if r.IntN(2) == 0 {
		p[0] = pick(r, questions) + " " + p[0]
	}
	if r.IntN(2) == 0 {
		p[1] = pick(r, types) + " " + pick(r, kinds) + " " + pick(r, fields) + " " + p[1] + " " + pick(r, fields)
	}
	return p
}
