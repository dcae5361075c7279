package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Need is something that waits for a person.
type Need struct {
	Kind    string `json:"kind" jsonschema:"enum=approval,enum=job,enum=schedule,enum=notification" jsonschema_description:"approval: a call of a session waits for a decision; job: a job has failed for good; schedule: one is paused, or has missed some of its times in the last week; notification: one that isn't seen."`
	ID      string `json:"id" jsonschema_description:"The session, the job, the schedule or the notification."`
	Since   int64  `json:"since" jsonschema_description:"Since when, in milliseconds since 1970."`
	What    string `json:"what" jsonschema_description:"What it is about, in a line."`
	Command string `json:"command" jsonschema_description:"The command line that deals with it, or shows it."`
}

type attentionOutput struct {
	Needs []Need `json:"needs" jsonschema_description:"What needs a person: approvals first, then jobs, schedules and notifications, each the latest first; at most 50 of each kind."`
	kernel.Narrowed
}

var attention = kernel.DefineQuery[nothing, attentionOutput](kernel.Definition{
	Type:    "Kernel.Attention",
	Summary: "List what needs a person: approvals that wait, jobs that have failed, schedules that were missed, and unseen notifications.",
	Presentation: kernel.Presentation{
		Title: "List what needs attention",
		Words: "what needs me, what should i look at, pending, to do, inbox, waiting for me, missed, to decide, anything for me to do, " +
			"does anything need my approval, what went wrong while i was away, which approvals wait, what is waiting for my decision, " +
			"do i have to do something, what did i miss",
		Columns: []string{"SINCE {since:clock}", "WHAT {what}", "COMMAND {command}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

// Limits of what a person is shown.
const (
	maxNeeds   = 50 // of a kind
	maxWhat    = 200
	missedSpan = 7 * 24 * time.Hour // how long a missed time is worth a look
)

// attention asks the syscalls that list each kind, with the rights of the caller. What the caller may not list, or the
// kernel doesn't have, is left out.
func (o Options) attention(ctx context.Context, _ nothing) (attentionOutput, error) {
	out := attentionOutput{Needs: []Need{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAll)}
	for _, source := range []struct {
		lists message.Type
		of    map[string]any
		needs func(reply []byte) ([]Need, error)
	}{
		{"Session.List", map[string]any{"status": "waiting", "limit": maxNeeds}, approvals},
		{"Job.List", map[string]any{"status": "failed", "limit": 10 * maxNeeds}, failedJobs},
		{"Job.List", map[string]any{"schedule": true, "limit": 10 * maxNeeds}, schedules},
		{"Notify.List", map[string]any{"limit": maxNeeds}, notifications},
	} {
		reply, err := kernel.InvokeAs(ctx, kernel.NewCall{Type: source.lists, Data: jsonvalue.Marshal(source.of), Event: func(message.Message) {}})
		if e, _ := message.ErrorOf(err); err != nil && (e.Code == 403 || e.Code == 404 || e.Code == 503) {
			continue
		}
		var needs []Need
		if err == nil {
			needs, err = source.needs(reply)
		}
		if err != nil {
			return out, err
		}
		slices.SortStableFunc(needs, func(a, b Need) int { return cmp.Compare(b.Since, a.Since) })
		out.Needs = append(out.Needs, needs[:min(len(needs), maxNeeds)]...)
	}
	return out, nil
}

func approvals(reply []byte) (needs []Need, err error) {
	var list struct {
		Sessions []struct {
			Session, Title string
			Updated        int64
			Asks           []struct{ Call, Name string }
		}
	}
	err = json.Unmarshal(reply, &list, json.MatchCaseInsensitiveNames(true))
	for _, s := range list.Sessions {
		for _, a := range s.Asks {
			needs = append(needs, Need{"approval", s.Session, s.Updated, about("%s, in %s", a.Name, cmp.Or(s.Title, "a session without a title")), "kernos chat --resume " + s.Session})
		}
	}
	return needs, err
}

// job is what Job.List replies of one.
type job struct {
	JobID      string
	Name       string
	Ended      int64
	Created    int64
	ScheduleID string
	Schedule   string
	Paused     string
	Missed     int
	MissedAt   int64
	Error      struct {
		Code    int
		Message string
	}
}

// failedJobs returns the jobs that have failed, but of the runs of one schedule only the latest. A canceled job was dealt with.
func failedJobs(reply []byte) (needs []Need, err error) {
	var list struct{ Jobs []job }
	err = json.Unmarshal(reply, &list, json.MatchCaseInsensitiveNames(true))
	runs := make(map[string]bool)
	for _, j := range list.Jobs {
		if j.Error.Code == 499 || runs[j.ScheduleID] {
			continue
		}
		runs[j.ScheduleID] = j.ScheduleID != ""
		needs = append(needs, Need{"job", j.JobID, j.Ended, about("%s: %d %s", cmp.Or(j.Name, "steps"), j.Error.Code, j.Error.Message), "kernos job retry " + j.JobID})
	}
	return needs, err
}

func schedules(reply []byte) (needs []Need, err error) {
	var list struct{ Jobs []job }
	err = json.Unmarshal(reply, &list, json.MatchCaseInsensitiveNames(true))
	for _, j := range list.Jobs {
		what := cmp.Or(j.Name, "steps") + ", " + j.Schedule
		switch {
		case j.Paused != "":
			needs = append(needs, Need{"schedule", j.JobID, cmp.Or(j.MissedAt, j.Created), about("%s: paused: %s", what, j.Paused), "kernos job resume " + j.JobID})
		case time.Since(time.UnixMilli(j.MissedAt)) < missedSpan:
			needs = append(needs, Need{"schedule", j.JobID, j.MissedAt, about("%s: %d of its times were missed", what, j.Missed), "kernos job status " + j.JobID})
		}
	}
	return needs, err
}

func notifications(reply []byte) (needs []Need, err error) {
	var list struct {
		Notifications []struct {
			ID, Text, Title, From string
			At                    int64
		}
	}
	err = json.Unmarshal(reply, &list, json.MatchCaseInsensitiveNames(true))
	for _, n := range list.Notifications {
		text := n.Text
		if n.Title != "" {
			text = n.Title + ": " + text
		}
		needs = append(needs, Need{"notification", n.ID, n.At, about("%s (from %s)", text, n.From), "kernos notify seen " + n.ID})
	}
	return needs, err
}

func about(format string, args ...any) string {
	return message.Clip(fmt.Sprintf(format, args...), maxWhat)
}
