package line

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/patience"
	"kernos/internal/visible"
	"kernos/message"
)

// send makes the call and shows what comes.
func (c *call) send(ctx context.Context, params json.RawMessage) error {
	show := c.Show
	show.Templates, show.Method, show.Params = server.UserTemplates(), c.method, params
	if c.method != nil {
		show.More = func(cursor string) string { return c.rest(ctx, params, cursor) }
	}
	out, err := terminal.NewPrinter(c.screen, show)
	if err != nil {
		return err
	}
	write := c.printer(ctx, out)
	ctx, cancel := c.limited(ctx)
	defer cancel()
	defer c.bar.Clear()
	var guidance *client.Guidance
	var failure *client.Item
	var unsuccessful error
	err = c.kernel.Stream(ctx, client.Request{Method: c.fullName(), Params: []any{params}, Metadata: c.metadata()}, func(item *client.Item) error {
		switch item.Type {
		case client.Progress:
			c.bar.Show(item.Message, item.Percentage)
		case client.Data:
			failure = nil
			c.bar.Clear()
			if err := c.waits(item); err != nil {
				return err
			}
			if streamed, err := c.stream(ctx, out, item.Data); streamed || err != nil {
				return c.server.Explain(err)
			}
			var err error
			if item.Data, err = c.resolved(ctx, item.Data); err != nil {
				return c.server.Explain(err)
			}
			c.remark(item.Data)
			if item.ContentType == c.module+"."+c.name {
				unsuccessful = c.outcome(item.Data)
			}
			return write(item)
		case client.Guide:
			guidance = item.Guidance
		case client.Error:
			failure = item
		}
		return nil
	})
	if err != nil {
		return ended(ctx, err)
	}
	c.bar.Clear()
	if failure != nil {
		return c.failed(failure, guidance, params)
	}
	return unsuccessful
}

// waits returns the error for a turn that waits for an approval, which a call such as Agent.Ask would wait for, too. It closes
// the connection before the call is over: a command isn't cancelled by that, and the turn continues after the decision.
func (c *call) waits(item *client.Item) error {
	if item.ContentType != "session.asked" || c.fullName() == "session_watch" {
		return nil
	}
	var asked struct{ Session, Name, Rule string }
	if err := server.Decode("Session.Asked", item.Data, &asked); err != nil {
		return err
	}
	c.close()
	return NeedsApproval(asked.Name, asked.Rule, asked.Session)
}

// NeedsApproval returns the error for a turn of a session that waits for an approval, where no person is asked for it.
func NeedsApproval(name, rule, session string) error {
	return &exit.Error{Status: exit.Forbidden, Cause: fmt.Errorf("%s needs an approval (%s), and the turn waits for it; kernos chat --resume %s asks about it", visible.Text(name), visible.Text(rule), visible.Text(session))}
}

// remark prints what a query notes about its answer, such as that it is only what the caller may see.
func (c *call) remark(data json.RawMessage) {
	route, ok := builtIn(c.fullName())
	if ok && c.changesNothing() && jsonscan.Member(jsonscan.Member(route.Syscall.Output.JSON(), "properties"), "note") != nil {
		c.screen.Remark(jsonscan.Unquote(jsonscan.Member(data, "note")))
	}
}

// How long the rest of a list is counted, and how many of its pages.
const (
	countTime = 2 * time.Second
	maxPages  = 10
)

// rest returns how many elements of a list follow a cursor, as far as they are soon counted, and what shows them.
func (c *call) rest(ctx context.Context, params json.RawMessage, cursor string) string {
	next := jsonvalue.Members(params).Set("cursor", jsonvalue.Marshal(cursor))
	words := c.program(append(c.calling(c.module, c.name), Arguments(c.method, next.Text())...)...)
	ctx, cancel := context.WithTimeout(ctx, patience.For(countTime))
	defer cancel()
	if limit := c.method.Find("limit"); limit != nil && limit.Maximum != nil {
		next = next.Set("limit", jsonvalue.Marshal(int(*limit.Maximum)))
	}
	count := 0
	for page := 0; page < maxPages && cursor != "" && !c.Watch; page++ {
		data, err := c.kernel.Client().Call(ctx, c.fullName(), next.Set("cursor", jsonvalue.Marshal(cursor)).Text())
		if err != nil {
			break
		}
		list, more := terminal.ListOf(data)
		count, cursor = count+len(list), more
	}
	switch {
	case count == 0:
		return "more: " + words
	case cursor != "":
		return fmt.Sprintf("more than %d more: %s", count, words)
	}
	return fmt.Sprintf("%d more: %s", count, words)
}

// limited returns a context that --timeout ends.
func (c *call) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Duration(c.Timeout)
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("no answer came in %v (--timeout), and the call is cancelled; what was asked for may have happened", limit)})
}

// ended returns why a call has ended: the limit of --timeout has an error of its own.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// metadata returns the metadata of the call's message. A call without a correlation is a workflow
// of its own, so that kernos graph and kernos replay find it. Servers that aren't kernels get no more than
// was given, and so do commands that only read, and what --watch repeats: looking doesn't fill the journal.
func (c *call) metadata() client.Metadata {
	m := c.Message
	if c.catalog == nil && c.command == nil || c.catalog != nil && !hasKernel(c.catalog) {
		if c.Verbose {
			c.screen.Note("the server isn't a kernel, so the message has no id")
		}
		return m
	}
	m.Repeated = c.again
	if (c.command != nil || c.Show.People || c.Watch) && c.changesNothing() && !c.Verbose {
		return m
	}
	m.ID = ulid.Make().String()
	m.Correlation = cmp.Or(m.Correlation, m.ID)
	if c.Verbose {
		c.screen.Note("message %s, correlation %s", m.ID, m.Correlation)
	}
	return m
}

// hasKernel reports whether a server is a kernel: it has the kernel's own module.
func hasKernel(c *client.Catalog) bool {
	return c.Module("kernel") != nil && c.Module("syscall") != nil
}

// maxResolved is how many bytes of an answer are fetched that aren't in it.
const maxResolved = 64 << 20

// resolved returns the data of an answer with what its references mean in their place. What isn't text
// stays a reference, and so does a pointer to what the server doesn't keep.
func (c *call) resolved(ctx context.Context, data json.RawMessage) (json.RawMessage, error) {
	if !client.MayRefer(data) {
		return data, nil // without references, the definitions aren't needed
	}
	fetched := 0
	return client.Resolve(data, c.answer(), func(name string, p message.BlobPointer) ([]byte, error) {
		if fetched > maxResolved {
			c.screen.Note("%sRef stays a reference: the answer has more than 64 MB", name)
			return nil, nil
		}
		content, err := c.server.Fetch(ctx, p)
		switch {
		case errors.Is(err, server.ErrElsewhere):
			return nil, nil
		case err == nil && !utf8.Valid(content):
			c.screen.Note("%s isn't text: %sRef points to its bytes, and kernos cat writes them", name, name)
			return nil, nil
		}
		fetched += len(content)
		return content, err
	})
}

// stream writes an answer that is one value, and is a reference since it is large, as it comes. It reports
// whether it did.
func (c *call) stream(ctx context.Context, out *terminal.Printer, data json.RawMessage) (bool, error) {
	p, whole := client.Whole(data)
	if !whole || !out.Streams() || c.answer() == nil || len(c.answer().Fields) > 0 || c.answer().Items != nil {
		return false, nil
	}
	blob, err := c.server.Blob(ctx, p)
	if errors.Is(err, server.ErrElsewhere) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(out.Stream(blob), blob.Close())
}

// answer describes the answer of the method; nil if it isn't known here.
func (c *call) answer() *client.Field {
	if route, ok := builtIn(c.fullName()); ok {
		return client.ReadField(route.Syscall.Output.JSON())
	}
	return nil
}
