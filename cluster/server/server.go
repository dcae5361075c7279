// Package server is the way from a node of a cluster to the servers of NATS: a server inside this process, which finds
// those of the other nodes, or servers outside.
package server

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
)

// Options of a server inside the process.
type Options struct {
	Name   string       // of this node; different for each node of the cluster
	Listen string       // HOST:PORT for the servers of other nodes
	Peers  []string     // HOST:PORT of every node, this one included or not; none: the server is alone
	Dir    string       // has the streams
	Secret []byte       // what [ReadSecret] returns; may be nil only if the server is alone
	Log    *slog.Logger // nothing is logged if nil
}

// A Server is a running server.
type Server struct{}

// Start starts a server, and returns when it listens. It isn't a member of a majority yet: see [Server.Ready].
func Start(o Options) (*Server, error) { panic("TODO") }

// Ready waits until the servers have elected a leader, and this one is level with it.
func (s *Server) Ready(ctx context.Context) error { panic("TODO") }

// Connect opens a connection to this server within the process.
func (s *Server) Connect() (*nats.Conn, error) { panic("TODO") }

// Addr returns the address that the server listens on for other nodes.
func (s *Server) Addr() string { panic("TODO") }

// Status returns who is there.
func (s *Server) Status() Status { panic("TODO") }

// Stop stops the server, and returns when nothing of it runs.
func (s *Server) Stop() { panic("TODO") }

// Status is a server and its peers.
type Status struct {
	Peers   []Peer
	Leader  string // the name of the node whose server leads the cluster; empty if there is none
	Problem string // what keeps the servers apart, with what to do; empty if nothing is known
}

// A Peer is the server of another node.
type Peer struct {
	Address   string
	Name      string
	Connected bool
}

// External are servers outside of the process.
type External struct {
	Servers     []string // URLs such as nats://host:4222
	Context     string   // the name of a context of the nats command
	Credentials string   // a file with a JWT and its seed
	CA          string   // a file with the certificates that sign the servers' ones
	Certificate string   // this client's certificate and key, as files
	Key         string
	Name        string // of the connection, for those who look at the servers
	Log         *slog.Logger
}

// Connect connects to servers outside. The connection is restored whenever it breaks, until it is closed.
func Connect(ctx context.Context, o External) (*nats.Conn, error) { panic("TODO") }

// NewSecret returns the text of a secret file.
func NewSecret() string { panic("TODO") }

// ReadSecret reads a secret file.
func ReadSecret(file string) ([]byte, error) { panic("TODO") }
