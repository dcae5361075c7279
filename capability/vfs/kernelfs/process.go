package kernelfs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	for _, t := range p.Registry.All().Types() {
		files["registry/"+string(t)] = File{Read: func(context.Context) ([]byte, error) { return p.definition(t) }}
	}
	return files
}

func line(text func() string) File {
	return File{Read: func(context.Context) ([]byte, error) { return []byte(text() + "\n"), nil }}
}

// table makes a file with columns out of lines with tabs.
func table(write func(io.Writer)) File {
	return File{Read: func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		write(w)
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

func (p *Process) connections(w io.Writer) {
	s := p.Stats()
	_, _ = fmt.Fprintf(w, "connections\t%d\ninFlight\t%d\nwaiting\t%d\nmessages\t%d\nerrors\t%d\n", s.Connections, s.InFlight, s.Waiting, s.Messages, s.Errors)
}

func (p *Process) mounts(w io.Writer) {
	for _, m := range p.Mounts() {
		_, _ = fmt.Fprintf(w, "%s\t%v\t%v\n", m.Path, m.Driver.Can(), m.Driver)
	}
}

// usedMemory is in bytes, but for the goroutines. It does not stop the world.
func usedMemory(w io.Writer) {
	for _, shown := range [][2]string{
		{"heap", "/memory/classes/heap/objects:bytes"},
		{"stacks", "/memory/classes/heap/stacks:bytes"},
		{"total", "/memory/classes/total:bytes"},
		{"collections", "/gc/cycles/total:gc-cycles"},
		{"goroutines", "/sched/goroutines:goroutines"},
	} {
		sample := []metrics.Sample{{Name: shown[1]}}
		if metrics.Read(sample); sample[0].Value.Kind() == metrics.KindUint64 {
			_, _ = fmt.Fprintf(w, "%s\t%d\n", shown[0], sample[0].Value.Uint64())
		}
	}
}

func (p *Process) definition(t message.Type) ([]byte, error) {
	s, ok := p.Registry.Lookup(t)
	if !ok {
		return nil, message.Errorf(404, "%s no longer exists", t)
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
