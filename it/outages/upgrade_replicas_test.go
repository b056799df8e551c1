package outages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Sizes of the rolling upgrade.
const (
	rollSidecars = 2
	rollCommits  = 20              // of the agents after each step
	rollProbes   = 40              // decisions that are timed in each part
	rollBound    = 2 * time.Minute // of one step
	rollDeadline = 3_000           // ms; shorter than an agent waits, so that what one leaves behind stops no other
)

// rolling is a workspace of the former build with two groups of processors, which this build replaces one by one.
type rolling struct {
	*boxLab
	t        *testing.T
	was, is  string // binaries
	a, b     *harness.Member
	sidecars []*upgraded
	probing  *upgraded          // a sidecar whose agent only commits on a scope of its own, and is timed
	probe    []*harness.Sidecar // that one
	waits    *waiting
	stop     func() error // of the probe
	calm     waited       // between the steps
	changes  []change
}

// change is how long agents waited for decisions while a group was replaced.
type change struct {
	waited
	replica string
	away    time.Duration // from its end until its first decision
}

// TestUpgradeReplicas puts this build in the place of the former one, under load and one part after the other: a group
// of processors, the sidecars, the other group; some are told to end, some are killed. Both builds decide at the same
// time and say the same. No decision is missing, no agent waits for a group, and the workspace keeps its logic.
func TestUpgradeReplicas(t *testing.T) {
	r := openRolling(t)
	end := r.load.run(t.Context(), r.agents)
	began := time.Now()
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"nothing", func(context.Context) error { return nil }},
		{"replica a", func(ctx context.Context) error { return r.replace(ctx, &r.a, "a", (*harness.Member).Interrupt) }},
		{"a sidecar", func(context.Context) error { return r.renew(r.sidecars[0], (*harness.Process).Kill) }},
		{"another sidecar", func(context.Context) error { return r.renew(r.sidecars[1], (*harness.Process).Interrupt) }},
		{"the probe's sidecar", func(context.Context) error { return r.renewProbe() }},
		{"a workspace beside an old group", r.mixed},
		{"replica b", func(ctx context.Context) error { return r.replace(ctx, &r.b, "b", (*harness.Member).Kill) }},
		{"a workspace", r.newest},
	} {
		if err := r.after(step.do); err != nil {
			end()
			t.Fatalf("new: %s: %v", step.name, err)
		}
		figures, _ := r.load.figures()
		t.Logf("after %v, new: %s: %s", time.Since(began).Round(time.Millisecond), step.name, figures)
	}
	end()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r.noGap()
	r.load.lastOnes(t, r.agents)
	r.load.attempts = append(r.load.attempts, r.waits.attempts...)
	r.judge(t)
	r.sameSaid()
	r.sameLogic()
}

// openRolling starts everything with the former build, its topics too.
func openRolling(t *testing.T) *rolling {
	t.Helper()
	r := &rolling{t: t, was: previousBinary(t, beforeLogic3), is: harness.Binary(t), waits: newWaits()}
	// Servers of its own: on those of the suite there are workspaces of a logic that the former build stops before.
	r.boxLab = &boxLab{Deployment: harness.Over(t, harness.StartEmpty(t)), shop: harness.OpenShop(t), load: newBoxLoad()}
	r.load.deadlineMs = rollDeadline
	for _, replica := range []string{"a", "b"} {
		out, code, err := harness.Spawn(t, r.was, nil, "topics", "create", "--brokers", strings.Join(r.Brokers, ","),
			"--nats", r.NATS, "--replica", replica).Wait(comeBack)
		if err != nil || code != 0 {
			t.Fatalf("the former build creates the topics of replica %s: %d, %v: %s", replica, code, err, out)
		}
	}
	r.a = r.StartMember(t, r.was, "a", r.Workspace+"-a")
	r.b = r.StartMember(t, r.was, "b", r.Workspace+"-b")
	r.sidecars = r.processes(t, rollSidecars)
	ports, err := harness.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	u, s := r.process(t, "probe", ports[0])
	s.Client = client.New(s.URL, s.Token, client.WithWorkspace(r.Workspace))
	t.Cleanup(s.Client.Close)
	r.probing, r.probe = u, []*harness.Sidecar{s}
	for _, u := range append(r.sidecars, r.probing) {
		u.start(t, r.was)
	}
	r.stop = loaded(t, r.probe, r.waits)
	for _, m := range []*harness.Member{r.a, r.b} {
		m.Publishing(t, 1)
	}
	return r
}

// after takes a step and holds that everything goes on, that both groups have compared further states, and that none
// of them finds a difference or has stopped.
func (r *rolling) after(step func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), rollBound, fmt.Errorf("%v are over", rollBound))
	defer cancel()
	err := step(ctx)
	if err == nil {
		err = r.load.reach(rollCommits, boxAgain)
	}
	if err == nil {
		r.waits.take()
		err = r.waits.more(ctx, rollProbes)
		r.calm = append(r.calm, r.waits.take()...)
	}
	for name, m := range map[string]*harness.Member{"a": r.a, "b": r.b} {
		if err == nil {
			err = r.agrees(ctx, m)
		}
		if faults := r.faults(m); faults != nil { // why nothing goes on, when it does not
			err = errors.Join(err, fmt.Errorf("replica %s: %w\n%s", name, faults, m.Words()))
		}
	}
	return err
}

// agrees waits until a member has compared one more state of both groups and is ready.
func (r *rolling) agrees(ctx context.Context, m *harness.Member) error {
	const compared = "hence_replica_states_compared_total"
	before, err := m.Count(ctx, compared)
	for now := before; err == nil && now <= before; {
		if err = r.waits.more(ctx, 5); err == nil {
			now, err = m.Count(ctx, compared)
		}
	}
	for ready := harness.Readyz(ctx, m.URL); err == nil && ready != nil; ready = harness.Readyz(ctx, m.URL) {
		if err = r.waits.more(ctx, 5); err != nil { // a group that has just got its partitions is not ready yet
			err = errors.Join(err, ready)
		}
	}
	return err
}

// faults are those of a member's counters that must stay zero and have not.
func (r *rolling) faults(m *harness.Member) (err error) {
	for _, name := range []string{"hence_replica_divergence", "hence_partitions_stopped", "hence_workspaces_stopped",
		"hence_frontier_gaps_total", "hence_scars_total"} {
		n, countErr := m.Count(r.t.Context(), name)
		if countErr == nil && n != 0 {
			countErr = fmt.Errorf("%s is %v", name, n)
		}
		err = errors.Join(err, countErr)
	}
	return err
}

// replace ends a group's process in some way and starts this build in its place. What agents wait for meanwhile is
// kept apart.
func (r *rolling) replace(ctx context.Context, m **harness.Member, replica string,
	end func(*harness.Member) error) error {
	r.waits.take()
	start := time.Now()
	if err := end(*m); err != nil {
		return err
	}
	_, _, _ = (*m).Wait(comeBack) // a kill is no clean end
	*m = r.StartMember(r.t, r.is, replica, r.Workspace+"-"+replica)
	(*m).Publishing(r.t, 1)
	c := change{replica: replica, away: time.Since(start)}
	err := r.waits.more(ctx, rollProbes)
	c.waited = r.waits.take()
	r.changes = append(r.changes, c)
	return err
}

// renew ends a sidecar in some way and starts this build in its place.
func (r *rolling) renew(u *upgraded, end func(*harness.Process) error) error {
	if err := end(u.Process); err != nil {
		return err
	}
	_, _, _ = u.Wait(comeBack) // a kill is no clean end
	u.start(r.t, r.is)
	return nil
}

// renewProbe replaces the sidecar that is timed; its agent pauses meanwhile, the others do not.
func (r *rolling) renewProbe() error {
	err := r.stop()
	if err == nil {
		err = r.renew(r.probing, (*harness.Process).Interrupt)
	}
	r.stop = loaded(r.t, r.probe, r.waits)
	return err
}

// noGap holds that no agent waited for a group that was replaced: the longest wait stays under three times the p99
// between the steps, or, where the machine is busy with other things, under two thirds of the time that the group was
// away. Without the other group an agent waits for nearly all of that.
func (r *rolling) noGap() {
	r.t.Helper()
	slices.Sort(r.calm)
	r.t.Logf("%s: between the steps %s", r.Kind, r.calm)
	for _, c := range r.changes {
		limit := max(gapMax*r.calm.at(0.99), c.away*2/3)
		r.t.Logf("replica %s was away for %v; meanwhile %s: the longest is %.1f times the p99 between the steps", c.replica,
			c.away.Round(time.Millisecond), c.waited, float64(c.longest())/float64(r.calm.at(0.99)))
		if c.longest() >= limit {
			r.t.Errorf("while replica %s was replaced an agent waited %v, the limit is %v", c.replica, c.longest(), limit)
		}
	}
}

// newcomer begins a workspace with a sidecar of this build, which must ask for a logic that all owners know.
func (r *rolling) newcomer(ctx context.Context, name string, want uint32) error {
	d := r.In(r.Workspace + "-" + name)
	if err := timedCommit(ctx, d.Sidecar(r.t, name), 0, newWaits()); err != nil {
		return err
	}
	records := harness.ReadTopic(r.t, r.Brokers, topology.TopicIntents, d.Workspace)
	in, err := topology.DecodeIntent(records[0].Value)
	if err == nil && (in.Kind != sequencer.IntentJoin || in.Join.Logic != want) {
		err = fmt.Errorf("the workspace %s begins with %s and %+v, want logic %d", d.Workspace, in.ID(), in.Join, want)
	}
	return err
}

// mixed begins a workspace while one group is of the former build.
func (r *rolling) mixed(ctx context.Context) error {
	return r.newcomer(ctx, "mixed", recorded.FormerLogic)
}

// newest begins workspaces until one has the newest logic: what is known of owners that are gone may last a while.
func (r *rolling) newest(ctx context.Context) (err error) {
	for n := range 30 {
		if err = r.newcomer(ctx, fmt.Sprint("new-", n), sequencer.Logic); err == nil {
			return nil
		}
		if err := pause.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return err
}

// sameSaid holds that every decision of the workspace has the same bytes in all its copies.
func (r *rolling) sameSaid() {
	r.t.Helper()
	said, copies := map[sequencer.Seq][]byte{}, 0
	for _, rec := range harness.ReadTopic(r.t, r.Brokers, topology.TopicDecisions, r.Workspace) {
		o, err := topology.DecodeCloudEvent(rec.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := topology.EncodeOutcome(o)
		if err != nil {
			r.t.Fatal(err)
		}
		if former := said[o.Seq]; former == nil {
			said[o.Seq] = b
		} else if copies++; !bytes.Equal(former, b) {
			r.t.Errorf("two builds say different things of seq %d:\n%x\n%x", o.Seq, former, b)
		}
	}
	r.t.Logf("%d decisions, %d copies of them by the other group: all the same", len(said), copies)
	if copies == 0 {
		r.t.Error("nothing was said twice: there were no two groups at work")
	}
}

// sameLogic holds that both groups' rows of the workspace are still under the logic with which it began.
func (r *rolling) sameLogic() {
	r.t.Helper()
	for _, replica := range []string{"a", "b"} {
		table := topology.TableOf(topology.GroupOf(topology.GroupSequencer, replica))
		row := harness.ReadTable(r.t, r.Brokers, table, r.Workspace)[r.Workspace]
		state, err := topology.DecodeReplica(row)
		if err != nil {
			r.t.Fatalf("the row of %s in %s: %v", r.Workspace, table, err)
		}
		if logic := state.State.Rules.Logic; logic != recorded.FormerLogic {
			r.t.Errorf("replica %s has the workspace under logic %d, it began under %d", replica, logic, recorded.FormerLogic)
		}
	}
}
