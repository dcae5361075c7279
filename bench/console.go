package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"kernos/internal/testkit/browser"
)

const (
	consoleRounds  = 11
	consoleRows    = 100_000 // messages that a page keeps
	consoleRate    = 10_000  // messages per second
	consoleGraph   = 5_000   // messages of one workflow
	consoleTimeout = 5 * time.Minute
)

// consoles measures the web console in the browser that make npm installs.
func consoles(out io.Writer, binary string) (err error) {
	dir, err := os.MkdirTemp("", "kernos-console-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	home := filepath.Join(dir, "home")
	d, err := startDaemon(binary, home, "--addr", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	parent, stop, err := browser.Start()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(out, "\nThe web console, in the browser; times are by the clock, medians of %d, and processor time is that of the page's main thread\n", consoleRounds)
	link := func() (string, error) {
		text, err := d.run(binary, home, "console", "--print")
		return strings.TrimSpace(text), err
	}
	if err := firstView(out, parent, link); err != nil {
		return fmt.Errorf("first view: %w", err)
	}
	if err := graphDrawn(out, parent, d, link); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	return arriving(out, parent, d, link)
}

// A tab is a page of the browser in a profile of its own.
type tab struct {
	ctx   context.Context
	close func()
}

// openTab opens a page that runs a script before those of the page itself.
func openTab(parent context.Context, script string) (*tab, error) {
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	ctx, late := context.WithTimeout(ctx, consoleTimeout)
	t := &tab{ctx, func() { _ = chromedp.Cancel(ctx); late(); cancel() }}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900))
	if err == nil {
		_, err = chromedp.Call(ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// enter signs the page in.
func (t *tab) enter(link func() (string, error)) error {
	address, err := link()
	if err != nil {
		return err
	}
	return chromedp.Do(t.ctx, chromedp.Navigate(address))
}

// wait waits until an expression is true in the page.
func (t *tab) wait(expression string) error {
	_, err := chromedp.Run(t.ctx, chromedp.Poll[bool]("!!("+expression+")"))
	return err
}

// number is the value of an expression in the page.
func (t *tab) number(expression string) (float64, error) {
	return chromedp.Run(t.ctx, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
}

// metric is a figure of the browser about the page; TaskDuration is in seconds of processor time.
func (t *tab) metric(name string) (float64, error) {
	all, err := chromedp.Call(t.ctx, performance.GetMetrics, struct{}{})
	if err != nil {
		return 0, err
	}
	for _, m := range all.Metrics {
		if m.Name == name {
			return m.Value, nil
		}
	}
	return 0, fmt.Errorf("the browser doesn't measure %s", name)
}

// painted is a promise of the next frame's end.
const painted = `const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));`

// firstView measures how long after following a link, with nothing in the browser's cache, the
// methods are shown.
func firstView(out io.Writer, parent context.Context, link func() (string, error)) error {
	const shown = painted + `
		const look = async () => {
			while (!document.querySelector(".methods a")) await painted();
			await painted();
			window.shownAfter = performance.now();
		};
		look();`
	var took, cpu []float64
	for range consoleRounds {
		t, err := openTab(parent, shown)
		if err != nil {
			return err
		}
		err = t.enter(link)
		if err == nil {
			err = t.wait("window.shownAfter")
		}
		var after, work float64
		if err == nil {
			after, err = t.number("window.shownAfter")
		}
		if err == nil {
			work, err = t.metric("TaskDuration")
		}
		t.close()
		if err != nil {
			return err
		}
		took, cpu = append(took, after), append(cpu, work*1000)
	}
	fmt.Fprintf(out, "  first view, from the link on, nothing cached        %6.0f ms   %.0f ms of processor time\n", medianFloat(took), medianFloat(cpu))
	return nil
}

// arriving measures a page that shows messages as they come, and then typing into its filter.
func arriving(out io.Writer, parent context.Context, d *daemon, link func() (string, error)) error {
	// How old the last message in sight is, at each frame; messages have the time at which they were sent.
	const ages = `window.ages = [];
		const look = () => {
			const last = [...document.querySelectorAll(".message .clip")].at(-1)?.textContent;
			const sent = Number(/"sent":(\d+)/.exec(last)?.[1]);
			if (window.looking && sent) window.ages.push(Date.now() - sent);
			requestAnimationFrame(look);
		};
		look();`
	t, err := openTab(parent, ages)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.enter(link); err != nil {
		return err
	}
	if err := errors.Join(t.wait(`document.querySelector(".methods a")`), chromedp.Do(t.ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "/messages"; undefined`))); err != nil {
		return err
	}
	if err := t.wait(`document.querySelector(".message")`); err != nil {
		return err
	}
	var heap, nodes [2]float64
	program, server := chromedp.FromContext(parent).Browser.Process().Pid, d.cmd.Process.Pid
	for i := range 2 { // the first time fills the page, and the second one shows whether it grows
		cpu, err := t.metric("TaskDuration")
		if err != nil {
			return err
		}
		if _, err := t.number(`window.ages = [], window.looking = true, 0`); err != nil {
			return err
		}
		browsed, served := treeTime(program), cpuOf(server)
		took, err := sendEvents(d.socket, i*consoleRows, consoleRows)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := t.wait(fmt.Sprintf(`[...document.querySelectorAll(".message .clip")].at(-1)?.textContent.includes('"n":%d,')`, (i+1)*consoleRows-1)); err != nil {
			return err
		}
		late := time.Since(begin)
		after, err := t.metric("TaskDuration")
		if err != nil {
			return err
		}
		browsed, served = treeTime(program)-browsed, cpuOf(server)-served
		age, err := t.number(`window.looking = false, window.ages.sort((a, b) => a - b)[Math.floor(window.ages.length / 2)]`)
		if err != nil {
			return err
		}
		oldest, err := t.number(`window.ages.at(-1)`)
		if err != nil {
			return err
		}
		gaps, err := t.number(`document.querySelectorAll(".gap").length`)
		if err != nil {
			return err
		}
		if _, err := chromedp.Call(t.ctx, heapprofiler.CollectGarbage, struct{}{}); err != nil {
			return err
		}
		if heap[i], err = t.metric("JSHeapUsedSize"); err != nil {
			return err
		}
		if nodes[i], err = t.metric("Nodes"); err != nil {
			return err
		}
		each := func(cpu time.Duration) float64 { return float64(cpu.Microseconds()) / consoleRows }
		fmt.Fprintf(out, "  %d messages at %.0f per second: the last one is shown %d ms after it was sent, others %.0f ms (at most %.0f); %.0f gaps\n",
			consoleRows, consoleRows/took.Seconds(), late.Milliseconds(), age, oldest, gaps)
		fmt.Fprintf(out, "    each takes %.0f µs of processor time in the page, %.0f in the whole browser, %.0f in the kernel\n",
			1e6*(after-cpu)/consoleRows, each(browsed), each(served))
	}
	fmt.Fprintf(out, "  with %d rows, and after %d more: heap %.0f and %.0f MB, %.0f and %.0f nodes\n", consoleRows, consoleRows, heap[0]/1e6, heap[1]/1e6, nodes[0], nodes[1])
	return filtering(out, t)
}

// treeTime is the processor time of a process and of those that it has started.
func treeTime(root int) (sum time.Duration) {
	parents := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		var pid, parent int
		var state string
		_, rest, _ := strings.Cut(string(text), ") ") // behind the name
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil {
			_, _ = fmt.Sscan(string(text), &pid)
			parents[pid] = parent
		}
	}
	for pid := range parents {
		for at := pid; at > 0; at = parents[at] {
			if at == root {
				sum += cpuOf(pid)
			}
		}
	}
	return sum
}

// sendEvents sends messages that have the time in them, at consoleRate.
func sendEvents(socket string, first, count int) (time.Duration, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	w := bufio.NewWriterSize(conn, 1<<20)
	begin := time.Now()
	for i := 0; i < count; {
		due := min(count, int(time.Since(begin).Seconds()*consoleRate)+1)
		for ; i < due; i++ {
			now := time.Now().UnixMilli()
			fmt.Fprintf(w, `{"kind":"event","type":"Bench.Ticked","data":{"n":%d,"sent":%d,"text":"twenty bytes of text"},"metadata":{"id":"tick-%d","timestamp":%d}}`+"\n", first+i, now, first+i, now)
		}
		if err := w.Flush(); err != nil {
			return 0, err
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin), nil
}

// filtering measures how long after a key was pressed in the filter the letter is painted.
func filtering(out io.Writer, t *tab) error {
	if _, err := t.number(painted + `
		window.keys = [];
		const filter = document.querySelector("[data-testid=filter]");
		filter.focus();
		filter.addEventListener("keydown", async (event) => {
			await painted();
			window.keys.push({ took: performance.now() - event.timeStamp, rows: document.querySelector(".foot").textContent.includes("` + fmt.Sprintf("%d,000 shown", consoleRows/1000) + `") });
		}, true);
		0`); err != nil {
		return err
	}
	before, err := t.metric("TaskDuration")
	if err != nil {
		return err
	}
	const typed = "kind:error ab"
	for i, letter := range typed {
		if err := errors.Join(chromedp.Do(t.ctx, chromedp.KeyEvent(string(letter))), t.wait(fmt.Sprintf("window.keys.length > %d", i))); err != nil {
			return err
		}
	}
	after, err := t.metric("TaskDuration")
	if err != nil {
		return err
	}
	took, err := chromedp.Run(t.ctx, chromedp.Evaluate[[]float64](`window.keys.filter((key) => key.rows).map((key) => key.took)`))
	if err != nil {
		return err
	}
	if len(took) == 0 {
		return errors.New("no key was pressed with all rows loaded")
	}
	fmt.Fprintf(out, "  a key in the filter, with %d rows                 %6.0f ms   %.0f ms of processor time (median of %d, at most %.0f)\n",
		consoleRows, medianFloat(took), 1000*(after-before)/float64(len(typed)), len(took), slices.Max(took))
	return nil
}

// graphDrawn measures how long a large workflow takes to be drawn.
func graphDrawn(out io.Writer, parent context.Context, d *daemon, link func() (string, error)) error {
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var lines [][]byte
	for i := range consoleGraph / 2 { // each with its reply, in branches of ten
		cause := fmt.Sprintf(`,"causation":"g%d"`, i-1)
		if i == 0 {
			cause = ""
		} else if i%10 == 0 {
			cause = `,"causation":"g0"`
		}
		lines = append(lines, fmt.Appendf(nil, `{"kind":"query","type":%s,"metadata":{"id":"g%d","correlation":"large","timestamp":%d%s}}`+"\n", []string{`"Memory.List","data":{}`, `"Ping","data":{"payload":1}`}[i%2], i, 1735000000000+i, cause))
	}
	if err := askEach(conn, lines); err != nil {
		return err
	}
	t, err := openTab(parent, "")
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.enter(link); err != nil {
		return err
	}
	if err := t.wait(`document.querySelector(".methods a")`); err != nil {
		return err
	}
	var opened, drawn, cpu []float64
	for range consoleRounds {
		if err := errors.Join(chromedp.Do(t.ctx, chromedp.Evaluate[chromedp.Void](`location.hash = "/workflows"; undefined`)), t.wait(`document.querySelector("[data-testid=recent]")`)); err != nil {
			return err
		}
		took, err := t.number(`(async () => {` + painted + `
			const began = performance.now();
			location.hash = "/workflows/large";
			while (!document.querySelector(".node")) await painted();
			await painted();
			return performance.now() - began;
		})()`)
		if err != nil {
			return err
		}
		opened = append(opened, took)
		before, err := t.metric("TaskDuration")
		if err != nil {
			return err
		}
		took, err = t.number(`(async () => {` + painted + `
			document.querySelector("[data-testid=as-tree]").click();
			await painted();
			const began = performance.now();
			document.querySelector("[data-testid=as-graph]").click();
			while (!document.querySelector(".node")) await painted();
			await painted();
			return performance.now() - began;
		})()`)
		if err != nil {
			return err
		}
		after, err := t.metric("TaskDuration")
		if err != nil {
			return err
		}
		drawn, cpu = append(drawn, took), append(cpu, 1000*(after-before))
	}
	count, err := t.number(`Number(document.querySelector("[data-testid=workflows]").dataset.messages)`)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  a graph of %.0f messages, drawn                      %6.0f ms   %.0f ms of processor time, with a tree before it; asked for and drawn %.0f ms\n", count, medianFloat(drawn), medianFloat(cpu), medianFloat(opened))
	return nil
}
