package stdio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/stdio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(id string, t message.Type, data string) string {
	return fmt.Sprintf(`{"kind":"query","type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`+"\n", t, data, id)
}

func ping(id string) string { return ask(id, "Ping", `{"payload":"`+id+`"}`) }

func TestServeAnswersUntilTheInputEnds(t *testing.T) {
	const n = 5000 // more than two of the buffers that it reads into
	var in strings.Builder
	for i := range n {
		in.WriteString(ping(fmt.Sprint(i)))
	}
	for name, r := range map[string]io.Reader{
		"at once": strings.NewReader(in.String()), "half by half": iotest.HalfReader(strings.NewReader(in.String())),
		"with its error": iotest.DataErrReader(strings.NewReader(in.String())),
	} {
		var out strings.Builder
		result, err := stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), r, &out, nil)
		if err != nil || result.Errors != 0 {
			t.Errorf("%s: %v, %d errors", name, err, result.Errors)
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(got) != n {
			t.Fatalf("%s: %d answers", name, len(got))
		}
		for i, line := range got {
			if !strings.Contains(line, fmt.Sprintf(`"data":{"payload":"%d"}`, i)) {
				t.Fatalf("%s: answer %d is %s", name, i, line)
			}
		}
	}
}

func TestServePassesItsOptionsAndItsResultOn(t *testing.T) {
	var out strings.Builder
	result, err := stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), strings.NewReader(`{"kind":"query","type":"Ping","data":{"payload":1}}`+"\nx\n"), &out, &transport.Options{Lenient: true})
	if err != nil || result.Errors != 1 || !strings.Contains(out.String(), `"data":{"payload":1}`) {
		t.Errorf("%v, %d errors, %s", err, result.Errors, out.String())
	}
}

// What kernos pipe | head -1 does.
func TestServeTakesAReaderThatGoesAwayForNoError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), strings.NewReader(strings.Repeat(ping("1"), 1000)), w, nil); err != nil {
		t.Errorf("got %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestServeReturnsOtherErrors(t *testing.T) {
	full := errors.New("disk full")
	_, err := stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), strings.NewReader(ping("1")), brokenWriter{full}, nil)
	if w, ok := errors.AsType[*transport.WriteError](err); !ok || !errors.Is(w, full) {
		t.Errorf("the output: got %v", err)
	}
	dead := errors.New("the line is dead")
	var out strings.Builder
	_, err = stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), io.MultiReader(strings.NewReader(ping("1")), iotest.ErrReader(dead)), &out, nil)
	if !errors.Is(err, dead) || !strings.Contains(out.String(), `"causation":"1"`) {
		t.Errorf("the input: got %v and %q", err, out.String())
	}
	// A broken pipe at the reading end is the input's, and an error.
	if _, err := stdio.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), iotest.ErrReader(syscall.EPIPE), io.Discard, nil); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a broken input: got %v", err)
	}
}

func TestServeReturnsPromptlyWhileAReadBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		reason := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		var out strings.Builder
		done := make(chan error, 1)
		go func() {
			_, err := stdio.Serve(ctx, kerneltest.Around(t, nil, introspect.Module), in, &out, nil)
			done <- err
		}()
		if _, err := io.WriteString(feed, ping("1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		cancel(reason)
		if err := <-done; !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		if !strings.Contains(out.String(), `"causation":"1"`) {
			t.Errorf("what was read is not answered: %q", out.String())
		}
		_ = feed.Close() // the read that was given up returns
	})
}

// What has begun is finished and told, although nothing more is read.
func TestServeFinishesWhatHasBegunWhenItIsToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wait := kerneltest.Slow(kerneltest.Stubborn("Test.Wait", release))
		in, feed := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		done := make(chan error, 1)
		go func() {
			_, err := stdio.Serve(ctx, kerneltest.Around(t, nil, introspect.Module, wait), in, &out, nil)
			done <- err
		}()
		if _, err := io.WriteString(feed, ask("1", "Test.Wait", `"late"`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("it did not wait: %v", err)
		default:
		}
		close(release)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(out.String(), `"data":"late"`) {
			t.Errorf("got %q", out.String())
		}
		_ = feed.Close()
	})
}

// The answers aren't read any more: the pump must not wait for a reader of the
// rest of the input (goleak looks).
func TestPumpEndsWithItsConversation(t *testing.T) {
	for range 10 {
		read, write := io.Pipe()
		_ = read.Close()
		endless := iotest.DataErrReader(strings.NewReader(strings.Repeat(ask("1", "Ping", `{"payload":1}`)+"\n", 5000)))
		if _, err := stdio.Serve(context.Background(), kerneltest.Around(t, nil, introspect.Module), endless, write, nil); err == nil {
			t.Error("it wasn't noticed")
		}
	}
}
