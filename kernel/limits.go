package kernel

import (
	"cmp"
	"time"
)

// Limits of slow calls, if the options do not say otherwise.
const (
	DefaultInFlight    = 64
	DefaultInFlightAll = 4096
)

// Limits are settings that can be changed while a kernel runs. They have the meaning of the
// options of the same names.
type Limits struct {
	Timeout               time.Duration
	InFlight, InFlightAll int
}

// Limits returns the limits in force.
func (k *Kernel) Limits() Limits { return *k.limits.Load() }

// SetLimits puts limits into force, for the calls that begin from now on. Those that are 0
// are the defaults.
func (k *Kernel) SetLimits(l Limits) {
	l.Timeout = cmp.Or(l.Timeout, DefaultTimeout)
	l.InFlight = cmp.Or(l.InFlight, DefaultInFlight)
	l.InFlightAll = cmp.Or(l.InFlightAll, DefaultInFlightAll)
	k.limits.Store(&l)
}
