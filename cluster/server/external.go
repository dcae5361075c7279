package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"kernos/internal/backoff"
)

// External are servers outside of the process. What is empty comes from the context, if one is named.
type External struct {
	Servers     []string // URLs such as nats://host:4222
	Context     string   // the name of a context of the nats command
	Credentials string   // a file with a JWT and its seed
	CA          string   // a file with the certificates that sign the servers' ones
	Certificate string   // this client's certificate and key, as files
	Key         string
	Name        string // of the connection, for the servers' operator
	Log         *slog.Logger
}

// Connect connects to servers outside, and waits until ctx is done for servers that don't answer. The connection is
// restored whenever it breaks, until it is closed.
func Connect(ctx context.Context, o External) (*nats.Conn, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	options, err := o.options()
	if err != nil {
		return nil, err
	}
	if len(o.Servers) == 0 {
		return nil, errors.New("no server of NATS is named; give one such as nats://host:4222 with --cluster")
	}
	servers := strings.Join(o.Servers, ",")
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Longest: 2 * time.Second, Jitter: true}
	for warned := false; ; {
		nc, err := nats.Connect(servers, options...)
		if err == nil {
			return nc, nil
		}
		if wrong := o.refused(err); wrong != nil {
			return nil, wrong
		}
		if !warned {
			warned = true
			o.Log.Warn("No server of NATS answers yet", "servers", servers, "error", err)
		}
		if !pauses.Wait(ctx.Done()) {
			return nil, fmt.Errorf("no server of NATS answers at %s: %w; check the address, and that nats-server runs there", servers, err)
		}
	}
}

// refused returns what to do about an error that trying again doesn't help, or nil.
func (o *External) refused(err error) error {
	servers := strings.Join(o.Servers, ",")
	var path *os.PathError
	switch text := err.Error(); {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired),
		errors.Is(err, nats.ErrAccountAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("the NATS servers at %s refuse these credentials: %w; check the file of --cluster-credentials, or the context",
			servers, err)
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("the NATS servers at %s and this node don't agree whether to use TLS: %w; name them with tls:// or nats://",
			servers, err)
	case strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		return fmt.Errorf("the certificates of the NATS servers at %s and of this node don't fit: %w; "+
			"name the authority with --cluster-ca", servers, err)
	case errors.As(err, &path), strings.Contains(text, "no such file"):
		return fmt.Errorf("a file for the connection to NATS: %w", err)
	case strings.Contains(text, "parse"), strings.Contains(text, "nkeys:"):
		return fmt.Errorf("the connection to NATS at %s: %w", servers, err)
	}
	return nil
}

// lasting returns the options of each connection: it is restored for ever, and a server that was cut off is found out soon.
func lasting(log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return []nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(3 * time.Second),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil {
				log.Warn("The connection to NATS is lost; reconnecting", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("Connected to NATS again", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("The connection to NATS has an error", "error", err)
		}),
	}
}

// options returns the options of the client. It takes what is missing from the context.
func (o *External) options() ([]nats.Option, error) {
	options := lasting(o.Log)
	if o.Name != "" {
		options = append(options, nats.Name(o.Name))
	}
	if o.Context != "" {
		more, err := o.merge()
		if err != nil {
			return nil, err
		}
		options = append(options, more...)
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	if (o.Certificate == "") != (o.Key == "") {
		return nil, errors.New("a client certificate needs its key, and a key its certificate: give both")
	}
	if o.Certificate != "" {
		options = append(options, nats.ClientCert(o.Certificate, o.Key))
	}
	return options, nil
}

// A file of the nats command has a context. Names are its own.
type contextFile struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Credentials string `json:"creds"`
	Seed        string `json:"nkey"`
	JWT         string `json:"user_jwt"`
	Certificate string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	Inboxes     string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`

	// These aren't supported.
	NSC    string `json:"nsc"`
	Proxy  string `json:"socks_proxy"`
	Domain string `json:"jetstream_domain"`
	API    string `json:"jetstream_api_prefix"`
}

// merge reads the context, takes from it what is empty, and returns options for the rest.
func (o *External) merge() ([]nats.Option, error) {
	file, err := contextPath(o.Context)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the nats command has no context %q: %s doesn't exist; nats context ls lists them", o.Context, file)
	}
	if err != nil {
		return nil, fmt.Errorf("the context %q of the nats command: %w", o.Context, err)
	}
	var c contextFile
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("the context %q of the nats command, %s: %w", o.Context, file, err)
	}
	unsupported := map[string]string{"nsc": c.NSC, "socks_proxy": c.Proxy, "jetstream_domain": c.Domain, "jetstream_api_prefix": c.API}
	for name, value := range unsupported {
		if value != "" {
			return nil, fmt.Errorf("the context %q of the nats command has %s, which Kernos doesn't support; use another context", o.Context, name)
		}
	}
	if len(o.Servers) == 0 && c.URL != "" {
		for url := range strings.SplitSeq(c.URL, ",") {
			o.Servers = append(o.Servers, strings.TrimSpace(url))
		}
	}
	var options []nats.Option
	switch {
	case o.Credentials != "":
	case c.Credentials != "":
		o.Credentials = home(c.Credentials)
	case c.JWT != "" && c.Seed != "":
		seed, err := os.ReadFile(home(c.Seed))
		if err != nil {
			return nil, fmt.Errorf("the nkey of the context %q: %w", o.Context, err)
		}
		options = append(options, nats.UserJWTAndSeed(c.JWT, strings.TrimSpace(string(seed))))
	case c.Seed != "":
		option, err := nats.NkeyOptionFromSeed(home(c.Seed))
		if err != nil {
			return nil, fmt.Errorf("the nkey of the context %q: %w", o.Context, err)
		}
		options = append(options, option)
	case c.User != "":
		options = append(options, nats.UserInfo(c.User, c.Password))
	case c.Token != "":
		options = append(options, nats.Token(c.Token))
	}
	if o.CA == "" {
		o.CA = home(c.CA)
	}
	if o.Certificate == "" && o.Key == "" {
		o.Certificate, o.Key = home(c.Certificate), home(c.Key)
	}
	if c.Inboxes != "" {
		options = append(options, nats.CustomInboxPrefix(c.Inboxes))
	}
	if c.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	return options, nil
}

// contextPath returns the file of a context.
func contextPath(name string) (string, error) {
	if name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("%q isn't the name of a context of the nats command; nats context ls lists them", name)
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, ".config")
	}
	return filepath.Join(dir, "nats", "context", name+".json"), nil
}

// home replaces a ~ at the beginning of a path.
func home(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(dir, rest)
}
