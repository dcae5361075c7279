package when

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"kernos/internal/quantity"
)

// A Moment is a point in time as it was written. Most texts mean one only together with the time at which they are
// read, and with a time zone. The zero value is none.
type Moment struct {
	text    string // as JSON
	means   meaning
	exact   time.Time     // exactTime
	span    time.Duration // fromNow, before or after
	wall    time.Time     // onDate: what the clock shows, as a time of UTC
	days    int           // onDay: how many days after today
	weekday time.Weekday  // onWeekday
	clock   time.Duration // since midnight: atClock, onDay and onWeekday
	side    side          // the side that the text itself names
}

// A meaning is how a text names a point in time.
type meaning byte

const (
	none      meaning = iota
	exactTime         // 2026-11-20T09:00:00Z, or a number
	fromNow           // in 2 hours, 3 days ago, 2h, now
	onDate            // 2026-11-20 09:00
	onDay             // today, tomorrow 9:00
	onWeekday         // monday 8:00, next friday
	atClock           // 18:00, 9am
)

// A side is where a point in time is looked for.
type side int

const (
	before side = iota - 1
	open        // on the side that the parameter is about
	after
)

// IsZero reports whether no point in time is given.
func (m Moment) IsZero() bool { return m.means == none }

// IsClock reports whether only a time of day is given.
func (m Moment) IsClock() bool { return m.means == atClock }

// HasZone reports whether the point in time doesn't depend on a time zone.
func (m Moment) HasZone() bool { return m.means <= fromNow }

// Ahead returns the point in time in the zone of now. Of several, it is the next one.
func (m Moment) Ahead(now time.Time) time.Time { return m.at(now, after) }

// Back returns the point in time in the zone of now. Of several, it is the last one.
func (m Moment) Back(now time.Time) time.Time { return m.at(now, before) }

func exactly(t time.Time) Moment { return Moment{means: exactTime, exact: t} }

func (m Moment) at(now time.Time, looked side) time.Time {
	if m.side != open {
		looked = m.side
	}
	switch m.means {
	case none:
		return time.Time{}
	case exactTime:
		return m.exact
	case fromNow:
		return now.Add(time.Duration(looked) * m.span)
	case onDate:
		return FromWall(m.wall, now.Location())
	}
	shown := OnWall(now)
	today := shown.Add(-sinceMidnight(shown))
	day := func(days int) time.Time { return FromWall(today.AddDate(0, 0, days).Add(m.clock), now.Location()) }
	days, period := m.days, 0 // days after today, and after how many days the text means another day
	switch m.means {
	case onWeekday:
		days, period = (int(m.weekday-today.Weekday())+7)%7, 7
	case atClock:
		period = 1
	}
	// "next monday" and "last monday" are never today.
	switch t := day(days); {
	case period == 0:
		return t
	case looked == after && (m.side == after && days == 0 || !t.After(now)):
		return day(days + period)
	case looked == before && (m.side == before && days == 0 || t.After(now)):
		return day(days - period)
	default:
		return t
	}
}

func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// Forms of times, without a zone and with one. Seconds may have a fraction.
var (
	zoned  = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"}
	dates  = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}
	clocks = []string{"15:04:05", "15:04", "3:04pm", "3pm"}
)

// maxText is how long a text may be.
const maxText = 100

// Parse reads a point in time: a date and a time of RFC 3339, the same without a zone, milliseconds since 1970, now,
// "in 2 hours", "3 days ago", a length of time, today, tomorrow, yesterday or a day of the week, each with a time of day or
// without one, or a time of day. An hour behind a day or "at" may stand alone: "tomorrow at 9". With a part of a day, it is one
// of twelve: "tonight at 8".
func Parse(text string) (m Moment, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxText {
		return m, false
	}
	if n, err := strconv.ParseUint(text, 10, 53); err == nil { // as a shell writes it
		return exactly(time.UnixMilli(int64(n))), true
	}
	for _, layout := range zoned {
		if t, err := time.Parse(layout, strings.ToUpper(text)); err == nil {
			return exactly(t), true
		}
	}
	for _, layout := range dates {
		if t, err := time.Parse(layout, strings.ToUpper(text)); err == nil {
			return Moment{means: onDate, wall: t}, true
		}
	}
	words := strings.Fields(strings.ToLower(text))
	if m, ok = parseSpan(words); ok {
		return m, true
	}
	return parseDay(words)
}

// parseSpan reads a point in time that is so long before or after now.
func parseSpan(words []string) (m Moment, ok bool) {
	m.means = fromNow
	last := len(words) - 1
	switch {
	case words[last] == "now":
		return m, last == 0
	case words[0] == "in":
		m.side, words = after, words[1:]
	case words[last] == "ago":
		m.side, words = before, words[:last]
	}
	d, err := quantity.ParseDuration(strings.Join(words, " "))
	m.span = d
	return m, err == nil && spanOf(d) <= MaxSpan
}

var days = map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}

// A part of a day is from an hour of it until another.
type part struct{ from, until time.Duration }

var parts = map[string]*part{
	"morning": {0, 12 * time.Hour}, "afternoon": {12 * time.Hour, 18 * time.Hour},
	"evening": {17 * time.Hour, 24 * time.Hour}, "night": {18 * time.Hour, 24 * time.Hour},
}

// withToday writes the parts of today as others are written: tonight is today night, and this evening is today evening.
func withToday(words []string) []string {
	for i, w := range words {
		switch {
		case w == "tonight":
			return slices.Replace(slices.Clone(words), i, i+1, "today", "night")
		case w == "this" && i+1 < len(words) && parts[words[i+1]] != nil:
			return slices.Replace(slices.Clone(words), i, i+1, "today")
		}
	}
	return words
}

// parseDay reads a day with a time of day, or one of both.
func parseDay(words []string) (m Moment, ok bool) {
	at := slices.Contains(words, "at")
	words = withToday(slices.DeleteFunc(words, func(w string) bool { return w == "at" || w == "on" }))
	var clock []string
	var within *part
	for i := 0; i < len(words); i++ {
		w := words[i]
		n, isDay := days[w]
		weekday, isWeekday := weekdayOf(w)
		date, wrong := time.Parse(time.DateOnly, w)
		side := open
		if i+1 < len(words) && (w == "next" || w == "last") {
			if weekday, isWeekday = weekdayOf(words[i+1]); !isWeekday {
				return m, false
			}
			side = after
			if w == "last" {
				side = before
			}
			i++
		}
		switch named := isDay || isWeekday || wrong == nil; {
		case named && m.means != none:
			return m, false
		case isDay:
			m.means, m.days = onDay, n
		case isWeekday:
			m.means, m.weekday, m.side = onWeekday, weekday, side
		case wrong == nil:
			m.means, m.wall = onDate, date
		case parts[w] != nil && m.means != none && within == nil:
			within = parts[w]
		default:
			clock = append(clock, w)
		}
	}
	if len(clock) == 0 {
		return m, m.means != none && within == nil // at which hour an evening begins isn't known
	}
	shown := strings.Join(clock, "")
	if m.clock, ok = parseClock(shown); !ok && (at || m.means != none) {
		m.clock, ok = parseHour(shown)
	}
	if ok && within != nil {
		m.clock, ok = within.hour(m.clock, strings.HasSuffix(shown, "am"))
	}
	if !ok {
		return m, false
	}
	switch m.means {
	case none:
		m.means = atClock
	case onDate:
		m.wall = m.wall.Add(m.clock)
	}
	return m, true
}

// hour returns the time of day in a part of the day that a clock means, which may show twelve hours.
func (p *part) hour(clock time.Duration, exact bool) (time.Duration, bool) {
	if later := clock + 12*time.Hour; !exact && p.from <= later && later < p.until {
		return later, true
	}
	return clock, p.from <= clock && clock < p.until
}

func weekdayOf(word string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if word == name || word == name[:3] {
			return d, true
		}
	}
	return 0, false
}

func parseClock(text string) (time.Duration, bool) {
	switch text {
	case "noon":
		return 12 * time.Hour, true
	case "midnight":
		return 0, true
	}
	for _, layout := range clocks {
		if t, err := time.Parse(layout, text); err == nil {
			return sinceMidnight(t), true
		}
	}
	return 0, false
}

var hours = []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// parseHour reads a whole hour, as it stands behind a day or "at": 9, 21, nine. It is one of 24.
func parseHour(text string) (time.Duration, bool) {
	if i := slices.Index(hours, text); i >= 0 {
		return time.Duration(i+1) * time.Hour, true
	}
	t, err := time.Parse("15", text)
	return sinceMidnight(t), err == nil
}

// OnWall returns what the clock shows, as a time of UTC.
func OnWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// FromWall returns when the clock of a zone shows a time: for the first time if it does so twice, and when it is set
// forward past it if it never does.
func FromWall(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	if shown := OnWall(t); !shown.Equal(wall) {
		// It doesn't exist. The change is at the end or at the start of the time zone's period.
		begin, end := t.ZoneBounds()
		if shown.After(wall) {
			return begin
		}
		return end
	}
	// Of two, the first: the one before the change that has just been.
	if begin, _ := t.ZoneBounds(); !begin.IsZero() {
		_, now := t.Zone()
		_, before := begin.Add(-time.Second).Zone()
		if earlier := t.Add(time.Duration(now-before) * time.Second); now < before && earlier.Before(begin) && OnWall(earlier).Equal(wall) {
			return earlier
		}
	}
	return t
}
