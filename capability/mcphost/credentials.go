package mcphost

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/message"
)

// clientCredentials is the grant by which a client gets tokens by itself (RFC 6749, 4.4, and the extension
// io.modelcontextprotocol/oauth-client-credentials).
const clientCredentials = "client_credentials"

// check completes what the owner has given of a client, and returns what is wrong with it.
func (c *oauthClient) check() error {
	if c == nil {
		return nil
	}
	if c.Grant == "" && c.Key != "" {
		c.Grant = clientCredentials
	}
	switch {
	case c.Key != "" && c.Secret != "":
		return message.Invalid("client", "client: expected one of secret and key")
	case c.Key != "" && !c.byItself():
		return message.Invalid("client", "client: a key is for the grant client_credentials")
	case c.byItself() && c.Key == "" && c.Secret == "":
		return message.Invalid("client", "client: the grant client_credentials takes a secret or a key")
	case c.Key != "" && !sealed.In(c.Key):
		if _, err := readKey(c.Key); err != nil {
			return message.Invalid("client", "client: the key can't be used: %v", err)
		}
	}
	return nil
}

// grant gets a token with the credentials of the client itself. Only one authorization server gets these: the one that the
// owner has named, or else the first that the server has named, whatever it names later. mu is held.
func (a *authorizer) grant(ctx context.Context, request *http.Request, response *http.Response) error {
	c := a.r.Client
	challenges, err := oauthex.ParseWWWAuthenticate(response.Header.Values("WWW-Authenticate"))
	if err != nil {
		return err
	}
	metadata, scopes := "", []string(nil)
	for _, one := range challenges {
		metadata = cmp.Or(metadata, one.Params["resource_metadata"])
		scopes = append(scopes, strings.Fields(one.Params["scope"])...)
	}
	if response.StatusCode == http.StatusForbidden && len(scopes) == 0 {
		return errors.New("it has refused the token, and names no scope that is missing")
	}
	resource, err := a.resource(ctx, metadata, request.URL)
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		scopes = resource.ScopesSupported
	}
	server, err := auth.GetAuthServerMetadata(ctx, resource.AuthorizationServers[0], a.s.host.opts.HTTP)
	if err != nil {
		return err
	}
	if server == nil { // as servers were found before 2025-06-18
		at := strings.TrimSuffix(resource.AuthorizationServers[0], "/")
		server = &oauthex.AuthServerMeta{Issuer: at, TokenEndpoint: at + "/token"}
	}
	expected := c.Issuer
	if a.has != nil {
		expected = cmp.Or(expected, a.has.Issuer)
		for _, had := range a.has.Scopes { // scopes that were granted before stay
			if !slices.Contains(scopes, had) {
				scopes = append(scopes, had)
			}
		}
	}
	if expected != "" && strings.TrimSuffix(expected, "/") != strings.TrimSuffix(server.Issuer, "/") {
		return fmt.Errorf("it names the authorization server %s, and the client's credentials are for %s", message.Clip(server.Issuer, 200), expected)
	}
	config := &clientcredentials.Config{
		ClientID: c.ID, TokenURL: server.TokenEndpoint, Scopes: scopes, AuthStyle: oauth2.AuthStyleInHeader,
		EndpointParams: url.Values{"resource": {cmp.Or(resource.Resource, request.URL.String())}},
	}
	plain, err := a.s.reveal(kernel.ActFor(ctx, kernel.Sender{}), c.Secret+c.Key, sealed.Use{Syscall: opens})
	if err != nil {
		return err
	}
	if c.Key == "" {
		config.ClientSecret = plain
		if methods := server.TokenEndpointAuthMethodsSupported; !slices.Contains(methods, "client_secret_basic") && slices.Contains(methods, "client_secret_post") {
			config.AuthStyle = oauth2.AuthStyleInParams
		}
	} else {
		assertion, err := sign(plain, c, server.Issuer)
		if err != nil {
			return err
		}
		config.AuthStyle = oauth2.AuthStyleInParams
		config.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		config.EndpointParams.Set("client_assertion", assertion)
	}
	t, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, a.s.host.opts.HTTP))
	if err != nil {
		if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text has the body, whatever that is
			err = fmt.Errorf("the authorization server has refused the client's credentials with status %d: %s", e.Response.StatusCode, cmp.Or(e.ErrorDescription, e.ErrorCode))
		}
		return err
	}
	a.has = &credential{ClientID: c.ID, TokenURL: config.TokenURL, Scopes: scopes, Issuer: server.Issuer}
	a.has.take(t)
	a.has.Refresh = "" // the client gets another token in the same way
	a.source = a.has.config().TokenSource(a.s.outgoing(), a.has.token())
	return a.keep(ctx)
}

// resource returns what the server at an address says about its authorization (RFC 9728), at the places where that can be.
func (a *authorizer) resource(ctx context.Context, metadata string, at *url.URL) (*oauthex.ProtectedResourceMetadata, error) {
	root := url.URL{Scheme: at.Scheme, Host: at.Host}
	const known = "/.well-known/oauth-protected-resource"
	for _, one := range []struct{ metadata, resource string }{
		{metadata, at.String()}, {root.String() + known + at.EscapedPath(), at.String()}, {root.String() + known, root.String()},
	} {
		if one.metadata == "" {
			continue
		}
		found, err := oauthex.GetProtectedResourceMetadata(ctx, one.metadata, one.resource, a.s.host.opts.HTTP)
		if err == nil && found != nil && len(found.AuthorizationServers) > 0 {
			return found, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return &oauthex.ProtectedResourceMetadata{AuthorizationServers: []string{root.String()}}, nil
}

// assertionLife is how long a signed assertion is good for. It is used at once.
const assertionLife = time.Minute

// sign returns the assertion by which a client with a key authenticates (RFC 7523, 3).
func sign(text string, c *oauthClient, audience string) (string, error) {
	key, err := readKey(text)
	if err != nil {
		return "", err
	}
	algorithm := ""
	switch k := key.(type) {
	case *rsa.PrivateKey:
		algorithm = "RS256"
	case *ecdsa.PrivateKey:
		algorithm = map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[k.Params().BitSize]
	case ed25519.PrivateKey:
		algorithm = "EdDSA"
	}
	now := time.Now()
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		KeyID     string `json:"kid,omitzero"`
	}{algorithm, "JWT", c.KeyID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		ID       string `json:"jti"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}{c.ID, c.ID, audience, rand.Text(), now.Unix(), now.Add(assertionLife).Unix()})
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	var signature []byte
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		hash := map[string]crypto.Hash{"ES256": crypto.SHA256, "ES384": crypto.SHA384, "ES512": crypto.SHA512}[algorithm]
		h := hash.New()
		h.Write([]byte(signed))
		r, s, err := ecdsa.Sign(rand.Reader, k, h.Sum(nil))
		if err != nil {
			return "", err
		}
		size := (k.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(signed))
	case *rsa.PrivateKey:
		sum := sha256.Sum256([]byte(signed))
		if signature, err = rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:]); err != nil {
			return "", err
		}
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// readKey reads a private key that a client signs with. The error doesn't show it.
func readKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it isn't PEM, such as -----BEGIN PRIVATE KEY-----")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s can't be read as a private key without a password", message.Clip(block.Type, 40))
	}
	switch k := key.(type) {
	case *rsa.PrivateKey, ed25519.PrivateKey:
		return k.(crypto.Signer), nil
	case *ecdsa.PrivateKey:
		if size := k.Params().BitSize; size == 256 || size == 384 || size == 521 {
			return k, nil
		}
	}
	return nil, errors.New("it is neither RSA nor ECDSA (P-256, P-384, P-521) nor Ed25519")
}
