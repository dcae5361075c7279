package kernel_test

import (
	"context"
	"strings"
	"testing"

	"kernos/kernel"
)

// Who may reach something without a session: a call, and what the owner has set up. Nothing does so by a pointer
// that the call doesn't name itself.
func TestWhatReaches(t *testing.T) {
	reach := func(ctx context.Context) error { return kernel.Reaching(ctx, kernel.ToFile, "/etc/shadow") }
	check := func(t *testing.T, who string, ctx context.Context, want string) {
		t.Helper()
		if err := reach(ctx); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", who, err, want)
		}
	}
	check(t, "no call", t.Context(), "file /etc/shadow can't be reached here: only a call")
	check(t, "no call, for the owner", kernel.ActFor(t.Context(), kernel.Sender{}), "only a call")
	check(t, "the owner's own", kernel.OnItsOwn(t.Context()), "")
	check(t, "a stored pointer of the owner's own", kernel.Inside(kernel.OnItsOwn(t.Context())), "what was stored or answered")
	inside(t, func(t *testing.T, ctx context.Context, _ context.CancelCauseFunc) {
		check(t, "a call", ctx, "")
		check(t, "a stored pointer", kernel.Inside(ctx), "what was stored or answered")
		check(t, "a stored pointer, further down", context.WithoutCancel(kernel.Besides(kernel.Inside(ctx))), "what was stored or answered")
	})
}
