package kernel

import (
	"slices"
	"strings"

	"kernos/message"
)

// Offer notes that the peer serves a type, until withdraw is called: others may wait for
// what it says. A peer that rests has failed, and gets requests only if nobody else is there;
// rests must not wait for anything.
func (p *Peer) Offer(t message.Type, rests func() bool) (withdraw func()) {
	i := &p.s.inquiries
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.offers == nil {
		i.offers = make(map[message.Type]func() bool)
	}
	i.offers[t] = rests
	i.offered.Store(int64(len(i.offers)))
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.offers, t)
		i.offered.Store(int64(len(i.offers)))
	}
}

// A Service is a type that peers serve.
type Service struct {
	Type        message.Type
	Connections int // that serve it
	Resting     int // of those
	Waiting     int // requests that they were sent and have not answered
}

// Services returns what peers serve at the moment, by type.
func (k *Kernel) Services() []Service {
	all := make(map[message.Type]*Service)
	k.sessions.mu.Lock()
	defer k.sessions.mu.Unlock()
	for one := range k.sessions.all {
		one.inquiries.count(all)
	}
	sorted := make([]Service, 0, len(all))
	for _, s := range all {
		sorted = append(sorted, *s)
	}
	slices.SortFunc(sorted, func(a, b Service) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return sorted
}

// count adds what the peer serves, and has to answer.
func (i *inquiries) count(all map[message.Type]*Service) {
	if !i.serves() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	service := func(t message.Type) *Service {
		if all[t] == nil {
			all[t] = &Service{Type: t}
		}
		return all[t]
	}
	for t, rests := range i.offers {
		s := service(t)
		s.Connections++
		if rests() {
			s.Resting++
		}
	}
	for _, q := range i.all {
		service(q.call.syscall.Type).Waiting++
	}
}
