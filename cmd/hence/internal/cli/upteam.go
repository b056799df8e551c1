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
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/exit"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar"
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
	out, colours := err, show.Colourful(s.Err)
	if !c.json() {
		out, colours = &oneAtATime{w: s.Out}, show.Colourful(s.Out)
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
			err: newPrefixed(err, a.Name, width, i, show.Colourful(s.Err))})
	}
	return t
}

// run runs all agents until the last has ended.
func (t *team) run(ctx context.Context, g beside.Ground, signals <-chan os.Signal) error {
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
		return &exit.Error{Code: 128 + int(t.by)}
	}
	var bad []string
	for _, r := range t.results {
		if r.Exit == nil || *r.Exit != 0 {
			bad = append(bad, r.Agent)
		}
	}
	if len(bad) > 0 {
		return &exit.Error{Code: ExitFailed, Err: fmt.Errorf("%d of %d agents did not end well: %s", len(bad),
			len(t.results), strings.Join(bad, ", "))}
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
func (t *team) one(ctx context.Context, g beside.Ground, m member) (r UpResult) {
	r = UpResult{Agent: m.Name, How: "not started"}
	say := func(format string, args ...any) {
		_ = m.err.show("hence: " + gate.Plain(fmt.Sprintf(format, args...))) // nobody can be told that nobody listens
	}
	config := m.config
	logger, hush := beside.Hushing(t.logging.logger(m.err))
	config.Logger, config.Tracer = logger, g.Tracer
	var err error
	if config.DataDir, err = g.Journal(config.Workspace, config.Agent); err == nil {
		config.OperatorToken, err = access.KeepOperatorToken(logger, config.DataDir)
	}
	if err == nil {
		with := beside.Companion{Config: config, Hush: hush, Streams: g.Streams, Signals: m.signals,
			Settle: t.ending.Settle, Say: say, Without: t.without}
		err = with.Around(ctx, func(ctx context.Context, side *sidecar.Sidecar) error {
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
func (t *team) repeat(ctx context.Context, m member, with beside.Companion, side *sidecar.Sidecar, r *UpResult) error {
	backoff, failures := t.backoff, 0
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
			backoff, failures = t.backoff, 0
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
func (t *team) rest(ctx context.Context, d time.Duration) bool {
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

// write prints the table, set off from what the agents wrote.
func (s UpSummary) write(w io.Writer) error {
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
