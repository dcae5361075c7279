package journal

import (
	"fmt"
	"strings"
	"time"
)

// Dropped is what retention has dropped, and what was never recorded.
type Dropped struct {
	Messages uint64 `json:"messages"` // messages that retention has dropped
	Bytes    uint64 `json:"bytes"`    // bytes of the dropped pages
	Seq      uint64 `json:"seq"`      // number of the last dropped message
	At       int64  `json:"at"`       // time of the last dropped message, in milliseconds since 1970
	Why      Limit  `json:"why"`      // the limit that dropped the last messages
	Losses
}

// A Limit is a limit of [Retention] that drops messages.
type Limit string

// The limits of retention.
const (
	ByAge   Limit = "age"
	ByBytes Limit = "bytes"
)

// Losses are messages that were not recorded, since the store did not take them.
type Losses struct {
	Lost      uint64 `json:"lost"`
	LostSince int64  `json:"lostSince"` // time of the first lost message, in milliseconds since 1970
	LostUntil int64  `json:"lostUntil"` // time of the last lost message
}

func (l *Losses) add(more Losses) {
	if more.Lost == 0 {
		return
	}
	if l.Lost == 0 {
		l.LostSince = more.LostSince
	}
	l.Lost += more.Lost
	l.LostUntil = more.LostUntil
}

// Dropped counts messages that were dropped, or never recorded.
func (j *Journal) Dropped() (Dropped, error) {
	if err := j.visible(); err != nil {
		return Dropped{}, err
	}
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	d := j.dropped
	j.mu.Lock()
	defer j.mu.Unlock()
	d.Losses.add(j.lost)
	return d, nil
}

// hint reports why a message may be missing.
func (d *Dropped) hint() string {
	var reasons []string
	if d.Messages > 0 {
		reasons = append(reasons, fmt.Sprintf("retention has dropped the %d messages that were recorded until %s", d.Messages, clock(d.At)))
	}
	if d.Lost > 0 {
		reasons = append(reasons, fmt.Sprintf("%d messages from %s to %s were not recorded because the store did not take them", d.Lost, clock(d.LostSince), clock(d.LostUntil)))
	}
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func (d *Dropped) add(o Dropped) {
	d.Messages += o.Messages
	d.Bytes += o.Bytes
	d.Seq, d.At, d.Why = o.Seq, o.At, o.Why
}
