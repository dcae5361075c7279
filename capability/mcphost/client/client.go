// Package client speaks the Model Context Protocol to a server: over the standard streams of a
// process or over streamable HTTP, in both eras of the protocol.
//
//	c, err := client.Dial(ctx, &client.Options{Command: []string{"weather-server"}})
//	result, err := c.Request(ctx, client.Request{Method: "tools/call", Name: "forecast", Arguments: …})
//
// A server is not trusted: whatever it sends is bounded, and a message that makes no sense ends the
// request or the connection that it belongs to, and nothing else.
//
// # Goroutines
//
//   - Reading messages, reading the log, waiting for the process, one each per process: [Dial] starts them, and they
//     end with the process. Package process has another one.
//   - Writing a message to a process, one per message: it ends when the process has read it, or has ended.
//   - Reading notifications, one per connection over HTTP or to a stateless server: it ends with the connection, or
//     when the server has no such stream.
//   - Answering a request of the server, 16 per connection; and sending it a cancellation, one per call that was
//     cancelled. They end when the message is sent.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/internal/secret"
	"kernos/message"
)

const (
	// maxFrame is how many bytes one message of a server may have.
	maxFrame = 16 << 20

	// probeTime is how long a process may take to answer server/discover before it is taken for
	// one of the stateful era, of which some don't answer what they don't know.
	probeTime = 5 * time.Second

	// minSecret is how many bytes a secret has that is looked for in what a server sends. A shorter one, such as test, may
	// be there by chance.
	minSecret = 8

	maxRounds  = 10 // answers of a server to one request that want input
	maxAnswers = 16 // requests of a server that are answered at once
)

// Options describe what to connect to, and how. Either Command or URL is given.
type Options struct {
	Command []string // a program, with its arguments
	Dir     string   // the directory that the program runs in; "" means Home
	Home    string   // a directory that the owner alone can write; "" means the working directory of this process
	Env     []string // all of its environment

	URL    string
	HTTP   *http.Client
	Header http.Header // headers of each request
	OAuth  Authorizer  // nil means that none is needed

	// Secrets are texts that only the server may read. They are taken out of what the server sends.
	Secrets []string

	// Revision is the revision of the protocol that the server speaks. "" finds it out.
	Revision string

	// Version is this program's version, which the server gets.
	Version string

	// Fill answers the form of an elicitation with its content. Nil means that the server gets
	// the answer that no person can be asked.
	Fill func(schema jsontext.Value) (content jsontext.Value, ok bool)

	// Changed is called when a list of the server has changed: tools, resources or prompts. It
	// must not block.
	Changed func()

	// Log gets what the server writes for its operator, a line at a time.
	Log func(line string)
}

// An Authorizer has the credentials of requests over HTTP.
type Authorizer interface {
	// Authorization returns the value of the header, or "".
	Authorization(ctx context.Context) (string, error)

	// Authorize gets new credentials after a request was refused with 401 or 403. If it returns nil,
	// the request is sent once more. It closes the body of the response.
	Authorize(ctx context.Context, request *http.Request, response *http.Response) error
}

// About is what a server reports about itself.
type About struct {
	Name, Version string
	Instructions  string
	Revision      string // the protocol revision that is spoken

	Tools, Resources, Prompts bool
	Skills                    bool            // the server has skills, by the extension
	listChanges               map[string]bool // whether the server notifies of changes, by tools, resources and prompts
}

// A Conn is a connection to a server. It is safe for concurrent use. The caller closes it.
type Conn struct {
	opts      Options
	about     About
	stateless bool
	wire      carrier
	next      atomic.Int64
	secrets   atomic.Pointer[secret.Values]
	answering chan struct{} // a place for each request of the server that is answered

	mu      sync.Mutex
	pending map[int64]*pending

	life context.Context // ends with the connection; its cause reports why
	end  context.CancelCauseFunc
	work sync.WaitGroup

	closing sync.Once
}

// pending is a request that waits for its answer.
type pending struct {
	answer   chan *frame // has a place for one
	progress func(note string, fraction float64)
}

// A frame is a message of the protocol: a request, a notification or a response.
type frame struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *Error         `json:"error,omitzero"`
}

// An Error is what a server answers a request with that it can't serve.
type Error struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrEnded is the cause of the end of a connection that was closed.
var ErrEnded = errors.New("the connection was closed")

// ErrForgotten is the cause of the end of a connection whose server no longer knows the session, as after a restart. It has
// done nothing of what it was asked then.
var ErrForgotten = errors.New("it no longer knows the session")

// A broken is the error of requests whose connection has ended, or whose answer makes no sense.
type broken struct{ Reason error }

func (b *broken) Error() string { return b.Reason.Error() }

// Unwrap returns the reason.
func (b *broken) Unwrap() error { return b.Reason }

// A carrier carries messages to a server. What comes back goes to [Conn.receive].
type carrier interface {
	// request sends a request, and waits until p has its answer, or there will be none.
	request(ctx context.Context, r *outgoing, p *pending) error

	// send sends a notification or a response.
	send(ctx context.Context, text []byte, method string) error

	// readNotifications reads what a server of the stateful era sends outside of requests.
	readNotifications()

	// close ends the connection and waits for that.
	close()
}

// outgoing is a request as carriers send it.
type outgoing struct {
	id     int64
	text   []byte
	method string
	name   string // the name of what the request is about
	params http.Header
}

// Dial connects to a server and finds out what it is.
func Dial(ctx context.Context, o *Options) (*Conn, error) {
	stateless := o.Revision == mcp.Stateless
	c, err := open(o)
	if err != nil {
		return nil, err
	}
	if o.Revision == "" {
		probe, cancel := context.WithTimeout(ctx, probeTime)
		if o.URL != "" {
			cancel()
			probe, cancel = context.WithCancel(ctx)
		}
		err = c.discover(probe)
		cancel()
		if refused, ok := errors.AsType[*NotAuthorized](err); ok {
			c.Close()
			return nil, refused
		}
		if err == nil {
			return c.begin(), nil
		}
		if ctx.Err() == nil && c.life.Err() != nil { // the server has ended because of the question
			c.Close()
			if c, err = open(o); err != nil {
				return nil, err
			}
		}
	} else if stateless {
		if err = c.discover(ctx); err == nil {
			return c.begin(), nil
		}
	}
	if !stateless {
		err = c.initialize(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c.begin(), nil
}

// open returns a connection on which nothing was sent yet.
func open(o *Options) (c *Conn, err error) {
	c = &Conn{opts: *o, pending: make(map[int64]*pending), answering: make(chan struct{}, maxAnswers)}
	if c.opts.Log == nil {
		c.opts.Log = func(string) {}
	}
	if c.opts.Changed == nil {
		c.opts.Changed = func() {}
	}
	c.keep("")
	c.life, c.end = context.WithCancelCause(context.Background())
	if o.URL != "" {
		c.wire, err = newHTTP(c)
	} else {
		c.wire, err = startProcess(c)
	}
	if err != nil {
		c.end(err)
		return nil, err
	}
	return c, nil
}

// keep takes the secrets out of what the server sends, and a token that it was given later.
func (c *Conn) keep(token string) {
	secrets := c.opts.Secrets
	if token != "" {
		secrets = append(slices.Clip(secrets), token)
	}
	c.secrets.Store(secret.Sent(secrets, minSecret))
}

// begin reads what the server sends outside of requests: that its lists have changed and, in the
// stateful era, that it wants a form filled in.
func (c *Conn) begin() *Conn {
	switch {
	case c.stateless && len(c.about.listChanges) > 0:
		c.work.Go(c.subscribe)
	case !c.stateless && (len(c.about.listChanges) > 0 || c.opts.Fill != nil):
		c.wire.readNotifications()
	}
	return c
}

// About returns what the server reports about itself.
func (c *Conn) About() About { return c.about }

// Done is closed when the connection has ended, and Err reports why.
func (c *Conn) Done() <-chan struct{} { return c.life.Done() }

// Err returns why the connection has ended, or nil.
func (c *Conn) Err() error { return context.Cause(c.life) }

// Close ends the connection, and a process with all that it has started.
func (c *Conn) Close() {
	c.end(ErrEnded)
	c.closing.Do(c.wire.close)
	c.work.Wait()
}

// info is how programs introduce themselves.
type info struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}

// serverAnswer is what initialize and server/discover return.
type serverAnswer struct {
	ProtocolVersion   string                    `json:"protocolVersion"`
	SupportedVersions []string                  `json:"supportedVersions"`
	Capabilities      map[string]jsontext.Value `json:"capabilities"`
	ServerInfo        info                      `json:"serverInfo"`
	Instructions      string                    `json:"instructions"`
	Meta              struct {
		ServerInfo info `json:"io.modelcontextprotocol/serverInfo"`
	} `json:"_meta"`
}

func (c *Conn) setAbout(a *serverAnswer) {
	c.about = About{
		Name: cmp.Or(a.ServerInfo.Name, a.Meta.ServerInfo.Name), Version: cmp.Or(a.ServerInfo.Version, a.Meta.ServerInfo.Version),
		Instructions: a.Instructions, Revision: a.ProtocolVersion, listChanges: make(map[string]bool),
	}
	for name, has := range map[string]*bool{"tools": &c.about.Tools, "resources": &c.about.Resources, "prompts": &c.about.Prompts} {
		text, ok := a.Capabilities[name]
		var of struct {
			ListChanged bool `json:"listChanged"`
		}
		if *has = ok; ok && json.Unmarshal(text, &of) == nil && of.ListChanged {
			c.about.listChanges[name] = true
		}
	}
	var extensions map[string]jsontext.Value
	if text, ok := a.Capabilities["extensions"]; ok && json.Unmarshal(text, &extensions) == nil {
		_, c.about.Skills = extensions[mcp.SkillsExtension]
	}
}

// capabilities returns the capabilities that this client reports to the server. Tasks are among them only where one is
// wanted: a server that may choose would make tasks of calls whose answer is waited for.
func (c *Conn) capabilities(tasks bool) map[string]any {
	all := make(map[string]any)
	if c.opts.Fill != nil {
		all["elicitation"] = map[string]any{"form": map[string]any{}}
	}
	if tasks {
		all["extensions"] = map[string]any{mcp.TasksExtension: map[string]any{}}
	}
	return all
}

// discover asks a server of the stateless era what it is.
func (c *Conn) discover(ctx context.Context) error {
	c.stateless, c.about.Revision = true, mcp.Stateless
	for try := 0; ; try++ {
		var a serverAnswer
		err := c.Do(ctx, Request{Method: "server/discover"}, &a)
		if e, ok := errors.AsType[*Error](err); ok && e.Code == mcp.UnsupportedVersion {
			var data struct {
				Supported []string `json:"supported"`
			}
			_ = json.Unmarshal(e.Data, &data)
			if slices.Contains(data.Supported, mcp.Stateless) && try == 0 {
				continue
			}
		}
		if err == nil && !slices.Contains(a.SupportedVersions, mcp.Stateless) {
			err = &broken{fmt.Errorf("it doesn't speak revision %s of the protocol", mcp.Stateless)}
		}
		if err == nil {
			a.ProtocolVersion = mcp.Stateless
			c.setAbout(&a)
			return nil
		}
		c.stateless, c.about.Revision = false, ""
		return err
	}
}

// initialize begins with a server of the stateful era.
func (c *Conn) initialize(ctx context.Context) error {
	params, err := json.Marshal(map[string]any{
		"protocolVersion": cmp.Or(c.opts.Revision, mcp.Stateful), "capabilities": c.capabilities(false),
		"clientInfo": c.info(),
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	var a serverAnswer
	if err := c.Do(ctx, Request{Method: "initialize", params: params}, &a); err != nil {
		return err
	}
	if !slices.Contains(mcp.StatefulRevisions, a.ProtocolVersion) {
		return &broken{fmt.Errorf("it speaks revision %.32q of the protocol, expected one of %v", a.ProtocolVersion, mcp.StatefulRevisions)}
	}
	c.setAbout(&a)
	return c.notify(ctx, "notifications/initialized", nil)
}

func (c *Conn) info() info {
	return info{"kernos", "Kernos", cmp.Or(c.opts.Version, "0")}
}

func (c *Conn) notify(ctx context.Context, method string, params jsontext.Value) error {
	text, err := json.Marshal(&frame{Version: "2.0", Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.wire.send(ctx, text, method)
}

// receive takes a message of the server.
func (c *Conn) receive(text []byte) error {
	if secrets := c.secrets.Load(); secrets != nil {
		if err := new(jsonscan.Scanner).Text(text); err != nil {
			return fmt.Errorf("it has sent what isn't a message of the protocol: %w", err)
		}
		text, _ = secrets.HideJSON(text)
	}
	var f frame
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("it has sent what isn't a message of the protocol: %w", err)
	}
	switch {
	case f.Method == "":
		return c.answered(&f)
	case f.ID == nil:
		c.notified(&f)
	default:
		c.asked(&f)
	}
	return nil
}

// answered gives a response to the request that waits for it. One that comes too late is dropped.
func (c *Conn) answered(f *frame) error {
	id, err := strconv.ParseInt(string(f.ID), 10, 64)
	if err != nil {
		if f.Error != nil {
			c.opts.Log("error of no request: " + f.Error.Error())
			return nil
		}
		return fmt.Errorf("it has answered a request that was not sent: id %.40s", f.ID)
	}
	if f.Result == nil && f.Error == nil {
		return fmt.Errorf("it has answered request %d with neither a result nor an error", id)
	}
	c.mu.Lock()
	p := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if p != nil {
		p.answer <- f
	}
	return nil
}

func (c *Conn) notified(f *frame) {
	switch f.Method {
	case "notifications/progress":
		var params struct {
			Token    jsontext.Value `json:"progressToken"`
			Progress float64        `json:"progress"`
			Total    float64        `json:"total"`
			Message  string         `json:"message"`
		}
		if json.Unmarshal(f.Params, &params) != nil {
			return
		}
		id, _ := strconv.ParseInt(string(params.Token), 10, 64)
		c.mu.Lock()
		p := c.pending[id]
		c.mu.Unlock()
		if p != nil && p.progress != nil {
			p.progress(params.Message, params.Progress/cmp.Or(params.Total, 1))
		}
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		c.opts.Changed()
	case "notifications/message":
		c.opts.Log(string(f.Params))
	}
}

// asked answers a request of the server.
func (c *Conn) asked(f *frame) {
	select {
	case c.answering <- struct{}{}:
	default:
		return // the server asks faster than it takes answers
	}
	c.work.Go(func() {
		defer func() { <-c.answering }()
		answer := frame{Version: "2.0", ID: f.ID}
		result, refusal := c.answer(f.Method, f.Params)
		if answer.Result = result; refusal != nil {
			answer.Error = refusal
		}
		text, err := json.Marshal(&answer)
		if err == nil {
			err = c.wire.send(c.life, text, "")
		}
		if err != nil && c.life.Err() == nil {
			c.opts.Log("an answer to " + f.Method + " can't be sent: " + err.Error())
		}
	})
}

// answer returns what a server gets that asks its client for something: the host has no folders to show,
// no model to lend, and no person to ask.
func (c *Conn) answer(method string, params jsontext.Value) (jsontext.Value, *Error) {
	switch method {
	case "ping":
		return jsontext.Value("{}"), nil
	case "roots/list":
		return jsontext.Value(`{"roots":[]}`), nil
	case "elicitation/create":
		var form struct {
			Mode   string         `json:"mode"`
			Schema jsontext.Value `json:"requestedSchema"`
		}
		if c.opts.Fill == nil || json.Unmarshal(params, &form) != nil || form.Mode != "" && form.Mode != "form" {
			return jsontext.Value(`{"action":"decline"}`), nil
		}
		content, ok := c.opts.Fill(form.Schema)
		if !ok {
			return jsontext.Value(`{"action":"decline"}`), nil
		}
		text, err := json.Marshal(map[string]any{"action": "accept", "content": content}, json.Deterministic(true))
		if err != nil {
			return nil, &Error{Code: mcp.InternalError, Message: err.Error()}
		}
		return text, nil
	}
	return nil, &Error{Code: mcp.MethodNotFound, Message: "This host doesn't serve " + message.Clip(method, 64)}
}
