package journal

import "math"

// Stats is how much the journal holds.
type Stats struct {
	Messages          uint64
	FirstSeq, LastSeq uint64 // 0 if the journal is empty
	FirstAt, LastAt   int64  // times of recording, in milliseconds since 1970
	Bytes             uint64 // bytes of pages
	Indexed           uint64 // number of the last message whose words are indexed
}

// Stats returns how much the journal holds.
func (j *Journal) Stats() (Stats, error) {
	if err := j.visible(); err != nil {
		return Stats{}, err
	}
	j.flushMu.Lock()
	t, d := j.totals, j.dropped
	j.flushMu.Unlock()
	indexed, err := readIndexed(j.s)
	if err != nil {
		return Stats{}, err
	}
	st := Stats{Messages: t.seq - d.Seq, Bytes: t.bytes - d.Bytes, Indexed: indexed.seq}
	if st.Messages == 0 {
		return st, nil
	}
	st.FirstSeq, st.LastSeq, st.LastAt = d.Seq+1, t.seq, t.at
	_, st.FirstAt, err = pageFrom(j.s, st.FirstSeq, math.MaxUint64)
	return st, err
}
