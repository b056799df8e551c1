package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// companion is a sidecar beside a program that this process runs.
type companion struct {
	config  sidecar.Config
	hush    *atomic.Bool // of its logger: while it is waited for, that is said in other words
	streams streams.Config
	signals <-chan os.Signal // while it is waited for, one of them gives up
	settle  time.Duration    // for what the program leaves behind, at its end
	without []string         // variables that the program is not given
	say     func(format string, args ...any)
}

// The pauses between looks at what a sidecar waits for, and how long one may take.
const (
	lookLeast = 250 * time.Millisecond
	lookMost  = 10 * time.Second
	lookBound = time.Second
)

// around runs the sidecar and, once it is ready, f beside it. The context of f ends when the sidecar ends first.
func (c companion) around(ctx context.Context, f func(context.Context, *sidecar.Sidecar) error) error {
	log, err := streams.Dial(ctx, c.streams)
	if err != nil {
		return fmt.Errorf("connect to %v and %s: %w", c.streams.Brokers, c.streams.NATS, err)
	}
	defer log.Close()
	side, err := sidecar.New(c.config, log)
	if err != nil {
		err = fmt.Errorf("start the sidecar of %s: %w", c.config.Agent, err)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: name another port with --listen; port 0 is a free one", err)
		}
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := side.Run(serving)
		if serving.Err() == nil {
			cancel(fmt.Errorf("the sidecar of %s ended: %w", c.config.Agent, err))
		}
		ended <- err
	}()
	begun := time.Now()
	err = awaiting{side: side, agent: c.config.Agent, look: log.Ready, signals: c.signals, say: c.say}.ready(ctx)
	if err == nil {
		c.hush.Store(false)
		c.say("the sidecar of %s is ready at %s after %d ms", c.config.Agent, side.URL(), time.Since(begun).Milliseconds())
		if former := side.Displaced(); former != 0 {
			c.say("warning: another sidecar of %s was live, incarnation %d: its lease has ended, and what it had open is "+
				"aborted; one agent has one sidecar, so name another --agent", c.config.Agent, former)
		}
		err = f(ctx, side)
	}
	stop()
	if end := quietEnd(serving, <-ended); end != nil && err == nil {
		return end
	}
	return err
}

// awaiting is a sidecar that is waited for.
type awaiting struct {
	side    *sidecar.Sidecar
	agent   string
	look    func(context.Context) map[string]error
	signals <-chan os.Signal // one of them gives up; nil: none does
	say     func(format string, args ...any)
}

// ready waits until the sidecar is ready, however long its cluster is away, and says what it waits for.
func (a awaiting) ready(ctx context.Context) error {
	said := map[string]string{}
	for pauses := (pause.Doubling{Least: lookLeast, Most: lookMost}); ; {
		select {
		case <-a.side.Ready():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-a.signals:
			if s, ok := s.(syscall.Signal); ok && endsProgram(s) {
				return &exit{code: 128 + int(s), err: fmt.Errorf("interrupted before %s was ready", a.agent)}
			}
		case <-time.After(pauses.Next()):
		}
		found := lookOnce(ctx, a.look)
		if err := a.side.Refused(); err != nil { // all can be reached, and the log says no
			found["its session"] = err.Error()
		}
		for _, part := range slices.Sorted(maps.Keys(found)) {
			if text := found[part]; text != said[part] {
				said[part] = text
				a.say("the sidecar of %s waits for %s: %s", a.agent, part, text)
			}
		}
	}
}

// lookOnce says per dependency what is wrong with it. What cannot be known without Kafka is left out then.
func lookOnce(ctx context.Context, look func(context.Context) map[string]error) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	parts, found := look(ctx), map[string]string{}
	for part, err := range parts {
		if err != nil && (part == "kafka" || part == "nats" || parts["kafka"] == nil) {
			found[part] = err.Error()
		}
	}
	if len(found) == 0 {
		found["its session"] = "everything can be reached, and the log has not answered yet"
	}
	return found
}

// endsProgram says whether a program is expected to end at a signal.
func endsProgram(s syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGKILL}, s)
}

// farewell lets the sidecar end what the program has left behind.
func (c companion) farewell(side *sidecar.Sidecar) {
	ctx, cancel := context.WithTimeout(context.Background(), c.settle)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.signals: // whoever asks again does not want to wait
			cancel()
		case <-ctx.Done():
		}
	})
	if left := side.Farewell(ctx); left > 0 {
		c.say("%d transactions of %s are not settled yet: the next start goes on with them", left, c.config.Agent)
	}
	cancel()
	watching.Wait()
}

// environment is what the program sees: the one of this process without its sidecar's secrets, what is its own, and
// where its sidecar is.
func (c companion) environment(inherited, own []string, side *sidecar.Sidecar) []string {
	set := []string{"HENCE_URL=" + side.URL(), "HENCE_TOKEN=" + side.Token(), "HENCE_AGENT=" + c.config.Agent,
		"HENCE_WORKSPACE=" + cmp.Or(c.config.Workspace, "default")}
	env := slices.DeleteFunc(slices.Clone(inherited), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(c.without, name)
	})
	env = slices.DeleteFunc(append(env, own...), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "HENCE_TOKEN_FILE" || strings.HasPrefix(name, "HENCE_OPERATOR_TOKEN") ||
			slices.ContainsFunc(set, func(s string) bool {
				return strings.HasPrefix(s, name+"=")
			})
	})
	return append(env, set...)
}

// exit ends a command with an exit code of its own; err is printed if there is one.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

func (e *exit) Unwrap() error { return e.err }

// hushed is a log handler that drops warnings as long as somebody says the same in other words.
type hushed struct {
	slog.Handler
	hush *atomic.Bool
}

// Enabled says whether a record of this level is written.
func (h hushed) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, level) && (level != slog.LevelWarn || !h.hush.Load())
}

// WithAttrs returns a handler that is hushed with this one.
func (h hushed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return hushed{h.Handler.WithAttrs(attrs), h.hush}
}

// WithGroup returns a handler that is hushed with this one.
func (h hushed) WithGroup(name string) slog.Handler { return hushed{h.Handler.WithGroup(name), h.hush} }

// hushing is a logger that drops warnings until hush is false.
func (l logging) hushing(w io.Writer) (_ *slog.Logger, hush *atomic.Bool) {
	hush = new(atomic.Bool)
	hush.Store(true)
	return slog.New(hushed{l.logger(w).Handler(), hush}), hush
}

// fileOf is a stream as a file that a program can be given; nil when it is none.
func fileOf(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
