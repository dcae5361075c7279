package kernelfs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"kernos/capability/vfs"
	"kernos/kernel"
	"kernos/message"
)

// A Process is what the proc mount shows of a running kernel.
type Process struct {
	Version  string
	Args     []string // how it was started; without secrets
	Begun    time.Time
	Registry *kernel.Registry
	Stats    func() kernel.Stats
	Mounts   func() []vfs.Mount
}

// Files is for [Proc]: uptime, version, cmdline, connections, memory, mounts, and what there
// is to call in registry/.
func (p *Process) Files() map[string]File {
	files := map[string]File{
		"uptime":      line(func() string { return strconv.FormatFloat(time.Since(p.Begun).Seconds(), 'f', 3, 64) }),
		"version":     line(p.version),
		"cmdline":     line(p.cmdline),
		"connections": table(p.connections),
		"memory":      table(usedMemory),
		"mounts":      table(p.mounts),
	}
	for _, t := range p.Registry.Types() {
		files["registry/"+string(t)] = File{Read: func(context.Context) ([]byte, error) { return p.definition(t) }}
	}
	return files
}

// line makes a file of one line.
func line(text func() string) File {
	return File{Read: func(context.Context) ([]byte, error) { return []byte(text() + "\n"), nil }}
}

// row is a line of a table.
type row []any

// table makes a file with columns.
func table(rows func() []row) File {
	return File{Read: func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, r := range rows() {
			for i, cell := range r {
				if i > 0 {
					_, _ = fmt.Fprint(w, "\t")
				}
				_, _ = fmt.Fprint(w, cell)
			}
			_, _ = fmt.Fprintln(w)
		}
		err := w.Flush()
		return b.Bytes(), err
	}}
}

func (p *Process) version() string {
	return fmt.Sprintf("kernos %s %s %s/%s", p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// cmdline quotes what a shell would take apart.
func (p *Process) cmdline() string {
	words := make([]string, len(p.Args))
	for i, word := range p.Args {
		if words[i] = word; word == "" || strings.ContainsAny(word, " \t\r\n\"'\\$`") {
			words[i] = strconv.Quote(word)
		}
	}
	return strings.Join(words, " ")
}

func (p *Process) connections() []row {
	s := p.Stats()
	return []row{
		{"connections", s.Connections}, {"inFlight", s.InFlight}, {"waiting", s.Waiting},
		{"messages", s.Messages}, {"errors", s.Errors},
	}
}

func (p *Process) mounts() []row {
	var rows []row
	for _, m := range p.Mounts() {
		rows = append(rows, row{m.Path, m.Driver.Can(), m.Driver})
	}
	return rows
}

// usedMemory is in bytes, but for the goroutines. It does not stop the world.
func usedMemory() []row {
	shown := []struct{ label, name string }{
		{"heap", "/memory/classes/heap/objects:bytes"},
		{"stacks", "/memory/classes/heap/stacks:bytes"},
		{"total", "/memory/classes/total:bytes"},
		{"collections", "/gc/cycles/total:gc-cycles"},
		{"goroutines", "/sched/goroutines:goroutines"},
	}
	samples := make([]metrics.Sample, len(shown))
	for i, s := range shown {
		samples[i].Name = s.name
	}
	metrics.Read(samples)
	var rows []row
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			rows = append(rows, row{shown[i].label, s.Value.Uint64()})
		}
	}
	return rows
}

// definition shows a syscall as JSON.
func (p *Process) definition(t message.Type) ([]byte, error) {
	s, ok := p.Registry.Lookup(t)
	if !ok {
		return nil, message.Errorf(404, "%s is not there any more", t)
	}
	text, err := json.MarshalIndent(struct {
		Type    message.Type    `json:"type"`
		Kind    message.Kind    `json:"kind"`
		Summary string          `json:"summary"`
		Input   json.RawMessage `json:"input"`
		Output  json.RawMessage `json:"output"`
	}{s.Type, s.Kind, s.Summary, s.Input.JSON(), s.Output.JSON()}, "", "  ")
	return append(text, '\n'), err
}
