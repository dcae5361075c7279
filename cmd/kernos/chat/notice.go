package chat

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/backoff"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
)

// A notice is a notification, as Notify.List and the event Notify.Sent have it.
type notice struct{ ID, Text, Title string }

// line returns the notification in one line.
func (n *notice) line() string {
	text := strings.Join(strings.Fields(n.Text), " ")
	if n.Title != "" {
		text = n.Title + ": " + text
	}
	return visible.Text(text)
}

// mentioned is how many notifications are named that waited before the chat was opened.
const mentioned = 3

// A noticesMsg has notifications to be shown: those that have just come, or the latest of all that wait.
type noticesMsg struct {
	notices []notice
	waiting int // how many wait in all; 0 where they have just come
}

// notices reports the notifications that wait to be seen, and then each that comes, until the client ends. A kernel
// without notifications, or a token that may not list them, has none.
func (c *client) notices(ctx context.Context, report func(noticesMsg)) {
	known := make(map[string]bool)
	pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: 3 * time.Second, Jitter: true}
	for first := true; ; first = false {
		var last struct{ Records []struct{ Seq uint64 } }
		err := server.Read(ctx, c.call, message.KindQuery, "Message.List", map[string]any{"order": "desc", "limit": 1, "records": true}, &last)
		var waits struct {
			Notifications []notice
			Waiting       int
		}
		if err == nil {
			err = server.Read(ctx, c.call, message.KindQuery, "Notify.List", map[string]any{"limit": mentioned}, &waits)
		}
		if err == nil {
			if first && waits.Waiting > 0 {
				report(noticesMsg{waits.Notifications, waits.Waiting})
			}
			for _, n := range waits.Notifications {
				if !first && !known[n.ID] { // it came while there was no connection
					report(noticesMsg{notices: []notice{n}})
				}
				known[n.ID] = true
			}
			after := uint64(0)
			if len(last.Records) > 0 {
				after = last.Records[0].Seq
			}
			_, err = server.Send(ctx, c.over(c.watches), message.KindQuery, "Message.Watch", map[string]any{"type": "Notify.Sent", "after": after}, func(data json.RawMessage) error {
				pause.Reset()
				var event struct{ Message struct{ Data notice } }
				if err := json.Unmarshal(data, &event); err != nil {
					return err
				}
				if n := event.Message.Data; n.ID != "" && !known[n.ID] {
					known[n.ID] = true
					report(noticesMsg{notices: []notice{n}})
				}
				return nil
			})
		}
		if err != nil && exit.Status(err) != exit.Unreachable || !pause.Wait(c.ctx.Done()) {
			return
		}
	}
}

// notice follows the notifications until the chat ends.
func (m *screen) notice() tea.Msg {
	m.client.notices(m.ctx, func(n noticesMsg) { m.post(n) })
	return nil
}

// noticed shows notifications.
func (m *screen) noticed(msg noticesMsg) {
	var lines []string
	style := terminal.Bold
	if msg.waiting > 0 {
		style = terminal.Faint
		lines = append(lines, terminal.Count(msg.waiting, "notification waits", "notifications wait")+" (kernos notify list, kernos notify seen --all):")
	}
	for _, n := range msg.notices {
		head := "Notification: "
		if msg.waiting > 0 {
			head = "  "
		}
		lines = append(lines, head+terminal.Hang(n.line(), len(head), m.out.Width))
	}
	if more := msg.waiting - len(msg.notices); more > 0 {
		lines = append(lines, "  … and "+terminal.Count(more, "earlier one", "earlier ones"))
	}
	for i, l := range lines {
		lines[i] = m.out.Paint(style, l)
	}
	m.say(strings.Split(strings.Join(lines, "\n"), "\n")...)
}
