package outbound_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// A fakeDNS answers from a list: a name's addresses for the first question, for the
// second, and so on. The last ones stay. All else does not exist.
type fakeDNS struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   map[string]int
}

func newFakeDNS(answers map[string][][]string) *fakeDNS {
	return &fakeDNS{answers: answers, asked: make(map[string]int)}
}

// resolver asks the fake over a pipe, where DNS speaks as over TCP.
func (d *fakeDNS) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go d.serve(server)
		return client, nil
	}}
}

func (d *fakeDNS) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		answer := d.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

const (
	typeA    = 1
	typeAAAA = 28
)

func (d *fakeDNS) answer(question []byte) []byte {
	const header = 12
	var labels []string
	i := header
	for question[i] != 0 {
		n := int(question[i])
		labels = append(labels, string(question[i+1:i+1+n]))
		i += 1 + n
	}
	end := i + 1 + 4
	kind := binary.BigEndian.Uint16(question[i+1:])
	name := strings.Join(labels, ".")

	addrs, known := d.lookup(name, kind)
	out := append([]byte{}, question[:2]...)
	flags := uint16(0x8180)
	if !known {
		flags |= 3
	}
	out = binary.BigEndian.AppendUint16(out, flags)
	for _, count := range []int{1, len(addrs), 0, 0} {
		out = binary.BigEndian.AppendUint16(out, uint16(count))
	}
	out = append(out, question[header:end]...)
	for _, a := range addrs {
		out = append(out, 0xC0, header)
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 0)
		raw := a.AsSlice()
		out = binary.BigEndian.AppendUint16(out, uint16(len(raw)))
		out = append(out, raw...)
	}
	return out
}

// lookup counts a question by its A part only; the AAAA part of it comes at the same time.
func (d *fakeDNS) lookup(name string, kind uint16) (addrs []netip.Addr, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rounds, known := d.answers[name]
	if !known {
		return nil, false
	}
	for _, text := range rounds[min(d.asked[name], len(rounds)-1)] {
		a := netip.MustParseAddr(text)
		if a.Is4() == (kind == typeA) && (kind == typeA || kind == typeAAAA) {
			addrs = append(addrs, a)
		}
	}
	if kind == typeA {
		d.asked[name]++
	}
	return addrs, true
}
