package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// A State is who keeps the stream.
type State struct {
	Replicas int      // that the stream should have
	Leader   string   // the server that leads it; empty if there is none, and for one server alone
	Servers  []Server // that keep the stream
}

// A Server keeps a copy of the stream.
type Server struct {
	Name    string
	Current bool          // it has all that the leader has
	Offline bool          // the leader doesn't reach it
	Behind  uint64        // messages that it lacks
	Seen    time.Duration // since it was heard from
}

// State returns who keeps the stream, as its leader sees it.
func (s *Stream) State(ctx context.Context) (State, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return State{}, errorf(err, "The servers of the cluster don't say who keeps the stream %s", s.options.Name)
	}
	state := State{Replicas: max(1, info.Config.Replicas)}
	if c := info.Cluster; c != nil {
		state.Leader = c.Leader
		if c.Leader != "" {
			state.Servers = append(state.Servers, Server{Name: c.Leader, Current: true})
		}
		for _, r := range c.Replicas {
			state.Servers = append(state.Servers, Server{Name: r.Name, Current: r.Current, Offline: r.Offline, Behind: r.Lag, Seen: r.Active})
		}
	}
	return state, nil
}

// Warnings returns what the servers don't promise, one sentence each, with what to do.
func (s *Stream) Warnings(ctx context.Context) []string {
	state, err := s.State(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var warnings []string
	if state.Replicas < 3 {
		warnings = append(warnings, fmt.Sprintf("the stream %s is kept by %s: when a server is lost, "+
			"what was accepted is lost or can't be reached; give it 3 with: nats stream edit %s --replicas 3", s.options.Name, counted(state.Replicas), s.options.Name))
	}
	switch unsynced, known := s.unsynced(ctx); {
	case s.options.Synced:
	case !known:
		warnings = append(warnings, "it can't be seen whether the servers have sync_interval: always: if they don't, "+
			"what was accepted within the last 2 minutes can be lost when the machines of several servers lose power; "+
			"check jetstream {} in their configuration, or let this account import the service "+questions+" of the system account")
	default:
		for _, name := range unsynced {
			warnings = append(warnings, fmt.Sprintf("the server %s doesn't have sync_interval: always: "+
				"what was accepted can be lost when the machines of several servers lose power; add it to jetstream {} in its configuration", name))
		}
	}
	return warnings
}

func counted(servers int) string {
	if servers == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", servers)
}

// questions is the subject on which servers answer about themselves.
const questions = "$SYS.REQ.SERVER.PING.VARZ"

// unsynced returns the names of the servers that confirm messages before these are on the disk. Only the system account
// may ask, and accounts that import the service from it.
func (s *Stream) unsynced(ctx context.Context) (names []string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	inbox := s.nc.NewInbox()
	replies, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false
	}
	defer func() { _ = replies.Unsubscribe() }()
	if err := s.nc.PublishRequest(questions, inbox, nil); err != nil {
		return nil, false
	}
	for wait := ctx; ; {
		m, err := replies.NextMsgWithContext(wait)
		if err != nil || m.Header.Get("Status") == "503" {
			return names, known
		}
		if !known { // others answer at the same time
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(ctx, attempt/4)
			defer cancel()
		}
		if name, synced, ok := varz(m); ok {
			known = true
			if !synced {
				names = append(names, name)
			}
		}
	}
}

// varz reads the answer of a server about itself.
func varz(m *nats.Msg) (name string, synced, ok bool) {
	var v struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Data struct {
			JetStream struct {
				Config *struct {
					Always bool `json:"sync_always"`
				} `json:"config"`
			} `json:"jetstream"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &v); err != nil || v.Data.JetStream.Config == nil {
		return "", false, false
	}
	return v.Server.Name, v.Data.JetStream.Config.Always, true
}
