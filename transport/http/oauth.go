package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"kernos/message"
	"kernos/transport"
)

// protectedResource is where a client learns which authorization server gives tokens for this server: OAuth
// 2.0 Protected Resource Metadata, RFC 9728. The path of a resource follows it.
const protectedResource = "/.well-known/oauth-protected-resource"

// mcpPath is the path of the resource that clients of OAuth ask for.
const mcpPath = "/mcp"

// ParseIssuer returns the address of an authorization server.
func ParseIssuer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("expected the https address of an authorization server, such as https://login.example.com, got %q", message.Clip(text, 200))
	}
	return text, nil
}

// describe answers a request for the metadata, and reports whether it is one. It needs no token.
func (g *Guard) describe(w http.ResponseWriter, r *http.Request) bool {
	resource := "https://" + r.Host
	switch {
	case g.Issuer == "" || r.Method != http.MethodGet && r.Method != http.MethodHead:
		return false
	case r.URL.Path == protectedResource+mcpPath:
		resource += mcpPath
	case r.URL.Path != protectedResource:
		return false
	}
	body, _ := json.Marshal(struct { // never fails
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{resource, []string{g.Issuer}, []string{"header"}, "Kernos"})
	transport.WriteJSON(w, http.StatusOK, append(body, '\n'))
	return true
}

// challenge returns the value of WWW-Authenticate for a client without a token.
func (g *Guard) challenge(r *http.Request) string {
	text := `Bearer realm="kernos"`
	if g.Issuer != "" {
		text += `, resource_metadata="https://` + r.Host + protectedResource + mcpPath + `"`
	}
	return text
}
