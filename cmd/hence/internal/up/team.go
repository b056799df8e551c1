// Package up runs a team: several agents' programs, beside one sidecar for each workspace, over one cluster.
package up

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/metrics"
)

// The pauses before a program is started again, and how long it must run for earlier failures not to count.
const (
	backoffLeast = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
	calm         = time.Minute
)

// member is an agent of a team.
type member struct {
	agentfile.Agent
	config   sidecar.Config
	signals  chan os.Signal
	out, err *prefixed
}

// Config is what a team is made of.
type Config struct {
	Agents   []agentfile.Agent
	Sidecars []sidecar.Config             // of each agent, without folder, logger and tracer
	Out      io.Writer                    // what the programs print, their names in front; nil: to Err
	Err      io.Writer                    // which loggers write to, too: one at a time
	Without  []string                     // variables that no program is given
	Logger   func(io.Writer) *slog.Logger // of a sidecar
	Grace    time.Duration                // from a program's being told to end to its being killed
	Settle   time.Duration                // for what a program leaves behind

	Serves sidecar.Config // what every workspace's sidecar serves beside its agents, and who may approve calls there
	// Tells are the variables that a program is given of what its sidecar serves, until end.
	Tells func(beside.Side) (env []string, end func(), err error)
}

// Team is the agents that "hence up" runs.
type Team struct {
	members  []member
	config   Config
	stopping chan struct{} // closed when they are told to end

	results []Result       // one for each, once all have ended
	by      syscall.Signal // that told them to end
}

// Result says how one agent ended.
type Result struct {
	Agent    string `json:"agent"`
	Exit     *int   `json:"exit"`            // null: its program was not started
	How      string `json:"how"`             // in words
	Error    string `json:"error,omitempty"` // of its sidecar, or of its start
	Restarts int    `json:"restarts"`
	metrics.Counters
}

// Summary is the line of "hence up -o json".
type Summary struct {
	Agents []Result `json:"agents"`
}

// New returns a team that is not started.
func New(c Config) *Team {
	t := &Team{config: c, stopping: make(chan struct{})}
	out := c.Err
	if c.Out != nil {
		out = show.OneAtATime(c.Out)
	}
	width := 0
	for _, a := range c.Agents {
		width = max(width, len(a.Name))
	}
	for i, a := range c.Agents {
		t.members = append(t.members, member{Agent: a, config: c.Sidecars[i], signals: make(chan os.Signal, 8),
			out: newPrefixed(out, a.Name, width, i, show.Colourful(out)),
			err: newPrefixed(c.Err, a.Name, width, i, show.Colourful(c.Err))})
	}
	return t
}

// Run runs all agents until the last has ended.
func (t *Team) Run(ctx context.Context, g beside.Ground, signals <-chan os.Signal) error {
	hosts, err := t.hosts(ctx, g)
	defer func() {
		for _, h := range hosts {
			if end := h.Close(); end != nil {
				t.config.Logger(t.config.Err).Error("the sidecar of a workspace ended", "cause", end)
			}
		}
	}()
	if err != nil {
		return err
	}
	results := make([]Result, len(t.members))
	var all, passing sync.WaitGroup
	done := make(chan struct{})
	passing.Go(func() { t.by = t.pass(signals, done) })
	for i, m := range t.members {
		all.Go(func() { results[i] = t.one(ctx, g, hosts[m.config.Workspace], m) })
	}
	all.Wait()
	close(done)
	passing.Wait()
	t.results = results
	return nil
}

// hosts are the sidecars of the team: one for each workspace that an agent works in.
func (t *Team) hosts(ctx context.Context, g beside.Ground) (map[string]*beside.Host, error) {
	all := map[string]*beside.Host{}
	for _, m := range t.members {
		workspace := m.config.Workspace
		if all[workspace] != nil {
			continue
		}
		cluster := g.Streams
		cluster.Logger = t.config.Logger(t.config.Err)
		config := t.config.Serves
		config.Workspace = workspace
		h, err := beside.StartHost(ctx, cluster, config, g)
		if err != nil {
			return all, err
		}
		all[workspace] = h
		// Its port is a free one, which no program but the agents' is told.
		if len(t.config.Serves.Approvers)+len(t.config.Serves.Keys) > 0 {
			fmt.Fprintf(show.Lines(t.config.Err), "hence up: calls of workspace %s are approved at %s\n", workspace, h.URL())
		}
	}
	return all, nil
}

// Verdict is the end of the command once the team has run: nil when all agents ended well, and an exit.Error of the
// signal that ended them.
func (t *Team) Verdict() error {
	if t.by != 0 {
		return &exit.Error{Code: 128 + int(t.by)}
	}
	var bad []string
	for _, r := range t.results {
		if r.Exit == nil || *r.Exit != 0 {
			bad = append(bad, r.Agent)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d agents did not end well: %s", len(bad), len(t.results), strings.Join(bad, ", "))
	}
	return nil
}

// pass passes signals on to all agents until done, and returns the first that told them to end.
func (t *Team) pass(signals <-chan os.Signal, done <-chan struct{}) (by syscall.Signal) {
	for {
		select {
		case <-done:
			return by
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			switch {
			case !ok:
				continue
			case beside.EndsProgram(sig) && by != 0:
				sig = syscall.SIGKILL
			case beside.EndsProgram(sig):
				by = sig
				close(t.stopping)
			}
			for _, m := range t.members {
				select {
				case m.signals <- sig:
				default: // it has more than enough of them to deal with
				}
			}
		}
	}
}

// one runs one agent until it is not started again.
func (t *Team) one(ctx context.Context, g beside.Ground, host *beside.Host, m member) (r Result) {
	r = Result{Agent: m.Name, How: "not started"}
	say := func(format string, args ...any) {
		_ = m.err.show("hence: " + gate.Plain(fmt.Sprintf(format, args...))) // a closed output cannot be reported
	}
	config := m.config
	logger, hush := beside.Hushing(t.config.Logger(m.err))
	config.Logger, config.Tracer = logger, g.Tracer
	var err error
	if config.DataDir, err = g.Journal(config.Workspace, config.Agent); err == nil {
		config.OperatorToken, err = access.KeepOperatorToken(logger, config.DataDir)
	}
	if err == nil {
		with := beside.Companion{Config: config, Host: host, Hush: hush, Streams: g.Streams, Signals: m.signals,
			Settle: t.config.Settle, Say: say, Without: t.config.Without}
		err = with.Around(ctx, func(ctx context.Context, side beside.Side) error {
			defer func() { r.Counters = side.Counters() }()
			env, end, err := t.config.Tells(side)
			if err != nil {
				return err
			}
			defer end()
			m.Env = append(env, m.Env...) // what the file says wins
			return t.repeat(ctx, m, with, side, &r)
		})
	}
	if err != nil {
		r.Error = err.Error()
		say("%v", err)
	}
	return r
}

// repeat runs the program, and again as often as it may.
func (t *Team) repeat(ctx context.Context, m member, with beside.Companion, side beside.Side, r *Result) error {
	backoff, failures := backoffLeast, 0
	for {
		begun := time.Now()
		status, err := t.start(ctx, m, with.Environment(os.Environ(), m.Env, side))
		with.Farewell(side)
		code := status.Code()
		if err != nil {
			if code, ok := process.Code(err); ok {
				r.Exit = &code
			}
			return err
		}
		r.Exit, r.How = &code, status.String()
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if time.Since(begun) > calm {
			backoff, failures = backoffLeast, 0
		}
		if code == 0 || m.Restart == agentfile.RestartNever || failures == m.Restarts || !t.rest(ctx, backoff) {
			with.Say("ended: %s", status)
			return nil
		}
		with.Say("ended: %s; started again after %s", status, backoff)
		failures++
		r.Restarts++
		backoff = min(2*backoff, backoffMost)
	}
}

// rest pauses; it reports false when the team is told to end.
func (t *Team) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.stopping:
	case <-ctx.Done():
	}
	return false
}

// start runs the program once, its lines prefixed.
func (t *Team) start(ctx context.Context, m member, env []string) (process.Status, error) {
	out, err := newPipe(m.out)
	if err != nil {
		return process.Status{}, err
	}
	defer out.close()
	errs, err := newPipe(m.err)
	if err != nil {
		return process.Status{}, err
	}
	defer errs.close()
	return process.Run(ctx, process.Spec{Command: m.Command, Dir: m.Dir, Env: env, Out: out.write, Err: errs.write,
		Signals: m.signals, Grace: t.config.Grace})
}

// Summary says how all agents ended; nil: the team has not run.
func (t *Team) Summary() *Summary {
	if t.results == nil {
		return nil
	}
	return &Summary{Agents: slices.Clone(t.results)}
}

// Write prints the table, set off from what the agents wrote.
func (s Summary) Write(w io.Writer) error {
	t := show.Table{Head: []string{"AGENT", "EXIT", "RESTARTS", "COMMITTED", "REFUSED", "HELD", "RESIDUE", "HOW"}}
	for _, r := range s.Agents {
		exit := "-"
		if r.Exit != nil {
			exit = fmt.Sprint(*r.Exit)
		}
		t.Add(r.Agent, exit, fmt.Sprint(r.Restarts), fmt.Sprint(r.Committed), fmt.Sprint(r.Refused), fmt.Sprint(r.Held),
			fmt.Sprint(r.Residue), cmp.Or(r.Error, r.How))
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}
