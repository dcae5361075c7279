package mcphost

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/mcp"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/message"
	"kernos/store"
)

func recordKey(name string) []byte { return append([]byte{store.SpaceMcp}, name...) }

// opens is the syscall that secrets of servers are sealed for.
const opens = "Mcp.Connect"

// A record is what is stored of a server. It never changes; a change makes another one.
type record struct {
	Name   string `json:"name"`   // the name that the owner has given
	Domain string `json:"domain"` // the domain of the server's syscalls

	// How it is reached.
	Command  []string          `json:"command,omitzero"`
	Dir      string            `json:"dir,omitzero"`
	URL      string            `json:"url,omitzero"`
	Env      map[string]string `json:"env,omitzero"`     // sealed
	Headers  map[string]string `json:"headers,omitzero"` // sealed
	Secret   []string          `json:"secret,omitzero"`  // names of the variables and headers that were sealed when they came
	Client   *oauthClient      `json:"client,omitzero"`  // the client that the owner has registered with the authorization server
	Token    string            `json:"token,omitzero"`   // sealed: of its authorization server
	Protocol string            `json:"protocol,omitzero"`
	Fill     bool              `json:"fill,omitzero"`
	Timeout  int64             `json:"timeout,omitzero"` // milliseconds

	// What the server has reported.
	Spoken       string     `json:"spoken,omitzero"` // the revision of the protocol
	Title        string     `json:"title,omitzero"`
	Version      string     `json:"version,omitzero"`
	Instructions string     `json:"instructions,omitzero"`
	Tools        []tool     `json:"tools,omitzero"` // sorted by type
	Resources    []resource `json:"resources,omitzero"`
	Templates    []string   `json:"templates,omitzero"` // URI templates of resources
	Prompts      []prompt   `json:"prompts,omitzero"`
	LeftOut      []leftOut  `json:"leftOut,omitzero"`
}

// oauthClient is what an authorization server knows this kernel by.
type oauthClient struct {
	ID     string `json:"id" jsonschema:"minLength=1,maxLength=512" jsonschema_description:"The client id, or the https address of a document that describes the client."`
	Secret string `json:"secret,omitzero" jsonschema:"format=password,writeOnly=true" jsonschema_description:"The client secret. It is kept sealed."`
	Grant  string `json:"grant,omitzero" jsonschema:"enum=authorization_code,enum=client_credentials" jsonschema_description:"authorization_code: a person logs in. client_credentials: the client gets tokens by itself, with its secret or its key. Default: the latter with a key, otherwise the former."`
	Key    string `json:"key,omitzero" jsonschema:"format=password,writeOnly=true" jsonschema_description:"In place of a secret: the private key that the client signs with (private_key_jwt), as PEM: RSA, ECDSA or Ed25519. It is kept sealed."`
	KeyID  string `json:"keyId,omitzero" jsonschema:"maxLength=512" jsonschema_description:"What the authorization server calls the key, if it has several of the client."`
	Issuer string `json:"issuer,omitzero" jsonschema:"maxLength=2048" jsonschema_description:"The authorization server that may get the client's credentials. Default: the first one that the server names."`
}

// byItself reports whether the client gets tokens without a person.
func (c *oauthClient) byItself() bool { return c != nil && c.Grant == clientCredentials }

// A tool is one of a server.
type tool struct {
	Name string       `json:"name"` // the tool's name at the server
	Type message.Type `json:"type"`
	offer
	Next    *offer `json:"next,omitzero"`    // the server's new description, until the owner has accepted it
	Allowed bool   `json:"allowed,omitzero"` // sessions may call the tool without asking
}

// An offer is what a server states about a tool.
type offer struct {
	Description string         `json:"description,omitzero"`
	Input       jsontext.Value `json:"input"`
	Output      jsontext.Value `json:"output,omitzero"`
	Mirrored    []mcp.Mirrored `json:"mirrored,omitzero"`
	ReadOnly    bool           `json:"readOnly,omitzero"`
	Idempotent  bool           `json:"idempotent,omitzero"`
	Task        bool           `json:"task,omitzero"` // it is called as a task
}

func (o *offer) equal(other *offer) bool {
	return o.Description == other.Description && bytes.Equal(o.Input, other.Input) && bytes.Equal(o.Output, other.Output) &&
		o.ReadOnly == other.ReadOnly && o.Idempotent == other.Idempotent
}

// size is about how many bytes the schemas take when they are compiled.
func (o *offer) size() int { return 16 * (len(o.Input) + len(o.Output)) }

// A resource is a file of a server.
type resource struct {
	Path  string `json:"path"` // below the folder of the server
	URI   string `json:"uri"`  // the resource's URI at the server
	Title string `json:"title,omitzero"`
	Size  int64  `json:"size,omitzero"`

	// Of a file of a skill: what it has to be when it is read.
	Digest string         `json:"digest,omitzero"`
	Front  jsontext.Value `json:"front,omitzero"` // canonical; of the file that describes the skill
}

// verify returns the error for the content of a file of a skill that isn't what the server has listed.
func (r *resource) verify(server string, data []byte) error {
	wrong := ""
	switch {
	case r.Digest == "":
	case int64(len(data)) != r.Size:
		wrong = fmt.Sprintf("has %d bytes and was listed with %d", len(data), r.Size)
	case mcp.Digest(data) != r.Digest:
		wrong = "has another digest than it was listed with"
	case r.Front != nil:
		front, err := mcp.Frontmatter(data)
		value := jsontext.Value(front)
		if err != nil || value.Canonicalize() != nil || !bytes.Equal(value, r.Front) {
			wrong = "has another front matter than it was listed with"
		}
	}
	if wrong == "" {
		return nil
	}
	return message.Errorf(502, "%s of the MCP server %s %s, and isn't used; kernos mcp refresh %s reads the list again", message.Clip(r.URI, 200), server, wrong, server)
}

// A prompt is a text that a server makes.
type prompt struct {
	File        string     `json:"file"` // the file's name in the folder of prompts
	Name        string     `json:"name"`
	Description string     `json:"description,omitzero"`
	Arguments   []argument `json:"arguments,omitzero"`
}

type argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

// leftOut is something that a server offers and that can't be used.
type leftOut struct {
	Name   string `json:"name" jsonschema_description:"What the server calls it."`
	Reason string `json:"reason" jsonschema_description:"Why it is left out."`
}

func (r *record) encode() ([]byte, error) { return json.Marshal(r, json.Deterministic(true)) }

func decodeRecord(e store.Entry) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(e.Value, r); err != nil {
		return nil, fmt.Errorf("it was written by a newer version, or is damaged: %w", err)
	}
	return r, nil
}

// target describes how a server is reached, for people.
func (r *record) target() string {
	if r.URL != "" {
		return r.URL
	}
	return strings.Join(r.Command, " ")
}

// secrets returns what only the server may read of a variable or a header: the whole value if its name is that of a credential
// or the value was sealed when it came; otherwise the password in it, if it is a URL.
func (r *record) secrets(name, value string) []string {
	if secret.Named([]byte(name), secret.Request) || slices.Contains(r.Secret, name) {
		return []string{value}
	}
	if u, err := url.Parse(value); err == nil {
		if password, ok := u.User.Password(); ok {
			return []string{password}
		}
	}
	return nil
}

// hosts returns the hosts that see the secrets of a server.
func (r *record) hosts() []string {
	u, err := url.Parse(r.URL)
	if r.URL == "" || err != nil {
		return nil
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return []string{net.JoinHostPort(u.Hostname(), port)}
}

// destination returns what the secrets of a server are sealed for.
func (r *record) destination() sealed.Destination {
	to := sealed.Destination{opens}
	for _, host := range r.hosts() {
		to = append(to, strings.ToLower(host))
	}
	if to.Check() != nil {
		return sealed.Destination{opens} // no pattern can name the host
	}
	return to
}

// sameRecord reports whether two records are the same, which is compared as it is stored.
func sameRecord(a, b *record) bool {
	one, err1 := a.encode()
	two, err2 := b.encode()
	return err1 == nil && err2 == nil && string(one) == string(two)
}
