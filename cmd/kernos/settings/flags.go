package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/capability/content"
	fetch "kernos/capability/http"
	"kernos/daemon"
	"kernos/internal/quantity"
	"kernos/kernel"
	"kernos/transport/http"
	"kernos/transport/rpc"
	"kernos/transport/unix"
	"kernos/work"
)

// AddKernelFlags adds the flags of what a kernel keeps and reaches.
func AddKernelFlags(c *cobra.Command, o *daemon.Options) {
	o.Retention.MaxBytes, o.Retention.Outcomes = daemon.DefaultJournalBytes, kernel.DefaultIdempotencyTTL
	o.Execute, o.Fetch.MaxBody = content.ExecuteLocal, fetch.DefaultMaxBody
	f := c.Flags()
	f.Var((*quantity.Duration)(&o.Retention.MaxAge), "journal-age", "how long messages stay in the journal, such as 720h or 30d; 0 means no limit (KERNOS_JOURNAL_AGE)")
	f.Var((*quantity.Bytes)(&o.Retention.MaxBytes), "journal-size", "how large the journal may become before the oldest messages are dropped, such as 500MB; 0 means no limit (KERNOS_JOURNAL_SIZE)")
	f.Var((*quantity.PositiveDuration)(&o.Retention.Outcomes), "idempotency-ttl", "how long a command with an idempotency key is remembered, so that it does not run twice, such as 12h or 7d (KERNOS_IDEMPOTENCY_TTL)")
	f.StringArrayVar(&o.Files.Mounts, "mount", nil, "for this run, show a directory or an https server in the tree of files: `PATH=TARGET[:ro][:exec]`; with exec, its tools are executed to describe themselves; can be repeated")
	f.StringVar((*string)(&o.Execute), "execute", string(o.Execute), "which `TOOLS` may be executed to describe themselves: local (of folders that are trusted or mounted for that) or none")
	f.StringVar(&o.Keys.Seal, "seal-key", "", "the `KEY` that seals: a fingerprint as ssh-add -l prints it; by default, the agent's first usable one")
	f.BoolVar(&o.Keys.RequireAgent, "require-agent", false, "seal and open with ssh-agent only, never with a key file")
	f.BoolVar(&o.Keys.OpenUnbound, "open-unbound-secrets", false, "let tokens use sealed strings that name no destination, as the owner may")
	f.StringArrayVar(&o.Fetch.Allow, "fetch-allow", nil, "let Http.Fetch reach this `PLACE` (a host, an address or a block such as 10.0.0.0/8) although it would be refused: to tokens, this machine and private networks are; can be repeated")
	f.StringArrayVar(&o.Fetch.Deny, "fetch-deny", nil, "keep Http.Fetch from this `PLACE`; can be repeated")
	f.BoolVar(&o.Fetch.Only, "fetch-only", false, "let Http.Fetch reach nothing but what --fetch-allow names")
	f.Var((*quantity.Bytes)(&o.Fetch.MaxBody), "max-body", "how much Http.Fetch takes of one answer")
	f.IntVar(&o.Fetch.Retries, "fetch-retries", 0, "repeat a request of Http.Fetch up to `N` times if the network fails and it may be repeated")
	textFlag(f, "models", "the settings of language models by name, as `JSON`, beside those in the memory; in config.yaml, a mapping", func(text string) error {
		if err := json.Unmarshal([]byte(text), &o.Models); err != nil {
			return fmt.Errorf(`expected settings by name, such as {"local":{"dialect":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1","model":"qwen3"}}`)
		}
		return nil
	})
	f.StringVar(&o.Embeddings, "embeddings", "", "what searches by meaning go by: english (inside), encoder, or an endpoint as `JSON` {baseUrl, model, key?, dimensions?}; in config.yaml, a mapping")
	f.StringVar(&o.Files.Directory, "directory", "", "for this run, make the folder os of `DIR` a part of os://, and make new files there; kernos trust DIR is for good")
	f.BoolVar(&o.Files.Development, "development", false, "let plain http be mounted")
}

// A textValue is the value of a flag whose text is parsed into other values.
type textValue struct {
	text  string
	parse func(string) error
}

func textFlag(f *pflag.FlagSet, name, usage string, parse func(string) error) {
	f.Var(&textValue{parse: parse}, name, usage)
}

func (v *textValue) String() string { return v.text }
func (v *textValue) Type() string   { return "func" } // as [pflag.FlagSet.Func] has it, for the help text

// Set implements [pflag.Value].
func (v *textValue) Set(text string) error {
	v.text = text
	return v.parse(text)
}

// addServerFlags adds the flags of what a daemon serves, and for whom.
func addServerFlags(c *cobra.Command, o *daemon.Options) {
	l := &o.Limits
	*l = daemon.Limits{
		Timeout: kernel.DefaultTimeout, MaxConnections: unix.DefaultMaxConnections, InFlight: kernel.DefaultInFlight, InFlightAll: kernel.DefaultInFlightAll, Jobs: work.DefaultSlots,
		Stall: unix.DefaultStall, LineTime: unix.DefaultLine, Grace: unix.DefaultGrace,
	}
	f := c.Flags()
	f.Var((*quantity.Count)(&l.MaxConnections), "max-connections", "how many connections are served at once")
	f.Var((*quantity.Count)(&l.InFlight), "in-flight", "how many slow requests of one connection run at once; a WebSocket may have "+strconv.Itoa(rpc.DefaultSubscriptions)+", one for each of its streams")
	f.Var((*quantity.Count)(&l.InFlightAll), "in-flight-all", "how many slow requests of all connections run at once, except for watches")
	f.Var((*quantity.Count)(&l.Jobs), "jobs", "how many jobs run at once; the others wait for their turn")
	f.Var((*quantity.PositiveDuration)(&l.Stall), "stall", "close connections that take nothing of what is sent to them for this long")
	f.Var((*quantity.Duration)(&l.Idle), "idle", "close connections that have been silent for this long; 0 means never, and two minutes between HTTP requests")
	f.Var((*quantity.PositiveDuration)(&l.LineTime), "line-time", "how long a connection may take for one line")
	f.Var((*quantity.Rate)(&l.FrameRate), "frame-rate", "how many messages per second are read from one connection; 0 means no limit")
	f.Var((*quantity.PositiveDuration)(&l.Timeout), "timeout", "how long one call may take")
	f.Var((*quantity.Duration)(&l.Grace), "grace", "how long running calls may take to finish when the daemon is stopped")

	w := o.Web
	w.Address, w.Optional = daemon.DefaultAddress, true
	textFlag(f, "addr", "serve HTTP and WebSockets at this `ADDRESS` too; without the flag, only if it is free", func(text string) error {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil || port == "" {
			return fmt.Errorf("expected an address and a port such as %s, got %q", daemon.DefaultAddress, text)
		}
		w.Address, w.Optional = text, false // one that is given must be free
		return nil
	})
	f.Lookup("addr").DefValue = w.Address
	AddTokenFile(c, &w.TokenFile)
	f.BoolVar(&w.NoToken, "no-token", false, "let in every caller that can connect to the address")
	f.StringVar(&w.CertFile, "tls-cert", "", "the `FILE` with the certificate to serve TLS with, in PEM; read again when it changes")
	f.StringVar(&w.KeyFile, "tls-key", "", "the `FILE` with the key of that certificate, in PEM")
	f.StringArrayVar(&w.Hosts, "allow-host", nil, "a `NAME` by which callers know this machine, beside localhost and its address; can be repeated")
	f.StringArrayVar(&w.Origins, "allow-origin", nil, "let in web pages of this `ORIGIN` (https://app.example.com), with the token; can be repeated")
	f.StringVar(&w.Issuer, "oauth-issuer", "", "tell MCP clients the `URL` of the authorization server that gives them tokens of this daemon; needs TLS")
	f.Var((*quantity.Rate)(&l.RequestRate), "request-rate", "how many HTTP requests per second are taken from one address; 0 means no limit")
	f.BoolVar(&w.InsecureWithoutTLS, "insecure-listen-without-tls", false, "serve an address that other machines can reach although its traffic isn't encrypted")
	f.BoolVar(&w.InsecureWithoutToken, "insecure-listen-without-token", false, "serve an address that other machines can reach although no token is required")
	f.BoolVar(&w.InsecureWithoutSignature, "insecure-listen-without-signature", false, "with --auth-key: serve a TCP address although callers that know the token need not sign")
}

// addClusterFlags adds the flags of a node of a cluster.
func addClusterFlags(c *cobra.Command, o *daemon.Cluster) {
	f := c.Flags()
	f.StringSliceVar(&o.Servers, "cluster", nil, "be a node of a cluster on these `SERVERS` of NATS, with commas between them: nats://host:4222, or context:NAME of the nats command")
	f.StringVar(&o.Listen, "cluster-listen", "", "be a node of a cluster with a server of NATS inside, at which the servers of other nodes find it: this `ADDRESS`, such as 10.0.0.1:6222")
	f.StringSliceVar(&o.Peers, "cluster-peers", nil, "the `ADDRESSES` at which the servers of all nodes listen, with commas between them")
	f.StringVar(&o.Secret, "cluster-secret", "", "the `FILE` by which the nodes know each other; kernos cluster init makes it")
	f.StringVar(&o.Name, "cluster-name", "", "the `NAME` of this node, different for each; by default, the name of the host")
	f.StringVar(&o.Address, "cluster-address", "", "the `HOST` or HOST:PORT by which other nodes reach this one, to pass on what comes to them; by default, the address from which this machine reaches them")
	f.StringVar(&o.Credentials, "cluster-credentials", "", "the `FILE` with the credentials for the servers of --cluster")
	f.StringVar(&o.CA, "cluster-ca", "", "the `FILE` with the certificate, in PEM, that theirs are signed by")
	f.StringVar(&o.Certificate, "cluster-cert", "", "the `FILE` with the certificate that shows them who this node is, in PEM")
	f.StringVar(&o.Key, "cluster-key", "", "the `FILE` with the key of that certificate, in PEM")
}

// AddTokenFile adds the flag of the file with the token.
func AddTokenFile(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "token-file", "", "the `FILE` with the token that callers over TCP must send; made if it doesn't exist (default token in the home directory)")
}

// Finish adds what no setting has to the options of a kernel, and checks them. The version is
// that of the program.
func Finish(o *daemon.Options, version string) error {
	if o.Fetch.MaxBody == 0 {
		return fmt.Errorf("--max-body must be more than 0")
	}
	if o.Retention.MaxBytes == 0 {
		o.Retention.MaxBytes = -1 // no limit
	}
	home, err := Home()
	if err != nil {
		return err
	}
	o.Home, o.Origin, o.Version = home.Dir, home.Origin, version
	o.Keys.Agent = os.Getenv("SSH_AUTH_SOCK")
	return Explain(o.Check())
}

// Serve are the settings of kernos serve.
type Serve struct {
	daemon.Options
	Detached bool // a client has started the daemon, and wants to know only whether it serves
	Again    bool // it is to be the last daemon: the environment isn't asked for settings
	Service  bool // a service manager has started the daemon, and keeps its standard error

	cluster   daemon.Cluster
	authKey   string
	noHTTP    bool
	given     map[string][]string // the settings that were given by flags and variables
	hadDaemon bool                // the home has the log of an earlier daemon
}

// AddServeFlags adds the flags of kernos serve.
func AddServeFlags(c *cobra.Command) *Serve {
	s := &Serve{Options: daemon.Options{Socket: &daemon.Socket{}, Web: &daemon.Web{}}}
	f := c.Flags()
	f.StringVar(&s.authKey, "auth-key", "", "require a signature of one of the public keys in this `FILE`, which is in the format of authorized_keys")
	f.BoolVar(&s.noHTTP, "no-http", false, "serve no TCP address")
	AddKernelFlags(c, &s.Options)
	addServerFlags(c, &s.Options)
	addClusterFlags(c, &s.cluster)
	f.BoolVar(&s.Detached, "detached", false, "print only that it serves, or why it does not")
	_ = f.MarkHidden("detached")
	f.BoolVar(&s.Again, "again", false, "with the settings of the last daemon")
	_ = f.MarkHidden("again")
	f.BoolVar(&s.Service, "service", false, "as the service of a service manager")
	_ = f.MarkHidden("service")
	return s
}

// Complete completes the options of the daemon from the environment and the configuration file.
func (s *Serve) Complete(c *cobra.Command, version string) (err error) {
	home, err := Home()
	if err != nil {
		return err
	}
	environment := os.Getenv
	if s.Again {
		environment = func(string) string { return "" }
		last, err := recall(home)
		if err == nil && last != nil {
			err = last.complete(c.Flags(), memoryFile(home))
		}
		if err != nil {
			return err
		}
	} else {
		WarnOfVariables(c.ErrOrStderr())
	}
	var sources map[string]string
	if s.given, sources, err = complete(c, environment); err != nil {
		return err
	}
	if _, err := completeMember(home, c.Flags(), func(name string) bool { return s.given[name] != nil || sources[name] != "" }); err != nil {
		return err
	}
	return s.finish(home, version)
}

// finish makes options of the settings, and checks them.
func (s *Serve) finish(home daemon.Home, version string) error {
	_, err := os.Stat(filepath.Join(home.State(), "log"))
	s.hadDaemon = err == nil
	if s.noHTTP {
		s.Web.Address = ""
	}
	if s.authKey != "" {
		if s.Socket.Keys, err = daemon.ReadKeys(s.authKey); err != nil {
			return fmt.Errorf("--auth-key: %w", err)
		}
	}
	if !reflect.ValueOf(s.cluster).IsZero() {
		s.Cluster = &s.cluster
		if _, err := os.Stat(Secret(home)); err == nil && s.cluster.Listen != "" && s.cluster.Secret == "" {
			s.cluster.Secret = Secret(home)
		}
	}
	describeStart(&s.Socket.Info)
	return Finish(&s.Options, version)
}

// Check returns what keeps kernos serve from starting with the variables, the configuration file and
// the token file as they are, or nil. It changes nothing.
func Check() error {
	c := &cobra.Command{}
	c.SetErr(io.Discard)
	s := AddServeFlags(c)
	if err := s.Complete(c, ""); err != nil {
		return err
	}
	if s.Web.Address == "" || s.Web.NoToken {
		return nil
	}
	token := cmp.Or(s.Web.TokenFile, daemon.Home{Dir: s.Home, Origin: s.Origin}.Token())
	if _, err := os.Stat(token); err != nil {
		return nil // the daemon makes it
	}
	_, err := http.OpenToken(token)
	return err
}
