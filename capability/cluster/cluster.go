// Package cluster is the module of a kernel that runs in a cluster: which nodes there are, which of them owns the kernel, and
// whether their copies are equal. The node knows the answers, and gives them in the [Options].
package cluster

import (
	"context"

	"kernos/capability/lifecycle"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// The types of the syscalls.
const (
	StatusType message.Type = "Cluster.Status"
	MoveType   message.Type = "Cluster.Move"
	CheckType  message.Type = "Cluster.Check"
	ForgetType message.Type = "Cluster.Forget"
)

// A Comparison is what the copies of all nodes are at one place in the log, and the reply of Cluster.Check.
type Comparison struct {
	Sequence uint64     `json:"sequence" jsonschema_description:"The place in the log at which the copies were compared."`
	Equal    bool       `json:"equal" jsonschema_description:"All copies that could be compared are the same."`
	Nodes    []Checksum `json:"nodes" jsonschema_description:"The nodes, by name."`
}

// A Checksum is what the copy of a node is.
type Checksum struct {
	Name     string `json:"name" jsonschema_description:"The node."`
	Checksum string `json:"checksum,omitempty" jsonschema_description:"Of all that is replicated; absent if the node couldn't compute one."`
	Problem  string `json:"problem,omitempty" jsonschema_description:"Why not."`
}

// Options are what a node knows and can do.
type Options struct {
	Status func() lifecycle.Cluster
	Move   func(ctx context.Context, node string) (done bool, err error) // it isn't done if the kernel that answers has to end first
	Check  func(ctx context.Context) (Comparison, error)
	Forget func(ctx context.Context, node string) error
}

type nothing struct{}

type moveInput struct {
	Node string `json:"node" jsonschema:"required,minLength=1" jsonschema_description:"The node that is to own the kernel."`
}

type moveOutput struct {
	Node string `json:"node" jsonschema_description:"The node that is to own it."`
	Done bool   `json:"done" jsonschema_description:"Whether it does already. The kernel that moves answers before it ends; Cluster.Status shows what has become of it."`
}

type forgetInput struct {
	Node string `json:"node" jsonschema:"required,minLength=1" jsonschema_description:"The node, which must be away."`
}

var status = kernel.DefineQuery[nothing, lifecycle.Cluster](kernel.Definition{
	Type:    StatusType,
	Summary: "Report the nodes of the cluster: which owns the kernel, which are level with it, and what isn't promised.",
	Presentation: kernel.Presentation{
		Title:   "Show the nodes of the cluster",
		Words:   "nodes, replicas, which machine is the leader, who is the owner, high availability, failover, is everything replicated",
		Columns: []string{"NODE {name}", "STATE {state}", "BEHIND {behind}", "ADDRESS {address}", "VERSION {version}", "LACKS {lacks}", "PROBLEM {problem}"},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"*"}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.OwnerOnly,
})

var move = kernel.DefineCommand[moveInput, moveOutput](kernel.Definition{
	Type:    MoveType,
	Summary: "Hand the kernel to another node of the cluster, which must be level.",
	Presentation: kernel.Presentation{
		Title:  "Move the kernel to another node",
		Words:  "switch over, make another machine the leader, fail over by hand, before maintenance",
		Result: "{node} owns the kernel now{?done} | the kernel moves to {node}; kernos cluster status shows when it is there",
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow, Reaches: []kernel.Reach{kernel.ToOthers}},
	Access:   principal.OwnerOnly,
})

var check = kernel.DefineQuery[nothing, Comparison](kernel.Definition{
	Type:    CheckType,
	Summary: "Compare the copies of all nodes at one place in the log.",
	Presentation: kernel.Presentation{
		Title:   "Compare the copies",
		Words:   "are all replicas the same, verify the copies, checksum, consistency check, has a copy diverged",
		Columns: []string{"NODE {name}", "CHECKSUM {checksum}", "PROBLEM {problem}"},
		Failure: "the copies differ{!equal}",
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow, Volatile: []string{"*"}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.OwnerOnly,
})

var forget = kernel.DefineCommand[forgetInput, nothing](kernel.Definition{
	Type:    ForgetType,
	Summary: "Take a node that is away for good out of the status.",
	Presentation: kernel.Presentation{
		Title: "Forget a node",
		Words: "remove a dead node, a machine that won't come back, drop a member",
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow},
	Access:   principal.OwnerOnly,
})

// Module returns the module.
func Module(o Options) kernel.Module {
	return kernel.Module{
		Name:    "cluster",
		Version: "1.0.0",
		Summary: "The cluster that the kernel runs in: its nodes, which of them owns the kernel, and whether their copies are equal.",
		Domains: []string{"Cluster"},
		Syscalls: []kernel.Syscall{
			status.Bind(func(context.Context, nothing) (lifecycle.Cluster, error) { return o.Status(), nil }),
			move.Bind(func(ctx context.Context, in moveInput) (moveOutput, error) {
				done, err := o.Move(ctx, in.Node)
				return moveOutput{in.Node, done}, err
			}),
			check.Bind(func(ctx context.Context, _ nothing) (Comparison, error) { return o.Check(ctx) }),
			forget.Bind(func(ctx context.Context, in forgetInput) (nothing, error) { return nothing{}, o.Forget(ctx, in.Node) }),
		},
	}
}
