// Package clustertest starts servers of NATS for tests.
package clustertest

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// Servers are servers in this process, on free ports.
type Servers struct{}

// Start starts one server or three, and stops them at the end of the test. Three take 5 to 10 seconds, so a package
// starts them once: see [Shared].
func Start(t testing.TB, count int) *Servers { panic("TODO") }

// Connect opens a connection to the server with a number, from 0, or to all of them if it is -1, and closes it at the end of the test.
func (s *Servers) Connect(t testing.TB, number int) *nats.Conn { panic("TODO") }

// Kill stops a server at once. [Servers.Restart] starts it again with what it has on disk.
func (s *Servers) Kill(t testing.TB, number int) { panic("TODO") }

// Restart starts a server again that was killed.
func (s *Servers) Restart(t testing.TB, number int) { panic("TODO") }
