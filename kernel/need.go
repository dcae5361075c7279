package kernel

import (
	"slices"
	"strings"

	"kernos/internal/ranked"
	"kernos/message"
)

// A need is what callers look for under names that this kernel doesn't have.
type need struct {
	words  string         // in the names that callers try, in any form
	offers []message.Type // what does it here
	advice string         // what to do if none of the offers is there, or may be called
}

// needs are looked through in this order. What isn't there is said, so that a caller stops
// looking for it.
var needs = []need{
	{"schedule scheduler timer cron remind reminder alarm delay sleep timeout wait later interval",
		[]message.Type{"Job.Start"}, "nothing here runs by the clock: let cron, or the caller, send the request when it is due; a value that is to vanish has ttl in Memory.Set"},
	{"job task queue worker background batch workflow",
		[]message.Type{"Job.Start"}, "nothing here runs in the background: send requests with one metadata.correlation, and Message.Graph shows them as a workflow; a program can serve work with Syscall.Register"},
	{"counter increment count sequence", []message.Type{"Memory.Increment"}, ""},
	{"file fs filesystem disk directory folder path document", []message.Type{"VFS.Read", "VFS.Write", "VFS.List"}, ""},
	{"kv store storage database db cache redis state note variable setting config", []message.Type{"Memory.Set", "Memory.Get", "Memory.List"}, ""},
	{"web url request curl download browser page network api rest", []message.Type{"Http.Fetch"}, ""},
	{"mail email sms slack notify notification webhook", []message.Type{"Http.Fetch"}, "nothing here sends notifications; a program can, and serve that with Syscall.Register"},
	{"secret encrypt decrypt password vault credential key hash sign", []message.Type{"Crypto.Seal"}, ""},
	{"log history audit event trace journal record", []message.Type{"Message.List", "Message.Search", "Message.Graph"}, ""},
	{"subscribe watch listen stream notify topic pubsub", []message.Type{"Message.Watch"}, ""},
	{"script code typescript javascript js function lambda", []message.Type{"Syscall.Register"}, "nothing here runs code"},
	{"shell exec execute bash command process run python terminal sandbox program tool",
		nil, "nothing here runs programs; a program can serve a syscall: kernos handle TYPE -- command"},
	{"agent skill prompt content markdown", []message.Type{"Content.Hydrate", "Content.Index"}, ""},
	{"help man docs documentation schema introspect discover", []message.Type{"Syscall.Describe", "Syscall.List"}, ""},
	{"health status version uptime info", []message.Type{"Kernel.Status"}, ""},
}

// instead says what a caller that asks for an unknown type may need, or returns "". The domain
// says more about that than the action.
func (c *catalog) instead(t message.Type) string {
	for _, part := range []string{t.Domain(), t.Action()} {
		for _, w := range ranked.Words(part) {
			for _, n := range needs {
				if !slices.Contains(ranked.Words(n.words), w) {
					continue
				}
				var offered []string
				for _, o := range n.offers {
					if _, ok := c.lookup(o); ok {
						offered = append(offered, string(o))
					}
				}
				if offered != nil {
					return "for " + strings.ToLower(part) + " there is " + strings.Join(offered, ", ")
				}
				return n.advice
			}
		}
	}
	return ""
}
