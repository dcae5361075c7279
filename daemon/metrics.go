package daemon

import (
	"maps"
	"slices"

	"kernos/capability/lifecycle"
	"kernos/transport"
	httpd "kernos/transport/http"
)

// collect adds what the daemon knows of itself to the metrics of the HTTP server.
func (d *Daemon) collect(m *httpd.Metrics) {
	m.Gauge("kernos_info", "The daemon.", 1, httpd.Label{Name: "version", Value: d.opts.Version}, httpd.Label{Name: "origin", Value: string(d.home.Origin)})
	m.Gauge("kernos_start_time_seconds", "When the daemon was started, in seconds since 1970.", float64(d.started.UnixMilli())/1000)
	kept := d.storeStats()
	m.Gauge("kernos_store_bytes", "Bytes that the store and the blobs have on disk.", float64(kept.Bytes))
	m.Gauge("kernos_journal_messages", "Messages that are recorded.", float64(kept.Messages))
	sessions, jobs := d.sessionStats(), d.jobStats()
	m.Gauge("kernos_models", "Language models that are configured.", float64(d.configuredModels()))
	m.Gauge("kernos_turns_running", "Turns of sessions that run.", float64(sessions.Running))
	m.Gauge("kernos_turns_waiting", "Turns that wait for a decision, a result or Session.Continue.", float64(sessions.Waiting))
	m.Counter("kernos_turns_total", "Turns that have ended.", float64(sessions.Done), httpd.Label{Name: "status", Value: "done"})
	m.Counter("kernos_turns_total", "Turns that have ended.", float64(sessions.Failed), httpd.Label{Name: "status", Value: "failed"})
	m.Gauge("kernos_jobs_running", "Jobs that run.", float64(jobs.Running))
	m.Counter("kernos_jobs_total", "Jobs that have ended.", float64(jobs.Completed), httpd.Label{Name: "status", Value: "completed"})
	m.Counter("kernos_jobs_total", "Jobs that have ended.", float64(jobs.Failed), httpd.Label{Name: "status", Value: "failed"})
	m.Gauge("kernos_job_schedules", "Schedules, paused ones included.", float64(jobs.Schedules))
	m.Gauge("kernos_job_oldest_seconds", "How long the first job has waited whose time has come and that doesn't run.", jobs.Oldest)
	meaning := d.meaningStats()
	m.Gauge("kernos_embedded_texts", "Texts that searches by meaning find.", float64(meaning.Entries))
	m.Gauge("kernos_embedded_behind", "Texts that wait to be embedded, about.", float64(meaning.Behind))
	m.Gauge("kernos_embedded_again", "Texts that another model has embedded, and that the chosen one embeds again.", float64(meaning.Again))
	m.Gauge("kernos_embedded_again_done", "How many of those the chosen model has embedded.", float64(meaning.Done))
	m.Gauge("kernos_vector_bytes", "Memory that searches by meaning hold.", float64(meaning.Bytes))
	if d.opts.member != nil {
		collectCluster(m, d.opts.member.ClusterStatus())
	}
	for _, s := range d.servers {
		for _, w := range s.wires {
			if w.name != "" {
				w.collect(m)
			}
		}
	}
}

// collectCluster adds what the owner knows of the nodes.
func collectCluster(m *httpd.Metrics, c lifecycle.Cluster) {
	m.Counter("kernos_cluster_epoch", "Owners that the kernel has had.", float64(c.Epoch))
	for _, n := range c.Nodes {
		m.Gauge("kernos_cluster_node", "Nodes of the cluster, by name and state.", 1, httpd.Label{Name: "node", Value: n.Name}, httpd.Label{Name: "state", Value: n.State})
	}
	for _, n := range c.Nodes {
		m.Gauge("kernos_cluster_behind", "Groups of changes that a node doesn't have yet.", float64(n.Behind), httpd.Label{Name: "node", Value: n.Name})
	}
	m.Gauge("kernos_cluster_warnings", "What isn't promised with the servers and settings of the cluster; kernos cluster status has the texts.", float64(len(c.Warnings)))
}

// collect adds the metrics of a wire, with a counter for each reason why connections were
// refused or closed.
func (w *wire) collect(m *httpd.Metrics) {
	now, name, help := w.stats(), "kernos_"+w.name, "Connections over "+w.over
	m.Gauge(name+"_connections", help+".", float64(now.Connections))
	m.Counter(name+"_accepted_total", help+" that were served.", float64(now.Accepted))
	for _, reasons := range []map[transport.Reason]uint64{now.Refused, now.Closed} {
		for _, reason := range slices.Sorted(maps.Keys(reasons)) {
			m.Counter(name+"_closed_total", help+" that the daemon has refused or closed.", float64(reasons[reason]), httpd.Label{Name: "reason", Value: string(reason)})
		}
	}
}
