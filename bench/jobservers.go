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

// A queue is another system for jobs, with its server.
type queue struct {
	each func(count int) (perSecond float64, err error) // from as many connections as there are, one at a time
	bulk func() (perSecond float64, err error)          // many at once; nil if it has no way to do that
	stop func()
}

// besideQueues measures River on PostgreSQL and asynq on Redis with the same load, in turns with
// kernels that do nothing else. Each is left out if its server isn't installed.
func besideQueues(out io.Writer, dir string, bulk jobRate) error {
	for _, other := range []struct {
		name, hint string
		open       func() (*queue, error)
	}{
		{"River v0.50 on PostgreSQL", "apt-get install postgresql", openRiver},
		{"asynq v0.26 on Redis, appendfsync always", "apt-get install redis-server", openAsynq},
	} {
		q, err := other.open()
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(out, "  %s: left out, its server isn't installed: %s\n", other.name, other.hint)
			continue
		}
		if err == nil {
			err = q.compare(out, other.name, dir, bulk)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", other.name, err)
		}
	}
	return nil
}

// compare prints the medians of some rounds. A round begins with a few jobs that don't count.
func (q *queue) compare(out io.Writer, name, dir string, bulk jobRate) error {
	defer q.stop()
	const few, many = 10 * jobConnections, jobsEach / 2 * jobConnections
	var ours, theirs [jobRounds]float64
	for i := range jobRounds {
		w, err := openWorking(filepath.Join(dir, fmt.Sprintf("beside-%s-%d", name, i)))
		if err != nil {
			return err
		}
		if _, err := w.fromAll("few", few/jobConnections); err != nil {
			return err
		}
		rate, err := w.fromAll("many", many/jobConnections)
		if err != nil {
			return err
		}
		if err := w.stop(); err != nil {
			return err
		}
		ours[i] = rate.perSecond
		if _, err := q.each(few); err != nil {
			return err
		}
		if theirs[i], err = q.each(many); err != nil {
			return err
		}
	}
	we, they := medianFloat(ours[:]), medianFloat(theirs[:])
	fmt.Fprintf(out, "  %-49s %8.0f   %d connections, one at a time; Kernos beside it: %.0f, %.1f ×\n", name, they, jobConnections, we, we/they)
	if q.bulk == nil {
		return nil
	}
	perSecond, err := q.bulk()
	if err == nil {
		fmt.Fprintf(out, "  %-49s %8.0f   inserted by COPY (InsertManyFast) in batches of %d; Kernos, pipelined: %.1f ×\n", "", perSecond, riverBatch, bulk.perSecond/perSecond)
	}
	return err
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

// openRiver starts River with settings for throughput: many workers, and a fetch every two
// milliseconds.
func openRiver() (q *queue, err error) {
	s, pool, err := startPostgres()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	driver := riverpgxv5.New(pool)
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
	if err == nil {
		err = migrate(ctx, driver)
	}
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		pool.Close()
		s.stop()
		return nil, err
	}
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
	return &queue{
		each: func(count int) (float64, error) {
			return rate(count, func() error {
				return fromMany(count, func() error {
					_, err := client.Insert(ctx, args, nil)
					return err
				})
			})
		},
		bulk: func() (float64, error) {
			const batches = 4
			batch := make([]river.InsertManyParams, riverBatch)
			for i := range batch {
				batch[i].Args = args
			}
			return rate(batches*riverBatch, func() error {
				for range batches {
					if _, err := client.InsertManyFast(ctx, batch); err != nil {
						return err
					}
				}
				return nil
			})
		},
		stop: func() {
			_ = client.Stop(ctx)
			pool.Close()
			s.stop()
		},
	}, nil
}

// migrate makes the tables of River.
func migrate(ctx context.Context, driver *riverpgxv5.Driver) error {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// openAsynq starts asynq with as many workers as Kernos has. It inserts one task at a time: it has
// no other way.
func openAsynq() (*queue, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := serverDir("redis")
	if err != nil {
		return nil, err
	}
	options := asynq.RedisClientOpt{Network: "unix", Addr: filepath.Join(dir, "redis.sock"), PoolSize: 2 * jobConnections}
	client := asynq.NewClient(options)
	s, err := startServer("redis", dir, client.Ping, program, "--port", "0", "--unixsocket", options.Addr, "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	var worked atomic.Int64
	workers := asynq.NewServer(options, asynq.Config{Concurrency: 256, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel})
	err = workers.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		worked.Add(1)
		return nil
	}))
	if err != nil {
		_ = client.Close()
		s.stop()
		return nil, err
	}
	inspector := asynq.NewInspector(options)
	task := asynq.NewTask("noop", []byte(`{"payload":"xxxxxxxxxxxxxxxxxxxx"}`))
	total := int64(0)
	return &queue{
		each: func(count int) (float64, error) {
			total += int64(count)
			begin := time.Now()
			err := fromMany(count, func() error {
				_, err := client.Enqueue(task)
				return err
			})
			if err != nil {
				return 0, err
			}
			for ; ; time.Sleep(2 * time.Millisecond) {
				if worked.Load() < total {
					continue
				}
				info, err := inspector.GetQueueInfo("default")
				if err != nil {
					return 0, err
				}
				if info.Active+info.Pending == 0 {
					return float64(count) / time.Since(begin).Seconds(), nil
				}
			}
		},
		stop: func() {
			_ = inspector.Close()
			workers.Shutdown()
			_ = client.Close()
			s.stop()
		},
	}, nil
}

// fromMany calls f count times, from as many goroutines as there are connections.
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
