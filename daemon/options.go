package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/capability/content"
	"kernos/capability/crypto"
	"kernos/capability/model"
	"kernos/internal/outbound"
	"kernos/journal"
	"kernos/kernel"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
	httpd "kernos/transport/http"
	"kernos/transport/mcp"
	"kernos/transport/unix"
)

// DefaultAddress is the TCP address that kernos serve listens on.
const DefaultAddress = "127.0.0.1:7420"

// DefaultJournalBytes is how large the journal may become.
const DefaultJournalBytes = 4 << 30

// Options are the settings of a daemon. The zero value of every field but Home is a sensible
// default. Without a Socket and a Web, only the program itself can call the kernel.
type Options struct {
	// Home is the directory that holds all state. It is made if it doesn't exist.
	Home string

	// Origin is whose state is used. "" means [store.DefaultOrigin].
	Origin store.Origin

	// Modules are syscalls of the program's own, beside those of Kernos.
	Modules []kernel.Module

	// Offers are syscalls that are also prompts or resources of the Model Context Protocol.
	Offers []mcp.Offer

	// Unrecorded turns the journal off. Then the store is opened by the first message that
	// needs it, and a message that needs none costs no disk.
	Unrecorded bool

	// NoJobs means that the process ends with its caller: jobs can be looked at, and neither be
	// started nor run.
	NoJobs bool

	// Models are the settings of language models by name, beside those in the memory; see
	// package model.
	Models map[string]json.RawMessage

	// Embeddings chooses what turns texts into vectors, for searches by meaning: english (the
	// default, which is inside), encoder, or the settings of an endpoint as JSON. See
	// docs/VECTORS.md.
	Embeddings string

	Retention Retention
	Files     Files
	Fetch     Fetch
	Keys      Keys
	Limits    Limits

	// Execute decides which tools may be executed to describe themselves. "" means
	// [content.ExecuteLocal].
	Execute content.Policy

	// Socket serves the programs of this user over a unix socket. Nil means none.
	Socket *Socket

	// Web serves HTTP and WebSockets: over TCP, and over the socket if there is one.
	// Nil means none.
	Web *Web

	// Now is the clock by which tokens and keys of the memory expire, jobs become due and sessions use up
	// their budgets. Nil means time.Now.
	Now func() time.Time

	// Version is the version of the program, as Kernel.Status reports it.
	Version string

	// Log is for the operator. Nil means silence.
	Log *slog.Logger

	// Level is the level of Log, which /sys/log-level shows and changes. Nil means that
	// changing it has no effect.
	Level *slog.LevelVar

	// Pebble tunes the default engine.
	Pebble pebble.Options

	// OpenStore opens another engine in a directory. Nil means Pebble.
	OpenStore func(dir string) (store.Store, error)

	// Fenced means that what the store shows can be lost until its barrier is reached: every answer waits for one. It is
	// for a store that others have a copy of; see [kernel.Options].
	Fenced bool

	// Depot has copies of the blobs for the other nodes of a cluster. Nil means one machine.
	Depot blobs.Depot

	// StoreOpened is called once, when the store has been opened. May be nil.
	StoreOpened func()

	// Cluster makes the daemon a node of a cluster; see [OpenMember]. Nil means that there is no cluster.
	Cluster *Cluster

	doors  *doors  // in place of listeners of the daemon's own; nil unless a member opens the daemon
	member *Member // that opens it
}

// Retention sets how much is kept of what happened.
type Retention struct {
	MaxAge   time.Duration // age of messages in the journal, at least journal.MinAge; 0 means no limit
	MaxBytes int64         // bytes of the journal; 0 means DefaultJournalBytes, and less than 0 no limit
	Outcomes time.Duration // how long outcomes of commands with an idempotency key are kept; 0 means kernel.DefaultIdempotencyTTL
}

// Files lists what is in the tree of files.
type Files struct {
	// Mounts are directories and https servers in the tree: PATH=TARGET[:ro][:noexec | :exec].
	Mounts []string

	// Directory is one whose folder os becomes a part of the root of the tree, beside the folder os of the home and those of
	// trusted directories; new files are made in it. "" means none. It has no meaning if a root is mounted.
	Directory string

	// Development lets plain http be mounted.
	Development bool
}

// Fetch decides where requests may go that callers cause. By default the owner reaches everything but
// link-local addresses, and public addresses only if other machines can call the kernel. Tokens
// reach public addresses only, and what Allow names.
type Fetch struct {
	Allow   []string // hosts, addresses or blocks that are reached although they would be refused
	Deny    []string // hosts, addresses or blocks that are refused
	Only    bool     // nothing but Allow is reached
	MaxBody int64    // bytes of one answer; 0 means the default of the capability
	Retries int      // attempts to repeat a safe request if the network fails; at most 10
}

// Keys decides what seals and opens.
type Keys struct {
	Agent        string // the socket of an ssh-agent; "" means none
	Seal         string // the fingerprint of the key that seals; "" means the agent's first one that can
	RequireAgent bool   // never use the key file in the home
	OpenUnbound  bool   // tokens too may use sealed strings that name no destination
}

// Limits bound what callers can use. 0 means the default of each, which for Idle, FrameRate and
// RequestRate is no limit.
type Limits struct {
	Timeout        time.Duration // how long one call may take
	MaxConnections int           // connections at once, over each wire
	InFlight       int           // slow calls of one connection at once
	InFlightAll    int           // slow calls of all connections at once
	Jobs           int           // jobs that run at once; 0 means 256
	Idle           time.Duration // silence before a connection is closed
	Stall          time.Duration // how long a connection may take nothing of what is sent to it
	LineTime       time.Duration // how long a connection may take to send one line
	FrameRate      float64       // messages per second that are read from one connection
	RequestRate    float64       // HTTP requests per second from one address
	Grace          time.Duration // how long running calls may continue when the daemon stops
}

// Socket serves NDJSON over a unix socket. The path follows from the home; see [Home.Socket].
type Socket struct {
	// Keys are the public keys that clients must sign with. None means that every program of
	// this user is served.
	Keys []ssh.PublicKey

	// Info is what clients get to know about this process beside what the daemon knows: Dir, Args
	// and Env, with which it can be started again.
	Info unix.Info

	// Listener is the socket that a service manager listens on for this daemon, at the path that follows from the home. It
	// outlives the daemon. Nil means that the daemon makes the socket.
	Listener *net.UnixListener
}

// Web serves HTTP and WebSockets.
type Web struct {
	// Address is the TCP address. "" means none: HTTP is served over the socket only.
	Address string

	// Listener is the TCP address that a service manager listens on for this daemon. It takes the place of Address.
	Listener *net.TCPListener

	// Optional leaves an Address that is in use, or a token that can't be written, with a
	// warning. Otherwise Open fails.
	Optional bool

	TokenFile string // file with the token that callers over TCP must send; "" means [Home.Token]
	NoToken   bool   // every caller is let in

	CertFile, KeyFile string   // certificate and key of TLS, in PEM; read again when they change
	Hosts             []string // names of this machine, beside localhost and its address
	Origins           []string // origins of web pages that are let in, with the token
	Issuer            string   // the authorization server that is named to MCP clients; "" means none

	// An address that other machines can reach is served with TLS and a token only, and beside
	// the Keys of the Socket none is served, unless these allow it.
	InsecureWithoutTLS, InsecureWithoutToken, InsecureWithoutSignature bool
}

// An OptionError reports an option that can't be used. Name is the setting's name in the
// configuration file, such as tls-cert.
type OptionError struct {
	Name string
	Err  error
}

func (e *OptionError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *OptionError) Unwrap() error { return e.Err }

func wrong(name, format string, args ...any) error {
	return &OptionError{name, fmt.Errorf(format, args...)}
}

// Check reports what is wrong with the options, as far as that can be known before anything
// is opened. Errors are *OptionError.
func (o *Options) Check() error {
	if !slices.Contains([]content.Policy{"", content.ExecuteLocal, content.ExecuteNone}, o.Execute) {
		return wrong("execute", "expected local or none, got %q", o.Execute)
	}
	if o.Fetch.Retries < 0 || o.Fetch.Retries > 10 {
		return wrong("fetch-retries", "expected a number from 0 to 10, got %d", o.Fetch.Retries)
	}
	if age := o.Retention.MaxAge; age != 0 && age < journal.MinAge {
		return wrong("journal-age", "messages are kept for %v at least, got %v; 0 means no limit", journal.MinAge, age)
	}
	if err := crypto.CheckKey(o.Keys.Seal); err != nil {
		return &OptionError{"seal-key", err}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		if err := model.CheckSettings(name, o.Models[name], builtIn); err != nil {
			return wrong("models", "%s: %w", name, err)
		}
	}
	if err := checkEmbeddings(o.Embeddings); err != nil {
		return &OptionError{"embeddings", err}
	}
	if dir := o.Files.Directory; dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return wrong("directory", "%w; name a directory that exists", err)
		} else if !info.IsDir() {
			return wrong("directory", "%s is not a directory; name one", dir)
		}
	}
	if o.Cluster != nil {
		if err := o.Cluster.check(); err != nil {
			return err
		}
	}
	if _, err := o.policy(); err != nil || o.Web == nil {
		return err
	}
	return o.Web.check(o.signed())
}

// check reports settings that contradict each other. Signed means that clients of the socket
// must sign.
func (w *Web) check(signed bool) error {
	switch {
	case (w.CertFile == "") != (w.KeyFile == ""):
		return wrong("tls-cert", "a certificate and its key belong together; give both tls-cert and tls-key, or none")
	case w.NoToken && w.TokenFile != "":
		return wrong("no-token", "contradicts token-file; leave one out")
	case w.Issuer != "" && (w.CertFile == "" || w.NoToken):
		return wrong("oauth-issuer", "clients get tokens of an authorization server for an address with TLS and a token only; give tls-cert and tls-key, and leave out no-token")
	case w.NoToken && signed:
		return wrong("no-token", "HTTP would let in callers that can't sign for auth-key; leave one of them out")
	case signed && w.Address != "" && !w.Optional && !w.InsecureWithoutSignature:
		return wrong("addr", "callers who know the token would be let in although they can't sign for auth-key; leave one of them out, or allow it with insecure-listen-without-signature")
	}
	_, err := w.guard()
	return err
}

// signed reports whether clients of the socket must sign.
func (o *Options) signed() bool { return o.Socket != nil && len(o.Socket.Keys) > 0 }

// policy returns where connections may go.
func (o *Options) policy() (outbound.Policy, error) {
	p := outbound.Personal
	if o.Web != nil && o.Web.public() {
		p = outbound.Policy{}
	}
	p.Only = o.Fetch.Only
	var err error
	if p.Allow, err = outbound.ParseRules(o.Fetch.Allow...); err != nil {
		return p, &OptionError{"fetch-allow", err}
	}
	if p.Deny, err = outbound.ParseRules(o.Fetch.Deny...); err != nil {
		return p, &OptionError{"fetch-deny", err}
	}
	return p, nil
}

// journalBytes returns the limit of the journal as the journal takes it: 0 means none.
func (r Retention) journalBytes() int64 { return max(cmp.Or(r.MaxBytes, DefaultJournalBytes), 0) }

// outcomes returns how long the outcomes of idempotent commands are kept.
func (r Retention) outcomes() time.Duration { return cmp.Or(r.Outcomes, kernel.DefaultIdempotencyTTL) }

// guard returns the hosts and origins that are let in, as they are compared.
func (w *Web) guard() (g httpd.Guard, err error) {
	if g.Hosts, err = parseNames("allow-host", w.Hosts, httpd.ParseHost); err == nil {
		g.Origins, err = parseNames("allow-origin", w.Origins, httpd.ParseOrigin)
	}
	if w.Issuer != "" && err == nil {
		if g.Issuer, err = httpd.ParseIssuer(w.Issuer); err != nil {
			err = &OptionError{"oauth-issuer", err}
		}
	}
	return g, err
}

func parseNames(option string, texts []string, parse func(string) (string, error)) (names []string, err error) {
	for _, text := range texts {
		name, err := parse(text)
		if err != nil {
			return nil, &OptionError{option, err}
		}
		names = append(names, name)
	}
	return names, nil
}

// public reports whether other machines can reach the address.
func (w *Web) public() bool {
	if w.Address == "" {
		return false
	}
	a, err := net.ResolveTCPAddr("tcp", w.Address)
	return err != nil || !a.IP.IsLoopback()
}

// permitted reports why an address can't be served with these settings, if other machines can
// reach it.
func (w *Web) permitted(a *net.TCPAddr) error {
	if a.IP.IsLoopback() {
		return nil
	}
	if w.CertFile == "" && !w.InsecureWithoutTLS {
		return wrong("addr", "other machines can reach %s, so it is not served without TLS; give tls-cert and tls-key, or allow it with insecure-listen-without-tls", w.Address)
	}
	if w.NoToken && !w.InsecureWithoutToken {
		return wrong("addr", "other machines can reach %s, so it is not served without a token; leave out no-token, or allow it with insecure-listen-without-token", w.Address)
	}
	return nil
}
