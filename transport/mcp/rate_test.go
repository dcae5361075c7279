package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/transport/mcp"
)

// A client that is held up for a second is told so, once, between its answers, and all of it is answered.
func TestAClientThatSendsTooMuchIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pings = 12
		s := mcp.New(kerneltest.New(t, nil), &mcp.Options{FrameRate: 3})
		lines := request(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`) + "\n"
		for i := range pings {
			lines += request(i+1, "ping", "") + "\n"
		}
		read, write := io.Pipe()
		go func() {
			_ = write.CloseWithError(s.ServeLines(t.Context(), strings.NewReader(lines), write, "core"))
		}()
		var told, answers int
		for scan := bufio.NewScanner(read); scan.Scan(); {
			switch line := scan.Text(); {
			case strings.Contains(line, `"method":"notifications/message"`):
				check(t, "the log message", line, `"level":"warning"`, `"logger":"Syscall.Throttled"`, `"code":429`, `"limit":3`, `(frame-rate)`)
				told++
			default:
				check(t, "an answer", line, fmt.Sprintf(`"id":%d,"result"`, answers))
				answers++
			}
		}
		if told != 1 || answers != pings+1 {
			t.Errorf("told %d times, %d answers", told, answers)
		}
	})
}

// The frame rate of a daemon holds for its connections of MCP, and its end for what they wait for.
func TestTheFrameRateOfADaemon(t *testing.T) {
	d, _ := serve(t, func(o *daemon.Options) { o.Limits.FrameRate = 0.001 })
	c := connect(t, d, nil, "core")
	go func() {
		for c.out.Scan() { // it reads its answers
		}
	}()
	go func() { _, _ = io.WriteString(c.in, request(1, "ping", "")+"\n"+request(2, "ping", "")+"\n") }()
	testkit.Until(t, "the client is held up", func() bool { return d.MCP().Stats().Throttled == 1 })
	if err := d.MCP().Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A server that shuts down ends connections whose input goes on, and takes no more of them.
func TestShutdownEndsLines(t *testing.T) {
	s := mcp.New(kerneltest.New(t, nil), nil)
	in, write := io.Pipe()
	defer func() { _ = write.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeLines(t.Context(), in, io.Discard, "core") }()
	testkit.Until(t, "the connection is served", func() bool { return s.Stats().Connections == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.ServeLines(context.Background(), strings.NewReader(""), io.Discard, "core"); err == nil {
		t.Error("a connection was taken after the end")
	}
}
