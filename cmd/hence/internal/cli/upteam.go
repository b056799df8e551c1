package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/topology/pause"
)

// The pauses before a program is started again, and how long it must run to have failed no more.
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

// team is the agents that "hence up" runs.
type team struct {
	members  []member
	ending   ending
	logging  logging
	backoff  time.Duration
	stopping chan struct{} // closed when they are told to end
	without  []string      // variables that no program is given: any agent's sidecar may have its secrets there

	results []UpResult     // one for each, once all have ended
	by      syscall.Signal // that told them to end
}

// UpResult says how one agent of "hence up" ended.
type UpResult struct {
	Agent    string `json:"agent"`
	Exit     *int   `json:"exit"`            // null: its program was not started
	How      string `json:"how"`             // in words
	Error    string `json:"error,omitempty"` // of its sidecar, or of its start
	Restarts int    `json:"restarts"`
	sidecar.Counters
}

// UpSummary is the line of "hence up -o json".
type UpSummary struct {
	Agents []UpResult `json:"agents"`
}

func newTeam(c *upCmd, agents []agentfile.Agent, configs []sidecar.Config, s Streams) *team {
	t := &team{ending: c.ending, logging: c.logging, backoff: cmp.Or(c.backoff, backoffLeast),
		stopping: make(chan struct{})}
	err := &oneAtATime{w: s.Err}
	out, colours := err, colourful(s.Err)
	if !c.json() {
		out, colours = &oneAtATime{w: s.Out}, colourful(s.Out)
	}
	var policies []gate.Tools
	for _, config := range configs {
		policies = append(policies, config.Tools)
	}
	t.without = withheld(policies...)
	width := 0
	for _, a := range agents {
		width = max(width, len(a.Name))
	}
	for i, a := range agents {
		t.members = append(t.members, member{Agent: a, config: configs[i], signals: make(chan os.Signal, 8),
			out: newPrefixed(out, a.Name, width, i, colours),
			err: newPrefixed(err, a.Name, width, i, colourful(s.Err))})
	}
	return t
}

// run runs all agents until the last has ended.
func (t *team) run(ctx context.Context, g ground, signals <-chan os.Signal) error {
	results := make([]UpResult, len(t.members))
	var all, passing sync.WaitGroup
	done := make(chan struct{})
	passing.Go(func() { t.by = t.pass(signals, done) })
	for i, m := range t.members {
		all.Go(func() { results[i] = t.one(ctx, g, m) })
	}
	all.Wait()
	close(done)
	passing.Wait()
	t.results = results
	return nil
}

// verdict is the end of the command.
func (t *team) verdict() error {
	if t.by != 0 {
		return &exit{code: 128 + int(t.by)}
	}
	var bad []string
	for _, r := range t.results {
		if r.Exit == nil || *r.Exit != 0 {
			bad = append(bad, r.Agent)
		}
	}
	if len(bad) > 0 {
		return &exit{ExitFailed, fmt.Errorf("%d of %d agents did not end well: %s", len(bad), len(t.results),
			strings.Join(bad, ", "))}
	}
	return nil
}

// pass passes signals on to all agents until done, and returns the first that told them to end.
func (t *team) pass(signals <-chan os.Signal, done <-chan struct{}) (by syscall.Signal) {
	for {
		select {
		case <-done:
			return by
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			switch {
			case !ok:
				continue
			case endsProgram(sig) && by != 0:
				sig = syscall.SIGKILL
			case endsProgram(sig):
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
func (t *team) one(ctx context.Context, g ground, m member) (r UpResult) {
	r = UpResult{Agent: m.Name, How: "not started"}
	say := func(format string, args ...any) {
		_ = m.err.show("hence: " + gate.Plain(fmt.Sprintf(format, args...))) // nobody can be told that nobody listens
	}
	config := m.config
	logger, hush := t.logging.hushing(m.err)
	config.Logger, config.Tracer = logger, g.tracer
	var err error
	if config.DataDir, err = g.journal(config.Workspace, config.Agent); err == nil {
		config.OperatorToken, err = operators{}.obtainOperator(logger, config.DataDir)
	}
	if err == nil {
		with := companion{config: config, hush: hush, streams: g.streams, signals: m.signals, settle: t.ending.Settle,
			say: say, without: t.without}
		err = with.around(ctx, func(ctx context.Context, side *sidecar.Sidecar) error {
			defer func() { r.Counters = side.Counters() }()
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
func (t *team) repeat(ctx context.Context, m member, with companion, side *sidecar.Sidecar, r *UpResult) error {
	backoff, failures := pause.Doubling{Least: t.backoff, Most: backoffMost}, 0
	for {
		begun := time.Now()
		status, err := t.start(ctx, m, with.environment(os.Environ(), m.Env, side))
		with.farewell(side)
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
			backoff.Reset()
			failures = 0
		}
		next := backoff.Next()
		if code == 0 || m.Restart == agentfile.RestartNever || failures == m.Restarts || !t.rest(ctx, next) {
			with.say("ended: %s", status)
			return nil
		}
		with.say("ended: %s; started again after %s", status, next)
		failures++
		r.Restarts++
	}
}

// rest pauses; it reports false when the team is told to end.
func (t *team) rest(ctx context.Context, d time.Duration) bool {
	if pause.Until(ctx, d, t.stopping) != nil {
		return false
	}
	select {
	case <-t.stopping:
		return false
	default:
		return true
	}
}

// start runs the program once, its lines prefixed.
func (t *team) start(ctx context.Context, m member, env []string) (process.Status, error) {
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
		Signals: m.signals, Grace: t.ending.Grace})
}

func (t *team) summary() UpSummary { return UpSummary{Agents: slices.Clone(t.results)} }

// write prints the table.
func (s UpSummary) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "\nAGENT\tEXIT\tRESTARTS\tCOMMITTED\tREFUSED\tHELD\tRESIDUE\tHOW")
	for _, r := range s.Agents {
		exit := "-"
		if r.Exit != nil {
			exit = fmt.Sprint(*r.Exit)
		}
		if err := plainly(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", r.Agent, exit, r.Restarts, r.Committed, r.Refused,
			r.Held, r.Residue, cmp.Or(r.Error, r.How)); err != nil {
			return err
		}
	}
	return table.Flush()
}
