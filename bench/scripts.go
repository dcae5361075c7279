package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"kernos/capability/script"
	kernosd "kernos/daemon"
	"kernos/message"
)

// handlerCode is a pure function of about 1 KB, half of it types.
const handlerCode = `
interface Line { description: string; quantity: number; unitPrice: number; discount?: number }
interface Invoice { customer: string; currency: "EUR" | "USD"; lines: Line[]; taxRate: number }
interface Totals { net: number; tax: number; gross: number; lines: number; text: string }

const round = (amount: number): number => Math.round(amount * 100) / 100;

/** The price of one line, after its discount. */
function price(line: Line): number {
  if (line.quantity < 0) throw new RangeError("a quantity can't be negative: " + line.description);
  return line.quantity * line.unitPrice * (1 - (line.discount ?? 0));
}

export const handler = (invoice: Invoice): Totals => {
  const net = round(invoice.lines.map(price).reduce((sum, p) => sum + p, 0));
  const tax = round(net * invoice.taxRate);
  const gross = round(net + tax);
  return { net, tax, gross, lines: invoice.lines.length, text: invoice.customer + ": " + gross.toFixed(2) + " " + invoice.currency };
};
`

const handlerInput = `{"customer":"Ada","currency":"EUR","taxRate":0.19,"lines":[{"description":"a","quantity":2,"unitPrice":9.99},{"description":"b","quantity":1,"unitPrice":100,"discount":0.1}]}`

// The same function, with a new context for each call in Node's vm, and with a new worker in Deno.
//
//go:embed scripts/vm.mjs
var nodeVM string

//go:embed scripts/worker.mjs
var denoWorker string

// scripts measures code that was registered at run time.
func scripts(out io.Writer, binary string) error {
	dir, err := os.MkdirTemp("", "kernos-scripts-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Fprintf(out, "\nScripts: a pure function of %d bytes, each call with a clean state\n", len(handlerCode))
	one, err := scriptRates(out, binary, filepath.Join(dir, "rates"))
	if err != nil {
		return err
	}
	for _, peer := range []struct{ name, command, code string }{{"Node's vm, a new context for each call", "node", nodeVM}, {"Deno, a new worker for each call", "deno", denoWorker}} {
		rate, err := peerRate(dir, peer.command, peer.code)
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", peer.name, err)
			continue
		}
		fmt.Fprintf(out, "%s, in its own process: %.0f/s; Kernos through one connection has %.1f times as many\n", peer.name, rate, one/rate)
	}
	return manyScripts(out, dir)
}

func register(name string) string {
	data, _ := json.Marshal(map[string]any{"name": name, "kind": "query", "code": handlerCode, "inputSchema": map[string]string{"type": "object"}, "outputSchema": map[string]string{"type": "object"}})
	return string(data)
}

func line(kind, typ, id, data string) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1735000000000}}`+"\n", kind, typ, data, id)
}

// scriptRates measures a daemon of its own, and returns the calls per second of one connection.
func scriptRates(out io.Writer, binary, home string) (one float64, err error) {
	d, err := startDaemon(binary, home)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return 0, err
	}
	unused, err := resident(d.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	took := make([]time.Duration, 8)
	for i := range took { // the first one compiles QuickJS
		if took[i], err = latency(conn, line("command", "Syscall.Register", strconv.Itoa(i), register("Bench.Invoice"+string(rune('A'+i)))), 1); err != nil {
			return 0, err
		}
	}
	first := took[0]
	slices.Sort(took)
	fmt.Fprintf(out, "registering: median %.1f ms, the first one in a home %.0f ms; resident memory before it: %.1f MB\n", took[len(took)/2].Seconds()*1e3, first.Seconds()*1e3, unused/1e6)

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "connections\tcalls/s\tCPU of the daemon/call\t")
	call := line("query", "Bench.InvoiceA", "c", handlerInput)
	for _, m := range []struct {
		name               string
		connections, calls int
		together           bool
	}{{"1, one call after the other", 1, 5000, false}, {"1, pipelined", 1, 20_000, true}, {"16, pipelined", 16, 2500, true}} {
		rate, cpu, err := callRate(d, call, m.connections, m.calls, m.together)
		if err != nil {
			return 0, err
		}
		if m.connections == 1 {
			one = rate // the pipelined one
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f µs\t\n", m.name, rate, cpu.Seconds()*1e6)
	}
	return one, w.Flush()
}

// callRate sends a line again and again over some connections.
func callRate(d *daemon, call []byte, connections, each int, together bool) (rate float64, cpu time.Duration, err error) {
	used, err := processTime(d.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	errs := make([]error, connections)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			conn, err := net.Dial("unix", d.socket)
			if err == nil && together {
				err = stream(conn, bytes.Repeat(call, each), each)
			} else if err == nil {
				_, err = latency(conn, call, each)
			}
			if err == nil {
				err = conn.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	wall := time.Since(begin)
	after, err := processTime(d.cmd.Process.Pid)
	n := connections * each
	return float64(n) / wall.Seconds(), (after - used) / time.Duration(n), errors.Join(append(errs, err)...)
}

// processTime is the processor time that a process has used.
func processTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks time.Duration
	for _, f := range fields[11:13] { // user, system; in hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond, nil
}

// peerRate runs a program that prints how many calls per second it makes.
func peerRate(dir, command, code string) (float64, error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return 0, fmt.Errorf("%s isn't installed", command)
	}
	file := filepath.Join(dir, command+".mjs")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		return 0, err
	}
	args := []string{file, handlerInput}
	if command == "deno" {
		args = append([]string{"run", "--allow-all"}, args...)
	}
	text, err := exec.Command(path, args...).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}

// manyScripts measures what a thousand handlers cost that are not called.
func manyScripts(out io.Writer, dir string) error {
	const count = 1000
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	for home, n := range map[string]int{empty: 0, full: count} {
		d, err := kernosd.Open(&kernosd.Options{Home: home})
		if err != nil {
			return err
		}
		if _, err := d.Call(context.Background(), message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: json.RawMessage(`{"key":"/a","value":1}`)}, nil); err != nil {
			return err
		}
		before := heap()
		for i := range n {
			ctx := script.FromFile(context.Background(), script.File{URI: "os://syscalls/bench", Folder: d.Home().Files()})
			m := message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: json.RawMessage(register(fmt.Sprintf("Bench.Invoice%d", i)))}
			if outcome, err := d.Call(ctx, m, nil); err != nil || outcome.Kind == message.KindError {
				return fmt.Errorf("register: %s, %w", outcome.Data, err)
			}
		}
		if n > 0 {
			fmt.Fprintf(out, "%d registered handlers, the last ones still ready to run: %.0f KB of the heap for each\n", n, float64(heap()-before)/float64(n)/1e3)
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	var opened [2]time.Duration
	var held [2]uint64
	for i, home := range []string{empty, full} {
		took := make([]time.Duration, 5)
		for j := range took {
			before, begin := heap(), time.Now()
			d, err := kernosd.Open(&kernosd.Options{Home: home})
			if err != nil {
				return err
			}
			took[j] = time.Since(begin)
			held[i] = heap() - before
			if err := d.Close(); err != nil {
				return err
			}
		}
		slices.Sort(took)
		opened[i] = took[len(took)/2]
	}
	fmt.Fprintf(out, "a start with %d handlers takes %.0f ms longer (%.0f instead of %.0f), and each holds %.1f KB until it is called\n",
		count, (opened[1]-opened[0]).Seconds()*1e3, opened[1].Seconds()*1e3, opened[0].Seconds()*1e3, float64(held[1]-held[0])/count/1e3)
	return nil
}

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
