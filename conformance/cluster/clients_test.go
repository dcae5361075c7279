//go:build linux

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kernos/message"
)

// A round is a number of clients that call all nodes, while one thing goes wrong.
type round struct {
	t       testing.TB
	nodes   *nodes
	number  int
	begun   time.Time // of the test
	history history
	stop    chan struct{}
	clients sync.WaitGroup
	numbers atomic.Int64            // of clients
	values  atomic.Int64            // of keys
	done    [nodeCount]atomic.Int64 // calls with an outcome, by the node that was called

	mu   sync.Mutex
	jobs map[string]string // by the key that each one increments
}

const (
	registers = 4 // keys that are set, a round
	counters  = 2 // keys that are incremented
)

// pause is between two calls of a client; hesitation is after one without an outcome.
const (
	pause      = 10 * time.Millisecond
	hesitation = 150 * time.Millisecond
)

// start starts the clients: one for each door of each node.
func (r *round) start(seed uint64) {
	r.stop, r.jobs = make(chan struct{}), make(map[string]string)
	for i, n := range r.nodes.all {
		for k, d := range []door{&socketDoor{node: n}, newWebDoor(n)} {
			c := &client{round: r, node: i, door: d, random: rand.New(rand.NewPCG(seed, uint64(100*r.number+10*i+k))), revisions: make(map[string]int64)}
			c.number = int(r.numbers.Add(1))
			r.clients.Go(c.run)
		}
	}
}

// more waits until calls to nodes that aren't left out have had outcomes.
func (r *round) more(count int64, except ...int) {
	r.t.Helper()
	sum := func() (sum int64) {
		for i := range r.done {
			if !contains(except, i) {
				sum += r.done[i].Load()
			}
		}
		return sum
	}
	begin := sum()
	r.nodes.until("calls have outcomes", func() bool { return sum() >= begin+count })
}

// all waits until calls to each node have had outcomes.
func (r *round) all(count int64) {
	r.t.Helper()
	for i := range r.done {
		var except []int
		for other := range r.done {
			if other != i {
				except = append(except, other)
			}
		}
		r.more(count, except...)
	}
}

// end stops the clients, reads all keys from all nodes, and checks the history.
func (r *round) end(t *testing.T) {
	close(r.stop)
	r.clients.Wait()
	for i, n := range r.nodes.all {
		c := &client{round: r, node: i, door: &socketDoor{node: n}, number: int(r.numbers.Add(1))}
		for k := range registers {
			c.surely(func() bool { return c.get(r.register(k)) })
		}
		for k := range counters {
			c.surely(func() bool { return c.get(r.counter(k)) })
		}
		c.door.close()
	}
	r.checkJobs(t)
	r.history.check(t)
}

// checkJobs waits for all jobs, and looks at what they have done.
func (r *round) checkJobs(t *testing.T) {
	c := &client{round: r, door: &socketDoor{node: r.nodes.all[r.number%nodeCount]}}
	defer c.door.close()
	for key, id := range r.jobs {
		var job struct {
			Status string
			Error  json.RawMessage
		}
		c.ask("Job.Wait", fmt.Sprintf(`{"jobId":%q,"timeout":5000}`, id), &job, func() bool { return job.Status == "completed" || job.Status == "failed" })
		if job.Status != "completed" {
			t.Errorf("the job %s was acknowledged, and is %s: %s", id, job.Status, job.Error)
		}
		var count int
		c.ask("Memory.Get", fmt.Sprintf(`{"key":%q}`, key), &count, nil)
		if count != 1 {
			t.Errorf("the job %s has happened %d times", id, count)
		}
	}
}

func (r *round) register(number int) string {
	return fmt.Sprintf("rounds/%d/register/%d", r.number, number)
}
func (r *round) counter(number int) string {
	return fmt.Sprintf("rounds/%d/counter/%d", r.number, number)
}

// A client makes one call after another.
type client struct {
	round     *round
	node      int
	door      door
	number    int
	random    *rand.Rand
	revisions map[string]int64 // that it has seen last
}

func (c *client) now() int64 { return int64(time.Since(c.round.begun)) }

// rest waits, and reports whether the round goes on.
func (c *client) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.round.stop:
		return false
	}
}

func (c *client) run() {
	defer c.door.close()
	for wait := pause; c.rest(wait); {
		wait = pause
		if !c.once() {
			wait = hesitation
		}
	}
}

// once makes one call, and reports whether it has an outcome.
func (c *client) once() bool {
	register, counter := c.round.register(c.random.IntN(registers)), c.round.counter(c.random.IntN(counters))
	switch n := c.random.IntN(20); {
	case n < 5:
		return c.get(register)
	case n < 7:
		return c.get(counter)
	case n < 11:
		return c.set(register, false)
	case n < 15:
		return c.set(register, true)
	case n < 16:
		return c.increment(counter)
	case n < 18:
		return c.incrementOnce(counter)
	default:
		return c.startJob()
	}
}

// send makes a call, and counts it.
func (c *client) send(kind message.Kind, name message.Type, data, key string) (json.RawMessage, error) {
	answer, err := c.door.call(kind, name, data, key)
	if e, is := errors.AsType[*message.Error](err); err == nil || is && (e.Code == 404 || e.Code == 409) {
		c.round.done[c.node].Add(1)
	} else if is && e.Code != 503 && e.Code != 502 && e.Code != 504 && e.Code != 429 {
		c.round.t.Errorf("%s %s of node %d: %v", name, data, c.node, e)
	}
	return answer, err
}

// surely repeats a call until it has an outcome.
func (c *client) surely(call func() bool) {
	for !call() && !c.round.t.Failed() {
		time.Sleep(hesitation)
	}
}

// ask repeats a query until it is answered, with what is wanted.
func (c *client) ask(name message.Type, data string, out any, wanted func() bool) {
	c.surely(func() bool {
		answer, err := c.door.call(message.KindQuery, name, data, "")
		if err == nil {
			err = json.Unmarshal(answer, out)
		}
		if e, is := errors.AsType[*message.Error](err); is && e.Code < 500 && e.Code != 408 && e.Code != 429 {
			c.round.t.Errorf("%s %s: %v", name, data, err)
		}
		return err == nil && (wanted == nil || wanted())
	})
}

// get reads a key.
func (c *client) get(key string) bool {
	s := step{key: key, what: read, call: c.now(), client: c.number}
	answer, err := c.send(message.KindQuery, "Memory.Get", fmt.Sprintf(`{"key":%q,"withRevision":true}`, key), "")
	s.end = c.now()
	var got struct{ Value, Revision int64 }
	if e, is := errors.AsType[*message.Error](err); is && e.Code == 404 {
		err = nil
	} else if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	if err != nil {
		return false
	}
	s.revision, s.value = got.Revision, got.Value
	c.round.history.add(s)
	if c.revisions != nil {
		c.revisions[key] = s.revision
	}
	return true
}

// isAt finds the revision of a key in the error of a compare-and-set.
var isAt = regexp.MustCompile(`(?:is at revision |\(revision )(\d+)\)?; read it again`)

// set sets a key to a value of its own, under the condition that it is at the revision that this client has seen last, or without one.
func (c *client) set(key string, compare bool) bool {
	s := step{key: key, what: unknown, value: c.round.values.Add(1), client: c.number}
	expected, seen := c.revisions[key]
	if compare && !seen {
		return c.get(key)
	}
	data := fmt.Sprintf(`{"key":%q,"value":%d,"withRevision":true}`, key, s.value)
	if compare {
		s.note = fmt.Sprintf("if at %d", expected)
		data = fmt.Sprintf(`{"key":%q,"value":%d,"ifRevision":%d}`, key, s.value, expected)
	}
	s.call = c.now()
	answer, err := c.send(message.KindCommand, "Memory.Set", data, "")
	s.end = c.now()
	var reply struct{ Revision int64 }
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	e, answered := errors.AsType[*message.Error](err)
	switch {
	case errors.Is(err, errNot):
		return false
	case answered && e.Code == 409:
		found := isAt.FindStringSubmatch(e.Message)
		if found == nil || !compare {
			c.round.t.Errorf("Memory.Set %s: %v", data, e)
			return false
		}
		s.what = missed
		s.revision, _ = strconv.ParseInt(found[1], 10, 64)
		if s.revision == expected {
			c.round.t.Errorf("Memory.Set %s was refused: %v", data, e)
		}
	case err != nil:
		s.note += " " + err.Error()
	default:
		s.what, s.revision = wrote, reply.Revision
		if compare && s.revision != expected+1 {
			c.round.t.Errorf("Memory.Set %s has made the revision %d", data, s.revision)
		}
	}
	c.settle(s)
	return s.what != unknown
}

// settle adds a step to the history. After one that may still happen, the client is another one.
func (c *client) settle(s step) {
	c.round.history.add(s)
	if s.what == unknown {
		c.number = int(c.round.numbers.Add(1))
		delete(c.revisions, s.key)
	} else if c.revisions != nil {
		c.revisions[s.key] = s.revision
	}
}

// increment increments a key; if the outcome isn't known, it stays so.
func (c *client) increment(key string) bool {
	s := step{key: key, what: unknown, value: hidden, call: c.now(), client: c.number, note: "increment"}
	answer, err := c.send(message.KindCommand, "Memory.Increment", fmt.Sprintf(`{"key":%q}`, key), "")
	s.end = c.now()
	if errors.Is(err, errNot) {
		return false
	}
	if !s.counted(answer, err) && err != nil {
		s.note += " " + err.Error()
	}
	c.settle(s)
	return s.what != unknown
}

// counted fills in the outcome of an increment.
func (s *step) counted(answer json.RawMessage, err error) bool {
	var reply struct{ Value int64 }
	if err != nil || json.Unmarshal(answer, &reply) != nil || reply.Value == 0 {
		return false
	}
	s.what, s.revision, s.value = wrote, reply.Value, reply.Value
	return true
}

// again calls with an idempotency key until the outcome is known, and returns it.
func (c *client) again(name message.Type, data string) json.RawMessage {
	key := fmt.Sprintf("proof-%d-%d", c.round.number, c.round.values.Add(1))
	for !c.round.t.Failed() {
		answer, err := c.send(message.KindCommand, name, data, key)
		if err == nil {
			return answer
		}
		if e, is := errors.AsType[*message.Error](err); is && e.Code == 409 {
			c.round.t.Errorf("%s %s with the key %s: %v", name, data, key, e)
		}
		time.Sleep(hesitation)
	}
	return nil
}

// incrementOnce increments a key once, however often it has to ask.
func (c *client) incrementOnce(key string) bool {
	s := step{key: key, what: unknown, value: hidden, call: c.now(), client: c.number, note: "increment with an idempotency key"}
	answer := c.again("Memory.Increment", fmt.Sprintf(`{"key":%q}`, key))
	s.end = c.now()
	if !s.counted(answer, nil) && !c.round.t.Failed() {
		c.round.t.Errorf("Memory.Increment of %s: %s", key, answer)
	}
	c.settle(s)
	return true
}

// startJob starts a job that increments a key of its own.
func (c *client) startJob() bool {
	key := fmt.Sprintf("rounds/%d/job/%d", c.round.number, c.round.values.Add(1))
	answer := c.again("Job.Start", fmt.Sprintf(`{"name":"Memory.Increment","payload":{"key":%q}}`, key))
	id := jobOf(answer)
	if id == "" {
		if !c.round.t.Failed() {
			c.round.t.Errorf("Job.Start: %s", answer)
		}
		return false
	}
	c.round.mu.Lock()
	defer c.round.mu.Unlock()
	c.round.jobs[key] = id
	return true
}

// jobOf returns the id in the reply of Job.Start.
func jobOf(answer json.RawMessage) string {
	var reply struct{ JobID string }
	_ = json.Unmarshal(answer, &reply)
	return reply.JobID
}
