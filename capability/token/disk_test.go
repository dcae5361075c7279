package token_test

import (
	"errors"
	"runtime"
	"testing"

	"kernos/message"
)

// If the disk fails, a token stays as it was: its secret is accepted and its rights are the same,
// and the change can be made when the disk is back. Only a revocation is kept: it is the safe side.
func TestADiskThatFails(t *testing.T) {
	for _, failing := range []string{"apply", "commit"} {
		t.Run(failing, func(t *testing.T) {
			w := newWorld(t)
			ci := w.secret("Token.Create", `{"name":"ci"}`)
			p := w.principal(ci.Token)
			fails := func(what message.Type, data string) {
				t.Helper()
				w.store.Fail(func(call string) error {
					if call == failing {
						return errors.New("the disk is broken")
					}
					return nil
				})
				if reply, err := w.call(what, data); err == nil {
					t.Errorf("%s succeeds: %s", what, reply)
				}
				w.store.Fail(nil)
			}
			fails("Token.Create", `{"name":"new"}`)
			fails("Token.Rotate", `{"name":"ci"}`)
			fails("Token.Update", `{"name":"ci","deny":["Echo"]}`)
			if w.principal(ci.Token) != p || p.Life().Err() != nil {
				t.Fatal("the token has ended")
			}
			w.secret("Token.Create", `{"name":"new"}`)
			renewed := w.secret("Token.Rotate", `{"name":"ci"}`)
			<-p.Life().Done()
			if p = w.principal(renewed.Token); p == nil || w.principal(ci.Token) != nil {
				t.Fatal("the token is not rotated when the disk is back")
			}
			fails("Token.Revoke", `{"name":"ci"}`)
			if <-p.Life().Done(); w.principal(renewed.Token) != nil {
				t.Error("the token is accepted after it was revoked")
			}
			if _, err := w.call("Token.Revoke", `{"name":"ci"}`); err != nil {
				t.Errorf("it can't be revoked when the disk is back: %v", err)
			}
		})
	}
}

// While a change is not durable yet, the token is what it was, and no other change of it
// begins. When the reply comes, only the new secret is accepted.
func TestASecretIsAcceptedUntilTheNextOneIsDurable(t *testing.T) {
	w := newWorld(t)
	ci := w.secret("Token.Create", `{"name":"ci"}`)
	w.store.Manual()
	rotated := make(chan withSecret)
	go func() { rotated <- w.secret("Token.Rotate", `{"name":"ci"}`) }()
	for w.store.Pending() == 0 { // until it is applied
		runtime.Gosched()
	}
	if w.principal(ci.Token) == nil {
		t.Fatal("the secret is not accepted, and no other one is known")
	}
	if _, err := w.call("Token.Update", `{"name":"ci","rate":1}`); codeOf(err) != 409 {
		t.Errorf("another change: %v", err)
	}
	if err := w.store.Sync(); err != nil {
		t.Fatal(err)
	}
	renewed := <-rotated
	if w.principal(ci.Token) != nil || w.principal(renewed.Token) == nil {
		t.Error("the old secret is accepted after the reply, or the new one is not")
	}
}
