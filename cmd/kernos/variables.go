package main

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"kernos/capability/vfs"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

// variables are the settings of a running kernel that can be changed in the sys mount. They
// have the names and the values of the flags. The server is nil where there is none; both it
// and the kernel may come later than the first look at the list.
func variables(level *slog.LevelVar, j *journal.Journal, k func() *kernel.Kernel, server func() *unix.Server) vfs.Variables {
	limit := func(name string, of func(*kernel.Limits) *int) vfs.Variable {
		return changeable(name, func() string {
			l := k().Limits()
			return strconv.Itoa(*of(&l))
		}, func(n *count) {
			l := k().Limits()
			*of(&l) = int(*n)
			k().SetLimits(l)
		})
	}
	all := vfs.Variables{
		{Name: "log-level", Get: func() string { return level.Level().String() }, Set: func(text string) error {
			if err := level.UnmarshalText([]byte(text)); err != nil {
				return message.Errorf(422, "log-level is DEBUG, INFO, WARN or ERROR, got %q", message.Clip(text, 32))
			}
			return nil
		}},
		changeable("timeout", func() string { return k().Limits().Timeout.String() }, func(a *someAge) {
			l := k().Limits()
			l.Timeout = time.Duration(a.age)
			k().SetLimits(l)
		}),
		limit("in-flight", func(l *kernel.Limits) *int { return &l.InFlight }),
		limit("in-flight-all", func(l *kernel.Limits) *int { return &l.InFlightAll }),
		changeable("journal-age", func() string { a := age(j.Retention().MaxAge); return a.String() }, func(a *age) {
			r := j.Retention()
			r.MaxAge = time.Duration(*a)
			j.SetRetention(r)
		}),
		changeable("journal-size", func() string { n := size(j.Retention().MaxBytes); return n.String() }, func(n *size) {
			r := j.Retention()
			r.MaxBytes = int64(*n)
			j.SetRetention(r)
		}),
	}
	if server == nil {
		return all
	}
	return append(all, changeable("max-connections",
		func() string { return strconv.Itoa(server().MaxConnections()) },
		func(n *count) { server().SetMaxConnections(int(*n)) }))
}

// someAge is an age that is more than 0.
type someAge struct{ age }

// Set implements the interface of a flag.
func (a *someAge) Set(text string) error {
	err := a.age.Set(text)
	if err == nil && a.age == 0 {
		err = errors.New("must be more than 0")
	}
	return err
}

// changeable is a variable whose values are those of a flag.
func changeable[T any, F interface {
	*T
	Set(string) error
}](name string, get func() string, set func(*T)) vfs.Variable {
	return vfs.Variable{Name: name, Get: get, Set: func(text string) error {
		var value T
		if err := F(&value).Set(text); err != nil {
			return message.Errorf(422, "%s: %v", name, err)
		}
		set(&value)
		return nil
	}}
}
