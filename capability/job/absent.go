package job

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A syscall that a program serves is absent while the program isn't connected: it restarts, or
// the kernel was restarted and the program hasn't connected again. A job that calls it waits.

const (
	shortestWait = 250 * time.Millisecond
	longestWait  = 15 * time.Second
)

// knows reports whether a program has served a syscall that isn't served now.
func (j *Jobs) knows(t message.Type) bool {
	if j.opts.Known == nil {
		return false
	}
	known, err := j.opts.Known(t)
	return known || err != nil // an error of the store passes
}

// absent reports whether a syscall isn't served now, or is about to leave since it is away. It was known when the job was
// started, and a program that has left may come back, whether or not it has given its name back.
func (a *run) absent(t message.Type) bool {
	_, ok := a.k.Registry().Lookup(t)
	return !ok || a.away(a.j, t) != ""
}

// checkAbsent is checkCallOf for a syscall that is absent, as far as it can be checked: its
// schema and its kind aren't known before its program is connected.
func (j *Jobs) checkAbsent(from kernel.Sender, field string, t message.Type, data jsontext.Value) error {
	if e := from.Principal().May(principal.Target{Type: t, Kind: message.KindQuery}); e != nil {
		return e
	}
	return checkSecrets(unknownSyscall(t), field, data)
}

// away returns why a syscall isn't served until the owner does something.
func (s *spec) away(j *Jobs, t message.Type) string {
	if j.opts.Away == nil {
		return ""
	}
	return j.opts.Away(t, s.Principal == principal.OwnerID)
}

// waitUntil returns when a job looks again whether a syscall is served. since is when it
// looked first, and is set then. A job waits as long as its call may take, and then fails with
// notServed; while the syscall is away, it waits without limit.
func (a *run) waitUntil(t message.Type, since *int64, now time.Time) (due time.Time, ok bool) {
	*since = cmp.Or(*since, now.UnixMilli())
	waited := now.Sub(time.UnixMilli(*since))
	if waited >= a.timeout() && a.away(a.j, t) == "" {
		return due, false
	}
	pause := min(max(waited/2, shortestWait), longestWait)
	return now.Add(pause + rand.N(pause/4)), true
}
