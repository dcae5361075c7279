package session

import (
	"kernos/kernel"
	"kernos/message"
)

// The events of sessions.
const (
	appendedEvent  message.Type = "Session.Appended"
	streamedEvent  message.Type = "Session.Streamed"
	discardedEvent message.Type = "Session.Discarded"
	askedEvent     message.Type = "Session.Asked"
	decidedEvent   message.Type = "Session.Decided"
)

// approvals are what every caller that waits for a turn is sent.
var approvals = []kernel.EventDefinition{
	{Type: askedEvent, Summary: "The turn waits until Session.Decide has decided about a call of this session, or of one that it has asked: {session, call, name, args, rule, reached}; args of more than 4,096 bytes are left out.", Unrecorded: true},
	{Type: decidedEvent, Summary: "The call no longer waits for a decision: {session, call}.", Unrecorded: true},
}

// events are what a follower of a session is sent. None of them is recorded as it is sent:
// Session.Appended is recorded once, when the message is stored, and without its texts.
var events = append([]kernel.EventDefinition{
	{Type: appendedEvent, Summary: "A message is complete: {session, seq, message}.", Unrecorded: true},
	{Type: streamedEvent, Summary: "A message grows: {session, id, messageType, offset, delta: {text}}; offset is in bytes.", Unrecorded: true},
	{Type: discardedEvent, Summary: "Messages that grew are withdrawn, and come again in other words: {session, ids}.", Unrecorded: true},
}, approvals...)
