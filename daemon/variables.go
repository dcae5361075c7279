package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"kernos/capability/vfs/kernelfs"
	"kernos/internal/quantity"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
)

// The floors of settings: a running kernel can't be set to less. With less it would no longer
// serve a caller, or forget what was done just now.
const (
	minTimeout     = 100 * time.Millisecond
	minInFlight    = 4
	minInFlightAll = 16
	minConnections = 16
	minJournalSize = 1 << 20
)

// variables returns the settings of a running kernel that can be changed under /sys. They have the
// names and the values of the flags.
func (d *Daemon) variables(level *slog.LevelVar) []kernelfs.Variable {
	j := d.state.journal
	limit := func(name string, least int, of func(*kernel.Limits) *int) kernelfs.Variable {
		return d.changeable(name, func() string {
			l := d.kernel.Limits()
			return strconv.Itoa(*of(&l))
		}, numbered(quantity.Count(least), func(n quantity.Count) {
			l := d.kernel.Limits()
			*of(&l) = int(n)
			d.kernel.SetLimits(l)
		}))
	}
	all := []kernelfs.Variable{
		d.changeable("log-level", func() string { return level.Level().String() }, func(text string) error {
			var l slog.Level
			if err := l.UnmarshalText([]byte(text)); err != nil || l > slog.LevelError {
				return message.Errorf(422, "expected DEBUG, INFO, WARN or ERROR, got %q", message.Clip(text, 32))
			}
			level.Set(l)
			return nil
		}),
		d.changeable("timeout", func() string { return d.kernel.Limits().Timeout.String() },
			numbered(quantity.PositiveDuration(minTimeout), func(v quantity.PositiveDuration) {
				l := d.kernel.Limits()
				l.Timeout = time.Duration(v)
				d.kernel.SetLimits(l)
			})),
		limit("in-flight", minInFlight, func(l *kernel.Limits) *int { return &l.InFlight }),
		limit("in-flight-all", minInFlightAll, func(l *kernel.Limits) *int { return &l.InFlightAll }),
		d.changeable("journal-age", func() string { v := quantity.Duration(j.Retention().MaxAge); return v.String() },
			numbered(quantity.Duration(journal.MinAge), func(v quantity.Duration) {
				r := j.Retention()
				r.MaxAge = time.Duration(v)
				j.SetRetention(r)
			})),
		d.changeable("journal-size", func() string { v := quantity.Bytes(j.Retention().MaxBytes); return v.String() },
			numbered(quantity.Bytes(minJournalSize), func(v quantity.Bytes) {
				r := j.Retention()
				r.MaxBytes = int64(v)
				j.SetRetention(r)
			})),
	}
	if d.opts.Socket == nil {
		return all
	}
	return append(all, d.changeable("max-connections",
		func() string { return strconv.Itoa(d.socket.MaxConnections()) },
		numbered(quantity.Count(minConnections), func(n quantity.Count) { d.socket.SetMaxConnections(int(n)) })))
}

// numbered takes the texts of a flag. What is less than the least value is refused, except for
// 0, which means no limit where the flag takes it.
func numbered[T ~int | ~int64, F interface {
	*T
	Set(string) error
	String() string
}](least T, set func(T)) func(string) error {
	return func(text string) error {
		var value T
		if err := F(&value).Set(text); err != nil {
			return err
		}
		if value != 0 && value < least {
			return message.Errorf(422, "expected %s or more, got %q", F(&least).String(), message.Clip(text, 32))
		}
		set(value)
		return nil
	}
}

// changeable returns a setting that can be changed. The operator's log and the journal name every change, and who
// made it. [kernelfs] has checked that the caller may change settings.
func (d *Daemon) changeable(name string, get func() string, set func(text string) error) kernelfs.Variable {
	return kernelfs.Variable{Name: name, Get: get, Set: func(ctx context.Context, text string) error {
		before := get()
		if err := set(text); err != nil {
			return message.Errorf(422, "%s: %v", name, err)
		}
		d.settingChanged(ctx, settingChange{name, before, get()})
		return nil
	}}
}

// settingChange is the data of [kernel.SettingChanged].
type settingChange struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// settingChanged writes a change to the operator's log, whatever its level is, and to the
// journal.
func (d *Daemon) settingChanged(ctx context.Context, change settingChange) {
	sender := kernel.SenderOf(ctx)
	var m message.Message
	data, _ := json.Marshal(change) // texts
	if c, ok := kernel.CallOf(ctx); ok {
		m = c.Request().Event(kernel.SettingChanged, data)
	} else {
		m = message.Message{Kind: message.KindEvent, Type: kernel.SettingChanged, Data: data}
	}
	d.kernel.Stamp(&m)
	d.kernel.Record(m, kernel.Within, sender)
	d.opts.Log.Log(ctx, max(slog.LevelWarn, d.opts.Level.Level()), "a setting was changed", "name", change.Name, "from", change.From, "to", change.To,
		"principal", sender.Principal().Name(), "wire", sender.Wire())
}
