package daemon

import (
	"log/slog"
	"strconv"
	"time"

	"kernos/capability/vfs/kernelfs"
	"kernos/internal/quantity"
	"kernos/kernel"
	"kernos/message"
)

// variables are the settings of a running kernel that can be changed under /sys. They have the
// names and the values of the flags.
func (d *Daemon) variables(level *slog.LevelVar) []kernelfs.Variable {
	j := d.state.journal
	limit := func(name string, of func(*kernel.Limits) *int) kernelfs.Variable {
		return changeable(name, func() string {
			l := d.kernel.Limits()
			return strconv.Itoa(*of(&l))
		}, func(n *quantity.Count) {
			l := d.kernel.Limits()
			*of(&l) = int(*n)
			d.kernel.SetLimits(l)
		})
	}
	all := []kernelfs.Variable{
		{Name: "log-level", Get: func() string { return level.Level().String() }, Set: func(text string) error {
			if err := level.UnmarshalText([]byte(text)); err != nil {
				return message.Errorf(422, "log-level is DEBUG, INFO, WARN or ERROR, got %q", message.Clip(text, 32))
			}
			return nil
		}},
		changeable("timeout", func() string { return d.kernel.Limits().Timeout.String() }, func(v *quantity.PositiveDuration) {
			l := d.kernel.Limits()
			l.Timeout = time.Duration(*v)
			d.kernel.SetLimits(l)
		}),
		limit("in-flight", func(l *kernel.Limits) *int { return &l.InFlight }),
		limit("in-flight-all", func(l *kernel.Limits) *int { return &l.InFlightAll }),
		changeable("journal-age", func() string { v := quantity.Duration(j.Retention().MaxAge); return v.String() }, func(v *quantity.Duration) {
			r := j.Retention()
			r.MaxAge = time.Duration(*v)
			j.SetRetention(r)
		}),
		changeable("journal-size", func() string { v := quantity.Bytes(j.Retention().MaxBytes); return v.String() }, func(v *quantity.Bytes) {
			r := j.Retention()
			r.MaxBytes = int64(*v)
			j.SetRetention(r)
		}),
	}
	if d.opts.Socket == nil {
		return all
	}
	return append(all, changeable("max-connections",
		func() string { return strconv.Itoa(d.socket.MaxConnections()) },
		func(n *quantity.Count) { d.socket.SetMaxConnections(int(*n)) }))
}

// changeable is a variable that takes the texts of a flag.
func changeable[T any, F interface {
	*T
	Set(string) error
}](name string, get func() string, set func(*T)) kernelfs.Variable {
	return kernelfs.Variable{Name: name, Get: get, Set: func(text string) error {
		var value T
		if err := F(&value).Set(text); err != nil {
			return message.Errorf(422, "%s: %v", name, err)
		}
		set(&value)
		return nil
	}}
}
