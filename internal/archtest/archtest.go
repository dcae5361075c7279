// Package archtest checks that imports point down the floors of the house, and never
// sideways. docs/ARCHITECTURE.md says what lives on each.
package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "kernos"

// floors lists the folders from the ground up. A pattern with a star stands for all
// folders in its place. A package may import packages of lower floors only; two
// packages of one floor are siblings and don't know each other.
var floors = [][]string{
	{"internal/backoff", "internal/durable", "internal/embed", "internal/embed/encoder", "internal/fence", "internal/jsonscan", "internal/jsonvalue", "internal/llama", "internal/llama/kernosdemo", "internal/mcp", "internal/nearest", "internal/outbound", "internal/owned", "internal/process", "internal/quantity", "internal/recent", "internal/rootdir", "internal/testkit", "internal/uri", "internal/testkit/tty", "internal/testkit/browser", "internal/testkit/wire", "internal/visible", "console/build"}, // below the house: standard library, or one small library
	{"internal/ranked", "internal/secret"},            // what is found; what a credential is
	{"message", "schema", "store", "internal/sealed"}, // vocabulary
	{"internal/cursor", "message/ndjson", "message/osevent", "store/*", "capability/script/engine", "capability/mcphost/client"}, // forms and engines of it
	{"kernel/idempotency", "kernel/principal"}, // commands that run once
	{"kernel"},            // routing
	{"kernel/connection"}, // the life of a connection
	{"kernel/kerneltest"}, //
	{"transport", "transport/rpc", "journal", "work"}, // what all NDJSON wires share, and all of JSON-RPC; what has passed; what outlives a call
	{"capability/script"},                             // syscalls that are code, which register hands on
	{"capability/*", "transport/*"},                   // what there is to call, and how to reach it

	// what can be mounted in the tree of files, and mounts from texts
	{"capability/vfs/dirfs", "capability/vfs/httpfs", "capability/vfs/kernelfs", "capability/vfs/mcpfs", "capability/vfs/memoryfs", "capability/vfs/vfstest", "capability/model/modeltest"},
	{"capability/vfs/mounts"},

	{"client"},            //
	{"console"},           //
	{"daemon"},            // all of it as one value
	{"daemon/daemontest"}, //
	{"cmd/kernos/exit"},   // the commands: what they exit with,
	{"cmd/kernos/logfile", "cmd/kernos/settings", "cmd/kernos/converting"},                   // which settings they have
	{"cmd/kernos/terminal", "cmd/kernos/request", "cmd/kernos/clients"},                      // how they show it, and how they ask a kernel
	{"cmd/kernos/output", "cmd/kernos/recorded", "cmd/kernos/markdown", "cmd/kernos/models"}, // what they show: the data of a call, recorded messages, texts of models; models to connect
	{"cmd/kernos/callline"},                       // how the command line of a call reads
	{"cmd/kernos/connect", "cmd/kernos/syscalls"}, // how they get to a kernel, and what it serves
	{"cmd/kernos/calling", "cmd/kernos/chat", "cmd/kernos/document", "cmd/kernos/piping", "cmd/kernos/handling", "cmd/kernos/doctor", "cmd/kernos/backup", "cmd/kernos/serving"}, // what they do there: one call, conversations, documents, many calls, serving one, checks, replacing the state, being one
	{"cmd/kernos"}, // wiring
	{"conformance", "conformance/console", "conformance/mcp", "internal/archtest", "internal/attack", "examples/*", "examples/*/*", "sdk", "docs"}, // they look at all of it
}

// pure lists the packages that import nothing but the standard library and this module.
var pure = []string{"internal/jsonscan", "internal/sealed", "internal/secret", "internal/outbound", "message", "message/ndjson", "message/osevent"}

// forTests lists the packages that tests import, and nothing else does.
var forTests = []string{"capability/model/modeltest", "daemon/daemontest", "capability/vfs/vfstest", "internal/testkit", "internal/testkit/tty", "internal/testkit/browser", "internal/testkit/wire", "kernel/kerneltest"}

// floor returns the floor of a package of this module, given by its folder.
func floor(folder string) (int, bool) {
	for i, patterns := range floors {
		for _, p := range patterns {
			if ok, err := path.Match(p, folder); err == nil && ok {
				return i, true
			}
		}
	}
	return 0, false
}

// violation says what is wrong with one import, or returns "".
func violation(folder, imported string) string {
	from, ok := floor(folder)
	if !ok {
		return fmt.Sprintf("%s is on no floor: give it a place in the table", folder)
	}
	target, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") && slices.Contains(pure, folder) {
			return fmt.Sprintf("%s imports %s; it may use the standard library only", folder, imported)
		}
		return ""
	}
	to, ok := floor(target)
	switch {
	case slices.Contains(forTests, target) && !slices.Contains(forTests, folder):
		return fmt.Sprintf("%s imports %s, which is for tests only", folder, target)
	case !ok:
		return fmt.Sprintf("%s imports %s, which is on no floor", folder, target)
	case to > from:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): up", folder, from, target, to)
	case to == from:
		return fmt.Sprintf("%s imports %s on the same floor %d: sideways", folder, target, from)
	}
	return ""
}
