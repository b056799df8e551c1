package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// What agents do.
const (
	attemptBound = 8 * time.Second // then an agent does not know what became of its transaction
	leaveBound   = time.Second     // for aborting that
	deadlineMs   = 6_000           // what was left open ends by then, before those who wait for it have given up
	scopes       = 600
	thinkAtMost  = 4 * time.Millisecond
	inSteps      = 8 // of so many attempts one is made in several requests, with a tool call
)

// tools are those that agents call: two wait for the commit, one runs before it and is taken back on an abort.
var tools = []string{"card.charge", "mail.send", "row.add"}

// load is what agents do and were told. An attempt is tried once: what its agent was not told is unknown, and the log
// says in the end what became of it.
type load struct {
	*harness.Errands
	generation string // in what every tool call is about, so that sinks can be asked for those of one load
	began      time.Time

	mu       sync.Mutex
	attempts []check.Attempt
	unnamed  map[string]int // attempts without a transaction's name, by the content that they wrote
	open     int
	commits  int
	called   map[string]int   // calls that were accepted, by tool
	newest   map[string]int64 // start of the newest committed attempt, by agent
	moved    chan struct{}
	agents   []*agent
}

// agent is one conversation of an agent.
type agent struct {
	name, session string
	cl            *client.Client
	rng           *rand.Rand
	n             int
	last          error // why it does not know how its last attempt ended; Invariant: others read it under load.mu
}

func newLoad(cars []*part, workspace, generation string) *load {
	l := &load{Errands: harness.NewErrands(), generation: generation, began: time.Now(),
		unnamed: map[string]int{}, called: map[string]int{}, newest: map[string]int64{}, moved: make(chan struct{})}
	for i, car := range cars {
		cl := client.New(car.url, token, client.WithWorkspace(workspace), client.WithTries(1))
		for w := range workers {
			session := fmt.Sprint("w", w)
			l.agents = append(l.agents, &agent{name: car.name, session: session, cl: cl.Session(session),
				rng: rand.New(rand.NewPCG(uint64(i), uint64(w)))})
		}
	}
	return l
}

// now is nanoseconds since the load began, and never zero.
func (l *load) now() int64 { return int64(time.Since(l.began)) + 1 }

// run lets all agents work until the returned function is called, which waits for their last attempts.
func (l *load) run(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	for _, a := range l.agents {
		working.Go(func() {
			for ctx.Err() == nil {
				rest := time.Duration(a.rng.Int64N(int64(thinkAtMost)))
				if l.attempt(ctx, a) == check.Unknown {
					rest += 50 * time.Millisecond
				}
				_ = pause.Sleep(ctx, rest) // its end is the loop's
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// attempt makes one transaction and records it; its own end does not follow ctx.
func (l *load) attempt(ctx context.Context, a *agent) check.State {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptBound)
	defer cancel()
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	made := check.Attempt{Agent: a.name, State: check.Unknown, Start: l.now()}
	content := fmt.Appendf(nil, "%s/%s/%d", a.name, a.session, a.n)
	names := traffic.Scopes(a.rng, scopes, 2)
	made.Writes = []check.Write{{Scope: names[0], SHA256: traffic.Hash(content)}}
	try := l.once
	if a.n++; a.n%inSteps == 0 {
		try = l.steps
	}
	d, sent, err := try(ctx, a, &made, names, content)
	switch {
	case err == nil && !sent: // refused at once
		made.State = check.Aborted
	case err == nil && (d.State == api.StateCommitted || d.State == api.StateAborted):
		made.Tx, made.State, made.Seq, made.Code, made.End = d.Tx, check.State(d.State), d.Seq, d.Code, l.now()
	case made.Tx != "":
		l.leave(a, made.Tx)
	}
	l.add(a, made, string(content), sent, err)
	return made.State
}

// leave aborts what an agent does not wait for any longer, since others would until its deadline. Its answer is not
// looked at: no sidecar may be there, and the log says in the end what became of it.
func (l *load) leave(a *agent, tx string) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
	defer cancel()
	_ = a.cl.Tx(tx).Abort(ctx, "given up")
}

// once is a commit in one request. Sent says that it may have reached the log.
func (l *load) once(ctx context.Context, a *agent, made *check.Attempt, names []string, content []byte,
) (d client.Decision, sent bool, err error) {
	shards, view, err := a.cl.ReadAll(ctx, names...)
	if err != nil {
		return d, false, err
	}
	in := client.Commit{Writes: []client.Write{{Scope: names[0], Content: content, MediaType: "text/plain"}}}
	for i := range shards {
		in.Reads = append(in.Reads, shards[i].At())
		made.Reads = append(made.Reads, readOf(&shards[i], view))
	}
	done, err := a.cl.Commit(ctx, in)
	var undecided *client.Undecided
	if errors.As(err, &undecided) {
		made.Tx = undecided.Tx
	}
	var p *client.Problem
	if errors.As(err, &p) && p.Code == "stale_read" { // the sidecar knew it at once: nothing was sent
		return client.Decision{}, false, nil
	}
	made.Tx = cmp.Or(made.Tx, done.Tx)
	return done.Decision, true, err
}

func readOf(s *client.Shard, view uint64) check.Read {
	return check.Read{Scope: s.Scope, Version: s.Version, View: view, SHA256: traffic.Hash(s.Content)}
}

// steps is a transaction in several requests, with a tool call that waits for its commit, or one
// that is made at once and taken back on an abort.
func (l *load) steps(ctx context.Context, a *agent, made *check.Attempt, names []string, content []byte,
) (d client.Decision, sent bool, err error) {
	modes := harness.Orders()
	tx, err := a.cl.Begin(ctx, client.BeginOptions{Mode: modes[a.rng.IntN(len(modes))], DeadlineMs: deadlineMs})
	if err != nil {
		return d, false, err
	}
	made.Tx = tx.ID()
	if err = l.fill(ctx, a, tx, made, names, content); err == nil && a.rng.IntN(6) > 0 {
		d, err = tx.Seal(ctx)
	} else if err == nil { // it thinks better of it
		if err = tx.Abort(ctx, "not needed"); err == nil {
			d, err = tx.Status(ctx, time.Second)
		}
	}
	if harness.ProblemCode(err) != "" { // refused: the decision says why, or it is open and is given up
		d, err = tx.Status(ctx, 0)
	}
	return d, true, err
}

func (l *load) fill(ctx context.Context, a *agent, tx *client.Tx, made *check.Attempt, names []string,
	content []byte) error {
	for _, name := range names {
		shard, err := tx.Read(ctx, name)
		if err != nil {
			return err
		}
		made.Reads = append(made.Reads, readOf(&shard, shard.View))
	}
	if err := tx.Write(ctx, names[0], content, client.WriteOptions{MediaType: "text/plain"}); err != nil {
		return err
	}
	about := harness.Task{Task: fmt.Sprintf("%s-%s-%s-%d", l.generation, a.name, a.session, a.n)}
	tool := tools[a.rng.IntN(len(tools))]
	if tool != "row.add" {
		about.Customer = fmt.Sprint("c", a.rng.IntN(60))
	}
	_, err := l.Call(ctx, tx, tool, about)
	if err == nil {
		l.mu.Lock()
		l.called[tool]++
		l.mu.Unlock()
	}
	return err
}

func (l *load) add(a *agent, made check.Attempt, content string, sent bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	a.last = err
	if !sent {
		return
	}
	if made.Tx == "" {
		l.unnamed[content] = len(l.attempts)
	}
	l.attempts = append(l.attempts, made)
	if made.State == check.Committed {
		l.commits++
		l.newest[made.Agent] = max(l.newest[made.Agent], made.Start)
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// named gives attempts that were not even told their transaction's name the one under which the log has what they
// wrote. The others never got there and are left out.
func (l *load) named(outcomes []*sequencer.Outcome) []check.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range outcomes {
		for i := range o.Shards {
			if at, ok := l.unnamed[string(o.Shards[i].Content)]; ok && o.Kind == sequencer.OutcomeCommitted {
				l.attempts[at].Tx = string(o.Tx)
			}
		}
	}
	var all []check.Attempt
	for i := range l.attempts {
		if l.attempts[i].Tx != "" {
			all = append(all, l.attempts[i])
		}
	}
	return all
}

// since waits until every agent has committed something that it began after a moment.
func (l *load) since(at int64, bound time.Duration) error {
	return l.wait(bound, func() error {
		for _, a := range l.agents {
			if l.newest[a.name] <= at {
				return fmt.Errorf("nothing was committed by %s, whose conversation %s was told: %v", a.name, a.session, a.last)
			}
		}
		return nil
	})
}

// reach waits until so many attempts are committed in all.
func (l *load) reach(commits int, bound time.Duration) error {
	return l.wait(bound, func() error {
		if l.commits < commits {
			return fmt.Errorf("%d of %d transactions are committed", l.commits, commits)
		}
		return nil
	})
}

// wait looks at each commit whether something holds, and returns what it still lacks after the bound.
func (l *load) wait(bound time.Duration, lacks func() error) error {
	deadline := time.After(bound)
	for {
		l.mu.Lock()
		err, moved := lacks(), l.moved
		l.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-moved:
		case <-deadline:
			return fmt.Errorf("within %v: %w", bound, err)
		}
	}
}

// busy is how many attempts are under way, and how many are committed.
func (l *load) busy() (open, commits int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.commits
}

// lastOnes has every conversation commit five transactions one after the other, once all is well again.
func (l *load) lastOnes(ctx context.Context) error {
	errs := make([]error, len(l.agents))
	var working sync.WaitGroup
	for i, a := range l.agents {
		working.Go(func() {
			for n := 0; n < 5 && errs[i] == nil; n++ {
				errs[i] = l.oneOfTheLast(ctx, a)
			}
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// lastBound is how long one of the last transactions may take: what was left open by an attempt that was given up
// binds others until its deadline.
const lastBound = 60 * time.Second

func (l *load) oneOfTheLast(ctx context.Context, a *agent) error {
	for began := time.Now(); time.Since(began) < lastBound; {
		switch l.attempt(ctx, a) {
		case check.Committed:
			return nil
		case check.Unknown:
			var waits *client.Undecided
			if a.last != nil && !errors.As(a.last, &waits) && !errors.Is(a.last, context.DeadlineExceeded) {
				return fmt.Errorf("%s does not know what became of a transaction: %w", a.name, a.last)
			}
		case check.Aborted: // another agent was before it
		}
		if err := pause.Sleep(ctx, time.Duration(a.rng.IntN(50))*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s could not commit within %v, and was told last: %w", a.name, lastBound, a.last)
}
