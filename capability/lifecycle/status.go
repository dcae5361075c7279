package lifecycle

import (
	"context"

	"kernos/kernel"
)

// Status is how a kernel is doing, and the reply of Kernel.Status.
type Status struct {
	Version   string   `json:"version" jsonschema_description:"Version of the program that runs the kernel."`
	PID       int      `json:"pid" jsonschema_description:"Its process."`
	Started   int64    `json:"started" jsonschema_description:"When it began, in milliseconds since 1970."`
	Uptime    float64  `json:"uptime" jsonschema_description:"Seconds since then."`
	Home      string   `json:"home" jsonschema_description:"Directory that holds the state of all origins."`
	Origin    string   `json:"origin" jsonschema_description:"Origin whose state it serves."`
	Socket    string   `json:"socket,omitempty" jsonschema_description:"Path of the unix socket, if there is one."`
	Listening []string `json:"listening" jsonschema_description:"Addresses at which it can be reached, as URLs."`

	Connections int     `json:"connections" jsonschema_description:"Connections that are open, this one included."`
	Refused     uint64  `json:"refused" jsonschema_description:"Connections that were turned away, ever: too many, not authenticated, another user."`
	Messages    Traffic `json:"messages" jsonschema_description:"Messages that came over connections."`
	Errors      uint64  `json:"errors" jsonschema_description:"Error messages that were sent over connections."`
	InFlight    int     `json:"inFlight" jsonschema_description:"Slow requests that are running."`
	Waiting     int     `json:"waiting" jsonschema_description:"Answers that wait for the disk, or for those before them."`

	Store  Store  `json:"store" jsonschema_description:"What is kept."`
	Served Served `json:"served" jsonschema_description:"What can be called. Kernel.Modules says more."`
}

// Traffic is how many messages have come, and how fast.
type Traffic struct {
	Total     uint64  `json:"total" jsonschema_description:"Since the kernel began."`
	PerSecond float64 `json:"perSecond" jsonschema_description:"Messages over the last second."`
	PerMinute float64 `json:"perMinute" jsonschema_description:"Messages over the last minute."`
}

// Store is what a kernel keeps.
type Store struct {
	Open     bool   `json:"open" jsonschema_description:"Whether the store is open. A kernel in a pipe opens it when a message needs it; if it is not, the rest is 0."`
	Bytes    int64  `json:"bytes" jsonschema_description:"Bytes on disk, of everything."`
	Messages uint64 `json:"messages" jsonschema_description:"Messages in the journal. Message.Stats says more."`
}

// Served is what a kernel serves, in short.
type Served struct {
	Syscalls int      `json:"syscalls" jsonschema_description:"How many syscalls there are."`
	Hash     string   `json:"hash" jsonschema_description:"Changes with any change that a caller could see."`
	Modules  []string `json:"modules" jsonschema_description:"Names of the modules that they belong to."`
}

func status(o Options) kernel.Syscall {
	return kernel.Query(
		kernel.Definition{
			Type:    "Kernel.Status",
			Summary: "Say how the kernel is doing: since when it runs, where, and how busy it is.",
		},
		func(context.Context, nothing) (Status, error) {
			var s Status
			if o.Status != nil {
				s = o.Status()
			}
			if s.Listening == nil {
				s.Listening = []string{}
			}
			s.Served = Served{Syscalls: len(o.Registry.Types()), Hash: o.Registry.Hash(), Modules: []string{}}
			for _, m := range o.Registry.Modules() {
				s.Served.Modules = append(s.Served.Modules, m.Name)
			}
			return s, nil
		},
	)
}
