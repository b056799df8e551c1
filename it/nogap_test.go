package it

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// Sizes of the test of the gap.
const (
	gapAgents = 6
	gapThink  = 15 * time.Millisecond // of an agent between two transactions
	gapLead   = 150                   // transactions between a group's return and its next kill
	gapMax    = 3                     // times the p99 of the calm run
)

// waiting is how long agents waited for decisions: from the call of seal to its answer.
type waiting struct {
	mu       sync.Mutex
	all      []time.Duration
	attempts []check.Attempt
	moved    chan struct{}
}

func newWaits() *waiting { return &waiting{moved: make(chan struct{})} }

func (w *waiting) add(d time.Duration, a check.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.attempts = append(w.all, d), append(w.attempts, a)
	close(w.moved)
	w.moved = make(chan struct{})
}

// more waits until n further decisions were answered.
func (w *waiting) more(ctx context.Context, n int) error {
	w.mu.Lock()
	want := len(w.all) + n
	w.mu.Unlock()
	for {
		w.mu.Lock()
		have, moved := len(w.all), w.moved
		w.mu.Unlock()
		if have >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%d more decisions are wanted: %w", want-have, context.Cause(ctx))
		}
	}
}

// take returns what was gathered since the last take, sorted.
func (w *waiting) take() waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := waited(w.all)
	w.all = nil
	slices.Sort(s)
	return s
}

// waited is sorted durations.
type waited []time.Duration

func (s waited) at(share float64) time.Duration { return s[min(int(share*float64(len(s))), len(s)-1)] }

func (s waited) longest() time.Duration { return s[len(s)-1] }

// String prints what matters.
func (s waited) String() string {
	if len(s) == 0 {
		return "nothing"
	}
	const grain = 10 * time.Microsecond
	return fmt.Sprintf("%d decisions, p50 %v, p99 %v, longest %v", len(s), s.at(0.5).Round(grain),
		s.at(0.99).Round(grain), s.longest().Round(grain))
}

// loaded lets each sidecar's agent commit one transaction after the other on a scope of its own, until the returned
// function ends that and says what went wrong.
func loaded(tb testing.TB, sidecars []*harness.Sidecar, w *waiting) (end func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var agents sync.WaitGroup
	errs := make([]error, len(sidecars))
	for i, s := range sidecars {
		agents.Go(func() {
			for n := 0; ctx.Err() == nil && errs[i] == nil; n++ {
				if errs[i] = timedCommit(context.WithoutCancel(ctx), s, n, w); errs[i] == nil {
					_ = pauseFor(ctx, gapThink) // its end is the loop's
				}
			}
		})
	}
	return func() error {
		cancel()
		agents.Wait()
		return errors.Join(errs...)
	}
}

func timedCommit(ctx context.Context, s *harness.Sidecar, n int, w *waiting) error {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	tx, err := s.Client.Begin(ctx, client.BeginOptions{})
	if err == nil {
		err = tx.Write(ctx, "shard:/gap/"+s.Agent, fmt.Append(nil, n), client.WriteOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Agent, err)
	}
	start := time.Now()
	d, err := tx.Seal(ctx)
	if err != nil {
		return fmt.Errorf("%s: seal %s: %w", s.Agent, tx.ID(), err)
	}
	if d.State != string(check.Committed) {
		return fmt.Errorf("%s: %s is %s %s", s.Agent, tx.ID(), d.State, d.Code)
	}
	w.add(time.Since(start), check.Attempt{Agent: s.Agent, Tx: tx.ID(), State: check.Committed, Seq: d.Seq})
	return nil
}

// gapLab is a workspace under load with its groups of processors.
type gapLab struct {
	*harness.Deployment
	t        *testing.T
	first    *harness.Member
	second   *harness.Member
	sidecars []*harness.Sidecar
	waits    *waiting
}

func openGapLab(t *testing.T) *gapLab {
	t.Helper()
	l := &gapLab{t: t, Deployment: harness.Over(t, harness.Start(t)), waits: newWaits()}
	second := l.Config
	second.Replica = "b"
	ctx, cancel := context.WithTimeout(t.Context(), comeBack)
	defer cancel()
	if err := streams.EnsureTopics(ctx, second); err != nil {
		t.Fatal(err)
	}
	l.first = l.StartMember(t, henceBinary(t), "a", l.Workspace+"-a")
	l.second = l.StartMember(t, henceBinary(t), "b", l.Workspace+"-b")
	l.sidecars = l.Sidecars(t, gapAgents)
	return l
}

// under runs a part of the test under load and returns the waits.
func (l *gapLab) under(part func(ctx context.Context) error) waited {
	l.t.Helper()
	ctx, cancel := context.WithTimeoutCause(l.t.Context(), 100*time.Second, errors.New("its time is over"))
	defer cancel()
	end := loaded(l.t, l.sidecars, l.waits)
	err := l.waits.more(ctx, gapLead) // connections stand, caches are warm
	l.waits.take()
	if err == nil {
		err = part(ctx)
	}
	if err = errors.Join(err, end()); err != nil {
		l.t.Fatal(err)
	}
	return l.waits.take()
}

// kills kills the first group's process under load and starts it again, n times: when it is alone at once, else after
// the other one has worked alone. It returns how many of them landed while the group was at work.
func (l *gapLab) kills(ctx context.Context, n int, alone bool) (landed int, err error) {
	for range n {
		l.first.Publishing(l.t, 1)
		if err := l.waits.more(ctx, gapLead); err != nil {
			return landed, err
		}
		before, err := l.first.Count(ctx, harness.Published)
		if err != nil {
			return landed, err
		}
		if err := l.first.Kill(); err != nil {
			return landed, err
		}
		if before >= gapLead/2 {
			landed++
		}
		if !alone {
			if err := l.waits.more(ctx, gapLead/3); err != nil {
				return landed, err
			}
		}
		l.first.Restart(l.t)
	}
	return landed, l.waits.more(ctx, gapLead)
}

// TestNoGap kills one of two groups of processors again and again under load. No agent waits for that: the longest
// wait of all stays under three times the p99 of a run without kills. Beside it stands what one group alone does.
func TestNoGap(t *testing.T) {
	kills := number(t, "HENCE_IT_GAP_KILLS", onReal(5, 3))
	l := openGapLab(t)
	l.first.Publishing(t, 1)
	l.second.Publishing(t, 1)
	var landed int
	var calm, two waited
	void := 0
	for {
		calm = l.under(func(ctx context.Context) error { return l.waits.more(ctx, kills*2*gapLead) })
		if calm.longest() < gapMax*calm.at(0.99) {
			break
		}
		void++
		t.Logf("void: without a kill, too, somebody waited more than %d times the p99: %s", gapMax, calm)
		if void == 5 {
			break
		}
	}
	two = l.under(func(ctx context.Context) (err error) {
		landed, err = l.kills(ctx, kills, false)
		return err
	})
	if err := l.second.Kill(); err != nil {
		t.Fatal(err)
	}
	one := l.under(func(ctx context.Context) error {
		_, err := l.kills(ctx, min(kills, 3), true)
		return err
	})
	t.Logf("%s: without kills %s", l.Kind, calm)
	t.Logf("two groups, %d kills of one, %d landed: %s: %.1f times the calm p99", kills, landed, two,
		float64(two.longest())/float64(calm.at(0.99)))
	t.Logf("one group, %d kills of it: %s: %.1f times", min(kills, 3), one, float64(one.longest())/float64(calm.at(0.99)))
	if landed < kills {
		t.Errorf("%d of %d kills landed while the group was at work", landed, kills)
	}
	if two.longest() >= gapMax*calm.at(0.99) {
		t.Errorf("somebody waited %v, want less than %d times %v", two.longest(), gapMax, calm.at(0.99))
	}
	attempts := l.waits.attempts
	holds(t, attempts, decisionsOf(t, l.Servers, l.Workspace, attempts))
}
