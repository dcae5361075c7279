package session

import (
	"context"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

type removeOutput struct {
	Success bool `json:"success" jsonschema_description:"True."`
}

var remove = kernel.DefineCommand[sessionInput, removeOutput](kernel.Definition{
	Type:    "Session.Delete",
	Summary: "Delete a session with its messages and files. The journal has none of its texts.",
	Presentation: kernel.Presentation{
		Title: "Delete a session",
		Words: "remove a conversation, rm, erase a chat, get rid of a chat, delete a conversation, throw a chat away, remove old chats, " +
			"wipe a conversation, clear a chat",
		Result: "Deleted the session {request.session}",
		Errors: []kernel.ErrorDefinition{notFoundError, {Code: 409, When: "there are forks of the session"}},
	},
	Behavior: kernel.Behavior{Destroys: true, Repeat: kernel.Idempotent},
})

func (x *Sessions) remove(ctx context.Context, in sessionInput) (out removeOutput, err error) {
	s, err := x.writable(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if first, err := store.First(x.opts.Store, store.Prefix(key(keyFork, s.ID))); err != nil || first.Revision != 0 {
		if err == nil {
			err = message.Errorf(409, "The session %s is what the session %s begins with; delete that one first", s.ID, first.Key[2+26:])
		}
		return out, err
	}
	var b store.Batch
	b.IfRevision(key(keyHead, s.ID), s.revision)
	removed, err := x.queue.Remove(&b, s.ID)
	if err != nil {
		return out, err
	}
	for _, letter := range []byte{keyMessage, keyQueued, keyResult} {
		for e, err := range x.opts.Store.Scan(store.Prefix(key(letter, s.ID))) {
			if err != nil {
				return out, err
			}
			x.unrefer(&b, e.Value, append([]byte(nil), e.Key...))
		}
		b.DeleteRange(key(letter, s.ID), store.After(key(letter, s.ID)))
	}
	b.Delete(key(keyHead, s.ID))
	b.Delete(key(keyTurn, s.ID))
	if s.Fork != nil {
		b.Delete(key(keyFork, s.Fork.Session, s.ID))
	}
	if err := kernel.Stage(ctx, &b); err != nil {
		return out, err
	}
	kernel.WhenApplied(ctx, func(*store.Commit) {
		if removed != nil {
			removed(errCanceled)
		}
		x.stored(s.ID)
	})
	return removeOutput{true}, nil
}
