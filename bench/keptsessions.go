package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	idleSessions = 10_000
	openTurns    = 100
	longSession  = 10_000 // messages
)

// keptSessions measures what sessions cost a daemon of its own that have no turn, how soon open turns
// continue after the daemon was killed, and how long it takes to open a long session.
func keptSessions(out io.Writer, binary, dir string, p *remote) error {
	none, some := filepath.Join(dir, "none"), filepath.Join(dir, "some")
	for home, count := range map[string]int{none: 1, some: idleSessions} {
		if err := addSessions(home, p.addr, count); err != nil {
			return err
		}
	}
	var without, with []float64
	for range 5 { // in turns
		for home, all := range map[string]*[]float64{none: &without, some: &with} {
			d, err := startDaemon(binary, home)
			if err != nil {
				return err
			}
			rss, err := settled(d)
			if err = errors.Join(err, d.stop()); err != nil {
				return err
			}
			*all = append(*all, rss)
		}
	}
	a, b := medianFloat(without), medianFloat(with)
	fmt.Fprintf(out, "  resident memory of a daemon with 1 session %.1f MB, with %d %.1f MB: %+.1f MB\n", a/1e6, idleSessions, b/1e6, (b-a)/1e6)
	if err := killed(out, binary, some, p); err != nil {
		return err
	}
	return longOpened(out, filepath.Join(dir, "long"), p.addr)
}

func medianFloat(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// settled is the resident memory of a daemon that has answered a question about its sessions.
func settled(d *daemon) (float64, error) {
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	list := []byte(`{"kind":"query","type":"Session.List","data":{"limit":10},"metadata":{"id":"list","timestamp":1735000000000}}` + "\n")
	if _, err := latency(conn, list, 11); err != nil {
		return 0, err
	}
	return resident(d.cmd.Process.Pid)
}

// addSessions creates sessions, each with an input and an answer.
func addSessions(home, provider string, count int) error {
	w, err := openSpeaking(home, provider, "0s/1", "0s/0")
	if err != nil {
		return err
	}
	lines := make([][]byte, count)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Session.Create","data":{"model":"0s-0","tools":["Memory.Get"],"system":"You are number %d."},"metadata":{"id":"create-%d","timestamp":1735000000000}}`+"\n", i, i)
	}
	if _, err := w.pipelined(lines); err != nil {
		return err
	}
	return w.stop()
}

// killed opens turns whose answers never end, kills the daemon, and measures how long after the next
// one was started it answers, and has asked the provider again for each of them.
func killed(out io.Writer, binary, home string, p *remote) error {
	d, err := startDaemon(binary, home)
	if err != nil {
		return err
	}
	// The model stands in the memory, so that each process knows it.
	w := &speaking{socket: d.socket}
	if _, err := w.ask("Memory.Set", fmt.Sprintf(`{"key":"models/0s-0","value":%s}`, settingsOf(p.addr, "0s/0"))); err != nil {
		return err
	}
	reply, err := w.ask("Session.List", fmt.Sprintf(`{"limit":%d}`, openTurns))
	if err != nil {
		return err
	}
	var list struct {
		Sessions []struct{ Session string }
	}
	if err := json.Unmarshal(reply, &list); err != nil {
		return err
	}
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return err
	}
	before, err := p.asked()
	if err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	for i, s := range list.Sessions {
		fmt.Fprintf(conn, `{"kind":"command","type":"Session.Send","data":{"session":%q,"text":"Hi"},"metadata":{"id":"send-%d","timestamp":1}}`+"\n", s.Session, i)
		if err := readReply(r); err != nil {
			return err
		}
	}
	if err := p.until(before + openTurns); err != nil {
		return err
	}
	_ = conn.Close()
	_ = d.cmd.Process.Signal(syscall.SIGKILL)
	_ = d.cmd.Wait()
	_ = os.RemoveAll(d.dir)
	begin := time.Now()
	d, err = startDaemon(binary, home)
	if err != nil {
		return err
	}
	answers := time.Since(begin)
	if err := p.until(before + 2*openTurns); err != nil {
		return errors.Join(err, d.stop())
	}
	fmt.Fprintf(out, "  killed with %d sessions and %d open turns, the next process answers after %v, and all turns go on after %v\n",
		idleSessions, len(list.Sessions), answers.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	_ = d.cmd.Process.Signal(syscall.SIGKILL) // the turns never end
	_ = d.cmd.Wait()
	return os.RemoveAll(d.dir)
}

// until waits until the provider was asked n times.
func (p *remote) until(n int) error {
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(time.Millisecond) {
		if asked, err := p.asked(); err != nil || asked >= n {
			return err
		}
	}
	return fmt.Errorf("the provider isn't asked %d times", n)
}

// longOpened measures pages of a session with many messages over the socket.
func longOpened(out io.Writer, home, provider string) error {
	w, err := openSpeaking(home, provider, "0s/1")
	if err != nil {
		return err
	}
	l, err := w.listen("0s/1")
	if err != nil {
		return err
	}
	id, conn := l.session, l.conn
	lines := make([][]byte, longSession)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Session.Append","data":{"session":%q,"message":{"type":"log","text":"message %d: a sentence of about the length that people write in a chat."}},"metadata":{"id":"append-%d","timestamp":1735000000000}}`+"\n", id, i, i)
	}
	if _, err := w.pipelined(lines); err != nil {
		return err
	}
	fmt.Fprintf(out, "  a session of %d messages, median of 51 over the socket:", longSession)
	for _, row := range []struct{ name, kind, t, more string }{
		{"Session.Get", "query", "Session.Get", ""},
		{"the first page", "query", "Session.Messages", ""},
		{"the last page", "query", "Session.Messages", fmt.Sprintf(`,"after":%d`, longSession-100)},
		{"Watch from 100 before its end", "query", "Session.Watch", fmt.Sprintf(`,"after":%d,"limit":100`, longSession-100)},
	} {
		took, err := latency(conn, fmt.Appendf(nil, `{"kind":%q,"type":%q,"data":{"session":%q%s},"metadata":{"id":"open","timestamp":1}}`+"\n", row.kind, row.t, id, row.more), 51)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, " %s %v;", row.name, took.Round(10*time.Microsecond))
	}
	fmt.Fprintln(out)
	_ = conn.Close()
	return w.stop()
}
