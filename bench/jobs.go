package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	kernosd "kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

const (
	jobConnections = 64
	jobRounds      = 3
	jobsEach       = 200 // jobs of one connection in one round
)

// jobs measures work in the background: what starting and finishing a job costs beside setting a
// value and beside River and asynq, how soon jobs begin, and what a million of them cost that wait.
func jobs(out io.Writer, binary string, pending int) error {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Fprintf(out, "\nJobs that do nothing, started and finished (per second)\n")
	bulk, err := jobRates(out, dir)
	if err != nil {
		return err
	}
	if err := besideQueues(out, dir, bulk); err != nil {
		return err
	}
	for _, part := range []func(io.Writer, string) error{
		beginIdle, dueAtOnce,
		func(out io.Writer, dir string) error { return waiting(out, binary, dir, pending) },
	} {
		if err := part(out, dir); err != nil {
			return err
		}
	}
	return nil
}

// A working is a daemon in this process that runs jobs.
type working struct {
	place
	stop func() error
}

func openWorking(home string) (*working, error) {
	return openWorkingWith(&kernosd.Options{Home: home})
}

func openWorkingWith(o *kernosd.Options) (*working, error) {
	d, err := kernosd.Open(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	w := &working{place: place{daemon: d, kernel: d.Kernel()}}
	w.stop = func() error {
		cancel()
		return errors.Join(<-served, d.Close())
	}
	// It runs jobs a moment after it was opened.
	for {
		_, err := w.start(`{"name":"Ping","payload":{"payload":0}}`)
		if err == nil {
			return w, w.finished(1)
		}
		if failed, ok := errors.AsType[*message.Error](err); !ok || failed.Code != 503 {
			return nil, errors.Join(err, w.stop())
		}
		time.Sleep(time.Millisecond)
	}
}

// start starts a job and waits until that is durable.
func (w *working) start(data string) (id string, err error) {
	reply, err := w.command("Job.Start", data)
	if err != nil {
		return "", err
	}
	var started struct{ JobID string }
	return started.JobID, json.Unmarshal(reply, &started)
}

func (w *working) command(t message.Type, data string) (json.RawMessage, error) {
	outcome, err := w.daemon.Call(context.Background(), message.Message{Kind: message.KindCommand, Type: t, Data: json.RawMessage(data)}, nil)
	if err == nil && outcome.Kind == message.KindError {
		err = fmt.Errorf("%s %s: %w", t, data, outcome.Failure())
	}
	return json.RawMessage(outcome.Data), err
}

// finished waits until n jobs have been finished since the start, and that is durable.
func (w *working) finished(n uint64) error {
	for {
		s, err := w.daemon.Jobs().Stats()
		if err != nil {
			return err
		}
		if s.Failed > 0 {
			return fmt.Errorf("%d jobs failed", s.Failed)
		}
		if s.Completed >= n {
			// What comes later in the log is durable later.
			_, err := w.command("Memory.Set", `{"key":"/bench/end","value":1}`)
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// jobLines returns requests to start a job that does nothing.
func jobLines(name string, count int) [][]byte {
	lines := make([][]byte, count)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Job.Start","data":{"name":"Ping","payload":{"payload":"xxxxxxxxxxxxxxxxxxxx"}},"metadata":{"id":"job-%s-%d","timestamp":1735000000000}}`+"\n", name, i)
	}
	return lines
}

// A jobRate is how many jobs per second were started and finished, and what one of them cost.
type jobRate struct {
	perSecond float64
	cpu       time.Duration
	allocs    float64
}

// rateOf measures what talk starts.
func (w *working) rateOf(count int, talk func() error) (r jobRate, err error) {
	before, err := w.daemon.Jobs().Stats()
	if err != nil {
		return r, err
	}
	cpu, objects, begin := cpuTime(), mallocs(), time.Now()
	if err := talk(); err != nil {
		return r, err
	}
	if err := w.finished(before.Completed + uint64(count)); err != nil {
		return r, err
	}
	r.perSecond = float64(count) / time.Since(begin).Seconds()
	r.cpu = (cpuTime() - cpu) / time.Duration(count)
	r.allocs = float64(mallocs()-objects) / float64(count)
	return r, nil
}

// fromAll starts jobs from many connections, each when the one before is acknowledged.
func (w *working) fromAll(name string, each int) (jobRate, error) {
	lines := make([][][]byte, jobConnections)
	for c := range lines {
		lines[c] = jobLines(fmt.Sprintf("%s-%d", name, c), each)
	}
	return w.rateOf(jobConnections*each, func() error {
		_, err := w.sequential(lines)
		return err
	})
}

// pipelinedJobs starts jobs over one connection without waiting for the acknowledgments.
func (w *working) pipelinedJobs(name string, count int) (jobRate, error) {
	lines := jobLines(name, count)
	return w.rateOf(count, func() error {
		_, err := w.pipelined(lines)
		return err
	})
}

// jobRates measures jobs beside durable, recorded values in the same kernel, in turns. It returns
// the rate of those that were started over one connection.
func jobRates(out io.Writer, dir string) (bulk jobRate, err error) {
	w, err := openWorking(filepath.Join(dir, "rates"))
	if err != nil {
		return bulk, err
	}
	type round struct{ set, each, bulk jobRate }
	all := make([]round, jobRounds)
	for i := range all {
		r := &all[i]
		sets := setsOf(jobConnections, benchKeys/jobConnections, 4*jobsEach)
		cpu := cpuTime()
		if r.set.perSecond, err = w.sequential(sets); err != nil {
			return bulk, err
		}
		r.set.cpu = (cpuTime() - cpu) / (jobConnections * 4 * jobsEach)
		if r.each, err = w.fromAll(fmt.Sprint(i), jobsEach); err != nil {
			return bulk, err
		}
		if r.bulk, err = w.pipelinedJobs(fmt.Sprintf("%d-bulk", i), jobConnections*jobsEach); err != nil {
			return bulk, err
		}
	}
	slices.SortFunc(all, func(a, b round) int {
		return cmp.Compare(a.each.perSecond/a.set.perSecond, b.each.perSecond/b.set.perSecond)
	})
	m := all[jobRounds/2]
	fmt.Fprintf(out, "  Memory.Set, durable and recorded, %d connections  %8.0f   %v of CPU time each\n", jobConnections, m.set.perSecond, m.set.cpu)
	for _, row := range []struct {
		name string
		jobRate
	}{
		{fmt.Sprintf("jobs, %d connections, one at a time", jobConnections), m.each},
		{"jobs, one connection, pipelined", m.bulk},
	} {
		fmt.Fprintf(out, "  %-49s %8.0f   %.2f of Memory.Set; %v of CPU time and %.0f allocations each\n",
			row.name, row.perSecond, row.perSecond/m.set.perSecond, row.cpu, row.allocs)
	}
	return m.bulk, w.stop()
}

// A mark is a syscall of this program that notes when it was called.
type mark struct {
	mu     sync.Mutex
	called *sync.Cond // the next time
	times  []time.Time
}

func (m *mark) register(k *kernel.Kernel) error {
	type nothing struct{}
	m.called = sync.NewCond(&m.mu)
	return k.Registry().Add(kernel.Module{
		Name: "bench", Version: "1.0.0", Summary: "Measures.",
		Syscalls: []kernel.Syscall{kernel.Query(kernel.Definition{Type: "Bench.Mark", Summary: "Notes the time."},
			func(context.Context, nothing) (nothing, error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.times = append(m.times, time.Now())
				m.called.Broadcast()
				return nothing{}, nil
			})},
	})
}

// wait returns when the syscall was called the nth time.
func (m *mark) wait(n int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.times) < n {
		m.called.Wait()
	}
	return m.times[n-1]
}

// beginIdle measures how soon a job begins that is the only one.
func beginIdle(out io.Writer, dir string) error {
	w, err := openWorking(filepath.Join(dir, "idle"))
	if err != nil {
		return err
	}
	var m mark
	if err := m.register(w.kernel); err != nil {
		return err
	}
	const times = 101
	took := make([]time.Duration, times)
	for i := range took {
		begin := time.Now()
		if _, err := w.start(`{"name":"Bench.Mark"}`); err != nil {
			return err
		}
		took[i] = m.wait(i + 1).Sub(begin)
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	fmt.Fprintf(out, "  a job of an idle kernel begins after its request is sent: median %v, worst %v of %d\n",
		took[times/2].Round(time.Microsecond), took[times-1].Round(time.Microsecond), times)
	return w.stop()
}

// dueAtOnce measures how long it takes until all schedules of one moment have started.
func dueAtOnce(out io.Writer, dir string) error {
	const schedules = 10_000
	w, err := openWorking(filepath.Join(dir, "due"))
	if err != nil {
		return err
	}
	var m mark
	if err := m.register(w.kernel); err != nil {
		return err
	}
	due := time.Now().Add(15 * time.Second).Truncate(time.Second)
	cron := due.Format("5 4 15 2 1 *") // second, minute, hour, day, month
	lines := make([][]byte, schedules)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Job.Start","data":{"name":"Bench.Mark","schedule":"%s"},"metadata":{"id":"schedule-%d","timestamp":1735000000000}}`+"\n", cron, i)
	}
	if _, err := w.pipelined(lines); err != nil {
		return err
	}
	if !time.Now().Before(due) {
		return fmt.Errorf("starting %d schedules took longer than until their time", schedules)
	}
	time.Sleep(time.Until(due))
	cpu := cpuTime()
	first, last := m.wait(1), m.wait(schedules)
	fmt.Fprintf(out, "  %d schedules due at one moment: the first run begins after %v, the last after %v; %v of CPU time each\n",
		schedules, first.Sub(due).Round(time.Millisecond), last.Sub(due).Round(time.Millisecond), (cpuTime()-cpu)/schedules)
	return w.stop()
}

// waiting measures what jobs cost that wait: opening a store with them, starting one beside them,
// and memory.
func waiting(out io.Writer, binary, dir string, pending int) error {
	home := filepath.Join(dir, "waiting")
	added := 0
	for _, n := range []int{0, pending / 10, pending} {
		if err := addPending(home, n-added); err != nil {
			return err
		}
		added = n
		opened, err := openTime(home)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %d jobs pending: opening the store until a job has run takes %v\n", n, opened.Round(time.Millisecond))
		if err := besidePending(out, binary, home, n); err != nil {
			return err
		}
	}
	return nil
}

// besidePending starts jobs in a daemon of its own.
func besidePending(out io.Writer, binary, home string, pending int) error {
	d, err := startDaemon(binary, home)
	if err != nil {
		return err
	}
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return errors.Join(err, d.stop())
	}
	took, err := latency(conn, jobLines("one", 1)[0], 1001)
	_ = conn.Close()
	if err != nil {
		return errors.Join(err, d.stop())
	}
	memory, err := resident(d.cmd.Process.Pid)
	fmt.Fprintf(out, "  %d jobs pending: starting one takes %v at the median; resident memory %.0f MB\n", pending, took.Round(time.Microsecond), memory/1e6)
	return errors.Join(err, d.stop())
}

// addPending starts jobs that begin in an hour.
func addPending(home string, count int) error {
	w, err := openWorking(home)
	if err != nil {
		return err
	}
	const page = 50_000
	for done := 0; done < count; done += page {
		lines := make([][]byte, min(page, count-done))
		for i := range lines {
			lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Job.Start","data":{"name":"Ping","payload":{"payload":"xxxxxxxxxxxxxxxxxxxx"},"delay":"1h"},"metadata":{"id":"later-%d-%d","timestamp":1735000000000}}`+"\n", count, done+i)
		}
		if _, err := w.pipelined(lines); err != nil {
			return err
		}
	}
	return w.stop()
}

// openTime is the median time in which a store is opened and has run its first job.
func openTime(home string) (time.Duration, error) {
	took := make([]time.Duration, 5)
	for i := range took {
		begin := time.Now()
		w, err := openWorking(home)
		if err != nil {
			return 0, err
		}
		took[i] = time.Since(begin)
		if err := w.stop(); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
