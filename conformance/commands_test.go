package conformance

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"kernos/store"
	"kernos/store/storetest"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// dialCommands lets a conversation call the program as a user does: a line is a command, and
// what it prints comes back; of "command | expression", the lines that match. The server is a kernel of this process, so that it can have the
// handlers of the conversation. After the command "server leaves" it can't be reached.
func dialCommands(t *testing.T, binary string, c *conversation) (io.WriteCloser, io.Reader) {
	t.Helper()
	k, end := newKernel(t, c, func() (store.Store, error) { return storetest.NewMemory(), nil })
	handler := ws.New(rpc.New(k, nil), nil)
	server := httptest.NewServer(handler)
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	home := t.TempDir()
	leave := func() {
		_ = handler.Shutdown(context.Background())
		server.Close()
	}
	go func() {
		for lines := bufio.NewScanner(inRead); lines.Scan(); {
			if lines.Text() == "server leaves" {
				leave()
				continue
			}
			command, filter, _ := strings.Cut(lines.Text(), " | ")
			shown := regexp.MustCompile(filter)
			args := append(strings.Fields(command)[1:], "--server", "ws"+strings.TrimPrefix(server.URL, "http"))
			cmd := exec.Command(binary, args...)
			cmd.Env = append(os.Environ(), "KERNOS_HOME="+home, "XDG_CACHE_HOME="+home, "NO_COLOR=1")
			printed, _ := cmd.CombinedOutput() // a status other than 0 is part of the answer
			for said := range bytes.Lines(printed) {
				if said = bytes.TrimRight(said, " \n"); len(said) > 0 && shown.Match(said) {
					_, _ = outWrite.Write(append(said, '\n'))
				}
			}
		}
		leave()
		_ = outWrite.CloseWithError(end())
	}()
	return inWrite, outRead
}
