package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	kernosd "kernos/daemon"
	"kernos/message"
	"kernos/store"
)

// million measures what can be found among a million messages. They go through the real
// binary: half of them are requests, half are replies, in workflows of twenty messages,
// one workflow of ten thousand is in the middle, and another one is spread over all. Their texts are glosses of WordNet.
func million(out io.Writer, binary string, messages int) error {
	home, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	glosses, err := wordNetGlosses()
	if err != nil {
		return err
	}
	const asked = 1000
	questions, glosses := glosses[:asked], glosses[asked:]
	input, raw, err := workflows(home, messages/2, glosses)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d messages recorded\n", messages)
	begin := time.Now()
	memory, err := pipeFile(binary, home, input, "--journal")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  recording, by the clock: %.0f messages a second; resident at most %.0f MB\n", float64(messages)/time.Since(begin).Seconds(), memory)

	begin = time.Now()
	d, err := kernosd.Open(&kernosd.Options{Home: home})
	if err != nil {
		return err
	}
	if _, err := call(d, "Message.Get", `{"id":"m-1"}`); err != nil {
		return errors.Join(err, d.Close())
	}
	fmt.Fprintf(out, "  opening the home, and the first Message.Get: %v\n", time.Since(begin).Round(time.Millisecond))
	if err := errors.Join(askMillion(out, d, messages, questions), d.Close()); err != nil {
		return err
	}
	size, err := diskSize(filepath.Join(home, "origins", store.DefaultOrigin.Folder(), "store"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  on disk: %.0f bytes a message, words, names and vectors included; the messages themselves have %.0f\n", float64(size)/float64(messages), raw)
	one := filepath.Join(home, "one.ndjson")
	if err := os.WriteFile(one, []byte(`{"kind":"query","type":"Message.Search","data":{"query":"topic7 zebra"},"metadata":{"id":"q","timestamp":1}}`+"\n"), 0o600); err != nil {
		return err
	}
	memory, err = pipeFile(binary, home, one)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  a process that opens it and searches: resident at most %.0f MB\n", memory)
	return nil
}

// askMillion measures queries among recorded messages.
func askMillion(out io.Writer, d *kernosd.Daemon, messages int, questions []string) error {
	begin := time.Now()
	for _, wait := range []struct{ what, field string }{{"all words are indexed", `"behind"`}, {"all messages are embedded", `"unembedded"`}} {
		for {
			reply, err := call(d, "Message.Search", `{"query":"zebra","limit":1}`)
			if err != nil {
				return err
			}
			if !bytes.Contains(reply, []byte(wait.field)) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		fmt.Fprintf(out, "  until %s: %v more\n", wait.what, time.Since(begin).Round(10*time.Millisecond))
	}
	question := func(i int, rest string) string {
		text, _ := json.Marshal(questions[i%len(questions)])
		return fmt.Sprintf(`{"query":%s%s}`, text, rest)
	}
	for _, q := range []struct {
		name  string
		kind  message.Type
		data  func(i int) string
		times int
	}{
		{"Message.Get", "Message.Get", func(int) string { return fmt.Sprintf(`{"id":"m-%d"}`, rand.IntN(messages/2)) }, 1000},
		{"Message.List of 100 by correlation", "Message.List", func(int) string { return `{"correlation":"large","limit":100}` }, 100},
		{"Message.List of a workflow of 20", "Message.List", func(int) string { return fmt.Sprintf(`{"correlation":"flow-%d"}`, rand.IntN(messages/40)) }, 300},
		{"Message.List of 100 errors", "Message.List", func(int) string { return `{"code":404,"limit":100}` }, 100},
		{"Message.Graph of 10,000 in a row", "Message.Graph", func(int) string { return `{"correlationId":"row","format":"mermaid"}` }, 10},
		{"Message.Graph of 10,000, spread", "Message.Graph", func(int) string { return `{"correlationId":"large","format":"mermaid"}` }, 10},
		{"Search by words, two that few have", "Message.Search", func(i int) string { return fmt.Sprintf(`{"query":"topic%d zebra","mode":"words"}`, i) }, 50},
		{"Search by words, two that all have", "Message.Search", func(int) string { return `{"query":"payload note","mode":"words"}` }, 10},
		{"Search by both, two words that few have", "Message.Search", func(i int) string { return fmt.Sprintf(`{"query":"topic%d zebra"}`, i) }, 50},
		{"Search by both, two words that all have", "Message.Search", func(int) string { return `{"query":"payload note"}` }, 10},
		{"Search by words, a sentence", "Message.Search", func(i int) string { return question(i, `,"mode":"words"`) }, 100},
		{"Search by meaning, a sentence", "Message.Search", func(i int) string { return question(i, `,"mode":"meaning"`) }, 100},
		{"Search by both, a sentence", "Message.Search", func(i int) string { return question(i, "") }, 100},
		{"… of one type in a hundred", "Message.Search", func(i int) string { return question(i, `,"type":"Echo"`) }, 50},
		{"… of one kind in two", "Message.Search", func(i int) string { return question(i, `,"kind":"reply"`) }, 50},
		{"… of a workflow of 10,000", "Message.Search", func(i int) string { return question(i, `,"correlation":"large"`) }, 50},
		{"… of errors", "Message.Search", func(i int) string { return question(i, `,"kind":"error"`) }, 50},
	} {
		var took []time.Duration
		used := cpuTime()
		for i := range q.times {
			data := q.data(i)
			begin := time.Now()
			if _, err := call(d, q.kind, data); err != nil {
				return fmt.Errorf("%s %s: %w", q.kind, data, err)
			}
			took = append(took, time.Since(begin))
		}
		used = (cpuTime() - used) / time.Duration(q.times)
		slices.Sort(took)
		fmt.Fprintf(out, "  %-42s median %9v, worst %9v of %4d; CPU time %9v\n", q.name, took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond), len(took), used.Round(time.Microsecond))
	}
	return nil
}

func call(d *kernosd.Daemon, t message.Type, data string) (json.RawMessage, error) {
	answer, err := d.Call(context.Background(), message.Message{Kind: message.KindQuery, Type: t, Data: json.RawMessage(data)}, nil)
	if err == nil && answer.Kind != message.KindReply {
		err = fmt.Errorf("%s", answer.Data)
	}
	return answer.Data, err
}

// workflows writes requests to a file, and returns how long a message is in the mean.
func workflows(dir string, count int, glosses []string) (name string, mean float64, err error) {
	f, err := os.Create(filepath.Join(dir, "input.ndjson"))
	if err != nil {
		return "", 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	spread := count / 5000 // ten thousand messages: as many requests and replies
	size := 0
	for i := range count {
		correlation := fmt.Sprintf("flow-%d", i/10)
		if i%spread == 0 {
			correlation = "large"
		} else if i >= count/2 && i < count/2+5051 {
			correlation = "row"
		}
		text, err := json.Marshal(fmt.Sprintf("topic%d of %s; %s", i%997, glosses[i%len(glosses)], glosses[i*7919%len(glosses)]))
		if err != nil {
			return "", 0, err
		}
		kind, syscall, payload := "query", "Ping", fmt.Sprintf(`{"payload":{"note":%s,"n":%d}}`, text, i)
		if i%100 == 99 {
			syscall, payload = "Absent.Type", `{"zebra":1}`
		} else if i%100 == 70 {
			kind, syscall, payload = "command", "Echo", fmt.Sprintf(`{"message":%s}`, text)
		} else if i%50 == 0 {
			payload = fmt.Sprintf(`{"payload":"a zebra, a note on topic%d"}`, i%997)
		}
		n, _ := fmt.Fprintf(w, `{"kind":"%s","type":"%s","data":%s,"metadata":{"id":"m-%d","timestamp":%d,"correlation":"%s","causation":"m-%d"}}`+"\n",
			kind, syscall, payload, i, 1735000000000+i, correlation, max(0, i-1))
		size += 2 * n // the reply is about as long
	}
	if err := w.Flush(); err != nil {
		return "", 0, err
	}
	return f.Name(), float64(size) / float64(2*count), f.Close()
}

// pipeFile sends a file through the binary and returns the most memory that it had, in MB.
func pipeFile(binary, home, input string, flags ...string) (float64, error) {
	in, err := os.Open(input)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	cmd := exec.Command(binary, append([]string{"pipe", "--inline"}, flags...)...)
	cmd.Env = append(os.Environ(), "KERNOS_HOME="+home)
	cmd.Stdin, cmd.Stderr = in, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	memory := 0.0
	for {
		select {
		case err := <-ended:
			var status *exec.ExitError
			if err != nil && !(errors.As(err, &status) && status.ExitCode() == 1) {
				return 0, err
			}
			return memory, nil
		case <-time.After(5 * time.Millisecond):
			memory = max(memory, peak(cmd.Process.Pid))
		}
	}
}

func diskSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
