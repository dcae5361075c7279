package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsServer is a server of NATS with the settings of those inside Kernos: name,address of clients,address of other
// servers,directory,addresses of all servers. It is what this program does in a process of its own.
func natsServer(spec string) error {
	part := strings.Split(spec, ",")
	if len(part) < 5 {
		return errors.New("-nats takes NAME,CLIENTS,ROUTES,DIR,PEER…")
	}
	o := &natsserver.Options{
		ServerName: part[0], JetStream: true, StoreDir: part[3], SyncAlways: true, MaxPayload: 4 << 20, NoSigs: true,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 1 << 50,
		Cluster: natsserver.ClusterOpts{Name: "bench", NoAdvertise: true},
		Routes:  natsserver.RoutesFromStr("nats://" + strings.Join(part[4:], ",nats://")),
	}
	for at, to := range map[string]struct {
		host *string
		port *int
	}{part[1]: {&o.Host, &o.Port}, part[2]: {&o.Cluster.Host, &o.Cluster.Port}} {
		host, port, _ := strings.Cut(at, ":")
		*to.host = host
		*to.port, _ = strconv.Atoi(port)
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// benchSubject is the subject of what is published.
const benchSubject = "bench.origin.default"

// A publisher publishes to a stream of three servers, as the owner of an origin does: each message names the one before
// it, and one is in flight at a time.
type publisher struct {
	dir     string
	servers []*exec.Cmd
	conn    *nats.Conn
	js      jetstream.JetStream
	last    uint64 // the sequence of the last message
}

// startPublisher starts three servers, each in a process of its own, and makes the stream.
func startPublisher() (_ *publisher, err error) {
	p := new(publisher)
	if p.dir, err = os.MkdirTemp("", "kernos-nats-*"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	addresses, err := freeAddresses(2 * clusterNodes)
	if err != nil {
		return nil, err
	}
	clients, routes := addresses[:clusterNodes], addresses[clusterNodes:]
	for i := range clusterNodes {
		cmd := exec.Command(os.Args[0], "-nats", strings.Join([]string{name(i), clients[i], routes[i], filepath.Join(p.dir, name(i)), strings.Join(routes, ",")}, ","))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		p.servers = append(p.servers, cmd)
	}
	if p.conn, err = nats.Connect("nats://"+clients[0], nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)); err != nil {
		return nil, err
	}
	if p.js, err = jetstream.New(p.conn); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for { // until the servers have a leader
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err = p.js.CreateOrUpdateStream(attempt, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}, Replicas: clusterNodes, Storage: jetstream.FileStorage})
		cancel()
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *publisher) stop() {
	if p.conn != nil {
		p.conn.Close()
	}
	for _, cmd := range p.servers {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = os.RemoveAll(p.dir)
}

// publish publishes one message after the last one.
func (p *publisher) publish(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ack, err := p.js.Publish(ctx, benchSubject, data, jetstream.WithExpectLastSequencePerSubject(p.last))
	for e := (*jetstream.APIError)(nil); errors.As(err, &e) && e.ErrorCode == 10164 && ctx.Err() == nil; { // the leader isn't done with the one before
		ack, err = p.js.Publish(ctx, benchSubject, data, jetstream.WithExpectLastSequencePerSubject(p.last))
	}
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	p.last = ack.Sequence
	return nil
}

// latency returns the median time in ns of a lone publish.
func (p *publisher) latency(size, count int) (float64, error) {
	data := bytes.Repeat([]byte("x"), size)
	took := make([]time.Duration, count)
	for i := range took {
		begun := time.Now()
		if err := p.publish(data); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	return float64(medianOf(took)), nil
}

// perSecond makes writers that each have some bytes published, one time after the other, and returns how often that
// happens per second. What waits while a message is in flight is the next message, as it is for the owner. A
// message has the bytes of at most as many writers as the owner's entries have on average.
func (p *publisher) perSecond(size, writers, each, most int) (float64, error) {
	data := bytes.Repeat([]byte("x"), size)
	waiting := make(chan chan struct{}, writers) // each is closed when its bytes are published
	var all sync.WaitGroup
	var failed atomic.Bool
	begun := time.Now()
	for range writers {
		all.Go(func() {
			for range each {
				done := make(chan struct{})
				waiting <- done
				<-done
			}
		})
	}
	go func() {
		all.Wait()
		close(waiting)
	}()
	var err error
	for first := range waiting {
		group := []chan struct{}{first}
		for len(waiting) > 0 && len(group) < most {
			if next, ok := <-waiting; ok {
				group = append(group, next)
			}
		}
		if !failed.Load() {
			if err = p.publish(bytes.Repeat(data, len(group))); err != nil {
				failed.Store(true)
			}
		}
		for _, done := range group {
			close(done)
		}
	}
	return float64(writers*each) / time.Since(begun).Seconds(), err
}
