package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/store"
)

// A Victim is a process that is killed again and again while it works in a directory.
type Victim struct {
	// Work works in the directory until the process is killed. What it reports, one
	// line at a time, has reached the killer when report returns, whatever happens
	// then. It may be called from several goroutines. Work returns only if it can't continue.
	Work func(dir string, report func(line string)) error

	// Check looks at what a process has left, knowing what it has reported. It is
	// called in the test's own process, after each kill.
	Check func(t *testing.T, dir string, reported []string)

	// End looks at what all processes have left, after the last kill. It may be nil.
	End func(t *testing.T, dir string)

	// Reports is how many lines all processes report together, at least. A process is then killed
	// when it has reported its share, which varies, and not after a time. 0 means none.
	Reports int
}

// victimVariable is set in the process that is the victim, to the directory where it works.
const victimVariable = "STORETEST_VICTIM"

// Kill runs the victim in a process of its own and kills it at a random moment,
// round after round in the same directory. The process is the test binary, which runs
// this test again up to here; nothing before Kill in the test may write to
// its standard output.
func (v Victim) Kill(t *testing.T, rounds int) {
	t.Helper()
	if dir, ok := os.LookupEnv(victimVariable); ok {
		v.work(dir)
	}
	random := random(t)
	dir := t.TempDir()
	began, reports := time.Now(), 0
	for round := range rounds {
		reported, err := kill(t, dir, share(v.Reports-reports, rounds-round, random), random)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		reports += len(reported)
		v.Check(t, dir, reported)
		if t.Failed() {
			t.Fatalf("in round %d of %d", round+1, rounds)
		}
	}
	if v.End != nil {
		v.End(t, dir)
	}
	t.Logf("%d kills, %d reports, %v", rounds, reports, time.Since(began).Round(time.Millisecond))
}

// share returns how many lines a process reports before it is killed, of those that are left to
// it and the processes after it. 0 means that it is killed while it opens the directory.
func share(left, rounds int, random *rand.Rand) int {
	switch {
	case rounds == 1 && left > 0:
		return left
	case random.IntN(4) == 0:
		return 0
	}
	return 1 + random.IntN(max(1, 2*left/rounds))
}

// work is what the victim does. It does not return.
func (v Victim) work(dir string) {
	go func() { // the victim does not outlive its killer
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var mu sync.Mutex
	err := v.Work(dir, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := os.Stdout.WriteString(line + "\n"); err != nil {
			os.Exit(3)
		}
	})
	fmt.Fprintln(os.Stderr, "the victim gave up:", err)
	os.Exit(4)
}

// kill runs a victim until it has reported a random number of lines, and returns what it has reported.
func kill(t *testing.T, dir string, share int, random *rand.Rand) ([]string, error) {
	var parts []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	victim := exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.timeout=0")
	victim.Env = append(os.Environ(), victimVariable+"="+dir)
	var complaint strings.Builder
	victim.Stderr = &complaint
	alive, err := victim.StdinPipe() // open as long as we are
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	out, err := victim.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := victim.Start(); err != nil {
		return nil, err
	}

	// It dies a random time after it began or after it reported its share.
	var once sync.Once
	var killed bool
	die := func() { once.Do(func() { killed = victim.Process.Kill() == nil }) }
	timer := time.AfterFunc(patience, die)
	defer timer.Stop()
	delay := time.Duration(random.Int64N(int64(400 * time.Millisecond)))
	if share > 1 {
		delay /= 20 // few lines more than its share
	}
	if share == 0 {
		timer.Reset(delay)
	}
	var reported []string
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // a line without an end was not reported
		}
		reported = append(reported, strings.TrimSuffix(line, "\n"))
		switch {
		case len(reported) < share:
			timer.Reset(patience)
		case len(reported) == share:
			timer.Reset(delay)
		}
	}
	err = victim.Wait()
	once.Do(func() {}) // the timer may be about to kill
	if !killed {
		return nil, fmt.Errorf("the victim ended by itself: %v: %s%s", err, complaint.String(), strings.Join(reported[max(0, len(reported)-10):], "\n"))
	}
	if len(reported) < share {
		return nil, fmt.Errorf("the victim reported %d of %d lines, and nothing for %v: %s", len(reported), share, patience, complaint.String())
	}
	if complaint.Len() > 0 {
		t.Logf("the victim said: %s", complaint.String())
	}
	return reported, nil
}

// runKill kills a process in which 64 writers work on an engine's store, and checks that
// everything that it knew to be durable is there and nothing is half there.
func runKill(t *testing.T, e Engine) {
	rounds := Sized(15)
	if *long {
		rounds = 100
	}
	Victim{
		Work:  func(dir string, report func(string)) error { return killWork(e, dir, report) },
		Check: func(t *testing.T, dir string, reported []string) { killCheck(t, e, dir, reported) },
	}.Kill(t, rounds)
}

const (
	killWriters = 64
	killKept    = 40 // steps of each writer are kept, at least
)

// killWork writes until the process ends. Each step of a writer is one batch: a counter
// that must be what it was, an entry, the index of it, and now and then the end of the
// oldest ones.
func killWork(e Engine, dir string, report func(string)) error {
	s, err := e.Open(dir)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range killWriters {
		go func() { failed <- killWriter(s, w, report) }()
	}
	return <-failed
}

func killWriter(s store.Store, w int, report func(string)) error {
	counter := killCounter(w)
	e, err := s.Get(counter)
	if err != nil {
		return err
	}
	n, revision := 0, e.Revision
	if revision != 0 {
		if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
			return err
		}
	}
	for {
		n++
		var b store.Batch
		b.IfRevision(counter, revision)
		b.Set(counter, fmt.Append(nil, n))
		b.Set(killKey('m', w, n), killValue(w, n))
		b.IfAbsent(killKey('m', w, n))
		b.Set(killKey('j', w, n), nil)
		if n%killKept == 0 {
			for _, space := range []byte{'m', 'j'} {
				b.DeleteRange(killKey(space, w, 0), killKey(space, w, n-killKept))
			}
		}
		c, err := s.Apply(&b)
		if err != nil {
			return err
		}
		revision = c.Revision
		report(fmt.Sprintf("applied %d %d %d", w, n, revision))
		if err := await(c); err != nil {
			return err
		}
		report(fmt.Sprintf("durable %d %d %d", w, n, revision))
	}
}

func killCounter(w int) []byte { return fmt.Appendf(nil, "i/%02d", w) }

func killKey(space byte, w, n int) []byte { return fmt.Appendf(nil, "%c/%02d/%09d", space, w, n) }

func killValue(w, n int) []byte {
	value := make([]byte, (w*31+n*17)%900)
	for i := range value {
		value[i] = byte(w + n + i)
	}
	return value
}

func killCheck(t *testing.T, e Engine, dir string, reported []string) {
	s, err := e.Open(dir)
	if err != nil {
		t.Errorf("after a kill the store can't be opened: %v", err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	all, err := entries(s, store.Range{})
	if err != nil {
		t.Errorf("after a kill the store can't be read: %v", err)
		return
	}
	last, err := killState(all)
	if err != nil {
		t.Error(err)
		return
	}
	top := newest(all)
	for _, line := range reported {
		var what string
		var w, n int
		var r store.Revision
		if _, err := fmt.Sscanf(line, "%s %d %d %d", &what, &w, &n, &r); err != nil || w < 0 || w >= killWriters {
			t.Errorf("the victim said: %s", line)
			return
		}
		switch {
		case last[w] >= n:
		case what == "durable":
			t.Errorf("writer %d knew that step %d is durable, and is at step %d", w, n, last[w])
		case r < top:
			t.Errorf("revision %d, step %d of writer %d, is lost, and revision %d is there", r, n, w, top)
		}
	}
	if c, err := s.Apply(sets("k/round", "x")); err != nil || c.Revision <= top {
		t.Errorf("a batch after revision %d: %v, %v", top, c, err)
	}
}

// killState returns the last step of each writer, if the steps are whole.
func killState(all []store.Entry) (last [killWriters]int, err error) {
	at := make(map[string]store.Entry, len(all))
	for _, e := range all {
		at[string(e.Key)] = e
	}
	steps := 0
	for w := range killWriters {
		counter, ok := at[string(killCounter(w))]
		if !ok {
			continue
		}
		n := 0
		if _, err := fmt.Sscan(string(counter.Value), &n); err != nil {
			return last, fmt.Errorf("writer %d: the counter is %q", w, counter.Value)
		}
		last[w] = n
		newer := counter.Revision
		for first := max(1, n-n%killKept-killKept); n >= first; n-- {
			m, j := at[string(killKey('m', w, n))], at[string(killKey('j', w, n))]
			switch {
			case m.Revision == 0 || j.Revision == 0 || m.Revision != j.Revision:
				return last, fmt.Errorf("writer %d, step %d of %d: a batch is half there, revisions %d and %d", w, n, last[w], m.Revision, j.Revision)
			case n == last[w] && m.Revision != newer || n < last[w] && m.Revision >= newer:
				return last, fmt.Errorf("writer %d, step %d of %d: revision %d, and %d after it", w, n, last[w], m.Revision, newer)
			case string(m.Value) != string(killValue(w, n)):
				return last, fmt.Errorf("writer %d, step %d: another value", w, n)
			}
			newer = m.Revision
			steps++
		}
	}
	present := 0
	for key := range at {
		if key[0] == 'm' || key[0] == 'j' {
			present++
		}
	}
	if present != 2*steps {
		return last, errors.New("there are entries of steps that were not taken or are over")
	}
	return last, nil
}
