package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/cursor"
	"kernos/work"
)

// The keys of jobs begin with SpaceJobs and a letter.
const (
	keySpec     = 's' // id → spec
	keyState    = 'o' // id → state; absent while the job has none
	keyStep     = 'p' // id, step → stepState; absent while the step has not begun
	keyLog      = 'l' // id → the job's log
	keyUnique   = 'u' // principal, uniqueKey → id, while the job is not finished
	keyExpiry   = 'e' // time at which a finished job is forgotten, id
	keySchedule = 'c' // id of a schedule
	keyHeld     = 'h' // the store was restored from a backup: see afterRestore
)

// queueLetter is that of the queue of jobs among the queues of a store.
const queueLetter = 'j'

func key(letter byte, parts ...string) []byte {
	k := append(make([]byte, 0, 40), store.SpaceJobs, letter)
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

// A spec is what a job was started with. It doesn't change.
type spec struct {
	ID       string         `json:"id"`
	Name     message.Type   `json:"name,omitzero"`
	Payload  jsontext.Value `json:"payload,omitzero"`
	Steps    []step         `json:"steps,omitzero"`
	Timeout  int64          `json:"timeout,omitzero"` // ms
	Retry    *retryRule     `json:"retry,omitzero"`
	Repeat   bool           `json:"repeat,omitzero"`
	Priority int            `json:"priority"`
	Group    string         `json:"group,omitzero"` // concurrencyKey
	Limit    int            `json:"limit,omitzero"`
	Unique   string         `json:"unique,omitzero"`
	Keep     int64          `json:"keep,omitzero"` // ms

	Schedule string `json:"schedule,omitzero"`
	Zone     string `json:"zone,omitzero"`
	CatchUp  bool   `json:"catchUp,omitzero"`
	Of       string `json:"of,omitzero"` // the schedule that has started it
	At       int64  `json:"at,omitzero"` // the time of the schedule, ms

	Principal   principal.ID     `json:"principal"`
	Token       string           `json:"token,omitzero"` // the name of the principal
	Wire        string           `json:"wire,omitzero"`
	Session     string           `json:"session,omitzero"` // the scope of its starter: the sessions whose rules decide about what the job calls
	Granted     []kernel.Reached `json:"granted,omitzero"` // what was approved, when it was started, that its calls reach
	Remote      bool             `json:"remote,omitzero"`  // its starter may not point to files of this machine
	Starter     message.ID       `json:"starter"`
	Correlation string           `json:"correlation"`
	Created     int64            `json:"created"`
}

// A state is the state of a job, as far as it has to survive.
type state struct {
	Status   Status           `json:"status,omitzero"` // statusCompleted or statusFailed; else the queue knows
	Result   jsontext.Value   `json:"result,omitzero"`
	Error    jsontext.Value   `json:"error,omitzero"`
	Began    int64            `json:"began,omitzero"`
	Ended    int64            `json:"ended,omitzero"`
	Attempt  int              `json:"attempt,omitzero"`  // attempts that have failed
	Failures []jsontext.Value `json:"failures,omitzero"` // errors of earlier attempts, the last one first
	Progress *progress        `json:"progress,omitzero"`

	Absent    int64 `json:"absent,omitzero"`    // since when it waits for a program that serves its syscall, ms
	TakenOver bool  `json:"takenOver,omitzero"` // a process had begun it and died, before it waited

	RetriedBy principal.ID `json:"retriedBy,omitzero"` // who has run it again, if that caller has fewer rights than its starter: calls have the rights of both

	// Of a schedule.
	Paused string `json:"paused,omitzero"` // why
	Last   int64  `json:"last,omitzero"`   // when it was due last
	Runs   int    `json:"runs,omitzero"`
	Missed int    `json:"missed,omitzero"`

	MissedAt int64 `json:"missedAt,omitzero"` // when the latest of them were found to be missed
}

// Status is one of the four states of the specification.
type Status string

// The states of a job.
const (
	statusPending   Status = "pending"
	statusRunning   Status = "running"
	statusCompleted Status = "completed"
	statusFailed    Status = "failed"
)

// ends reports whether a state, as it is stored, is one of a job that has ended with this status.
func (s Status) ends(stored []byte) bool {
	return bytes.HasPrefix(stored, []byte(`{"status":"`+string(s)+`"`))
}

// A step is a stepInput as it is stored.
type step struct {
	ID       string         `json:"id"`
	Name     message.Type   `json:"name"`
	Payload  jsontext.Value `json:"payload,omitzero"`
	Needs    []string       `json:"needs,omitzero"`
	Retry    *retryRule     `json:"retry,omitzero"`
	Continue bool           `json:"continue,omitzero"`
}

// A stepState is the state of a step. A step without one has not begun.
type stepState struct {
	Status  Status         `json:"status" jsonschema:"enum=pending,enum=running,enum=completed,enum=failed" jsonschema_description:"How far the step is."`
	Result  jsontext.Value `json:"result,omitzero" jsonschema_description:"What it replied."`
	Error   jsontext.Value `json:"error,omitzero" jsonschema_description:"Why it has failed."`
	Attempt int            `json:"attempt,omitzero" jsonschema_description:"How many attempts have failed."`
	Due     int64          `json:"due,omitzero" jsonschema_description:"When the next attempt begins, in milliseconds since 1970."`
	Absent  int64          `json:"absent,omitzero" jsonschema_description:"Since when it waits for a program that serves its syscall, in milliseconds since 1970."`
}

func (s stepState) ended() bool { return s.Status == statusCompleted || s.Status == statusFailed }

// A storedStep is a stepState as it is stored.
type storedStep struct {
	stepState
	Fence uint64 `json:"fence,omitzero"` // the fence of the lease that has ended the step
}

type progress struct {
	Note     string  `json:"note" jsonschema_description:"What the job is doing."`
	Fraction float64 `json:"percentage" jsonschema_description:"How much is done, from 0 to 1."`
	At       int64   `json:"at" jsonschema_description:"When it said so, in milliseconds since 1970."`
}

// A record is a job as it is stored, with the revision of its state.
type record struct {
	spec
	state
	done     map[string]stepState // steps that are done, by id; each has a key of its own, so that steps end independently
	advanced uint64               // the fence of the last lease that has ended a step
	revision store.Revision
	queued   work.State
	due      time.Time
}

// load returns a job and how far it is in the queue, or a 404.
func (j *Jobs) load(id string) (*record, error) {
	r, err := j.loadSpec(id)
	if err != nil {
		return nil, err
	}
	// A job that ends meanwhile leaves the queue in one step with its outcome: read that last.
	task, queued, err := j.queue.Find(id)
	if err != nil {
		return nil, err
	}
	r.queued, r.due = queued, task.Due
	return r, r.loadProgress(j.opts.Store)
}

// loadLeased is load for the holder of a lease, which knows that the job runs. Nothing has to be
// read of a job that begins when it is started.
func (j *Jobs) loadLeased(l *work.Lease) (*record, error) {
	if s, ok := l.Value.(*spec); ok {
		r := &record{spec: *s, queued: work.Running, due: l.Due}
		if len(s.Steps) > 0 {
			r.done = make(map[string]stepState)
		}
		return r, nil
	}
	r, err := j.loadSpec(l.ID)
	if err != nil {
		return nil, err
	}
	r.queued, r.due = work.Running, l.Due
	return r, r.loadProgress(j.opts.Store)
}

func (j *Jobs) loadSpec(id string) (*record, error) {
	e, err := j.opts.Store.Get(key(keySpec, id))
	if err != nil {
		return nil, err
	}
	if e.Revision == 0 {
		return nil, notFound(id)
	}
	r := new(record)
	if err := json.Unmarshal(e.Value, &r.spec); err != nil {
		return nil, fmt.Errorf("the job %s can't be read: %w", id, err)
	}
	return r, nil
}

// loadProgress reads what changes while the job runs.
func (r *record) loadProgress(s store.Reader) error {
	if len(r.spec.Steps) > 0 {
		if err := r.loadSteps(s); err != nil {
			return err
		}
	}
	return r.loadState(s)
}

func (r *record) loadState(s store.Reader) error {
	e, err := s.Get(key(keyState, r.ID))
	if err != nil || e.Revision == 0 {
		return err
	}
	r.revision = e.Revision
	if err := json.Unmarshal(e.Value, &r.state); err != nil {
		return fmt.Errorf("the state of the job %s can't be read: %w", r.ID, err)
	}
	return nil
}

func (r *record) loadSteps(s store.Reader) error {
	r.done = make(map[string]stepState)
	prefix := key(keyStep, r.ID)
	for e, err := range s.Scan(store.Prefix(prefix)) {
		if err != nil {
			return err
		}
		var st storedStep
		if err := json.Unmarshal(e.Value, &st); err != nil {
			return fmt.Errorf("a step of the job %s can't be read: %w", r.ID, err)
		}
		r.done[string(e.Key[len(prefix):])] = st.stepState
		r.advanced = max(r.advanced, st.Fence)
	}
	return nil
}

// current returns the status of the job.
func (r *record) current() Status {
	switch {
	case r.Status != "":
		return r.Status
	case r.queued == work.Running && r.Schedule == "":
		return statusRunning
	}
	return statusPending
}

// maxLooked is how many jobs one page of a list looks at. Such a page may be short, and has a
// cursor.
const maxLooked = 20_000

// visible returns a job that the caller sees and controls, by its id or the short form of it.
// To other callers, the job doesn't exist.
func (j *Jobs) visible(ctx context.Context, id string) (*record, error) {
	sees := kernel.PrincipalOf(ctx).Sees
	whole, err := cursor.Whole(j.opts.Store, key(keySpec), id, func(id string) bool {
		r, err := j.load(id)
		return err == nil && sees(r.Principal)
	})
	if err != nil {
		return nil, err
	}
	r, err := j.load(whole)
	if whole == "" || err == nil && !sees(r.Principal) {
		return nil, notFound(id)
	}
	return r, err
}

// controlled is visible for commands: a session that controls a job of another principal, or one that it has
// not started, reaches what isn't its own.
func (j *Jobs) controlled(ctx context.Context, id string) (*record, error) {
	r, err := j.visible(ctx, id)
	from := kernel.SenderOf(ctx)
	if err == nil && (r.Principal != from.Principal().ID() || from.Scope() != "" && r.Session != from.Scope()) {
		err = kernel.Reaching(ctx, kernel.ToOthers, fmt.Sprintf("the job %s of %s", r.ID, r.Token))
	}
	return r, err
}

// store adds the state of the job to a batch.
func (r *record) store(b *store.Batch) { b.Set(key(keyState, r.ID), jsonvalue.Marshal(&r.state)) }

// uniqueName returns the key of a uniqueKey. Keys belong to a principal.
func (s *spec) uniqueName() []byte {
	return key(keyUnique, string(s.Principal), "\x00", s.Unique)
}

// defaultKeep is how long a finished job is kept if it doesn't set keep.
const defaultKeep = 7 * 24 * time.Hour

// expiry returns the key that determines when a finished job is forgotten.
func (r *record) expiry() []byte {
	expires := r.Ended + cmp.Or(r.Keep, defaultKeep.Milliseconds())
	return append(binary.BigEndian.AppendUint64(key(keyExpiry), uint64(expires)), r.ID...)
}

// finish adds to a batch that the job has its outcome.
func (j *Jobs) finish(b *store.Batch, r *record, s Status, now time.Time) {
	r.Status, r.Ended = s, now.UnixMilli()
	r.store(b)
	b.Set(r.expiry(), nil)
	if r.Unique != "" {
		b.Delete(r.uniqueName())
	}
	j.refer(b, r.Result, key(keyState, r.ID))
}

// unfinish takes back what finish has added, for a job that begins again.
func (j *Jobs) unfinish(b *store.Batch, r *record) {
	b.Delete(r.expiry())
	r.Status, r.Ended = "", 0
}

// sweepBatch bounds what one batch of a sweep removes.
const sweepBatch = 500

// Sweep forgets finished jobs whose time is over, and returns how many there were.
func (j *Jobs) Sweep(ctx context.Context, now time.Time) (n int, err error) {
	to := key(keyExpiry, string(binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())+1)))
	for ctx.Err() == nil {
		var b store.Batch
		found := 0
		for e, err := range j.opts.Store.Scan(store.Range{From: key(keyExpiry), To: to}) {
			if err != nil {
				return n, err
			}
			id := string(e.Key[10:])
			if err := j.forget(&b, id); err != nil {
				return n, err
			}
			expiry := append([]byte(nil), e.Key...)
			b.IfRevision(expiry, e.Revision) // else the job was begun again meanwhile
			b.Delete(expiry)
			if found++; found == sweepBatch {
				break
			}
		}
		if found == 0 {
			return n, nil
		}
		_, err := j.opts.Store.Apply(&b)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += found
	}
	return n, ctx.Err()
}

// forget adds to a batch that nothing is left of a job.
func (j *Jobs) forget(b *store.Batch, id string) error {
	r := record{spec: spec{ID: id}}
	if err := r.loadState(j.opts.Store); err != nil {
		return err
	}
	spec, err := j.opts.Store.Get(key(keySpec, id))
	if err != nil {
		return err
	}
	if err := r.loadSteps(j.opts.Store); err != nil {
		return err
	}
	j.unrefer(b, r.Result, key(keyState, id))
	j.unrefer(b, spec.Value, key(keySpec, id))
	for step, st := range r.done {
		j.unrefer(b, st.Result, key(keyStep, id, step))
		b.Delete(key(keyStep, id, step))
	}
	b.Delete(key(keySpec, id))
	b.Delete(key(keyState, id))
	b.Delete(key(keyLog, id))
	return nil
}

// refer adds to a batch that the value of a key needs the blobs that data mentions.
func (j *Jobs) refer(b *store.Batch, data, key []byte) {
	if j.opts.Blobs != nil {
		j.opts.Blobs.Refer(b, data, key)
	}
}

func (j *Jobs) unrefer(b *store.Batch, data, key []byte) {
	if j.opts.Blobs != nil {
		j.opts.Blobs.Unrefer(b, data, key)
	}
}
