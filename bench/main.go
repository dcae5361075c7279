// Command bench measures what a message costs, stage by stage and as a whole, beside
// two floors: a bare decode and encode of the same bytes with go-json-experiment, and
// copying them; JSON-RPC over WebSocket beside the package of go-ethereum; the Model Context Protocol
// beside its official SDK and mark3labs/mcp-go; answers of language models
// beside openai-go and anthropic-sdk-go; jobs beside River on PostgreSQL and asynq on Redis, where
// their servers are installed; and registered code beside Node's vm and Deno's workers, where node
// and deno (npm i deno) are in the PATH; a cluster of three nodes beside a client of NATS; and the web console in a browser. All of it
// comes from one run, so that ratios mean something on a noisy machine.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"text/tabwriter"
)

func main() {
	binary := flag.String("kernos", "", "the kernos binary to measure")
	small := flag.Int("small", 1_000_000, "how many small messages go through the pipe")
	large := flag.Int("large", 100_000, "how many large messages go through the pipe")
	recorded := flag.Int("recorded", 1_000_000, "how many messages are recorded and searched")
	only := flag.String("only", "", "one part of: stages, ping, durable, jobs, scripts, daemon, rpc, mcp, models, console, meaning, recorded, cluster")
	pending := flag.Int("pending", 1_000_000, "how many jobs wait while others are started")
	profile := flag.String("profile", "", "write a profile of this process to a file")
	echoAt := flag.String("echo", "", "be an echo on this socket, and nothing else")
	relayAt := flag.String("relay", "", "be a relay to a handler on this socket, and nothing else")
	handleAt := flag.String("handle", "", "be a handler of the kernel on this socket, and nothing else")
	provideAt := flag.String("provide", "", "be a provider of language models, and nothing else")
	rpcAs := flag.String("rpc", "", "be a server of JSON-RPC, kernos or geth, and nothing else")
	natsAs := flag.String("nats", "", "be a server of NATS, and nothing else: NAME,CLIENTS,ROUTES,DIR,PEER…")
	idle := flag.Int("idle", 10_000, "how many idle connections are opened")
	mcpAs := flag.String("mcp", "", "be a server of the Model Context Protocol, go-sdk or mark3labs, and nothing else")
	stdio := flag.Bool("stdio", false, "with -mcp: over standard input and output")
	flag.Parse()
	rpcServerFlag(*rpcAs)
	mcpPeerFlag(*mcpAs, *stdio)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // as kernos serve does; the servers above run as they come
	}
	for at, be := range map[string]func(string) error{*echoAt: echo, *relayAt: relay, *handleAt: handle, *provideAt: provide, *natsAs: natsServer} {
		if at != "" {
			fmt.Fprintln(os.Stderr, "bench:", be(at))
			os.Exit(1)
		}
	}
	if *binary == "" {
		fmt.Fprintln(os.Stderr, "bench: name the binary to measure: -kernos PATH")
		os.Exit(2)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(*binary, *only, *small, *large, *recorded, *idle, *pending); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(binary, only string, small, large, recorded, idle, pending int) error {
	fmt.Printf("%s, %d cores. A row is CPU time of one core, unless it says otherwise.\n", runtime.Version(), runtime.NumCPU())
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{"stages", func() error { return stagesAndWhole(binary, small, large) }},
		{"ping", func() error { return besidePing(os.Stdout, binary, small) }},
		{"durable", func() error { return durable(os.Stdout) }},
		{"jobs", func() error { return jobs(os.Stdout, binary, pending) }},
		{"scripts", func() error { return scripts(os.Stdout, binary) }},
		{"daemon", func() error { return besideEcho(os.Stdout, binary, small) }},
		{"rpc", func() error { return besideGeth(os.Stdout, idle) }},
		{"mcp", func() error { return mcps(os.Stdout, binary) }},
		{"models", func() error { return errors.Join(models(os.Stdout), sessions(os.Stdout, binary)) }},
		{"console", func() error { return consoles(os.Stdout, binary) }},
		{"meaning", func() error { return errors.Join(meaning(os.Stdout), nearest(os.Stdout), besideEmbedding(os.Stdout)) }},
		{"cluster", func() error { return clusters(os.Stdout, binary) }},
		{"recorded", func() error { return million(os.Stdout, binary, recorded) }},
	} {
		if only != "" && only != part.name {
			continue
		}
		if err := part.measure(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func stagesAndWhole(binary string, small, large int) error {
	sets := []struct {
		name  string
		count int
		lines [][]byte
	}{
		{"130 B", small, smallLines(1000)},
		{"8 KB", large, largeLines(1000)},
	}
	for _, set := range sets {
		fmt.Printf("\nPing of %s (%d bytes a line)\n", set.name, len(set.lines[0]))
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "stage\tns/message\tmessages/s\tallocs/message\t")
		for _, s := range stages(set.lines) {
			row(w, s.name, s.perMessage, fmt.Sprintf("%.1f", s.allocs))
		}
		if err := w.Flush(); err != nil {
			return err
		}

		floor := bareJSON(set.lines, set.count)
		copied := copyBytes(set.lines, set.count)
		pipe, err := pipeRun(binary, set.lines, set.count)
		if err != nil {
			return err
		}
		allocs, err := streamAllocs(set.lines, set.count)
		if err != nil {
			return err
		}
		w = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "whole of %d\tns/message\tmessages/s\tallocs/message\t× bare JSON\t\n", set.count)
		for _, r := range []struct {
			name string
			cost
		}{
			{"floor: copy", copied},
			{"floor: bare JSON, decode and encode", floor},
			{"kernos pipe --inline", cost{pipe.cpu, allocs}},
			{"kernos pipe --inline, by the clock", cost{pipe.wall, allocs}},
		} {
			row(w, r.name, r.ns, fmt.Sprintf("%.1f\t%.2f", r.allocs, r.ns/floor.ns))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Printf("resident memory of the pipe: %.1f MB\n", pipe.memory)
	}
	start, err := startTime(binary, smallLines(1)[0])
	if err != nil {
		return err
	}
	fmt.Printf("\none Ping in a fresh process: median %.1f ms of 21\n", start)
	return nil
}

// besidePing measures the pipe with other loads, beside Ping in the same run: in turns, and
// the median of what each makes of the Ping before it.
func besidePing(out io.Writer, binary string, count int) error {
	const rounds = 5
	fmt.Fprintf(out, "\nBeside Ping, by the clock\n")
	ping, gets := smallLines(count), getLines(count)
	plain, get, journaled := make([]piped, rounds), make([]piped, rounds), make([]piped, rounds)
	for i := range rounds {
		var err error
		if plain[i], err = pipeRun(binary, ping, count); err != nil {
			return err
		}
		if get[i], err = pipeRun(binary, gets, count+1); err != nil {
			return err
		}
		if journaled[i], err = pipeRun(binary, ping, count, "--journal"); err != nil {
			return err
		}
	}
	ratio := func(of []piped) float64 {
		all := make([]float64, rounds)
		for i := range all {
			all[i] = plain[i].wall / of[i].wall
		}
		slices.Sort(all)
		return all[rounds/2]
	}
	rate := func(of []piped) float64 {
		return 1e9 / slices.MinFunc(of, func(a, b piped) int { return cmp.Compare(a.wall, b.wall) }).wall
	}
	memory := func(of []piped) float64 {
		return slices.MaxFunc(of, func(a, b piped) int { return cmp.Compare(a.memory, b.memory) }).memory
	}
	fmt.Fprintf(out, "  Ping                     %8.0f messages/s\n", rate(plain))
	fmt.Fprintf(out, "  Memory.Get of a hot key  %8.0f messages/s   %.2f of Ping\n", rate(get), ratio(get))
	fmt.Fprintf(out, "  Ping, recorded           %8.0f messages/s   %.2f of Ping; resident at most %.0f MB, without %.0f MB\n",
		rate(journaled), ratio(journaled), memory(journaled), memory(plain))
	return nil
}

// getLines sets a key and then gets it again and again.
func getLines(n int) [][]byte {
	lines := [][]byte{[]byte(`{"kind":"command","type":"Memory.Set","data":{"key":"/hot","value":"xxxxxxxxxxxxxxxxxxxx"},"metadata":{"id":"set","timestamp":1735000000000}}`)}
	for i := range n {
		lines = append(lines, fmt.Appendf(nil, `{"kind":"query","type":"Memory.Get","data":{"key":"/hot"},"metadata":{"id":"msg-%07d","timestamp":1735000000000}}`, i))
	}
	return lines
}

func row(w *tabwriter.Writer, name string, ns float64, last string) {
	fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%s\t\n", name, ns, 1e9/ns, last)
}

// smallLines are Pings of 130 bytes.
func smallLines(n int) [][]byte {
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"query","type":"Ping","data":{"payload":"xxxxxxxxxxxxxxxxxxxx"},"metadata":{"id":"msg-%07d","timestamp":1735000000000}}`, i)
	}
	return lines
}

// largeLines are Pings of 8 KB: records with numbers, texts and lists, as syscalls
// send them.
func largeLines(n int) [][]byte {
	var payload bytes.Buffer
	payload.WriteByte('[')
	for i := 0; payload.Len() < 7_900; i++ {
		if i > 0 {
			payload.WriteByte(',')
		}
		fmt.Fprintf(&payload, `{"name":"record %d","count":%d,"ratio":%.6f,"tags":["alpha","beta","gamma"],`+
			`"text":"the kernel routes a message to its syscall and answers it once, naïvely said","ok":true,"none":null}`,
			i, i*7919, float64(i)/97)
	}
	payload.WriteByte(']')
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"kind":"query","type":"Ping","data":{"payload":%s},"metadata":{"id":"msg-%07d","timestamp":1735000000000}}`, payload.Bytes(), i)
	}
	return lines
}
