package http

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kernos/kernel"
)

// Metrics are the numbers of one scrape. It implements [prometheus.Collector]: nothing is
// counted for metrics alone, they are read from counters that the server has anyway.
type Metrics struct{ metrics []prometheus.Metric }

// A Label is a name and a value that distinguish metrics of one name.
type Label struct{ Name, Value string }

// Gauge adds a number that goes up and down.
func (m *Metrics) Gauge(name, help string, value float64, labels ...Label) {
	m.add(name, help, prometheus.GaugeValue, value, labels)
}

// Counter adds a number that only grows. Its name ends with _total.
func (m *Metrics) Counter(name, help string, value float64, labels ...Label) {
	m.add(name, help, prometheus.CounterValue, value, labels)
}

func (m *Metrics) add(name, help string, kind prometheus.ValueType, value float64, labels []Label) {
	names, values := make([]string, len(labels)), make([]string, len(labels))
	for i, l := range labels {
		names[i], values[i] = l.Name, l.Value
	}
	m.metrics = append(m.metrics, prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...))
}

// Describe implements [prometheus.Collector]: which metrics there are is not known in advance.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, one := range m.metrics {
		out <- one
	}
}

// metrics answers with numbers.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if caller := kernel.SenderIn(r.Context()).Principal(); !caller.SeesAll() {
		refuse(w, refusal{403, "forbidden", fmt.Sprintf("The token %q may not read the metrics, which count all callers; the owner can make a token that may: kernos token create NAME --preset viewer", caller.Name())})
		return
	}
	m := new(Metrics)
	k := s.k.Stats()
	m.Gauge("kernos_connections", "Connections that the kernel serves, over all wires.", float64(k.Connections))
	m.Counter("kernos_messages_total", "Messages that came.", float64(k.Messages))
	m.Counter("kernos_errors_total", "Error messages that were sent.", float64(k.Errors))
	m.Gauge("kernos_slow_requests", "Slow requests that run.", float64(k.InFlight))
	m.Gauge("kernos_waiting_answers", "Answers that wait for the disk, or for those before them.", float64(k.Waiting))
	m.Gauge("kernos_syscalls", "Syscalls that are served.", float64(len(s.k.Registry().All().Types())))

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
	page := prometheus.NewRegistry()
	page.MustRegister(m)
	promhttp.HandlerFor(page, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn)}).ServeHTTP(w, r)
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
