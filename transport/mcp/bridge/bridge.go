// Package bridge connects a client of MCP that speaks over standard input and output with one server after the other.
//
// # Goroutines
//
//   - Reading the client's lines, one: [Run] starts it. It ends with the input, or with the process.
//   - Sending what waits to a server, one: it begins with each connection, and ends before the next one.
package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/transport/mcp/jsonrpc"
)

// A Wire is a connection to a server that was upgraded to MCP.
type Wire interface {
	io.ReadWriteCloser

	// CloseWrite reports the end of what is written. The server still answers what it was sent.
	CloseWrite() error
}

// Redial connects to a server whose connection was lost. A client waits for the server if needed is set: it is worth
// starting. Otherwise the wire may be nil, and Run asks again later. An error ends the bridge.
type Redial func(ctx context.Context, needed bool) (Wire, error)

// Run passes messages between a client, which writes lines to in and reads them from out, and a server, until the
// client has closed its side and everything is answered.
//
// If the server goes away, the next connection continues the conversation: Run repeats initialize and the
// subscriptions, and sends the requests again that weren't answered. A call of a tool isn't sent twice, since it may
// have happened: its client gets an error.
func Run(ctx context.Context, wire Wire, redial Redial, in io.Reader, out io.Writer) error {
	b := &bridge{
		out: out, changed: make(chan struct{}, 1), waiting: make(map[string]*request), asked: make(map[string]bool), watched: make(map[string][]byte),
	}
	b.connected.L = &b.mu
	defer b.close()
	go b.read(in)
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Longest: 5 * time.Second}
	for {
		heard, err := b.converse(wire)
		if err != nil {
			return err
		}
		if err := writeSome(out, b.lost()); err != nil || b.finished() {
			return err
		}
		if heard {
			pauses.Reset()
		}
		for wire = nil; wire == nil; pauses.Grow() {
			if !heard && !b.pause(ctx, pauses.Pause()) {
				return ctx.Err()
			}
			if wire, err = redial(ctx, b.needed()); err != nil {
				return err
			}
			heard = false
		}
	}
}

// A bridge is one conversation of a client, with one server after the other.
type bridge struct {
	out     io.Writer
	changed chan struct{} // gets a token when the client has sent something that waits for a server, or has closed its side

	mu        sync.Mutex
	wire      Wire      // to the server that gets the client's lines; nil while there is none
	connected sync.Cond // signalled when there is a wire, or the bridge is closed; its lock is mu
	closed    bool
	held      bool                // a line of the client waits for a server
	ended     bool                // the client has closed its side
	waiting   map[string]*request // the client's requests without a response, by id
	count     int                 // number of requests
	asked     map[string]bool     // ids of requests of the server that have no response

	// What the next server gets to know of the session, in the stateful era.
	initialize  []byte // params; nil if the client hasn't begun one
	initialized bool
	level       []byte            // params of logging/setLevel, or nil
	watched     map[string][]byte // params of resources/subscribe, by URI
	scan        jsonscan.Scanner
}

// A request is one of the client that has no response.
type request struct {
	line, params []byte
	method       string
	number       int // position in the order of requests
	again        bool
}

// repeatable reports whether a request may be sent to a second server. One that fails there, too, may be the reason
// why servers end.
func (r *request) repeatable() bool {
	return r.method == mcp.MethodListen || r.method != "tools/call" && !r.again
}

// read reads the client's lines, and sends each one to the server on the same goroutine. A blocking read can't be
// interrupted, and ends with the process.
func (b *bridge) read(in io.Reader) {
	var rest []byte
	for buf := make([]byte, 64<<10); ; {
		n, err := in.Read(buf)
		var whole []byte
		if end := bytes.LastIndexByte(buf[:n], '\n') + 1; end > 0 {
			whole, rest = slices.Concat(rest, buf[:end]), bytes.Clone(buf[end:n])
		} else {
			rest = append(rest, buf[:n]...)
		}
		if err != nil && len(rest) > 0 {
			whole = append(append(whole, rest...), '\n')
		}
		if len(whole) > 0 {
			b.send(whole)
		}
		if err != nil {
			b.end()
			return
		}
	}
}

// send sends lines of the client as soon as there is a server. If the write fails, the server has gone: receive ends,
// and the requests are treated like others that have no response.
func (b *bridge) send(lines []byte) {
	b.mu.Lock()
	if b.held = b.wire == nil; b.held {
		b.signalChange()
	}
	for b.wire == nil && !b.closed {
		b.connected.Wait()
	}
	b.held = false
	wire := b.wire
	if wire != nil {
		b.sending(lines)
	}
	b.mu.Unlock()
	if wire != nil {
		_, _ = wire.Write(lines)
	}
}

// end notes that the client has closed its side.
func (b *bridge) end() {
	b.mu.Lock()
	b.ended = true
	wire := b.wire
	b.signalChange()
	b.mu.Unlock()
	if wire != nil {
		_ = wire.CloseWrite()
	}
}

// signalChange makes run look at what has changed.
func (b *bridge) signalChange() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// close lets read go if it waits for a server.
func (b *bridge) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.connected.Broadcast()
}

// pause waits for some time, or until the client has sent something. It returns false if ctx has ended, or the client
// has closed its side and waits for nothing.
func (b *bridge) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.changed:
	case <-ctx.Done():
		return false
	}
	return !b.finished()
}

// writeSome writes a text that may be empty. The reader of a pipe would see an empty write.
func writeSome(to io.Writer, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := to.Write(text)
	return err
}

// needed reports whether the client waits for a server.
func (b *bridge) needed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.waiting {
		if r.method != mcp.MethodListen {
			return true
		}
	}
	return b.held
}

// finished reports whether the client has closed its side and waits for nothing.
func (b *bridge) finished() bool {
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	return ended && !b.needed()
}

// converse talks to one server until it closes the connection, and reports whether it has sent anything. The error is
// that of a client that doesn't read.
func (b *bridge) converse(wire Wire) (heard bool, err error) {
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		b.begin(wire)
	}()
	heard, err = b.receive(wire)
	_ = wire.Close()
	<-begun
	b.mu.Lock()
	b.wire = nil
	b.mu.Unlock()
	return heard, err
}

// begin sends what the server has to know. From then on it gets the lines of the client. If the write fails, the
// server has gone, and receive ends.
func (b *bridge) begin(wire Wire) {
	if writeSome(wire, b.replayed()) != nil {
		return
	}
	b.mu.Lock()
	b.wire = wire
	ended := b.ended
	b.connected.Broadcast()
	b.mu.Unlock()
	if ended {
		_ = wire.CloseWrite()
	}
}

// sending notes what the client sends. The caller holds b.mu.
func (b *bridge) sending(lines []byte) {
	for line := range bytes.Lines(lines) {
		f, bad := jsonrpc.Parse(&b.scan, line)
		switch {
		case bad != nil || len(line) > jsonrpc.MaxMessage: // the server reports what is wrong
		case f.Method == "":
			delete(b.asked, string(f.ID))
		case f.ID != nil:
			b.count++
			b.waiting[string(f.ID)] = &request{line: line, params: f.Params, method: f.Method, number: b.count}
		case f.Method == "notifications/initialized":
			b.initialized = true
		case f.Method == "notifications/cancelled":
			delete(b.waiting, string(jsonscan.Member(f.Params, "requestId")))
		}
	}
}

// receive passes on what the server sends, in whole lines.
func (b *bridge) receive(wire Wire) (heard bool, err error) {
	var text []byte
	for buf := make([]byte, 64<<10); ; {
		n, failed := wire.Read(buf)
		end := bytes.LastIndexByte(buf[:n], '\n') + 1
		text = append(text, buf[:n]...)
		if end > 0 {
			heard = true
			whole := len(text) - n + end
			if err := writeSome(b.out, b.received(text[:whole])); err != nil {
				return heard, err
			}
			text = append(text[:0], text[whole:]...)
		}
		if failed != nil {
			return heard, nil
		}
	}
}

// received notes what the server sends, and returns what the client is to see.
func (b *bridge) received(lines []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := lines[:0]
	for line := range bytes.Lines(lines) {
		f, bad := jsonrpc.Parse(&b.scan, line)
		switch {
		case bad != nil:
		case f.Method == "":
			if !b.answered(&f) {
				continue
			}
		case f.ID != nil:
			b.asked[string(f.ID)] = true
		case f.Method == "notifications/cancelled":
			delete(b.asked, string(jsonscan.Member(f.Params, "requestId")))
		}
		passed = append(passed, line...)
	}
	return passed
}

// ownIDs begins the ids of requests that the bridge sends for itself.
const ownIDs = "kernos/"

// An ownRequest is a request of the bridge itself.
type ownRequest struct {
	Version string          `json:"jsonrpc"`
	ID      string          `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// answered takes a response, and reports whether the client is to see it.
func (b *bridge) answered(f *jsonrpc.Frame) bool {
	if strings.HasPrefix(jsonscan.Unquote(f.ID), ownIDs) {
		return false
	}
	r := b.waiting[string(f.ID)]
	if r == nil {
		return true
	}
	if r.method == mcp.MethodListen && f.Result != nil && !b.ended {
		return false // the next server is asked for the same
	}
	delete(b.waiting, string(f.ID))
	if f.Result == nil {
		return true
	}
	switch r.method {
	case "initialize":
		b.initialize = r.params
	case "logging/setLevel":
		b.level = r.params
	case "resources/subscribe":
		b.watched[jsonscan.Unquote(jsonscan.Member(r.params, "uri"))] = r.params
	case "resources/unsubscribe":
		delete(b.watched, jsonscan.Unquote(jsonscan.Member(r.params, "uri")))
	}
	return true
}

// lostCall is the failure of a call of a tool whose outcome isn't known.
var lostCall = &jsonrpc.Failure{
	Code: mcp.InternalError,
	Text: "The kernel has stopped or lost the connection before it answered. It may have done what was asked: check that, or call again if doing it twice is harmless",
}

// lost returns the messages for the client when a connection is lost: requests that can't be repeated have failed, and
// the server's own requests are no longer waited for.
func (b *bridge) lost() (lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, r := range b.waiting {
		if !r.repeatable() {
			lines = append(jsonrpc.AppendFailure(lines, []byte(id), lostCall), '\n')
			delete(b.waiting, id)
		}
	}
	for id := range b.asked {
		lines = append(jsonrpc.AppendNotification(lines, "notifications/cancelled", jsonrpc.CancelParams(id)), '\n')
	}
	clear(b.asked)
	return lines
}

// replayed returns the lines with which the conversation continues at another server.
func (b *bridge) replayed() (lines []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := 0
	add := func(method string, params []byte) {
		own++
		line, _ := json.Marshal(ownRequest{"2.0", ownIDs + strconv.Itoa(own), method, params}) // never fails
		lines = append(append(lines, line...), '\n')
	}
	if b.initialize != nil {
		add("initialize", b.initialize)
	}
	if b.initialize != nil && b.initialized {
		lines = append(jsonrpc.AppendNotification(lines, "notifications/initialized", nil), '\n')
	}
	if b.level != nil {
		add("logging/setLevel", b.level)
	}
	for _, uri := range slices.Sorted(maps.Keys(b.watched)) {
		add("resources/subscribe", b.watched[uri])
	}
	for _, r := range slices.SortedFunc(maps.Values(b.waiting), func(a, b *request) int { return a.number - b.number }) {
		lines, r.again = append(lines, r.line...), true
	}
	return lines
}
