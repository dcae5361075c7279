package conformance

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/store"
)

// servedToken is the token of the kernels that are started here. Pages and clients know it.
const servedToken = "a-token-that-has-become-known"

// kernelProcess is kernos serve.
type kernelProcess struct {
	t      *testing.T
	url    string
	socket string
	env    []string // with which commands of the program reach it
}

// These are in what a kernel says of where it is reached: the socket first.
var (
	socketLine = regexp.MustCompile(`^ +socket +(/.+)$`)
	tcpURL     = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// newHome makes a home for the program, which finds the script engine compiled.
func newHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := testkit.ShareEngine(daemon.Home{Dir: home, Origin: store.DefaultOrigin}.State()); err != nil {
		t.Fatal(err)
	}
	return home
}

// startKernel starts a kernel at an address. It ends with the test.
func startKernel(t *testing.T, binary, address string, flags ...string) *kernelProcess {
	t.Helper()
	home := newHome(t)
	sockets, err := os.MkdirTemp("", "kernos") // a short name, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	token := filepath.Join(home, "token")
	if err := os.WriteFile(token, []byte(servedToken), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{"serve", "--addr", address}, flags...)...)
	env := append(os.Environ(), "KERNOS_HOME="+home, "XDG_RUNTIME_DIR="+sockets, "KERNOS_ORIGIN=", "SSH_AUTH_SOCK=")
	cmd.Env = env
	notes, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	where := make(chan *kernelProcess, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all := new(strings.Builder)
		k := &kernelProcess{t: t, env: env}
		for lines := bufio.NewScanner(notes); lines.Scan(); {
			fmt.Fprintln(all, lines.Text())
			if found := socketLine.FindStringSubmatch(lines.Text()); found != nil {
				k.socket = found[1]
			}
			if url := tcpURL.FindString(lines.Text()); url != "" && k.url == "" {
				k.url = url
				where <- k
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the kernel has left with %v\n%s", err, all)
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(testkit.Patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	select {
	case k := <-where:
		return k
	case <-ended:
	case <-time.After(testkit.Patience):
	}
	t.Fatal("the kernel does not serve")
	return nil
}
