package pipe

import "bytes"

// A tally counts the lines of a stream by how they begin: that is enough to classify what
// kernos writes, in both dialects, and costs next to nothing.
type tally struct {
	asking       int  // lines that may be owed an outcome
	outcomes     int  // replies and errors
	errors       int  // of them
	disconnected bool // the last line is the daemon's reason for closing the connection

	head [48]byte // of the line that has not ended
	n    int
}

// add counts the lines that end in p.
func (t *tally) add(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		line := p
		if end >= 0 {
			line = p[:end]
		}
		t.n += copy(t.head[t.n:], line)
		if end < 0 {
			return
		}
		t.end()
		p = p[end+1:]
	}
}

// end ends the line that has begun, if one has.
func (t *tally) end() {
	head := t.head[:t.n]
	t.n = 0
	begins := func(with string) bool { return len(head) >= len(with) && string(head[:len(with)]) == with }
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return
	case begins(refusalHead):
		t.errors++
		t.disconnected = true
		return
	case begins(`{"kind":"error"`), begins(`{"type":"error"`):
		t.errors++
		t.outcomes++
	case begins(`{"kind":"reply"`), begins(`{"type":"response"`):
		t.outcomes++
	case begins(`{"kind":"event"`), begins(`{"type":"event"`):
	default:
		t.asking++
	}
	t.disconnected = false
}
