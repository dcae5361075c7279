package when_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // also on a machine that has no time zones

	"kernos/internal/when"
)

const form = "2006-01-02 15:04:05.999 MST"

func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Each text is read on Thursday, 19 November 2026 at 10:30:15 in Berlin.
func TestTimesAreRead(t *testing.T) {
	zone := berlin(t)
	now := time.Date(2026, 11, 19, 10, 30, 15, 0, zone)
	const same = "" // of a parameter about the past: the same as of one about the future
	for text, want := range map[string][2]string{
		"now": {"2026-11-19 10:30:15 CET", same}, "in 8 seconds": {"2026-11-19 10:30:23 CET", same}, "In 2 Hours": {"2026-11-19 12:30:15 CET", same},
		"in an hour and 30 minutes": {"2026-11-19 12:00:15 CET", same}, "in 90s": {"2026-11-19 10:31:45 CET", same}, "in 2 weeks": {"2026-12-03 10:30:15 CET", same},
		"3 days ago": {"2026-11-16 10:30:15 CET", same}, "2h ago": {"2026-11-19 08:30:15 CET", same},
		"2h": {"2026-11-19 12:30:15 CET", "2026-11-19 08:30:15 CET"}, "1 day": {"2026-11-20 10:30:15 CET", "2026-11-18 10:30:15 CET"},

		"today": {"2026-11-19 00:00:00 CET", same}, "yesterday": {"2026-11-18 00:00:00 CET", same}, "tomorrow": {"2026-11-20 00:00:00 CET", same},
		"tomorrow 09:00": {"2026-11-20 09:00:00 CET", same}, "Tomorrow at 9am": {"2026-11-20 09:00:00 CET", same}, "9:15 pm tomorrow": {"2026-11-20 21:15:00 CET", same},
		"today 18:00": {"2026-11-19 18:00:00 CET", same}, "yesterday 8:05:30.25": {"2026-11-18 08:05:30.25 CET", same}, "tomorrow noon": {"2026-11-20 12:00:00 CET", same},

		"tomorrow at nine": {"2026-11-20 09:00:00 CET", same}, "tomorrow 9": {"2026-11-20 09:00:00 CET", same}, "at 9": {"2026-11-20 09:00:00 CET", "2026-11-19 09:00:00 CET"},
		"friday at 21": {"2026-11-20 21:00:00 CET", "2026-11-13 21:00:00 CET"}, "2026-11-20 at twelve": {"2026-11-20 12:00:00 CET", same},

		"tonight at 8": {"2026-11-19 20:00:00 CET", same}, "8:30 this evening": {"2026-11-19 20:30:00 CET", same}, "tonight 23:00": {"2026-11-19 23:00:00 CET", same},
		"tomorrow morning at nine": {"2026-11-20 09:00:00 CET", same}, "this morning at 9am": {"2026-11-19 09:00:00 CET", same}, "this afternoon at 12": {"2026-11-19 12:00:00 CET", same},
		"monday afternoon at 3": {"2026-11-23 15:00:00 CET", "2026-11-16 15:00:00 CET"}, "2026-11-20 evening 9pm": {"2026-11-20 21:00:00 CET", same},
		"yesterday night at 11": {"2026-11-18 23:00:00 CET", same}, "this morning at midnight": {"2026-11-19 00:00:00 CET", same},

		"in half an hour": {"2026-11-19 11:00:15 CET", same}, "in an hour and a half": {"2026-11-19 12:00:15 CET", same}, "two and a half hours ago": {"2026-11-19 08:00:15 CET", same},
		"in five minutes": {"2026-11-19 10:35:15 CET", same}, "in 1 hour and a half": {"2026-11-19 12:00:15 CET", same}, "half a day ago": {"2026-11-18 22:30:15 CET", same},

		"monday": {"2026-11-23 00:00:00 CET", "2026-11-16 00:00:00 CET"}, "on Monday at 8:00": {"2026-11-23 08:00:00 CET", "2026-11-16 08:00:00 CET"},
		"thursday": {"2026-11-26 00:00:00 CET", "2026-11-19 00:00:00 CET"}, "thu 18:00": {"2026-11-19 18:00:00 CET", "2026-11-12 18:00:00 CET"},
		"next thursday 18:00": {"2026-11-26 18:00:00 CET", same}, "last thursday": {"2026-11-12 00:00:00 CET", same}, "next monday": {"2026-11-23 00:00:00 CET", same},

		"18:00": {"2026-11-19 18:00:00 CET", "2026-11-18 18:00:00 CET"}, "9am": {"2026-11-20 09:00:00 CET", "2026-11-19 09:00:00 CET"},
		"midnight": {"2026-11-20 00:00:00 CET", "2026-11-19 00:00:00 CET"},

		"2026-11-20": {"2026-11-20 00:00:00 CET", same}, "2026-11-20T09:00": {"2026-11-20 09:00:00 CET", same}, "2026-11-20 09:00:01.5": {"2026-11-20 09:00:01.5 CET", same},
		"2026-11-20 at 9pm": {"2026-11-20 21:00:00 CET", same}, "2026-07-01T09:00": {"2026-07-01 09:00:00 CEST", same},
		"2026-11-20T09:00:00Z": {"2026-11-20 10:00:00 CET", same}, "2026-11-20t09:00:00.5z": {"2026-11-20 10:00:00.5 CET", same}, "2026-11-20 09:00+05:00": {"2026-11-20 05:00:00 CET", same},
		"1795080615000": {"2026-11-19 10:30:15 CET", same}, " in 8 seconds ": {"2026-11-19 10:30:23 CET", same},

		// On 29 March 2026 the clock is set from 2:00 to 3:00, and on 25 October from 3:00 to 2:00.
		"2026-03-29 02:30": {"2026-03-29 03:00:00 CEST", same}, "2026-10-25 02:30": {"2026-10-25 02:30:00 CEST", same}, "2026-10-25 03:00": {"2026-10-25 03:00:00 CET", same},
	} {
		m, ok := when.Parse(text)
		if !ok {
			t.Errorf("%q isn't read", text)
			continue
		}
		if want[1] == same {
			want[1] = want[0]
		}
		ahead, back := m.Ahead(now).In(zone).Format(form), m.Back(now).In(zone).Format(form)
		trim := func(s string) string { return strings.Replace(s, "00.000 ", "00 ", 1) }
		if trim(ahead) != want[0] || trim(back) != want[1] {
			t.Errorf("%q is %s, and back %s; want %v", text, ahead, back, want)
		}
	}
	for _, text := range []string{
		"", " ", "soon", "in", "ago", "in 8", "8", "in soon", "-1h", "in -1h", "in 2 hours ago", "25:00", "tomorrow 25:00", "tomorrow 25", "at 25", "nine", "on 9", "tomorrow thirteen", "13pm", "next", "next 9:00", "next tomorrow",
		"today tomorrow", "monday friday", "2026-13-01", "2026-02-30", "2026-11-20T09", "1 2 hours", "in 200000 weeks", "99999999999999999999", "in a 5 m", strings.Repeat("1h", 60),
		"tonight", "this evening", "this morning", "last week", "next week", "this week", "tonight at 1", "tonight at 12", "tonight at 8am", "this morning at 3pm", "tonight tonight at 8",
		"evening at 8", "this monday", "this evening night at 8", "tomorrow tonight at 8", "in 1 two hours", "in half", "in half hour", "in a half", "in an hour and half", "in 1.5 and a half hours",
		"tomorrow\x00", "at", "on", "now now", "TZ=UTC",
	} {
		if m, ok := when.Parse(text); ok && text != "8" {
			t.Errorf("%q is %v", text, m.Ahead(now))
		}
	}
}

// A day of the week and a time of day are looked for on the clock of the wall, over a change of it.
func TestWordsOverAChangeOfTheClock(t *testing.T) {
	zone := berlin(t)
	for _, c := range []struct{ now, text, want string }{
		{"2026-03-28 12:00:00 CET", "tomorrow 02:30", "2026-03-29 03:00:00 CEST"},
		{"2026-03-28 12:00:00 CET", "02:15", "2026-03-29 03:00:00 CEST"},
		{"2026-03-29 01:30:00 CET", "today 04:00", "2026-03-29 04:00:00 CEST"},
		{"2026-03-29 01:30:00 CET", "in 1 hour", "2026-03-29 03:30:00 CEST"},
		{"2026-10-24 12:00:00 CEST", "sunday 2:30", "2026-10-25 02:30:00 CEST"},
		{"2026-10-24 12:00:00 CEST", "in 1 day", "2026-10-25 11:00:00 CET"},
		{"2026-10-24 12:00:00 CEST", "tomorrow 12:00", "2026-10-25 12:00:00 CET"},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04:05 MST", c.now, zone)
		if err != nil {
			t.Fatal(err)
		}
		m, ok := when.Parse(c.text)
		if got := m.Ahead(now).In(zone).Format("2006-01-02 15:04:05 MST"); !ok || got != c.want {
			t.Errorf("%q at %s is %s, want %s", c.text, c.now, got, c.want)
		}
	}
}

func TestTimesOfDayThatEndASpan(t *testing.T) {
	now := time.Date(2026, 11, 18, 1, 30, 0, 0, time.UTC)
	for texts, want := range map[[2]string][2]string{
		{"22:00", "02:00"}:     {"2026-11-17T22:00:00Z", "2026-11-18T02:00:00Z"},
		{"22:00", "23:00"}:     {"2026-11-17T22:00:00Z", "2026-11-17T23:00:00Z"},
		{"01:00", "18:00"}:     {"2026-11-18T01:00:00Z", "2026-11-18T18:00:00Z"},
		{"yesterday", "today"}: {"2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z"},
	} {
		since, _ := when.Parse(texts[0])
		until, _ := when.Parse(texts[1])
		from, to := when.Between(when.Back{Moment: since}, when.Back{Moment: until}, now)
		if got := [2]string{from.Format(time.RFC3339), to.Format(time.RFC3339)}; got != want {
			t.Errorf("%v is %v, want %v", texts, got, want)
		}
	}
}

type parameters struct {
	At    when.Ahead `json:"at,omitzero"`
	Since when.Back  `json:"since,omitzero"`
	Span  when.Span  `json:"span,omitzero"`
}

func TestParametersAreNumbersOrTexts(t *testing.T) {
	now := time.Date(2026, 11, 19, 10, 30, 0, 0, time.UTC)
	for data, want := range map[string]string{
		`{}`: "none, none, 0s", `{"at":null,"since":null,"span":null}`: "none, none, 0s", `{"at":0,"span":0}`: "none, none, 0s",
		`{"at":1e3,"since":1000,"span":1.5}`:   "1970-01-01T00:00:01Z, 1970-01-01T00:00:01Z, 2ms",
		`{"at":"2h","since":"2h","span":"2h"}`: "2026-11-19T12:30:00Z, 2026-11-19T08:30:00Z, 2h0m0s",
		`{"at":"1000","span":"1000"}`:          "1970-01-01T00:00:01Z, none, 1s",
		`{"span":"1\u0068 30 minutes"}`:        "none, none, 1h30m0s",
		`{"span":"1ns"}`:                       "none, none, 1ms",
		`{"at":"soon"}`:                        `expected milliseconds since 1970, or a time such as "in 2 hours", "tomorrow 09:00" or 2026-11-20T09:00, got "soon"`,
		`{"since":-1}`:                         `expected milliseconds since 1970, or a time such as 2h, yesterday or 2026-11-20T09:00, got -1`,
		`{"span":"tomorrow"}`:                  `expected milliseconds, or a time such as 90s, 1h30m or "2 days", got "tomorrow"`,
		`{"span":1e300}`:                       `expected milliseconds, or a time such as 90s, 1h30m or "2 days", got 1e300`,
	} {
		var p parameters
		got := ""
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			got = err.Error()
		} else {
			show := func(t time.Time) string {
				if t.IsZero() {
					return "none"
				}
				return t.UTC().Format(time.RFC3339)
			}
			got = show(p.At.Time(now)) + ", " + show(p.Since.Time(now)) + ", " + p.Span.Duration().String()
		}
		if got != want {
			t.Errorf("%s is %s, want %s", data, got, want)
		}
	}
}

// The examples in errors and schemas are taken.
func TestExamplesAreRead(t *testing.T) {
	for format, examples := range map[string][]string{
		when.FormatTime: slices.Concat(when.AheadExamples[:], when.BackExamples[:]),
		when.FormatSpan: when.SpanExamples[:],
	} {
		for _, e := range examples {
			if !when.Fits(format, e, 1, when.MaxSpan) {
				t.Errorf("%s: %q isn't read", format, e)
			}
		}
	}
}

// Whatever is read is a time that JSON has, ahead isn't before back, and a parameter reads what the schema lets through.
func FuzzTimes(f *testing.F) {
	for _, text := range []string{"in 8 seconds", "tomorrow 09:00", "2026-11-20T09:00", "next monday at 9am", "3 days ago", "1795080615000", "2h", "", "noon", "1 hour and 30 minutes", "\xff"} {
		f.Add(text, int64(1795080615000))
	}
	zone := berlin(f)
	f.Fuzz(func(t *testing.T, text string, ms int64) {
		now := time.UnixMilli(ms % when.MaxTime).In(zone)
		m, ok := when.Parse(text)
		if ok {
			if ahead, back := m.Ahead(now), m.Back(now); ahead.Before(back) || ahead.IsZero() {
				t.Errorf("%q at %v is %v ahead, and %v back", text, now, ahead, back)
			}
		}
		if _, isSpan := when.ParseSpan(text); ok != when.Fits(when.FormatTime, text, 0, 0) || isSpan != when.Fits(when.FormatSpan, text, 0, when.MaxSpan) {
			t.Errorf("%q doesn't fit as it is read", text)
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			return
		}
		var p parameters
		if err := p.At.UnmarshalJSON(quoted); (err == nil) != ok && json.Valid([]byte(text)) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
