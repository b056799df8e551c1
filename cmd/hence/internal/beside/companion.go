// Package beside runs a sidecar beside a program of this process: what they stand on, the wait until the sidecar is
// ready, what the program sees of it, and its farewell.
package beside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// Companion is a sidecar beside a program that this process runs.
type Companion struct {
	Config  sidecar.Config
	Host    *Host        // that serves the agent, whose configuration is Config's; nil: it has a sidecar of its own
	Hush    *atomic.Bool // of its logger: while it is waited for, that is said in other words
	Streams streams.Config
	Signals <-chan os.Signal // while it is waited for, one of them gives up
	Settle  time.Duration    // for what the program leaves behind, at its end
	Without []string         // variables that the program is not given
	Say     func(format string, args ...any)
}

// The pauses between looks at what a sidecar waits for, and how long one may take.
const (
	lookLeast = 250 * time.Millisecond
	lookMost  = 10 * time.Second
	lookBound = time.Second
)

// Around runs the sidecar and, once it is ready, f beside it. The context of f ends when the sidecar ends first.
func (c Companion) Around(ctx context.Context, f func(context.Context, Side) error) error {
	if c.Host != nil {
		return c.hosted(ctx, f)
	}
	log, err := streams.Dial(ctx, c.Streams)
	if err != nil {
		return fmt.Errorf("connect to %v and %s: %w", c.Streams.Brokers, c.Streams.NATS, err)
	}
	defer log.Close()
	side, err := sidecar.New(c.Config, log)
	if err != nil {
		err = fmt.Errorf("start the sidecar of %s: %w", c.Config.Agent, err)
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
			cancel(fmt.Errorf("the sidecar of %s ended: %w", c.Config.Agent, err))
		}
		ended <- err
	}()
	err = c.whenReady(ctx, side, log, f)
	stop()
	if end := QuietEnd(serving, <-ended); end != nil && err == nil {
		return end
	}
	return err
}

// whenReady calls f once the agent is served.
func (c Companion) whenReady(ctx context.Context, side Side, log *streams.Client,
	f func(context.Context, Side) error) error {
	begun := time.Now()
	err := Awaited{Side: side, Agent: c.Config.Agent, Look: log.Ready, Signals: c.Signals, Say: c.Say}.Ready(ctx)
	if err == nil {
		c.Hush.Store(false)
		c.Say("the sidecar of %s is ready at %s after %d ms", c.Config.Agent, side.URL(), time.Since(begun).Milliseconds())
		if former := side.Displaced(); former != 0 {
			c.Say("warning: another sidecar of %s was live, incarnation %d: its lease has ended, and what it had open is "+
				"aborted; one agent has one sidecar, so name another --agent", c.Config.Agent, former)
		}
		err = f(ctx, side)
	}
	return err
}

// Side is an agent's sidecar, its own or one that serves others, too.
type Side interface {
	Ready() <-chan struct{}
	Refused() error
	Displaced() sequencer.Seq
	URL() string
	Token() string
	ModelURL(provider string) string
	Counters() metrics.Counters
	Farewell(ctx context.Context) (left int)
}

// Awaited is a sidecar that is waited for.
type Awaited struct {
	Side interface { // a Side, or the sidecar of several
		Ready() <-chan struct{}
		Refused() error
	}
	Agent   string
	Look    func(context.Context) map[string]error // what is wrong, by dependency
	Signals <-chan os.Signal                       // one of them gives up; nil: none does
	Say     func(format string, args ...any)
}

// Ready waits until the sidecar is ready, however long its cluster is away, and says what it waits for.
func (a Awaited) Ready(ctx context.Context) error {
	said := map[string]string{}
	for pauses := (pause.Doubling{Least: lookLeast, Most: lookMost}); ; {
		select {
		case <-a.Side.Ready():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-a.Signals:
			if s, ok := s.(syscall.Signal); ok && EndsProgram(s) {
				return &exit.Error{Code: 128 + int(s), Err: fmt.Errorf("interrupted before %s was ready", a.Agent)}
			}
		case <-time.After(pauses.Next()):
		}
		found := lookOnce(ctx, a.Look)
		if err := a.Side.Refused(); err != nil { // all can be reached, and the log says no
			found["its session"] = err.Error()
		}
		for _, part := range slices.Sorted(maps.Keys(found)) {
			if text := found[part]; text != said[part] {
				said[part] = text
				a.Say("the sidecar of %s waits for %s: %s", a.Agent, part, text)
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

// EndsProgram says whether a program is expected to end at a signal.
func EndsProgram(s syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGKILL}, s)
}

// Farewell lets the sidecar end what the program has left behind.
func (c Companion) Farewell(side Side) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Settle)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.Signals: // a second signal ends it at once
			cancel()
		case <-ctx.Done():
		}
	})
	if left := side.Farewell(ctx); left > 0 {
		c.Say("%d transactions of %s are not settled yet: the next start goes on with them", left, c.Config.Agent)
	}
	cancel()
	watching.Wait()
}

// Environment is what the program sees: the one of this process without its sidecar's and its operator's secrets, what
// is its own, and where its sidecar is.
func (c Companion) Environment(inherited, own []string, side Side) []string {
	set := []string{"HENCE_URL=" + side.URL(), "HENCE_TOKEN=" + side.Token(), "HENCE_AGENT=" + c.Config.Agent,
		"HENCE_WORKSPACE=" + cmp.Or(c.Config.Workspace, "default")}
	env := slices.DeleteFunc(slices.Clone(inherited), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		// The operator's: with one of them the program would approve its own calls, or act in another role.
		return slices.Contains(c.Without, name) || strings.HasPrefix(name, "HENCE_APPROVER_TOKEN") ||
			strings.HasPrefix(name, "HENCE_SIDECAR_") || name == "HENCE_KEY_FILE"
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

// hushed is a log handler that drops warnings while another message says the same.
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

// Hushing returns a logger that drops warnings until hush is false; it begins true.
func Hushing(logger *slog.Logger) (_ *slog.Logger, hush *atomic.Bool) {
	hush = new(atomic.Bool)
	hush.Store(true)
	return slog.New(hushed{logger.Handler(), hush}), hush
}

// QuietEnd drops the error of what ended because it was told to.
func QuietEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
