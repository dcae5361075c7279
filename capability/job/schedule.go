package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	_ "time/tzdata" // time zones are known on machines that have none installed: 450 KB

	"github.com/robfig/cron/v3"

	"kernos/internal/quantity"
	"kernos/internal/when"
	"kernos/message"
)

// A schedule is when something is to be done again and again.
//
// A cron expression is about the clock on the wall of its time zone. Where that clock is set
// forward, times that don't exist are done at the moment of the change; where it is set back,
// times that come twice are done at the first. An expression whose hour is * is about the
// time that passes: it continues through both changes without a gap.
type schedule struct {
	spec  cron.Schedule
	every time.Duration // the interval of @every
	zone  *time.Location
	wall  bool // about the clock on the wall

	asked atomic.Pointer[nextTime] // the last one: schedules of one text are due at one moment
}

// A nextTime is the first time of a schedule after another one.
type nextTime struct{ after, is time.Time }

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// readSchedule reads an expression: cron with five fields, or six with seconds first, @every
// 90s, @hourly, @daily, …
func readSchedule(text, zone string) (*schedule, error) {
	text = strings.TrimSpace(text)
	s := new(schedule)
	var err error
	if s.zone, err = readZone(zone); err != nil {
		return nil, err
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, invalid("schedule", "give the time zone as timeZone")
	}
	if span, ok := strings.CutPrefix(text, "@every "); ok {
		every, err := quantity.ParseDuration(strings.TrimSpace(span))
		if err != nil || every < time.Second || every > when.MaxSpan*time.Millisecond {
			return nil, invalid("schedule", "expected @every with a time of at least 1s, such as @every 1h30m or @every 2d, got %q", message.Clip(text, 64))
		}
		s.every = every
		return s, nil
	}
	if s.spec, err = parser.Parse(endingOnSunday(text)); err != nil {
		return nil, invalid("schedule", "expected a cron expression such as 0 9 * * 1-5 (minute, hour, day, month, weekday; seconds may come first), @hourly, @daily or @every 10m; got %q: %v", message.Clip(text, 64), err)
	}
	s.wall = !everyHour(text)
	if s.next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, invalid("schedule", "%q never comes", message.Clip(text, 64))
	}
	return s, nil
}

// readZone returns the time zone of a name; that of the machine has none.
func readZone(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid("timeZone", "expected the name of a time zone such as Europe/Berlin or UTC, got %q", message.Clip(name, 64))
	}
	return zone, nil
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// endingOnSunday writes the weekdays of an expression for the parser, for which Sunday is 0 and
// begins the week: 7 is Sunday too, and a range may end with it, such as 5-7 or fri-sun.
func endingOnSunday(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 5 {
		return text
	}
	days := strings.Split(strings.ToLower(fields[len(fields)-1]), ",")
	for i, part := range days {
		span, by, _ := strings.Cut(part, "/")
		first, last, isRange := strings.Cut(span, "-")
		from := slices.Index(weekdays, first)
		if n, err := strconv.Atoi(first); err == nil {
			from = n
		}
		step, err := strconv.Atoi(cmp.Or(by, "1"))
		if toSunday := last == "7" || last == "sun" && from > 0 || !isRange && first == "7"; !toSunday || from < 0 || from > 7 || err != nil || step < 1 {
			continue // the parser knows it, or reports what is wrong
		}
		var listed []string
		for day := from; day <= 7; day += min(step, 7) {
			listed = append(listed, strconv.Itoa(day%7))
		}
		days[i] = strings.Join(listed, ",")
	}
	fields[len(fields)-1] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// scheduleOf returns the schedule of a job. Those that were used lately are kept: reading one takes
// 10 µs, and several times as long if it names a time zone.
func (j *Jobs) scheduleOf(s *spec) (*schedule, error) {
	name := s.Schedule + "\x00" + s.Zone
	if kept, ok := j.schedules.Get(name); ok {
		return kept, nil
	}
	read, err := readSchedule(s.Schedule, s.Zone)
	if err == nil {
		j.schedules.Put(name, read, len(name))
	}
	return read, err
}

// everyHour reports whether an expression is about every hour.
func everyHour(text string) bool {
	fields := strings.Fields(text)
	if len(fields) == 1 {
		return text == "@hourly"
	}
	return fields[len(fields)-4] == "*"
}

// next returns the first time after t, or the zero time if there is none.
func (s *schedule) next(t time.Time) time.Time {
	if n := s.asked.Load(); n != nil && n.after.Equal(t) {
		return n.is
	}
	n := &nextTime{t, s.find(t)}
	s.asked.Store(n)
	return n.is
}

// find is next, which remembers what it has found: a time that comes once per year takes 10 µs.
func (s *schedule) find(t time.Time) time.Time {
	switch {
	case s.every > 0:
		return t.Add(s.every)
	case !s.wall:
		return s.spec.Next(t.In(s.zone))
	}
	// The expression is asked about a clock that is never set, and what it answers is looked
	// up on the clock of the zone: a time that doesn't exist is the moment of the change, and of a
	// time that comes twice the first one counts. The library itself would skip the former to the
	// next day, and its answer for the latter depends on the moment it is asked.
	wall := s.unrepeated(t.In(s.zone))
	for range 4 {
		if wall = s.spec.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		if next := when.FromWall(wall, s.zone); next.After(t) {
			return next
		}
	}
	return time.Time{}
}

// maxCatchUp is how many missed runs of a schedule are caught up with, and maxMissed how many of
// its times are looked at one by one.
const (
	maxCatchUp = 1000
	maxMissed  = 100_000
)

// passed returns the times of a schedule, from one that is due until now, for which there is a
// run: the last one, or with catchUp each of them, the latest 1,000 at most. It also returns how
// many have none, and the first time after now.
func (s *schedule) passed(due, now time.Time, catchUp bool) (times []time.Time, missed int, next time.Time) {
	keep := 1
	if catchUp {
		keep = maxCatchUp
	}
	for next = due; !next.IsZero() && !next.After(now); next = s.next(next) {
		if times = append(times, next); len(times) > keep {
			times = times[1:]
			missed++
		}
		if hour := now.Add(-time.Hour); missed == maxMissed && next.Before(hour) {
			next = s.skip(next, hour) // missed times until then aren't counted
		}
	}
	return times, missed, next
}

// skip returns a time until to, from which on the times of the schedule are as they are from
// from on.
func (s *schedule) skip(from, to time.Time) time.Time {
	if s.every > 0 {
		return from.Add(to.Sub(from).Truncate(s.every))
	}
	return to
}

// unrepeated returns what the clock shows, or, while it shows times for the second time, the last
// one of these.
func (s *schedule) unrepeated(t time.Time) time.Time {
	wall := when.OnWall(t)
	begin, _ := t.ZoneBounds()
	if begin.IsZero() {
		return wall
	}
	_, before := begin.Add(-time.Second).In(s.zone).Zone()
	end := when.OnWall(begin.Add(time.Duration(before) * time.Second).UTC()) // the time that the clock would have shown when it was set
	return later(wall, end.Add(-time.Second))
}
