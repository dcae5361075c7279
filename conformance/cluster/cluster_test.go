//go:build linux

package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"kernos/internal/testkit"
)

var (
	rounds = flag.Int("cluster.rounds", 0, "how many things go wrong; 0: one of each of the main ones")
	seed   = flag.Uint64("cluster.seed", 0, "what goes wrong in which order, and what clients do; 0: another one each time")
	only   = flag.String("cluster.only", "", "the one thing that goes wrong")
	clocks = flag.Bool("cluster.clocks", false, "build the program with a clock that can be moved, and move it")
)

// A fault is something that goes wrong while clients call, until calls have outcomes again. What it leaves is mended after it.
type fault struct {
	name   string
	main   bool // also in the short run
	clocks bool // only with clocks that can be moved
	do     func(r *round, owner, follower int)
}

// enough is how many calls have outcomes before, while and after something goes wrong.
const enough = 40

var faults = []fault{
	{name: "the kernel moves", main: true, do: func(r *round, owner, follower int) {
		if out, err := r.nodes.all[[2]int{owner, follower}[r.number%2]].run("cluster", "move", r.nodes.all[follower].name); err != nil {
			r.t.Errorf("kernos cluster move: %v\n%s", err, out)
		}
	}},
	{name: "the owner stops", main: true, do: func(r *round, owner, _ int) {
		n := r.nodes.all[owner]
		if out, err := n.run("stop"); err != nil {
			r.t.Errorf("kernos stop: %v\n%s", err, out)
		}
		n.gone()
		r.more(enough, owner)
	}},
	{name: "the owner is killed", main: true, do: func(r *round, owner, _ int) {
		r.nodes.all[owner].kill()
		r.more(enough, owner)
	}},
	{name: "a follower is killed", do: func(r *round, _, follower int) {
		r.nodes.all[follower].kill()
		r.more(enough, follower)
	}},
	{name: "the owner is paused", do: func(r *round, owner, _ int) {
		r.nodes.all[owner].signal(syscall.SIGSTOP)
		r.nodes.waitOwner(owner)
		r.more(enough, owner)
	}},
	{name: "a follower is paused, and links are slow", main: true, do: func(r *round, _, follower int) {
		r.nodes.net.slow(10 * time.Millisecond)
		r.nodes.all[follower].signal(syscall.SIGSTOP)
		r.more(enough, follower)
	}},
	{name: "the owner is cut off", main: true, do: func(r *round, owner, _ int) {
		r.nodes.net.isolate(owner)
		r.nodes.waitOwner(owner)
		r.more(enough, owner)
	}},
	{name: "a follower is cut off", do: func(r *round, owner, follower int) {
		r.nodes.net.isolate(follower)
		r.nodes.waitAway(owner, follower)
		r.more(enough, follower)
	}},
	{name: "the owner hears no other node", do: func(r *round, owner, _ int) {
		for other := range nodeCount {
			r.nodes.net.hold(other, owner)
		}
		r.nodes.waitOwner(owner)
		r.more(enough, owner)
	}},
	{name: "no other node hears the owner", do: func(r *round, owner, _ int) {
		for other := range nodeCount {
			r.nodes.net.hold(owner, other)
		}
		r.nodes.waitOwner(owner)
		r.more(enough, owner)
	}},
	{name: "the owner and a follower are cut from each other", do: func(r *round, owner, follower int) {
		r.nodes.net.cut(owner, follower)
		r.nodes.waitAway(owner, follower)
		r.more(enough)
	}},
	{name: "links are slow", do: func(r *round, _, _ int) {
		r.nodes.net.slow(30 * time.Millisecond)
		r.more(enough)
	}},
	{name: "the owner is killed and comes back at once", do: func(r *round, owner, _ int) {
		r.nodes.all[owner].kill()
		r.nodes.all[owner].start()
		r.more(enough)
	}},
	{name: "two nodes are killed", do: func(r *round, owner, follower int) {
		r.nodes.all[owner].kill()
		r.nodes.all[follower].kill()
		r.nodes.all[follower].start()
		r.more(enough, owner)
	}},
	{name: "all nodes are killed", do: func(r *round, _, _ int) {
		for _, n := range r.nodes.all {
			n.kill()
		}
	}},
	{name: "the second majority has one node of the first", do: func(r *round, owner, follower int) {
		r.nodes.all[follower].kill()
		r.more(enough, follower)
		r.nodes.all[owner].kill()
		r.nodes.all[follower].start()
		r.more(enough, owner)
	}},
	{name: "the clock of the owner goes back", clocks: true, do: func(r *round, owner, _ int) {
		r.nodes.all[owner].clock.move(-time.Hour)
		r.more(enough)
	}},
	{name: "the clocks of all nodes jump, and the owner is killed", clocks: true, do: func(r *round, owner, follower int) {
		r.nodes.all[owner].clock.move(5 * time.Minute)
		r.nodes.all[follower].clock.move(-5 * time.Minute)
		r.more(enough)
		r.nodes.all[owner].kill()
		r.more(enough, owner)
	}},
}

// mend ends what goes wrong.
func (c *nodes) mend() {
	c.net.heal()
	for _, n := range c.all {
		n.signal(syscall.SIGCONT)
		n.start()
		if n.clock != nil {
			n.clock.move(0)
		}
	}
}

// plan returns what goes wrong.
func plan(random *rand.Rand) (plan []fault) {
	var possible []fault
	for _, f := range faults {
		if (*only == "" || *only == f.name) && (*clocks || !f.clocks) {
			possible = append(possible, f)
		}
	}
	if *rounds == 0 {
		for _, f := range possible {
			if f.main || *only != "" || f.clocks {
				plan = append(plan, f)
			}
		}
		return plan
	}
	for len(plan) < *rounds { // each of them once before any of them again
		for _, i := range random.Perm(len(possible)) {
			plan = append(plan, possible[i])
		}
	}
	return plan[:*rounds]
}

// TestClusterKill lets clients call three nodes while things go wrong.
func TestClusterKill(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	again := fmt.Sprintf("go test ./conformance/cluster -run TestClusterKill -cluster.rounds %d -cluster.seed %d", *rounds, *seed)
	t.Log(again)
	var binary string
	if *clocks {
		binary = shiftedProgram(t)
	} else {
		binary = testkit.Program(t, "kernos/cmd/kernos")
	}
	begun := time.Now()
	c := startNodes(t, binary, *clocks)
	t.Cleanup(c.tell)
	c.until("all nodes have a socket", func() bool { return c.all[0].where() != "" && c.all[1].where() != "" && c.all[2].where() != "" })
	c.level()
	t.Logf("the nodes are there after %v", time.Since(begun))
	random := rand.New(rand.NewPCG(*seed, 1))
	s := startSchedule(t, c)
	for number, f := range plan(random) {
		r := &round{t: t, nodes: c, number: number, begun: begun}
		func() {
			ended := false
			defer func() {
				if !ended { // the test has failed
					close(r.stop)
					c.mend()
					r.clients.Wait()
				}
			}()
			r.start(*seed)
			r.more(enough)
			owner := c.waitOwner()
			follower := (owner + 1 + random.IntN(nodeCount-1)) % nodeCount
			at := time.Now()
			f.do(r, owner, follower)
			wrong := time.Since(at)
			c.mend()
			c.level()
			r.all(enough / nodeCount)
			mended := time.Since(at) - wrong
			ended = true
			r.end(t)
			t.Logf("%d: %s (owner %s, follower %s): %v until calls went on, %v until it was mended, %v in all; %d outcomes, %d unknown, %d jobs", number, f.name,
				c.all[owner].name, c.all[follower].name, wrong.Round(time.Millisecond), mended.Round(time.Millisecond), time.Since(at).Round(time.Millisecond),
				r.history.known, r.history.open, len(r.jobs))
		}()
		if t.Failed() {
			t.Fatalf("the round %d, %q, has failed; again: %s", number, f.name, again)
		}
	}
	s.check(t)
	c.check()
	for _, n := range c.all {
		n.signal(syscall.SIGTERM)
	}
	for _, n := range c.all {
		n.gone()
	}
}

// A schedule increments a key each second.
type schedule struct {
	*client
	id string
}

const ticks = "rounds/ticks"

func startSchedule(t *testing.T, c *nodes) *schedule {
	r := &round{t: t, nodes: c, number: -1}
	s := &schedule{client: &client{round: r, door: &socketDoor{node: c.all[0]}}}
	answer := s.again("Job.Start", fmt.Sprintf(`{"name":"Memory.Increment","payload":{"key":%q},"schedule":"@every 1s"}`, ticks))
	s.id = jobOf(answer)
	if s.id == "" {
		t.Fatalf("Job.Start: %s", answer)
	}
	return s
}

// check pauses the schedule, and counts its runs.
func (s *schedule) check(t *testing.T) {
	defer s.door.close()
	s.again("Job.Pause", fmt.Sprintf(`{"jobId":%q}`, s.id))
	var last struct {
		Created, Last int64
		Runs, Missed  int
	}
	s.ask("Job.Status", fmt.Sprintf(`{"jobId":%q}`, s.id), &last, nil)
	runs := make(map[string]bool)
	for cursor, more := "", true; more && !t.Failed(); {
		var page struct {
			Jobs   []struct{ JobID string }
			Cursor string
		}
		s.ask("Job.List", fmt.Sprintf(`{"limit":20,"scheduleId":%q,"cursor":%q}`, s.id, cursor), &page, nil)
		for _, j := range page.Jobs {
			runs[j.JobID] = true
		}
		cursor, more = page.Cursor, page.Cursor != ""
	}
	for id := range runs {
		var run struct{ Status string }
		s.ask("Job.Wait", fmt.Sprintf(`{"jobId":%q,"timeout":5000}`, id), &run, func() bool { return run.Status == "completed" || run.Status == "failed" })
		if run.Status != "completed" {
			t.Errorf("the run %s of the schedule is %s", id, run.Status)
		}
	}
	var count int
	s.ask("Memory.Get", fmt.Sprintf(`{"key":%q}`, ticks), &count, nil)
	t.Logf("the schedule: %d runs, %d counted, %d missed", last.Runs, count, last.Missed)
	if count != last.Runs || len(runs) != last.Runs || count == 0 {
		t.Errorf("the schedule has fired %d times, there are %d runs, and %d have happened", last.Runs, len(runs), count)
	}
	if times := int(last.Last-last.Created) / 1000; !*clocks && last.Runs+last.Missed != times {
		t.Errorf("of the schedule, %d times have passed, %d runs, %d missed", times, last.Runs, last.Missed)
	}
}
