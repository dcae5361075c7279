package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// asService is set in a process that is started as systemd starts a service, and prints what it finds.
const asService = "KERNOS_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		describe()
		return
	}
	os.Exit(m.Run())
}

// describe prints what systemd has passed, and what of it is left for other programs.
func describe() {
	m, err := Take()
	switch {
	case err != nil:
		fmt.Println("error:", err)
		return
	case m == nil:
		fmt.Println("nothing")
	default:
		fmt.Println("watchdog:", m.Watchdog)
		if m.Unix != nil {
			fmt.Println("unix:", m.Unix.Addr())
		}
		if m.TCP != nil {
			fmt.Println("tcp:", m.TCP.Addr())
		}
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "WATCHDOG_") || strings.HasPrefix(v, "NOTIFY_") {
			fmt.Println("left:", v)
		}
	}
	if err := m.Notify("READY=1"); err != nil {
		fmt.Println("error:", err)
	}
}

// service runs this program as systemd starts a service, with its own process number for PID.
func service(t *testing.T, files []*os.File, env ...string) (lines []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `exec "$0"`
	for _, v := range env {
		script = "export " + strings.ReplaceAll(v, "PID=", "PID=$$") + "; " + script
	}
	c := exec.Command("sh", "-c", script, self)
	c.Env, c.ExtraFiles = append(os.Environ(), asService+"=1"), files
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// listener returns the file of a socket in a folder, as systemd would pass it.
func listener(t *testing.T, network, address string) (file *os.File, bound string) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if file, err = l.(interface{ File() (*os.File, error) }).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, l.Addr().String()
}

// reports is a socket for what a service reports.
func reports(t *testing.T) (conn *net.UnixConn, path string) {
	t.Helper()
	path = filepath.Join(testkit.ShortDir(t), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, path
}

// waiting returns what was reported and not yet read.
func waiting(t *testing.T, conn *net.UnixConn) (all []string) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1024)
	err = raw.Control(func(fd uintptr) {
		for {
			n, _, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
			if err != nil {
				return
			}
			all = append(all, string(buffer[:n]))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTakeFindsWhatSystemdPasses(t *testing.T) {
	a, path := listener(t, "unix", filepath.Join(testkit.ShortDir(t), "s"))
	b, address := listener(t, "tcp", "127.0.0.1:0")
	second, other := listener(t, "unix", filepath.Join(testkit.ShortDir(t), "s"))
	conn, notify := reports(t)
	for _, c := range []struct {
		name  string
		files []*os.File
		env   []string
		want  []string
	}{
		{"all", []*os.File{a, b}, []string{"LISTEN_FDS=2", "LISTEN_PID=", "LISTEN_FDNAMES=x:y", "NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=3000000", "WATCHDOG_PID="},
			[]string{"watchdog: 3s", "unix: " + path, "tcp: " + address}},
		{"another process is meant", []*os.File{a}, []string{"LISTEN_FDS=1", "LISTEN_PID=0"}, []string{"nothing"}},
		{"another process is watched", nil, []string{"NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=3000000", "WATCHDOG_PID=0"}, []string{"watchdog: 0s"}},
		{"nothing", nil, nil, []string{"nothing"}},
		{"two sockets", []*os.File{a, second}, []string{"LISTEN_FDS=2", "LISTEN_PID="}, []string{"error: systemd passes " + other + " as well; a service takes one unix socket and one TCP address"}},
		{"no number", nil, []string{"LISTEN_FDS=many", "LISTEN_PID="}, []string{`error: LISTEN_FDS is "many"; expected how many sockets systemd passes`}},
		{"no socket", nil, []string{"LISTEN_FDS=1", "LISTEN_PID="}, []string{"error: the socket that systemd has passed as descriptor 3 can't be used: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := service(t, c.files, c.env...)
			same := func(got, want string) bool {
				return got == want || strings.HasSuffix(want, ": ") && strings.HasPrefix(got, want)
			}
			if !slices.EqualFunc(got, c.want, same) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
	if got := waiting(t, conn); !slices.Equal(got, []string{"READY=1", "READY=1"}) {
		t.Errorf("it reported %q", got)
	}
}

func TestASocketForReportsThatIsGone(t *testing.T) {
	m := &Manager{notify: filepath.Join(t.TempDir(), "n")}
	if err := m.Notify("READY=1"); err == nil || !strings.Contains(err.Error(), `"READY=1"`) {
		t.Errorf("got %v", err)
	}
	if err := (*Manager)(nil).Notify("READY=1"); err != nil {
		t.Error(err)
	}
	(*Manager)(nil).Watch(t.Context(), nil, nil) // returns at once
}

// A kernel that answers gives signs of life, one that is stuck gives none, and one that answers again gives them again.
func TestOnlyALivingKernelGivesSignsOfLife(t *testing.T) {
	conn, path := reports(t)
	m := &Manager{notify: path, Watchdog: 2 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	stuck, failed, ended := make(chan bool), make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		m.Watch(ctx, func(ctx context.Context) error {
			select {
			case is := <-stuck:
				if !is {
					return nil
				}
			case <-ctx.Done(): // nothing is asked for any more
			}
			<-ctx.Done()
			return fmt.Errorf("stuck: %w", ctx.Err())
		}, func(err error) {
			select {
			case failed <- err:
			case <-ctx.Done():
			}
		})
	}()
	fails := func() {
		t.Helper()
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	lives := func() {
		t.Helper()
		for done := false; !done; {
			select {
			case stuck <- false:
				done = true
			case <-failed: // it wasn't asked in time
			}
		}
	}
	for range 2 {
		lives()
	}
	fails() // what was said before has been sent
	waiting(t, conn)
	for range 3 {
		fails()
	}
	if got := waiting(t, conn); got != nil {
		t.Errorf("a stuck kernel gave %q", got)
	}
	lives()
	fails()
	if got := waiting(t, conn); !slices.Equal(got, []string{"WATCHDOG=1"}) {
		t.Errorf("a kernel that answers again gave %q", got)
	}
	stop()
	<-ended
}
