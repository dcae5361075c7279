package mcp

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"kernos/internal/testkit"
	"kernos/kernel/principal"
)

// outer is a context that a session is made in.
type outer struct {
	context.Context
	_ [64]byte // not among the tiny objects that are freed together
}

// A token that lasts keeps nothing of its sessions that have ended.
func TestATokenForgetsSessionsThatHaveEnded(t *testing.T) {
	p, err := principal.New("01", "ci", principal.Grant{Preset: principal.Agent})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() weak.Pointer[outer] {
		ctx := &outer{Context: t.Context()}
		newSession(ctx, nil, p).end()
		return weak.Make(ctx)
	}
	kept := begin()
	testkit.Until(t, "the session is forgotten", func() bool {
		runtime.GC()
		return kept.Value() == nil
	})
	runtime.KeepAlive(p)
}
