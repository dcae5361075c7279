package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// besideQueues measures River on PostgreSQL and asynq on Redis with the same load. Each is left
// out if its server isn't installed.
func besideQueues(out io.Writer, dir string, ours rates) error {
	for _, q := range []struct {
		name, hint string
		measure    func(dir string) (each, bulk float64, err error)
	}{
		{"River v0.50 on PostgreSQL", "apt-get install postgresql", river64},
		{"asynq v0.26 on Redis, appendfsync always", "apt-get install redis-server", asynq64},
	} {
		each, bulk, err := q.measure(dir)
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(out, "  %s: left out, its server isn't installed: %s\n", q.name, q.hint)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		fmt.Fprintf(out, "  %-49s %8.0f   %d connections, one at a time; Kernos: %.1f ×\n", q.name, each, jobConnections, ours.each.perSecond/each)
		if bulk > 0 {
			fmt.Fprintf(out, "  %-49s %8.0f   inserted by COPY (InsertManyFast) in batches of %d; Kernos, pipelined: %.1f ×\n", "", bulk, riverBatch, ours.bulk.perSecond/bulk)
		}
	}
	return nil
}

// A server is a database in a directory that goes away, under a user without rights.
type server struct {
	dir string
	cmd *exec.Cmd
}

// unprivileged makes a command run as a user of that name if this process is root's.
func unprivileged(cmd *exec.Cmd, name, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, uid, gid)); err != nil {
		return err
	}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return nil
}

// startServer starts a server, and waits until ready returns nil.
func startServer(name, dir string, ready func() error, program string, args ...string) (*server, error) {
	s := &server{dir: dir, cmd: exec.Command(program, args...)}
	if err := unprivileged(s.cmd, name, dir); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	err := errors.New("it was never asked")
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if err = ready(); err == nil {
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer: %w", program, err)
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

// serverDir is a directory that a server's user can reach.
func serverDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "kernos-bench-"+name+"-*")
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	return dir, err
}

// postgresTool finds a program of PostgreSQL, which Debian keeps outside of PATH.
func postgresTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", exec.ErrNotFound
	}
	return found[len(found)-1], nil
}

// startPostgres starts PostgreSQL with a cluster of its own.
func startPostgres() (*server, *pgxpool.Pool, error) {
	initdb, err := postgresTool("initdb")
	if err != nil {
		return nil, nil, err
	}
	postgres, err := postgresTool("postgres")
	if err != nil {
		return nil, nil, err
	}
	dir, err := serverDir("postgres")
	if err != nil {
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale")
	if err := unprivileged(cmd, "postgres", dir); err != nil {
		return nil, nil, err
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("initdb: %w: %s", err, text)
	}
	config, err := pgxpool.ParseConfig("host=" + dir + " user=bench dbname=postgres")
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = jobConnections + 16
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, err
	}
	s, err := startServer("postgres", dir, func() error { return pool.Ping(context.Background()) }, postgres,
		"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=200",
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return s, pool, nil
}

type noopArgs struct {
	Payload string `json:"payload"`
}

func (noopArgs) Kind() string { return "noop" }

// riverBatch is how many jobs are inserted at once where River is given many.
const riverBatch = 5000

// river64 measures River with settings for throughput: many workers, and a fetch every two
// milliseconds.
func river64(string) (each, bulk float64, err error) {
	s, pool, err := startPostgres()
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	defer pool.Close()
	ctx := context.Background()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, 0, err
	}
	var worked atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noopArgs]) error {
		worked.Add(1)
		return nil
	}))
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
	})
	if err != nil {
		return 0, 0, err
	}
	if err := client.Start(ctx); err != nil {
		return 0, 0, err
	}
	defer func() { _ = client.Stop(ctx) }()
	total := int64(0)
	rate := func(count int, insert func() error) (float64, error) {
		begin := time.Now()
		if err := insert(); err != nil {
			return 0, err
		}
		total += int64(count)
		for left := 1; left > 0; time.Sleep(2 * time.Millisecond) {
			if worked.Load() < total {
				continue
			}
			// What was worked on is completed a moment later, many at once.
			if err := pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&left); err != nil {
				return 0, err
			}
		}
		return float64(count) / time.Since(begin).Seconds(), nil
	}
	args := noopArgs{"xxxxxxxxxxxxxxxxxxxx"}
	const one, many = jobConnections * jobsEach / 4, 4 * riverBatch
	each, err = rate(one, func() error {
		return fromMany(one, func() error {
			_, err := client.Insert(ctx, args, nil)
			return err
		})
	})
	if err != nil {
		return 0, 0, err
	}
	bulk, err = rate(many, func() error {
		batch := make([]river.InsertManyParams, riverBatch)
		for i := range batch {
			batch[i].Args = args
		}
		for range many / riverBatch {
			if _, err := client.InsertManyFast(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	return each, bulk, err
}

// asynq64 measures asynq with as many workers as Kernos has. It inserts one task at a time: it has
// no other way.
func asynq64(string) (each, bulk float64, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return 0, 0, err
	}
	dir, err := serverDir("redis")
	if err != nil {
		return 0, 0, err
	}
	options := asynq.RedisClientOpt{Network: "unix", Addr: filepath.Join(dir, "redis.sock"), PoolSize: 2 * jobConnections}
	client := asynq.NewClient(options)
	defer func() { _ = client.Close() }()
	s, err := startServer("redis", dir, client.Ping, program, "--port", "0", "--unixsocket", options.Addr, "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	var worked atomic.Int64
	workers := asynq.NewServer(options, asynq.Config{Concurrency: 256, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel})
	err = workers.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		worked.Add(1)
		return nil
	}))
	if err != nil {
		return 0, 0, err
	}
	defer workers.Shutdown()
	inspector := asynq.NewInspector(options)
	defer func() { _ = inspector.Close() }()
	task := asynq.NewTask("noop", []byte(`{"payload":"xxxxxxxxxxxxxxxxxxxx"}`))
	const count = jobConnections * jobsEach / 4
	begin := time.Now()
	err = fromMany(count, func() error {
		_, err := client.Enqueue(task)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	for ; ; time.Sleep(2 * time.Millisecond) {
		if worked.Load() < count {
			continue
		}
		info, err := inspector.GetQueueInfo("default")
		if err != nil {
			return 0, 0, err
		}
		if info.Active+info.Pending == 0 {
			return count / time.Since(begin).Seconds(), 0, nil
		}
	}
}

// fromMany calls f so many times, from as many goroutines as there are connections.
func fromMany(count int, f func() error) error {
	var all sync.WaitGroup
	errs := make([]error, jobConnections)
	for c := range errs {
		all.Go(func() {
			for range count / jobConnections {
				if errs[c] = f(); errs[c] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
