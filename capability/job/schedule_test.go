package job_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/job"

	"kernos/store"
)

// Clocks in these tests begin at the year 2000, in UTC.

// schedule starts a schedule that notes when it runs.
func (w *world) schedule(key, expression, zone, more string) string {
	w.t.Helper()
	if zone != "" {
		more += fmt.Sprintf(`,"timeZone":%q`, zone)
	}
	return w.start(fmt.Sprintf(`{"name":"Test.When","payload":{"key":%q},"keep":1,"schedule":%q%s}`, key, expression, more))
}

// ran returns when the runs of a schedule began.
func (w *world) ran(key string) []time.Time {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.times[key])
}

var expressions = []string{
	"0 * * * *", "0 */6 * * *", "30 2 * * *", "0 9 * * 1-5", "15,45 12 1-7 * *", "0 0 1 * *", "0 0 29 2 *",
	"59 23 31 12 *", "5 4 * * 0", "0 12 13 * 5", "30 7-9 * 6 2", "10 0 1,15 */3 *", "7 3 */10 * *",
	"0 9 * * 7", "0 9 * * 5-7", "0 9 13 * 0-7", "0 9 * * 1,7",
}

// A year of cron is compared with what every minute of the year says.
func TestAYearOfCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().UTC()
		time.Sleep(366 * 24 * time.Hour)
		for _, e := range expressions {
			var want []time.Time
			matches := readCron(t, e)
			for at := begin.Add(time.Minute); !at.After(time.Now()); at = at.Add(time.Minute) {
				if matches(at) {
					want = append(want, at)
				}
			}
			for _, zone := range []string{"UTC", "Africa/Abidjan"} { // it is on UTC all year
				wantTimes(t, e+" "+zone, job.Times(t, e, zone, begin, time.Now()), want)
			}
		}
	})
}

// Three weeks, with the end of a February, in which schedules run.
//
// Clauses: E24-10.4-5
func TestSchedulesRunWhenTheyAreDue(t *testing.T) {
	test(t, "UTC", func(t *testing.T, w *world) {
		w.stop()
		time.Sleep((31 + 14) * 24 * time.Hour)
		w.open()
		for _, e := range append(expressions, "@daily", "@every 36h", "30 15 10 * * *") {
			w.schedule(e, e, "UTC", "")
		}
		begin := time.Now()
		time.Sleep(21 * 24 * time.Hour)
		for _, e := range expressions {
			wantTimes(t, e, w.ran(e), job.Times(t, e, "UTC", begin, time.Now()))
		}
		for e, every := range map[string]struct{ first, pause time.Duration }{
			"@daily":         {24 * time.Hour, 24 * time.Hour},
			"@every 36h":     {36 * time.Hour, 36 * time.Hour},
			"30 15 10 * * *": {10*time.Hour + 15*time.Minute + 30*time.Second, 24 * time.Hour},
		} {
			var want []time.Time
			for at := begin.Add(every.first); !at.After(time.Now()); at = at.Add(every.pause) {
				want = append(want, at)
			}
			wantTimes(t, e, w.ran(e), want)
		}
	})
}

// Weeks that end on Sunday, beside the same days as a list.
func TestSundayEndsAWeek(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for days, same := range map[string]string{"fri-sun": "5,6,0", "MON-7/3": "1,4,0", "2-7/2": "2,4,6", "7/2": "0", "7-7": "0", "sun-sun": "0", "1-7/999": "1", "sun-7": "0-6", "2,6-7": "0,2,6"} {
		wantTimes(t, days, job.Times(t, "0 9 * * "+days, "UTC", from, from.AddDate(0, 1, 0)), job.Times(t, "0 9 * * "+same, "UTC", from, from.AddDate(0, 1, 0)))
	}
}

func wantTimes(t *testing.T, what string, got, want []time.Time) {
	t.Helper()
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		for i := range min(len(got), len(want)) {
			if !got[i].Equal(want[i]) {
				t.Errorf("%s: run %d was at %v, want %v", what, i, got[i], want[i])
				break
			}
		}
		t.Errorf("%s ran %d times, want %d", what, len(got), len(want))
	}
}

// readCron returns what tells whether a minute matches an expression of five fields: a plain
// reading of the rules, to compare with.
func readCron(t *testing.T, expression string) func(time.Time) bool {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	fields := strings.Fields(expression)
	var sets [5][60]bool
	for i, field := range fields {
		first := []int{0, 0, 1, 1, 0}[i]
		for part := range strings.SplitSeq(field, ",") {
			part, step, stepped := strings.Cut(part, "/")
			low, high, ranged := strings.Cut(part, "-")
			for value := range sets[i] {
				switch {
				case part == "*" && stepped:
					sets[i][value] = sets[i][value] || value >= first && (value-first)%number(step) == 0
				case part == "*", !ranged && number(low) == value, ranged && number(low) <= value && value <= number(high):
					sets[i][value] = true
				}
			}
		}
	}
	sets[4][0] = sets[4][0] || sets[4][7]
	either := !strings.HasPrefix(fields[2], "*") && !strings.HasPrefix(fields[4], "*")
	return func(at time.Time) bool {
		day, weekday := sets[2][at.Day()], sets[4][at.Weekday()]
		return sets[0][at.Minute()] && sets[1][at.Hour()] && sets[3][at.Month()] && (day && weekday || either && (day || weekday))
	}
}

// Both changes of daylight saving. Times that don't exist are done at the change; times that
// come twice are done at the first; what is about every hour goes on.
func TestDaylightSaving(t *testing.T) {
	const berlin, newYork, lordHowe, saoPaulo, kolkata = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"
	cases := []struct {
		zone, expression, from, to string // local times of the year 2000, the first with its offset
		want                       string
	}{
		{berlin, "30 2 * * *", "03-25 12:00 +0100", "03-27 12:00 +0200", "26 03:00 +0200, 27 02:30 +0200"},
		{berlin, "0,30 1-3 * * *", "03-26 00:00 +0100", "03-26 12:00 +0200", "26 01:00 +0100, 26 01:30 +0100, 26 03:00 +0200, 26 03:30 +0200"},
		{berlin, "30 * * * *", "03-26 00:00 +0100", "03-26 05:00 +0200", "26 00:30 +0100, 26 01:30 +0100, 26 03:30 +0200, 26 04:30 +0200"},
		{berlin, "30 2 * * *", "10-28 12:00 +0200", "10-30 12:00 +0100", "29 02:30 +0200, 30 02:30 +0100"},
		{berlin, "*/20 2 * * *", "10-29 02:30 +0200", "10-30 02:30 +0100", "29 02:40 +0200, 30 02:00 +0100, 30 02:20 +0100"},
		{berlin, "*/5 2 * * *", "10-29 02:01 +0100", "10-30 02:07 +0100", "30 02:00 +0100, 30 02:05 +0100"}, // started in the second of the two hours
		{berlin, "0 3 * * *", "10-29 02:30 +0100", "10-29 12:00 +0100", "29 03:00 +0100"},
		{berlin, "30 * * * *", "10-29 01:00 +0200", "10-29 04:00 +0100", "29 01:30 +0200, 29 02:30 +0200, 29 02:30 +0100, 29 03:30 +0100"},
		{newYork, "30 2 * * *", "04-01 12:00 -0500", "04-03 12:00 -0400", "02 03:00 -0400, 03 02:30 -0400"},
		{newYork, "30 1 * * *", "10-28 12:00 -0400", "10-30 12:00 -0500", "29 01:30 -0400, 30 01:30 -0500"},
		{lordHowe, "15 2 * * *", "08-26 12:00 +1030", "08-28 12:00 +1100", "27 02:30 +1100, 28 02:15 +1100"},
		{lordHowe, "45 1 * * *", "03-25 12:00 +1100", "03-27 12:00 +1030", "26 01:45 +1100, 27 01:45 +1030"},
		{lordHowe, "45 * * * *", "03-26 00:00 +1100", "03-26 03:00 +1030", "26 00:45 +1100, 26 01:45 +1100, 26 01:45 +1030, 26 02:45 +1030"},
		{saoPaulo, "@daily", "10-07 12:00 -0300", "10-09 12:00 -0200", "08 01:00 -0200, 09 00:00 -0200"},
		{saoPaulo, "30 23 * * *", "02-26 12:00 -0200", "02-28 12:00 -0300", "26 23:30 -0200, 27 23:30 -0300"},
		{kolkata, "30 2 * * *", "03-25 12:00 +0530", "03-28 12:00 +0530", "26 02:30 +0530, 27 02:30 +0530, 28 02:30 +0530"},
	}
	for _, c := range cases {
		test(t, c.zone+" "+c.expression+" from "+c.from, func(t *testing.T, w *world) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			read := func(text string) time.Time {
				at, err := time.Parse("2006-01-02 15:04 -0700", "2000-"+text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			w.stop() // months of looking at the clock take seconds
			time.Sleep(time.Until(read(c.from)))
			w.open()
			w.schedule("x", c.expression, c.zone, "")
			time.Sleep(time.Until(read(c.to)))
			var got []string
			for _, at := range w.ran("x") {
				got = append(got, at.In(zone).Format("02 15:04 -0700"))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("it ran at %s, want %s", text, c.want)
			}
		})
	}
}

// A clock that is set an hour forward and back: no time of a schedule has two runs, and each has
// one or is counted as missed.
func TestTheClockJumps(t *testing.T) {
	for _, hour := range []time.Duration{time.Hour, -time.Hour} {
		for _, catchUp := range []bool{false, true} {
			test(t, fmt.Sprintf("%v, catchUp %t", hour, catchUp), func(t *testing.T, w *world) {
				id := w.schedule("x", "* * * * *", "UTC", fmt.Sprintf(`,"catchUp":%t`, catchUp))
				begin := w.clock.Now()
				time.Sleep(10*time.Minute + time.Second)
				w.clock.Advance(hour)
				time.Sleep(2 * time.Hour)
				w.clock.Advance(-hour)
				time.Sleep(3 * time.Hour)
				i := w.status(id)
				last := time.UnixMilli(i.Last)
				passed := int(last.Sub(begin) / time.Minute)
				if w.clock.Now().Sub(last) > time.Minute {
					t.Errorf("it is %v, and it ran at %v last", w.clock.Now(), last)
				}
				if i.Runs+i.Missed != passed || i.Runs != len(w.ran("x")) {
					t.Errorf("%d times have passed: %d runs, of which %d were done, and %d missed", passed, i.Runs, len(w.ran("x")), i.Missed)
				}
				if want := map[bool]int{false: 59, true: 0}[catchUp]; i.Missed != want { // one jump forward
					t.Errorf("%d were missed, want %d", i.Missed, want)
				}
			})
		}
	}
}

// What was missed while the kernel did not run is done once, or caught up with.
func TestMissedRuns(t *testing.T) {
	cases := []struct {
		expression, more string
		off              time.Duration
		runs, missed     int
	}{
		{"0 * * * *", "", 30 * time.Minute, 0, 0},
		{"0 * * * *", "", 90 * time.Minute, 1, 0},
		{"0 * * * *", "", 49*time.Hour + time.Minute, 1, 48},
		{"@every 1h", "", 49*time.Hour + time.Minute, 1, 48},
		{"@every 1d", "", 49*time.Hour + time.Minute, 1, 1},
		{"0 * * * *", `,"catchUp":true`, 49*time.Hour + time.Minute, 49, 0},
		{"* * * * *", `,"catchUp":true`, 30 * time.Hour, 1000, 800},
		{"* * * * * *", "", 24 * time.Hour, 1, 24*3600 - 1},
		{"* * * * * *", "", 30 * 24 * time.Hour, 1, 100_000 + 3600}, // not all are counted
		{"@every 7s", "", 700_000*time.Second + 3*time.Second, 1, 99_999},
		{"@every 7s", "", 90 * 24 * time.Hour, 1, 100_000 + 3600/7 + 1},
	}
	for _, c := range cases {
		test(t, fmt.Sprintf("%s%s off for %v", c.expression, c.more, c.off), func(t *testing.T, w *world) {
			id := w.schedule("x", c.expression, "UTC", c.more)
			begin := time.Now()
			w.stop()
			time.Sleep(c.off)
			w.open()
			i := w.status(id)
			if n := len(w.ran("x")); n != c.runs || i.Runs != c.runs || i.Missed != c.missed {
				t.Errorf("%d runs were done of %d, %d missed; want %d and %d", n, i.Runs, i.Missed, c.runs, c.missed)
			}
			if strings.HasPrefix(c.expression, "@every 7s") && time.UnixMilli(i.Next).Sub(begin)%(7*time.Second) != 0 {
				t.Errorf("the next run is %v after the start", time.UnixMilli(i.Next).Sub(begin))
			}
			if next := time.UnixMilli(i.Next); !next.After(time.Now()) {
				t.Errorf("the next run is at %v", next)
			}
		})
	}
}

// A schedule that version 0.7.0 has stored, which had no clocks, goes on.
func TestAScheduleOfAnOlderVersion(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		w.start(`{"name":"Test.Count","payload":{"key":"a"},"schedule":"@every 1m"}`)
		w.stop()
		changed := 0
		for e, err := range w.store.Scan(store.Prefix([]byte{store.SpaceWork})) {
			if err != nil {
				t.Fatal(err)
			}
			if older := strings.Replace(string(e.Value), `{"clock":true}`, `{}`, 1); older != string(e.Value) {
				var b store.Batch
				b.Set(bytes.Clone(e.Key), []byte(older))
				if _, err := w.store.Apply(&b); err != nil {
					t.Fatal(err)
				}
				changed++
			}
		}
		w.open()
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if n := w.counted("a"); n != 3 || changed != 1 {
			t.Errorf("it has run %d times in three minutes; %d clocks were changed", n, changed)
		}
	})
}
