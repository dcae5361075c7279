package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"kernos/kernel"
	"kernos/message"
)

// Status is how a kernel is doing, and the reply of Kernel.Status.
type Status struct {
	Version   string   `json:"version" jsonschema_description:"Version of the program that runs the kernel."`
	PID       int      `json:"pid" jsonschema_description:"Its process."`
	Started   int64    `json:"started" jsonschema_description:"When it began, in milliseconds since 1970."`
	Uptime    float64  `json:"uptime" jsonschema_description:"Seconds since then."`
	Home      string   `json:"home" jsonschema_description:"Directory that holds the state of all origins."`
	Origin    string   `json:"origin" jsonschema_description:"Origin whose state it serves."`
	Files     string   `json:"files,omitempty" jsonschema_description:"Folder of the home that is os://; absent if a root is mounted."`
	Directory string   `json:"directory,omitempty" jsonschema_description:"Directory whose folder os is a part of os:// for this run, if one was given."`
	Trusted   []Folder `json:"trusted,omitzero" jsonschema_description:"Directories that the owner trusts: their folders os are a part of os://. At most 20; absent if there is none, or a root is mounted."`
	Socket    string   `json:"socket,omitempty" jsonschema_description:"Path of the unix socket, if there is one."`
	Listening []string `json:"listening" jsonschema:"format=uri" jsonschema_description:"Addresses at which it can be reached, as URLs."`

	Connections int     `json:"connections" jsonschema_description:"Connections that are open, this one included."`
	Refused     uint64  `json:"refused" jsonschema_description:"Connections that were turned away, ever: too many, not authenticated, another user."`
	Messages    Traffic `json:"messages" jsonschema_description:"Messages that came over connections."`
	Errors      uint64  `json:"errors" jsonschema_description:"Error messages that were sent over connections."`
	InFlight    int     `json:"inFlight" jsonschema_description:"Slow requests that are running."`
	Waiting     int     `json:"waiting" jsonschema_description:"Answers that wait for the disk, or for those before them."`
	Held        int     `json:"held" jsonschema_description:"Connections that have as many slow requests running as one may (in-flight), and have sent more."`
	Queued      int     `json:"queued" jsonschema_description:"Messages of those connections that wait for their turn."`
	Throttled   int     `json:"throttled" jsonschema_description:"Connections that have sent more messages per second than frame-rate allows, and wait."`

	Handlers []Handler `json:"handlers" jsonschema_description:"Syscalls that programs on connections serve, those with the most to answer first; at most 50."`

	FileErrors []FileError `json:"fileErrors,omitzero" jsonschema_description:"Files of os://syscalls that can't be registered; at most 10."`

	Models   int      `json:"models" jsonschema_description:"Language models that are configured. Model.List names them."`
	Sessions Sessions `json:"sessions" jsonschema_description:"Conversations. Session.List names them."`
	Jobs     Jobs     `json:"jobs" jsonschema_description:"Work in the background. Job.List names the jobs."`
	Meaning  Meaning  `json:"meaning" jsonschema_description:"Searches by meaning: how far texts are embedded. Vector.Collections reports on each collection."`
	Store    Store    `json:"store" jsonschema_description:"What is kept."`
	Cluster  *Cluster `json:"cluster,omitempty" jsonschema_description:"The cluster that the kernel runs in, as the node sees it that answers; absent if there is none."`
	Served   Served   `json:"served" jsonschema_description:"What can be called. Kernel.Modules has the details."`
}

// Cluster is a cluster as one of its nodes sees it.
type Cluster struct {
	Node     string   `json:"node" jsonschema_description:"The node that answers."`
	Owner    string   `json:"owner,omitempty" jsonschema_description:"The node whose kernel runs; absent if there is none at the moment."`
	Epoch    uint64   `json:"epoch,omitempty" jsonschema_description:"How many owners there have been."`
	Nodes    []Node   `json:"nodes" jsonschema_description:"All nodes, by name."`
	Servers  []string `json:"servers" jsonschema_description:"The servers of NATS that replicate what the owner writes."`
	Warnings []string `json:"warnings,omitempty" jsonschema_description:"What isn't promised with these servers and settings, and what to do."`
	Problem  string   `json:"problem,omitempty" jsonschema_description:"What keeps this node from following or owning."`
}

// A Node is a member of a cluster.
type Node struct {
	Name    string   `json:"name" jsonschema_description:"Its name."`
	Address string   `json:"address,omitempty" jsonschema_description:"Where clients reach it."`
	Version string   `json:"version,omitempty" jsonschema_description:"Version of its program."`
	State   string   `json:"state" jsonschema:"enum=owner,enum=level,enum=following,enum=away" jsonschema_description:"owner: its kernel runs; level: it has all that the owner has written; following: it has less; away: it gives no sign of life."`
	Behind  uint64   `json:"behind" jsonschema_description:"Groups of changes that it doesn't have yet."`
	Lacks   []string `json:"lacks,omitempty" jsonschema_description:"Sealing keys that other nodes have and it hasn't: it takes over only if no other node can."`
	Problem string   `json:"problem,omitempty" jsonschema_description:"What is wrong with it."`
}

// A Folder is a directory that the owner trusts.
type Folder struct {
	Path    string `json:"path" jsonschema_description:"The directory."`
	Execute bool   `json:"execute,omitzero" jsonschema_description:"Tools in it are executed to describe themselves."`
	Problem string `json:"problem,omitzero" jsonschema_description:"Why its files aren't used now."`
}

func (f Folder) String() string {
	switch {
	case f.Problem != "":
		return fmt.Sprintf("%s isn't used: %s", f.Path, f.Problem)
	case f.Execute:
		return f.Path + " (its folder os is a part of os://, and its tools are executed)"
	}
	return f.Path + " (its folder os is a part of os://)"
}

// A FileError reports why a file can't be registered.
type FileError struct {
	URI   string `json:"uri" jsonschema_description:"The file."`
	Error string `json:"error" jsonschema_description:"Why not."`
}

// A Handler is a syscall that programs on connections serve.
type Handler struct {
	Type        message.Type `json:"type" jsonschema_description:"Its type."`
	Connections int          `json:"connections" jsonschema_description:"How many connections serve it."`
	Waiting     int          `json:"waiting" jsonschema_description:"Requests that they were sent and have not answered."`
	Resting     int          `json:"resting" jsonschema_description:"Connections that have failed several times in a row, and get requests only if no other connection serves the type."`
}

// maxHandlers is how many handlers a status lists: with long names they still fit into a line.
const maxHandlers = 50

// Traffic is how many messages have come, and how fast.
type Traffic struct {
	Total     uint64  `json:"total" jsonschema_description:"Since the kernel began."`
	PerSecond float64 `json:"perSecond" jsonschema_description:"Messages over the last second."`
	PerMinute float64 `json:"perMinute" jsonschema_description:"Messages over the last minute."`
}

// Sessions are the figures of conversations. Those without an open turn aren't counted.
type Sessions struct {
	Running int    `json:"running" jsonschema_description:"Turns that run."`
	Waiting int    `json:"waiting" jsonschema_description:"Turns that wait for a decision, for the result of a tool that runs elsewhere, or for Session.Continue."`
	Done    uint64 `json:"done" jsonschema_description:"Turns that have ended since the kernel began, limited and canceled ones included."`
	Failed  uint64 `json:"failed" jsonschema_description:"Turns that have failed since the kernel began."`
}

// Jobs are the figures of work in the background. Jobs that wait for their time aren't counted.
type Jobs struct {
	Running   int     `json:"running" jsonschema_description:"Jobs that run."`
	Completed uint64  `json:"completed" jsonschema_description:"Jobs that have succeeded since the kernel began."`
	Failed    uint64  `json:"failed" jsonschema_description:"Jobs that have failed, or were canceled, since the kernel began."`
	Schedules int     `json:"schedules" jsonschema_description:"Schedules, paused ones included."`
	Oldest    float64 `json:"oldest" jsonschema_description:"Seconds that the first job has waited whose time has come and that doesn't run; 0 if there is none."`
	Held      bool    `json:"held" jsonschema_description:"True if the store was restored from a backup and Job.Resume wasn't called since: schedules are paused, and jobs that were running wait."`
}

// Meaning is how far the texts are that searches by meaning go through: messages, values and items of collections.
type Meaning struct {
	Model   string `json:"model" jsonschema_description:"The model that embeds texts (embeddings in config.yaml)."`
	Entries int    `json:"entries" jsonschema_description:"Texts that are embedded."`
	Behind  int    `json:"behind,omitzero" jsonschema_description:"Texts that wait to be embedded, about."`
	Again   int    `json:"again,omitzero" jsonschema_description:"Texts that another model has embedded, and that the model embeds again."`
	Done    int    `json:"done,omitzero" jsonschema_description:"How many of those it has embedded. Searches use the vectors of the other model until it has them all."`
	Waiting string `json:"waiting,omitempty" jsonschema_description:"Why nothing is embedded: the model fails. It is tried again, and searches go by words meanwhile."`
	Bytes   int    `json:"bytes" jsonschema_description:"Memory that searches hold; it is given back some minutes after the last one."`
}

// Store is what a kernel keeps.
type Store struct {
	Open     bool   `json:"open" jsonschema_description:"Whether the store is open. A kernel in a pipe opens it when a message needs it; if it is not, the rest is 0."`
	Bytes    int64  `json:"bytes" jsonschema_description:"Bytes on disk, of everything."`
	Messages uint64 `json:"messages" jsonschema_description:"Messages in the journal. Message.Stats has the details."`
}

// Served is what a kernel serves, in short.
type Served struct {
	Syscalls   int      `json:"syscalls" jsonschema_description:"How many syscalls there are."`
	Registered int      `json:"registered" jsonschema_description:"How many of them programs on connections serve."`
	Hash       string   `json:"hash" jsonschema_description:"Changes whenever the modules change in a way that callers can see."`
	Modules    []string `json:"modules" jsonschema_description:"Names of the modules that they are called by: memory of Memory.Get."`
}

var status = kernel.DefineQuery[nothing, Status](kernel.Definition{
	Type:    "Kernel.Status",
	Summary: "Report the status of the kernel: version, uptime, addresses, connections and load.",
	Presentation: kernel.Presentation{
		Title: "Show the kernel's status",
		Words: "health, status, version, uptime, info, load, is it running, diagnosis, all is well, how are you doing, is everything ok, " +
			"which version is this, how long has it been up, how busy is it, how much memory it uses, who is connected, which port, " +
			"is the server healthy, condition of the system",
	},
	Behavior:  kernel.Behavior{Volatile: []string{"*"}}, // the figures are about this moment
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (o Options) status(ctx context.Context, _ nothing) (Status, error) {
	var s Status
	if o.Status != nil {
		s = o.Status()
	}
	if s.Listening == nil {
		s.Listening = []string{}
	}
	view := o.Registry.For(kernel.PrincipalOf(ctx))
	s.Served = Served{Syscalls: len(view.Types()), Hash: view.Hash(), Modules: []string{}}
	for _, n := range view.Namespaces() {
		s.Served.Modules = append(s.Served.Modules, n.Name)
	}
	if k, ok := kernel.Of(ctx); ok {
		s.load(k)
	}
	return s, nil
}

// load fills in what the kernel knows of its queues.
func (s *Status) load(k *kernel.Kernel) {
	now := k.Stats()
	s.Held, s.Queued = now.Held, now.Queued
	all := k.Services()
	// Those with nothing to do are as interesting as their names; sorting is stable.
	slices.SortStableFunc(all, func(a, b kernel.Service) int {
		return cmp.Or(b.Waiting-a.Waiting, b.Resting-a.Resting)
	})
	s.Handlers = []Handler{}
	for _, one := range all {
		if one.Connections > 0 {
			s.Served.Registered++
		}
		if len(s.Handlers) < maxHandlers {
			s.Handlers = append(s.Handlers, Handler{one.Type, one.Connections, one.Waiting, one.Resting})
		}
	}
}
