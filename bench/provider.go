package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A provider is a server of language models that streams words, in the dialect openai-chat. Its
// address describes how: http://HOST/PAUSE/WORDS, with the pause between words. With 0 words the answer
// never ends. The first word is @ and the time at which it was sent, in nanoseconds since 1970.
type provider struct {
	net.Listener
	asked atomic.Int64   // requests
	left  chan time.Time // when a client left an answer that never ends; 1 is kept
}

func listenProvider() (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{Listener: l, left: make(chan time.Time, 1)}
	go p.serve()
	return p, nil
}

// provide is a provider in a process of its own: it prints its address, and the number of requests
// for each line that it reads.
func provide(string) error {
	p, err := listenProvider()
	if err != nil {
		return err
	}
	fmt.Println(p.Addr())
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadSlice('\n'); err != nil {
			return err
		}
		fmt.Println(p.asked.Load())
	}
}

func (p *provider) serve() {
	for {
		conn, err := p.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = p.answer(conn)
			_ = conn.Close()
		}()
	}
}

const deltaBegin, deltaEnd = `data: {"id":"chatcmpl-9lMgfRSWPHcw51s6wxKT1YEO2CKpd","object":"chat.completion.chunk","created":1721075653,"model":"gpt-4o","system_fingerprint":"fp_d576307f90","choices":[{"index":0,"delta":{"content":"`,
	`"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// answer answers the requests of a connection. Each word is one write.
func (p *provider) answer(conn net.Conn) error {
	r := bufio.NewReader(conn)
	var buf []byte
	write := func(parts ...string) error {
		n := 0
		for _, part := range parts {
			n += len(part)
		}
		buf = append(strconv.AppendInt(buf[:0], int64(n), 16), "\r\n"...)
		for _, part := range parts {
			buf = append(buf, part...)
		}
		_, err := conn.Write(append(buf, "\r\n"...))
		return err
	}
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, q.Body)
		p.asked.Add(1)
		parts := strings.Split(q.URL.Path, "/")
		pause, err := time.ParseDuration(parts[1])
		words, err2 := strconv.Atoi(parts[2])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			return err
		}
		if err := write(deltaBegin, "@", strconv.FormatInt(time.Now().UnixNano(), 10), deltaEnd); err != nil {
			return err
		}
		for i := 1; i < words; i++ {
			if pause > 0 {
				time.Sleep(pause)
			}
			if err := write(deltaBegin, " word", deltaEnd); err != nil {
				return err
			}
		}
		if words == 0 {
			_, err := r.ReadByte() // until the client leaves
			select {
			case p.left <- time.Now():
			default:
			}
			return err
		}
		if err := write(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
			return err
		}
	}
}

// said returns how many bytes an answer has.
func said(words int) int { return 20 + 5*(words-1) }

// A remote is a provider in a process of its own.
type remote struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	addr string
}

func startProvider() (*remote, error) {
	p := &remote{cmd: exec.Command(os.Args[0], "-provide", "here")}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	line, err := p.out.ReadString('\n')
	if p.addr = strings.TrimSpace(line); err != nil {
		p.stop()
		return nil, fmt.Errorf("the provider doesn't serve: %w", err)
	}
	return p, nil
}

// asked returns how many requests came.
func (p *remote) asked() (int, error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

func (p *remote) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// firstWord returns when the first word of an answer was sent, if a text has it.
func firstWord(text []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(text, []byte(`"@`))
	if !ok || len(rest) < 19 {
		return time.Time{}, false
	}
	ns, err := strconv.ParseInt(string(rest[:19]), 10, 64)
	return time.Unix(0, ns), err == nil
}
