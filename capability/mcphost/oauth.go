package mcphost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"kernos/capability/mcphost/client"
	"kernos/internal/sealed"
	"kernos/internal/visible"
	"kernos/kernel"
)

// A login is a call during which a person can log in.
type login struct {
	stream *kernel.Stream
	over   atomic.Bool // the call has ended
}

// A credential is what a login has given. It is stored sealed.
type credential struct {
	ClientID string           `json:"clientId"`
	Secret   string           `json:"secret,omitzero"`
	TokenURL string           `json:"tokenUrl"`
	Style    oauth2.AuthStyle `json:"style"`
	Scopes   []string         `json:"scopes,omitzero"`
	Access   string           `json:"access"`
	Refresh  string           `json:"refresh,omitzero"`
	Expires  int64            `json:"expires,omitzero"` // seconds since 1970
	Issuer   string           `json:"issuer,omitzero"`  // of a client that gets tokens by itself: the only one that gets its credentials
}

func (c *credential) config() *oauth2.Config {
	return &oauth2.Config{ClientID: c.ClientID, ClientSecret: c.Secret, Endpoint: oauth2.Endpoint{TokenURL: c.TokenURL, AuthStyle: c.Style}, Scopes: c.Scopes}
}

func (c *credential) token() *oauth2.Token {
	t := &oauth2.Token{AccessToken: c.Access, RefreshToken: c.Refresh, TokenType: "Bearer"}
	if c.Expires != 0 {
		t.Expiry = time.Unix(c.Expires, 0)
	}
	return t
}

func (c *credential) take(t *oauth2.Token) {
	c.Access, c.Refresh, c.Expires = t.AccessToken, cmp.Or(t.RefreshToken, c.Refresh), 0
	if !t.Expiry.IsZero() {
		c.Expires = t.Expiry.Unix()
	}
}

// errNoPerson is the error of a login outside of calls during which a person can log in.
var errNoPerson = errors.New("a person has to log in")

// An authorizer has the credentials of one connection.
type authorizer struct {
	s     *server
	r     *record
	login *login // nil if no person can log in

	mu     sync.Mutex
	has    *credential // nil if there is none
	source oauth2.TokenSource
}

// authorizer returns the credentials of a server. If a person can log in, and the server has asked for
// that before, it happens now.
func (s *server) authorizer(ctx context.Context, r *record, l *login) (client.Authorizer, error) {
	a := &authorizer{s: s, r: r, login: l}
	if r.Token != "" {
		text, err := s.reveal(ctx, r.Token, sealed.Use{Syscall: opens, Hosts: r.hosts()})
		has := new(credential)
		if err == nil {
			err = json.Unmarshal([]byte(text), has)
		}
		switch {
		case err == nil:
			a.has, a.source = has, has.config().TokenSource(s.outgoing(), has.token())
		case l == nil: // otherwise a person logs in again
			return nil, s.wantsLogin(err)
		}
	}
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	if l == nil || asked == nil {
		return a, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	return a, a.Authorize(ctx, request, &http.Response{StatusCode: asked.status, Header: asked.header, Body: io.NopCloser(strings.NewReader(""))})
}

// challenge is what a server has answered that wants other credentials.
type challenge struct {
	status int
	header http.Header
}

// outgoing returns the context of requests to authorization servers.
func (s *server) outgoing() context.Context {
	return context.WithValue(s.host.life, oauth2.HTTPClient, s.host.opts.HTTP)
}

// Authorization implements [client.Authorizer]. A token that has expired is refreshed.
func (a *authorizer) Authorization(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.source == nil {
		return "", nil
	}
	t, err := a.source.Token()
	if err != nil && a.r.Client.byItself() { // the answer of the server says where to get another one
		a.source = nil
		return "", nil
	}
	if err != nil {
		a.s.host.opts.Log.Warn("the token of an MCP server can't be refreshed", "name", a.s.name, "error", visible.Short(err.Error(), 300))
		a.source = nil
		return "", nil //nolint:nilerr // the server wants another one
	}
	if t.AccessToken != a.has.Access {
		a.has.take(t)
		if err := a.keep(ctx); err != nil {
			return "", err
		}
	}
	return "Bearer " + t.AccessToken, nil
}

// Authorize implements [client.Authorizer].
func (a *authorizer) Authorize(ctx context.Context, request *http.Request, response *http.Response) error {
	if a.r.Client.byItself() {
		a.mu.Lock()
		defer a.mu.Unlock()
		defer func() { _ = response.Body.Close() }()
		return a.grant(ctx, request, response)
	}
	if a.login == nil || a.login.over.Load() {
		_ = response.Body.Close()
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		a.s.asked = &challenge{response.StatusCode, response.Header}
		return errNoPerson
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	back, err := newCallback(ctx)
	if err != nil {
		_ = response.Body.Close()
		return err
	}
	defer back.close()
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.url, RequestRefreshToken: true, AcceptUnadvertisedIss: false, Client: a.s.host.opts.HTTP,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Kernos", RedirectURIs: []string{back.url}, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := a.login.stream.Emit(authorizeEvent, map[string]string{"url": args.URL}); err != nil {
				return nil, err
			}
			return back.wait(ctx)
		},
		ScopeFilter: func(found []string) []string { // scopes that were granted before stay
			if a.has != nil {
				for _, scope := range a.has.Scopes {
					if !slices.Contains(found, scope) && scope != "offline_access" {
						found = append(found, scope)
					}
				}
			}
			return found
		},
	}
	var got credential
	config.NewTokenSource = func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
		got = credential{ClientID: c.ClientID, Secret: c.ClientSecret, TokenURL: c.Endpoint.TokenURL, Style: c.Endpoint.AuthStyle, Scopes: c.Scopes}
		got.take(t)
		return got.config().TokenSource(a.s.outgoing(), t), nil
	}
	if err := a.register(ctx, config); err != nil {
		_ = response.Body.Close()
		return err
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		_ = response.Body.Close()
		return err
	}
	if err := handler.Authorize(ctx, request, response); err != nil {
		return err
	}
	if got.Access == "" { // a refusal that has nothing to do with credentials
		return nil
	}
	a.has = &got
	if a.source, err = handler.TokenSource(ctx); err != nil {
		return err
	}
	a.s.mu.Lock()
	a.s.asked = nil
	a.s.mu.Unlock()
	return a.keep(ctx)
}

// register sets what the authorization server knows this kernel by, if the owner has given it.
func (a *authorizer) register(ctx context.Context, config *auth.AuthorizationCodeHandlerConfig) error {
	switch c := a.r.Client; {
	case c == nil:
	case c.Secret == "" && strings.HasPrefix(c.ID, "https://"):
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: c.ID}
	default:
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: c.ID}
		if c.Secret != "" {
			secret, err := a.s.reveal(kernel.ActFor(ctx, kernel.Sender{}), c.Secret, sealed.Use{Syscall: opens})
			if err != nil {
				return err
			}
			config.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
		}
	}
	return nil
}

// keep stores the credential, sealed. mu is held.
func (a *authorizer) keep(ctx context.Context) error {
	text, err := json.Marshal(a.has)
	if err != nil {
		return err
	}
	token, err := a.s.host.opts.Seal(ctx, string(text), a.r.destination())
	if err != nil {
		return err
	}
	h := a.s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	next := *a.s.now.Load()
	next.Token = token
	if h.servers[a.s.name] == a.s {
		if err := h.save(ctx, a.s.name, &next); err != nil {
			return err
		}
	}
	a.s.now.Store(&next)
	return nil
}

// A callback is where the browser of the person who has logged in is sent.
type callback struct {
	url    string
	server *http.Server
	got    chan *auth.AuthorizationResult // has a place for one
	served sync.WaitGroup
}

func newCallback(ctx context.Context) (*callback, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callback{url: "http://" + l.Addr().String() + "/callback", got: make(chan *auth.AuthorizationResult, 1)}
	c.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(c.serve)}
	c.served.Go(func() { _ = c.server.Serve(l) })
	return c, nil
}

func (c *callback) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.URL.Path != "/callback" || q.Get("code") == "" && q.Get("error") == "" {
		http.NotFound(w, r)
		return
	}
	select {
	case c.got <- &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}:
	default: // the first one counts
	}
	_, _ = io.WriteString(w, "You can close this window.\n")
}

// wait waits until the person has logged in.
func (c *callback) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case r := <-c.got:
		if r.Code == "" {
			return nil, errors.New("the authorization server has refused the login")
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil { // the browser gets its page, unless it is slow
		_ = c.server.Close()
	}
	c.served.Wait()
}
