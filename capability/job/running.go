package job

import (
	"bytes"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

const (
	// maxLines is how many of its last lines a job keeps, and maxLine how many bytes of each.
	maxLines = 200
	maxLine  = 500

	// flushEvery is how often progress and lines of a running job are stored and recorded.
	flushEvery = time.Second
)

// A liveJob is a job that runs, or that callers wait for: its log, and who follows it.
type liveJob struct {
	j    *Jobs
	id   string
	uses int // guarded by Jobs.mu

	begun atomic.Int64 // start of the job, ms; its record has that when an attempt has ended

	mu       sync.Mutex
	progress *progress
	lines    []line
	dropped  int
	stored   time.Time // time when the lines were last stored
	changes  chan struct{}
	asked    map[string][]byte // the data of askedEvent of each call that waits for a decision
	spec     *spec             // the specification of a job that runs
	from     kernel.Sender     // the sender of its calls
}

// A line is a line of the log of a job.
type line struct {
	At   int64  `json:"at" jsonschema_description:"When, in milliseconds since 1970."`
	Text string `json:"text" jsonschema_description:"The text of the line."`
}

// logged is the log of a job, as it is stored.
type logged struct {
	Lines   []line `json:"lines"`
	Dropped int    `json:"dropped,omitzero"`
}

// The events of a session that a job waits for: a person is to decide about one of its calls, and no longer needs to. Only the
// kernel sends them.
const (
	askedEvent   message.Type = "Session.Asked"
	decidedEvent message.Type = "Session.Decided"
)

// begin returns the liveJob of a job. The caller calls end.
func (j *Jobs) begin(id string) *liveJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.live[id]
	if l == nil {
		l = &liveJob{j: j, id: id, changes: make(chan struct{})}
		j.live[id] = l
	}
	l.uses++
	return l
}

func (j *Jobs) end(l *liveJob) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.uses--; l.uses == 0 {
		delete(j.live, l.id)
	}
}

// find returns the liveJob of a job, if it has one.
func (j *Jobs) find(id string) *liveJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live[id]
}

// run notes that the job runs.
func (l *liveJob) run(s *spec, from kernel.Sender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spec, l.from = s, from
}

// stop notes that the job runs no more: its further output isn't stored.
func (l *liveJob) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spec, l.asked = nil, nil
	l.wakeWaiters()
}

// changed wakes callers that wait for a change of the job.
func (l *liveJob) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeWaiters()
}

// wakeWaiters is changed for a caller that holds mu.
func (l *liveJob) wakeWaiters() {
	close(l.changes)
	l.changes = make(chan struct{})
}

// next returns a channel that is closed at the next change, the progress so far, and what waits for a decision.
func (l *liveJob) next() (<-chan struct{}, *progress, map[string][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes, l.progress, maps.Clone(l.asked)
}

// event takes an event of the syscall that the job calls. The log has it as it would be recorded; a caller that waits for a
// decision is sent what is decided about.
func (l *liveJob) event(m message.Message) {
	now := l.j.opts.Now()
	whole := m.Data
	m.Data, _ = kernel.Redact(kernel.Record{Message: &m})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Type {
	case kernel.Progressed:
		l.progress = readProgress(m.Data, now)
		l.add(l.progress.Note, now)
	case kernel.Logged:
		l.add(jsonscan.Unquote(jsonscan.Member(m.Data, "text")), now)
	case askedEvent:
		if l.asked == nil {
			l.asked = make(map[string][]byte)
		}
		l.asked[jsonscan.Unquote(jsonscan.Member(whole, "call"))] = bytes.Clone(whole)
		l.add(string(m.Type)+" "+string(m.Data), now)
	case decidedEvent:
		delete(l.asked, jsonscan.Unquote(jsonscan.Member(m.Data, "call")))
		l.add(string(m.Type)+" "+string(m.Data), now)
	default:
		l.add(string(m.Type)+" "+string(m.Data), now)
	}
	l.wakeWaiters()
	if now.Sub(l.stored) >= flushEvery && l.spec != nil {
		l.flush(now)
	}
}

func readProgress(data []byte, now time.Time) *progress {
	p := &progress{At: now.UnixMilli()}
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		switch jsonscan.Unquote(name) {
		case "message":
			p.Note = message.Clip(jsonscan.Unquote(value), maxLine)
		case "percentage":
			_ = json.Unmarshal(value, &p.Fraction) // Fraction stays 0 if the value isn't a number
		}
		return true
	})
	return p
}

// add adds a line. mu is held.
func (l *liveJob) add(text string, now time.Time) {
	if text == "" || len(l.lines) > 0 && l.lines[len(l.lines)-1].Text == text {
		return
	}
	l.lines = append(l.lines, line{now.UnixMilli(), message.Clip(text, maxLine)})
	if len(l.lines) > maxLines {
		l.dropped += len(l.lines) - maxLines
		l.lines = append(l.lines[:0], l.lines[len(l.lines)-maxLines:]...)
	}
}

// flush stores the log of the job, and records its progress. mu is held.
func (l *liveJob) flush(now time.Time) {
	l.stored = now
	var b store.Batch
	b.Set(key(keyLog, l.id), jsonvalue.Marshal(logged{l.lines, l.dropped}))
	if _, err := l.j.opts.Store.Apply(&b); err != nil {
		l.j.opts.Log.Warn("the log of a job can't be stored", "job", l.id, "error", err)
	}
	if k := l.j.kernel.Load(); k != nil && l.progress != nil {
		r := record{spec: *l.spec}
		more := jsonscan.AppendQuoted([]byte(`,"note":`), l.progress.Note)
		r.event(k, l.from, progressedEvent, fmt.Appendf(more, `,"percentage":%g`, l.progress.Fraction))
	}
}

// keep adds to the batch of an outcome the log of the job.
func (l *liveJob) keep(b *store.Batch, r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Progress = l.progress
	if len(l.lines) > 0 {
		b.Set(key(keyLog, l.id), jsonvalue.Marshal(logged{l.lines, l.dropped}))
	}
}

// logOf returns the log of a job: that of a running job from memory, of others from the
// store.
func (j *Jobs) logOf(id string) (all logged, err error) {
	if l := j.find(id); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.lines) > 0 {
			return logged{append([]line(nil), l.lines...), l.dropped}, nil
		}
	}
	e, err := j.opts.Store.Get(key(keyLog, id))
	if err != nil || e.Revision == 0 {
		return logged{}, err
	}
	return all, json.Unmarshal(jsontext.Value(e.Value), &all)
}
