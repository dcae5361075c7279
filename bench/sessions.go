package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	kernosd "kernos/daemon"
	"kernos/store"
)

// sessions measures what a delta costs on its way from a provider through a session to a client of
// the socket, beside openai-go, which only reads it; streams at once; and what sessions cost that
// wait, begin again, or are long.
func sessions(out io.Writer, binary string) error {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := startProvider()
	if err != nil {
		return err
	}
	defer p.stop()
	fmt.Fprintf(out, "\nSessions: a delta from a provider's connection to a client of the socket\n")
	if err := deltas(out, binary, dir, p); err != nil {
		return err
	}
	if err := cancels(out, binary, filepath.Join(dir, "canceled")); err != nil {
		return err
	}
	if err := manyStreams(out, filepath.Join(dir, "many"), p.addr, 1000, 100); err != nil {
		return err
	}
	return keptSessions(out, binary, dir, p)
}

// A speaking is a daemon with sessions, and a socket.
type speaking struct {
	socket string
	pid    int
}

// An inside is a speaking in this process.
type inside struct {
	speaking
	*working
}

// openSpeaking opens a daemon with models that stream words in some ways; see [provider].
func openSpeaking(home, provider string, ways ...string) (*inside, error) {
	o := &kernosd.Options{Home: home, Socket: &kernosd.Socket{}, Models: make(map[string]json.RawMessage)}
	for _, way := range ways {
		o.Models[nameOf(way)] = settingsOf(provider, way)
	}
	w, err := openWorkingWith(o)
	if err != nil {
		return nil, err
	}
	socket, err := kernosd.Home{Dir: home, Origin: store.DefaultOrigin}.Socket()
	if err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return &inside{speaking{socket, os.Getpid()}, w}, nil
}

// startSpeaking is openSpeaking for a daemon in a process of its own.
func startSpeaking(binary, home, provider string, ways ...string) (w *speaking, stop func(), err error) {
	d, err := startDaemon(binary, home)
	if err != nil {
		return nil, nil, err
	}
	w = &speaking{d.socket, d.cmd.Process.Pid}
	for _, way := range ways {
		if _, err := w.ask("Memory.Set", fmt.Sprintf(`{"key":"models/%s","value":%s}`, nameOf(way), settingsOf(provider, way))); err != nil {
			return nil, nil, errors.Join(err, d.stop())
		}
	}
	return w, func() { _ = d.stop() }, nil
}

func nameOf(way string) string { return strings.ReplaceAll(way, "/", "-") }

func settingsOf(provider, way string) json.RawMessage {
	return fmt.Appendf(nil, `{"dialect":"openai-chat","baseUrl":"http://%s/%s","model":"m"}`, provider, way)
}

// ask sends a command over a connection of its own, and returns the data of the reply.
func (w *speaking) ask(t, data string) (json.RawMessage, error) {
	conn, err := net.Dial("unix", w.socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, `{"kind":"command","type":%q,"data":%s,"metadata":{"id":"ask","timestamp":1}}`+"\n", t, data)
	var m struct {
		Kind string
		Data json.RawMessage
	}
	if err := json.NewDecoder(conn).Decode(&m); err != nil || m.Kind != "reply" {
		return nil, fmt.Errorf("%s %s: %s %w", t, data, m.Data, err)
	}
	return m.Data, nil
}

// A listener is a client of the socket that sends to a session, and reads the turn.
type listener struct {
	conn    net.Conn
	r       *bufio.Reader
	session string

	first  time.Duration // how long after it was sent the first word came
	deltas int
	grown  int // bytes of the text, by the deltas
	bytes  int // of the message when it is complete, which may come with its last words
}

// listen creates a session.
func (w *speaking) listen(way string) (*listener, error) {
	reply, err := w.ask("Session.Create", fmt.Sprintf(`{"model":%q,"tools":["Memory.Get"]}`, nameOf(way)))
	if err != nil {
		return nil, err
	}
	var created struct{ Session string }
	if err := json.Unmarshal(reply, &created); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", w.socket)
	return &listener{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), session: created.Session}, err
}

var (
	streamedLine = []byte(`"type":"Session.Streamed"`)
	replyLine    = []byte(`{"kind":"reply"`)
	errorLine    = []byte(`{"kind":"error"`)
	offsetMember = []byte(`"offset":`)
	textMember   = []byte(`"delta":{"text":"`)
	wholeMember  = []byte(`"text":"@`)
)

// say sends an input, and reads until the turn has ended. It looks at no more of a line than a client must.
func (l *listener) say() error {
	l.deltas, l.grown, l.bytes = 0, 0, 0
	if _, err := fmt.Fprintf(l.conn, `{"kind":"command","type":"Session.Send","data":{"session":%q,"text":"Hi","wait":true},"metadata":{"id":"say","timestamp":1}}`+"\n", l.session); err != nil {
		return err
	}
	for {
		line, err := l.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if i := bytes.Index(line, streamedLine); i >= 0 {
			if l.deltas++; l.deltas == 1 {
				if sent, ok := firstWord(line); ok {
					l.first = time.Since(sent)
				}
			}
			offset, _, _ := bytes.Cut(line[bytes.Index(line, offsetMember)+len(offsetMember):], []byte(","))
			if string(offset) != strconv.Itoa(l.grown) {
				return fmt.Errorf("a delta begins at %s, and %d bytes have come", offset, l.grown)
			}
			text := line[bytes.Index(line, textMember)+len(textMember):]
			l.grown += bytes.IndexByte(text, '"')
			continue
		}
		if _, text, ok := bytes.Cut(line, wholeMember); ok && l.bytes == 0 {
			l.bytes = 1 + bytes.IndexByte(text, '"')
		}
		switch {
		case bytes.HasPrefix(line, replyLine):
			if !bytes.Contains(line, []byte(`"status":"done"`)) {
				return fmt.Errorf("the turn isn't done: %s", line)
			}
			return nil
		case bytes.HasPrefix(line, errorLine):
			return fmt.Errorf("no reply: %s", line)
		}
	}
}

// deltas measures deltas in turns with those who only read them. The CPU time is that of the daemon in
// a process of its own; its allocations are counted in this one.
func deltas(out io.Writer, binary, dir string, p *remote) error {
	const words, rounds = 2000, 7
	paced, fast, short := fmt.Sprintf("100us/%d", words), fmt.Sprintf("0s/%d", words), "1ms/3"
	inside, err := openSpeaking(filepath.Join(dir, "inside"), p.addr, paced, fast)
	if err != nil {
		return err
	}
	apart, stop, err := startSpeaking(binary, filepath.Join(dir, "apart"), p.addr, paced, fast, short)
	if err != nil {
		return err
	}
	defer stop()
	for _, row := range []struct{ name, way string }{{"as fast as they come", fast}, {"one by one, 100 µs apart", paced}} {
		own, err := apart.listen(row.way)
		if err != nil {
			return err
		}
		counted, err := inside.listen(row.way)
		if err != nil {
			return err
		}
		var bare, library, ours []cost
		events := 0
		for round := range rounds + 1 {
			var all [3]cost
			for i, read := range []func() error{
				func() error { _, err := bareHTTP(p.addr, row.way); return err },
				func() error { _, err := bareOpenAI(p.addr, row.way); return err },
				counted.say,
			} {
				if all[i], err = costOf(words, read); err != nil {
					return err
				}
			}
			before := cpuOf(apart.pid)
			if err := own.say(); err != nil {
				return err
			}
			all[2].ns = float64(cpuOf(apart.pid)-before) / words
			for _, l := range []*listener{own, counted} {
				if l.bytes != said(words) {
					return fmt.Errorf("%d bytes of %d came", l.bytes, said(words))
				}
			}
			if round > 0 { // the first warms up
				bare, library, ours = append(bare, all[0]), append(library, all[1]), append(ours, all[2])
				events += own.deltas
			}
		}
		a, b, c := medianCost(bare), medianCost(library), medianCost(ours)
		fmt.Fprintf(out, "  %s: net/http, reading %.1f µs; openai-go, reading %.1f µs, %.1f allocations; a session to the socket %.1f µs, %.1f allocations: %.2f of openai-go's time; %.2f events per delta\n",
			row.name, a.ns/1e3, b.ns/1e3, b.allocs, c.ns/1e3, c.allocs, c.ns/b.ns, float64(events)/rounds/words)
	}
	if err := inside.stop(); err != nil {
		return err
	}
	l, err := apart.listen(short)
	if err != nil {
		return err
	}
	var bare, library, own []time.Duration
	for round := range 202 {
		first, err := bareHTTP(p.addr, short)
		if err != nil {
			return err
		}
		read, err := bareOpenAI(p.addr, short)
		if err != nil {
			return err
		}
		if err := l.say(); err != nil {
			return err
		}
		if round > 0 {
			bare, library, own = append(bare, first), append(library, read), append(own, l.first)
		}
	}
	fmt.Fprintf(out, "  the first delta, median of %d: net/http %v, openai-go %v, a session to the socket %v: %v behind the bare stream\n",
		len(own), medianOf(bare), medianOf(library), medianOf(own), medianOf(own)-medianOf(bare))
	return nil
}

func medianOf(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2].Round(time.Microsecond)
}

func medianCost(all []cost) cost {
	slices.SortFunc(all, func(a, b cost) int { return int(a.ns - b.ns) })
	return all[len(all)/2]
}

// cpuOf is the CPU time of a process, to a hundredth of a second.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		panic(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // of the process, and of the system for it
		n, err := strconv.Atoi(field)
		if err != nil {
			panic(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// costOf is what each of count deltas cost.
func costOf(count int, read func() error) (cost, error) {
	objects, cpu := mallocs(), cpuTime()
	err := read()
	return cost{float64(cpuTime()-cpu) / float64(count), float64(mallocs()-objects) / float64(count)}, err
}

// bareOpenAI reads an answer with openai-go, and returns how long after it was sent the first word
// came.
func bareOpenAI(addr, way string) (first time.Duration, err error) {
	client := openai.NewClient(option.WithAPIKey("none"), option.WithBaseURL("http://"+addr+"/"+way))
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
	})
	for n := 0; stream.Next(); n++ {
		if chunk := stream.Current(); n == 0 && len(chunk.Choices) > 0 {
			if sent, ok := firstWord([]byte(`"` + chunk.Choices[0].Delta.Content)); ok {
				first = time.Since(sent)
			}
		}
	}
	return first, stream.Err()
}

// bareHTTP reads an answer with net/http alone.
func bareHTTP(addr, way string) (first time.Duration, err error) {
	r, err := http.Post("http://"+addr+"/"+way+"/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	buf := make([]byte, 4096)
	for n := 0; err == nil; {
		if n, err = r.Body.Read(buf); first == 0 {
			if sent, ok := firstWord(buf[:n]); ok {
				first = time.Since(sent)
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return first, err
}

// cancels measures how long after Session.Cancel was sent the provider's connection is closed.
func cancels(out io.Writer, binary, home string) error {
	const way = "0s/0"
	p, err := listenProvider()
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	w, stop, err := startSpeaking(binary, home, p.Addr().String(), way)
	if err != nil {
		return err
	}
	defer stop()
	l, err := w.listen(way)
	if err != nil {
		return err
	}
	defer func() { _ = l.conn.Close() }()
	var all []time.Duration
	for range 101 {
		if _, err := fmt.Fprintf(l.conn, `{"kind":"command","type":"Session.Send","data":{"session":%q,"text":"Hi","wait":true},"metadata":{"id":"say","timestamp":1}}`+"\n", l.session); err != nil {
			return err
		}
		until := func(what []byte) error {
			for {
				if line, err := l.r.ReadSlice('\n'); err != nil || bytes.Contains(line, what) {
					return err
				}
			}
		}
		if err := until(streamedLine); err != nil {
			return err
		}
		begin := time.Now()
		if _, err := w.ask("Session.Cancel", fmt.Sprintf(`{"session":%q}`, l.session)); err != nil {
			return err
		}
		all = append(all, (<-p.left).Sub(begin))
		if err := until([]byte(`"canceled"`)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "  a cancel closes the provider's connection after %v at the median, at most %v of %d\n", medianOf(all), all[len(all)-1].Round(time.Microsecond), len(all))
	return nil
}

// manyStreams lets many sessions stream at once, each to a connection of its own, and makes sure
// that each client has all of it.
func manyStreams(out io.Writer, home, provider string, streams, words int) error {
	way := fmt.Sprintf("2ms/%d", words)
	w, err := openSpeaking(home, provider, way)
	if err != nil {
		return err
	}
	all := make([]*listener, streams)
	for i := range all {
		if all[i], err = w.listen(way); err != nil {
			return err
		}
	}
	var wait sync.WaitGroup
	failed := make([]error, streams)
	begin, cpu := time.Now(), cpuTime()
	for i, l := range all {
		wait.Go(func() {
			if failed[i] = l.say(); failed[i] == nil && l.bytes != said(words) {
				failed[i] = fmt.Errorf("the stream %d has %d bytes of %d", i, l.bytes, said(words))
			}
		})
	}
	wait.Wait()
	took, used := time.Since(begin), cpuTime()-cpu
	if err := errors.Join(failed...); err != nil {
		return err
	}
	events := 0
	for _, l := range all {
		events += l.deltas
		_ = l.conn.Close()
	}
	fmt.Fprintf(out, "  %d streams at once, each of %d words: all words came, in %v; %d events, %v of CPU time per word\n",
		streams, words, took.Round(time.Millisecond), events, used/time.Duration(streams*words))
	return w.stop()
}
