package http

import (
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
)

// Metrics is a page in the text format of Prometheus, version 0.0.4. Metrics of one name are
// added one after the other.
type Metrics struct {
	text []byte
	last string // the name that was last described
}

// A Label is a name and a value that tell metrics of one name apart.
type Label struct{ Name, Value string }

// Gauge adds a number that goes up and down.
func (m *Metrics) Gauge(name, help string, value float64, labels ...Label) {
	m.add(name, "gauge", help, value, labels)
}

// Counter adds a number that only grows. Its name ends with _total.
func (m *Metrics) Counter(name, help string, value float64, labels ...Label) {
	m.add(name, "counter", help, value, labels)
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (m *Metrics) add(name, kind, help string, value float64, labels []Label) {
	if m.last != name {
		m.last = name
		m.text = append(m.text, "# HELP "+name+" "+helpEscapes.Replace(help)+"\n# TYPE "+name+" "+kind+"\n"...)
	}
	m.text = append(m.text, name...)
	for i, l := range labels {
		sign := byte(',')
		if i == 0 {
			sign = '{'
		}
		m.text = append(append(m.text, sign), l.Name+`="`+labelEscapes.Replace(l.Value)+`"`...)
	}
	if len(labels) > 0 {
		m.text = append(m.text, '}')
	}
	m.text = strconv.AppendFloat(append(m.text, ' '), value, 'g', -1, 64)
	m.text = append(m.text, '\n')
}

// metrics answers with numbers.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	m := new(Metrics)
	k := s.k.Stats()
	m.Gauge("kernos_connections", "Connections that the kernel serves, over all wires.", float64(k.Connections))
	m.Counter("kernos_messages_total", "Messages that came.", float64(k.Messages))
	m.Counter("kernos_errors_total", "Error messages that were sent.", float64(k.Errors))
	m.Gauge("kernos_slow_requests", "Slow requests that run.", float64(k.InFlight))
	m.Gauge("kernos_waiting_answers", "Answers that wait for the disk, or for those before them.", float64(k.Waiting))
	m.Gauge("kernos_syscalls", "Syscalls that are served.", float64(len(s.k.Registry().Types())))

	now := s.Stats()
	m.Gauge("kernos_http_connections", "Connections over HTTP, without WebSockets.", float64(now.Connections))
	m.Gauge("kernos_http_requests", "Requests over HTTP that are being served.", float64(s.requests.Stats().Connections))
	for class := 1; class < len(s.answers); class++ {
		m.Counter("kernos_http_answers_total", "Answers over HTTP, by the class of their status.",
			float64(s.answers[class].Load()), Label{"class", strconv.Itoa(class) + "xx"})
	}
	for _, reason := range slices.Sorted(maps.Keys(now.Refused)) {
		m.Counter("kernos_http_refused_total", "Requests over HTTP that were turned away before anything looked at what they ask for.",
			float64(now.Refused[reason]), Label{"reason", string(reason)})
	}
	if s.opts.Collect != nil {
		s.opts.Collect(m)
	}
	collectRuntime(m)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.text)
}

// collectRuntime adds what Go knows of the process.
func collectRuntime(m *Metrics) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	m.Gauge("go_goroutines", "Goroutines that there are.", float64(runtime.NumGoroutine()))
	m.Gauge("go_memory_bytes", "Memory that the Go runtime has from the system.", float64(samples[0].Value.Uint64()-samples[1].Value.Uint64()))
	m.Gauge("go_heap_objects_bytes", "Memory of objects, live ones and those not yet collected.", float64(samples[2].Value.Uint64()))
	m.Counter("go_gc_cycles_total", "Collections of garbage.", float64(samples[3].Value.Uint64()))
	m.Gauge("go_info", "The Go that the program was built with.", 1, Label{"version", runtime.Version()})
}
