package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/transport/stdio"
)

// cpuTime is the processor time that this process has used, its collector included.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mallocs is how many objects this process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// cost is what a message takes.
type cost struct {
	ns     float64 // of processor time
	allocs float64
}

// each is the cost of f, called count times over the lines, per call.
func each(lines [][]byte, count int, f func(line []byte)) cost {
	objects, before := mallocs(), cpuTime()
	for i := range count {
		f(lines[i%len(lines)])
	}
	took := cpuTime() - before
	return cost{ns: float64(took) / float64(count), allocs: float64(mallocs()-objects) / float64(count)}
}

// copyBytes is the floor of all floors.
func copyBytes(lines [][]byte, count int) cost {
	buf := make([]byte, 64<<10)
	return each(lines, count, func(line []byte) { copy(buf, line) })
}

// bareMessage is the message that bareJSON decodes and encodes.
type bareMessage struct {
	Kind     string         `json:"kind"`
	Type     string         `json:"type"`
	Data     jsontext.Value `json:"data"`
	Metadata struct {
		ID          string `json:"id"`
		Timestamp   int64  `json:"timestamp"`
		Correlation string `json:"correlation,omitzero"`
		Causation   string `json:"causation,omitzero"`
	} `json:"metadata"`
}

// bareJSON decodes and encodes the same bytes with go-json-experiment, and does
// nothing else: no validation of fields, no routing, no ids, no input or output.
func bareJSON(lines [][]byte, count int) cost {
	return each(lines, count, func(line []byte) {
		var m bareMessage
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		if _, err := json.Marshal(&m); err != nil {
			panic(err)
		}
	})
}

// streamAllocs counts the allocations of what the pipe does, in this process, where
// they can be counted.
func streamAllocs(lines [][]byte, count int) (float64, error) {
	k := newKernel()
	text := append(bytes.Join(lines, []byte("\n")), '\n')
	rounds := max(1, count/len(lines))
	input := make([]io.Reader, rounds)
	for i := range input {
		input[i] = bytes.NewReader(text)
	}
	before := mallocs()
	_, err := stdio.Serve(context.Background(), k, io.MultiReader(input...), io.Discard, nil)
	return float64(mallocs()-before) / float64(rounds*len(lines)), err
}

// piped is what a run of the real binary took, per message.
type piped struct {
	cpu, wall float64 // ns
	memory    float64 // MB, at most
}

// pipeRun sends count messages through kernos pipe --inline, from a file to a pipe
// that is read as fast as it can be, and checks that each is answered.
func pipeRun(binary string, lines [][]byte, count int, flags ...string) (piped, error) {
	in, err := os.CreateTemp("", "kernos-bench-*.ndjson")
	if err != nil {
		return piped{}, err
	}
	defer func() { _ = os.Remove(in.Name()) }()
	w := bufio.NewWriterSize(in, 1<<20)
	for i := range count {
		_, _ = w.Write(lines[i%len(lines)])
		_ = w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		return piped{}, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return piped{}, err
	}
	home, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return piped{}, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	cmd := exec.Command(binary, append([]string{"pipe", "--inline"}, flags...)...)
	cmd.Env = append(os.Environ(), "KERNOS_HOME="+home)
	cmd.Stdin = in
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return piped{}, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return piped{}, err
	}
	answers, reads, memory := 0, 0, 0.0
	buf := make([]byte, 256<<10)
	for {
		n, err := out.Read(buf)
		answers += bytes.Count(buf[:n], []byte("\n"))
		if reads++; reads%200 == 1 {
			memory = max(memory, peak(cmd.Process.Pid))
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return piped{}, err
	}
	wall := time.Since(start)
	if answers != count {
		return piped{}, fmt.Errorf("%d messages got %d answers", count, answers)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return piped{
		cpu:    float64(cpu) / float64(count),
		wall:   float64(wall) / float64(count),
		memory: memory,
	}, nil
}

// peak returns the most memory that a running process has had, in MB. What its parent gets
// when it ends is of no use: it begins with the memory of the parent.
func peak(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kb float64
	_, _ = fmt.Sscan(string(line), &kb)
	return kb / 1024
}

// startTime is the median time in ms from starting a process to its answer.
func startTime(binary string, line []byte) (float64, error) {
	var times []float64
	for range 21 {
		cmd := exec.Command(binary, "pipe", "--inline")
		cmd.Stdin = bytes.NewReader(append(bytes.Clone(line), '\n'))
		start := time.Now()
		out, err := cmd.Output()
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(out, []byte(`"kind":"reply"`)) {
			return 0, fmt.Errorf("no reply: %s", out)
		}
		times = append(times, float64(time.Since(start))/1e6)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
