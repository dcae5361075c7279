package cluster

import "time"

// A sight is what a node knows of the owner's record, and since when. Only the node's own clock counts.
type sight struct {
	sequence uint64 // 0: there is no record
	record   record
	received time.Duration // when this record was read first
	read     time.Duration // when the record was read last
	steady   time.Duration // since when reads have succeeded one soon after the other
	known    bool          // it was read at least once
	stale    int           // reads since then that returned an earlier record
}

// see notes a record that was read before now, and reports whether it is another one than before. One from before that
// one is from a leader that was cut off, unless it is sure.
func (s *sight) see(sequence uint64, r record, now, lease time.Duration, sure bool) bool {
	if !s.known || now-s.read > lease/2 {
		s.steady = now
	}
	if s.known && sequence < s.sequence && !sure {
		s.stale++
		return false
	}
	s.stale = 0
	s.read = now
	if s.known && sequence == s.sequence {
		return false
	}
	s.known, s.sequence, s.record, s.received = true, sequence, r, now
	return true
}

// free returns when this node may take over, if the record doesn't change before: a whole lease after it was received,
// and at once if its owner has said so. After an outage of the servers, the owner has a moment to renew. In turn reports
// whether candidates go one after the other then.
func (s *sight) free(node, instance string, lease time.Duration) (at time.Duration, inTurn bool) {
	r := &s.record
	switch {
	case s.sequence == 0, r.Stopping && r.Successor == "":
		return s.received, true
	case r.Stopping && r.Successor == node, r.Instance == instance: // an attempt of this node that arrived late
		return s.received, false
	}
	return max(s.received+max(lease, r.Lease), s.steady+lease/graces), true
}
