package outages

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Sizes of the test of moving partitions.
const (
	movePartitions = 8
	moveTalks      = 2                     // conversations of each workspace's agent
	moveThink      = 15 * time.Millisecond // of a conversation between two transactions
	moveLead       = 5                     // decisions of each workspace before and after each move
	moveOrphaned   = 10                    // of each workspace while no member of a group works
	moveBound      = 3 * time.Minute       // of one move
)

// orphaned is a time in which no member of a group works on some partitions.
type orphaned struct {
	partitions map[int32]bool
	still      func() bool // it has not ended: asked after an answer

	mu      sync.Mutex
	sealed  map[string]int // by workspace: seals that were sent in it
	decided map[string]int // of these, those that were answered in it
}

// sent notes a seal that is about to be sent within this time; nil: there is none.
func (o *orphaned) sent(workspace string) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sealed[workspace]++
	}
}

// answered notes the answer to such a seal. That the time has not ended is asked afterwards, so the decision came
// from outside the group.
func (o *orphaned) answered(s *shared) {
	if o == nil || !o.partitions[s.partition] || !o.still() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided[s.Workspace]++
}

// of are the seals of a workspace within this time, and the decided ones of them.
func (o *orphaned) of(workspace string) (sealed, decided int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sealed[workspace], o.decided[workspace]
}

// any reports whether anything was decided within this time.
func (o *orphaned) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.decided) > 0
}

// String counts by workspace.
func (o *orphaned) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := slices.Sorted(maps.Values(o.decided))
	if len(counts) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d in each of %d workspaces", counts[0], counts[len(counts)-1], len(counts))
}

// shared is one workspace under load: conversations that change one shard, each on what it has read.
type shared struct {
	*harness.Deployment
	sidecar   *harness.Sidecar
	partition int32
	lab       *moveLab

	mu       sync.Mutex
	attempts []check.Attempt
	begun    int // commits and refusals whose seal was sent after the last mark
	longest  time.Duration
	mark     time.Time
}

// moveLab is eight workspaces, one in each partition, over members of two groups.
type moveLab struct {
	*harness.Deployment
	t        *testing.T
	admin    *kadm.Client
	members  map[string]*harness.Member // a1, a2, b1, b2
	all      []*shared                  // by partition
	orphaned atomic.Pointer[orphaned]
	talks    int            // conversations that were begun in such times
	late     sync.WaitGroup // these
	failed   chan error     // of these
}

func openMoveLab(t *testing.T) *moveLab {
	t.Helper()
	l := &moveLab{t: t, Deployment: harness.Over(t, harness.Start(t)), members: map[string]*harness.Member{},
		failed: make(chan error, 1)}
	l.admin = kadm.NewClient(harness.RawClient(t, l.Brokers))
	second := l.Config
	second.Replica = "b"
	ctx, cancel := context.WithTimeout(t.Context(), comeBack)
	defer cancel()
	if err := streams.EnsureTopics(ctx, second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		l.members[name] = l.StartMember(t, harness.Binary(t), name[:1], l.instance(name))
	}
	for n := 0; len(l.all) < movePartitions; n++ {
		name := fmt.Sprint(l.Workspace, "-", n)
		if topology.PartitionOf(name, movePartitions) != int32(len(l.all)) {
			continue
		}
		d := l.In(name)
		l.all = append(l.all, &shared{Deployment: d, sidecar: d.Sidecar(t, "agent-1"), partition: int32(len(l.all)), lab: l})
	}
	return l
}

func (l *moveLab) instance(member string) string { return l.Workspace + "-" + member }

// owners are the partitions of hence.intents by member of a replica's sequencers, as Kafka has given them. A killed
// member has its own until its session has timed out.
func (l *moveLab) owners(replica string) (map[string]map[int32]bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), comeBack)
	defer cancel()
	group := topology.GroupOf(topology.GroupSequencer, map[string]string{"b": "b"}[replica])
	described, err := l.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return nil, err
	}
	owned := map[string]map[int32]bool{}
	for name := range l.members {
		for _, m := range described[group].Members {
			if m.InstanceID == nil || *m.InstanceID != l.instance(name)+"-"+group {
				continue
			}
			owned[name] = map[int32]bool{}
			if given, ok := m.Assigned.AsConsumer(); ok {
				for _, t := range given.Topics {
					for _, p := range t.Partitions {
						if t.Topic == topology.TopicIntents {
							owned[name][p] = true
						}
					}
				}
			}
		}
	}
	return owned, nil
}

// await waits until exactly these members of a replica share the partitions, each with some, and say that they have
// recovered them.
func (l *moveLab) await(replica string, members ...string) (owned map[string]map[int32]bool) {
	l.t.Helper()
	harness.Eventually(l.t, comeBack, func() (err error) {
		if owned, err = l.owners(replica); err != nil {
			return err
		}
		n := 0
		for _, name := range members {
			n += len(owned[name])
			if err := harness.Readyz(l.t.Context(), l.members[name].URL); err != nil || len(owned[name]) == 0 {
				return fmt.Errorf("member %s has %v: %v\n%s", name, owned[name], err, l.members[name].Words())
			}
		}
		if n != movePartitions || len(owned) != len(members) {
			return fmt.Errorf("group %s has %v, want %v to share %d partitions", replica, owned, members, movePartitions)
		}
		return nil
	})
	return owned
}

// load lets every workspace's conversations work until end is called, which returns what went wrong.
func (l *moveLab) load() (end func() error) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	errs := make([]error, len(l.all)*moveTalks)
	for i, s := range l.all {
		for n := range moveTalks {
			talk := fmt.Sprint("talk-", n)
			work.Go(func() {
				for at := &errs[i*moveTalks+n]; ctx.Err() == nil && *at == nil; {
					if *at = s.turn(context.WithoutCancel(ctx), talk, "shard:/moves"); *at == nil {
						_ = pause.Sleep(ctx, moveThink) // its end is the loop's
					}
				}
			})
		}
	}
	return func() error {
		cancel()
		work.Wait()
		return errors.Join(errs...)
	}
}

// turn reads a shard and writes it, once.
func (s *shared) turn(ctx context.Context, talk, scope string) error {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	c := s.sidecar.Client.Session(talk)
	start := time.Now()
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return fmt.Errorf("begin in %s: %w", s.Workspace, err)
	}
	read, err := tx.Read(ctx, scope)
	content := []byte(tx.ID())
	if err == nil {
		err = tx.Write(ctx, scope, content, client.WriteOptions{})
	}
	sealed, window := time.Now(), s.lab.orphaned.Load()
	var d client.Decision
	if err == nil {
		window.sent(s.Workspace)
		d, err = tx.Seal(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", tx.ID(), s.Workspace, err)
	}
	if d.Seq != 0 { // else the view refused it, without a decision
		window.answered(s)
	}
	a := check.Attempt{Agent: talk, Tx: tx.ID(), State: check.State(d.State), Seq: d.Seq, Code: d.Code,
		Reads:  []check.Read{{Scope: scope, Version: read.Version, View: read.View}},
		Writes: []check.Write{{Scope: scope, SHA256: fmt.Sprintf("%x", sha256.Sum256(content))}},
		Start:  start.UnixNano(), End: time.Now().UnixNano()}
	if read.Exists {
		a.Reads[0].SHA256 = fmt.Sprintf("%x", sha256.Sum256(read.Content))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, a)
	s.longest = max(s.longest, time.Since(sealed))
	if d.Seq != 0 && sealed.After(s.mark) {
		s.begun++
	}
	return nil
}

// more waits until each workspace has so many further decisions whose seals were sent from now on, and returns the
// longest wait for one since the last call, by workspace.
func (l *moveLab) more(n int) (longest []time.Duration) {
	l.t.Helper()
	for _, s := range l.all {
		s.mu.Lock()
		s.mark, s.begun = time.Now(), 0
		s.mu.Unlock()
	}
	harness.Eventually(l.t, moveBound, func() error {
		for _, s := range l.all {
			s.mu.Lock()
			begun := s.begun
			s.mu.Unlock()
			if begun < n {
				return fmt.Errorf("workspace %s, partition %d, has %d decisions, want %d", s.Workspace, s.partition, begun, n)
			}
		}
		return nil
	})
	for _, s := range l.all {
		s.mu.Lock()
		longest, s.longest = append(longest, s.longest), 0
		s.mu.Unlock()
	}
	return longest
}

// move does something to group a that moves partitions, and prints how long agents waited: those of workspaces whose
// partition changed its owner, and the others, whose members begin a new session, too.
func (l *moveLab) move(what string, moved map[int32]bool, do func()) {
	l.t.Helper()
	calm := slices.Max(l.more(moveLead))
	do()
	var of, others time.Duration
	for p, longest := range l.more(moveLead) {
		if moved[int32(p)] {
			of = max(of, longest)
		} else {
			others = max(others, longest)
		}
	}
	const grain = time.Millisecond
	l.t.Logf("%s: the longest wait for a decision: %v where the partition moved, %v elsewhere; %v before", what,
		of.Round(grain), others.Round(grain), calm.Round(grain))
}

// orphan opens a time in which no member of group a works on partitions, and lets a further conversation of each
// workspace seal in it: those that work already may all wait for what they have sealed before. over closes it.
func (l *moveLab) orphan(partitions map[int32]bool, still func(*orphaned) bool) (o *orphaned, over func()) {
	l.t.Helper()
	o = &orphaned{partitions: partitions, sealed: map[string]int{}, decided: map[string]int{}}
	o.still = func() bool { return still(o) }
	l.orphaned.Store(o)
	l.talks++
	talk := fmt.Sprint("late-", l.talks)
	for _, s := range l.all {
		l.late.Go(func() {
			if err := s.turn(context.WithoutCancel(l.t.Context()), talk, "shard:/late/"+talk); err != nil {
				select {
				case l.failed <- err:
				default: // one is enough
				}
			}
		})
	}
	harness.Eventually(l.t, comeBack, func() error {
		for _, s := range l.all {
			if sealed, _ := o.of(s.Workspace); sealed == 0 {
				return fmt.Errorf("no seal of %s was sent", s.Workspace)
			}
		}
		return nil
	})
	return o, func() { l.orphaned.Store(nil) }
}

// kill ends a1 without a farewell. Kafka gives its partitions to a2 when its session has timed out, and until then
// no member of group a works on them.
func (l *moveLab) kill() (o *orphaned) {
	l.t.Helper()
	was := l.await("a", "a1", "a2")["a1"]
	l.move("a1 is killed", was, func() {
		l.end(l.members["a1"].Kill())
		var over func()
		o, over = l.orphan(was, func(*orphaned) bool {
			owned, err := l.owners("a")
			return err == nil && len(owned["a1"]) == len(was)
		})
		l.await("a", "a2")
		over()
	})
	l.join()
	return o
}

// leave ends a1 with a farewell while a2 stands still, so that no member of group a works until enough has returned;
// then a2 goes on, and takes all partitions over.
func (l *moveLab) leave(enough func()) *orphaned {
	l.t.Helper()
	l.await("a", "a1", "a2")
	every := map[int32]bool{}
	for _, s := range l.all {
		every[s.partition] = true
	}
	l.end(l.members["a2"].Signal(syscall.SIGSTOP))
	l.farewell("a1")
	o, over := l.orphan(every, func(o *orphaned) bool { return l.orphaned.Load() == o })
	enough()
	over()
	l.end(l.members["a2"].Signal(syscall.SIGCONT))
	l.await("a", "a2")
	l.more(moveLead)
	l.join()
	return o
}

// farewell ends a member that leaves its groups.
func (l *moveLab) farewell(member string) {
	l.t.Helper()
	l.end(l.members[member].Interrupt())
	_, _, err := l.members[member].Wait(comeBack)
	l.end(err)
}

// leaveAndJoin is what a restart of a1 in order does.
func (l *moveLab) leaveAndJoin() {
	l.t.Helper()
	l.move("a1 leaves", l.await("a", "a1", "a2")["a1"], func() {
		l.farewell("a1")
		l.await("a", "a2")
	})
	l.join()
}

// join starts a1 again.
func (l *moveLab) join() {
	l.t.Helper()
	moved := map[int32]bool{}
	l.move("a1 joins", moved, func() {
		l.members["a1"].Restart(l.t)
		maps.Copy(moved, l.await("a", "a1", "a2")["a1"])
	})
}

func (l *moveLab) end(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestMoves lets two members of each group share eight partitions under load, and moves partitions of group a: a
// member leaves, is killed, and joins.
//
// With two groups there is no gap: what is sealed while no member of group a works on the workspace is decided before
// one does again. That is counted, and not timed: the seal is sent after the owner has ended, and the answer is there
// before the heir has begun. With one group the same count has to be nothing, and the pauses are printed. In the end
// no decision is lost, made twice or out of order, and both groups have written the same ones.
func TestMoves(t *testing.T) {
	harness.Whole(t)
	l := openMoveLab(t)
	l.await("b", "b1", "b2")
	over := l.load() // where nothing is asked for, a member that has its share publishes nothing
	for _, name := range []string{"b1", "b2"} {
		l.members[name].CaughtUp(t) // its tables may be new, and the servers' log long
	}
	t.Log("two groups")
	for range harness.Number(t, "HENCE_IT_MOVES", 1) {
		l.noGap(l.leave(func() { l.more(moveOrphaned) }), moveOrphaned)
		l.noGap(l.kill(), 1)
		l.leaveAndJoin()
	}
	l.farewell("b1")
	l.farewell("b2")
	t.Log("one group")
	for _, o := range []*orphaned{l.leave(func() {}), l.kill()} {
		if o.any() {
			t.Errorf("the only group had nobody, and this was decided: %v: the count is wrong", o)
		}
	}
	l.leaveAndJoin()
	l.end(over())
	l.late.Wait()
	select {
	case err := <-l.failed:
		t.Error(err)
	default:
	}
	for _, s := range l.all {
		decisions := harness.DecisionsOf(t, l.Servers, s.Workspace, s.attempts)
		harness.Holds(t, s.attempts, decisions)
		t.Logf("%s: %d decisions, of %d there are copies", s.Workspace, len(decisions), l.copies(s.Workspace))
	}
}

// noGap holds that while no member of group a worked on it each workspace had so many decisions at least.
func (l *moveLab) noGap(o *orphaned, least int) {
	l.t.Helper()
	l.t.Logf("decided while group a had nobody for the workspace: %v", o)
	for _, s := range l.all {
		if _, n := o.of(s.Workspace); o.partitions[s.partition] && n < least {
			l.t.Errorf("%s: %d decisions while group a had nobody for partition %d, want %d at least", s.Workspace, n,
				s.partition, least)
		}
	}
}

// copies holds that a decision which was published more than once was the same each time, and returns how many copies
// there are: some, since two groups have worked.
func (l *moveLab) copies(workspace string) (copies int) {
	l.t.Helper()
	seen := map[sequencer.Seq]sequencer.Hash{}
	for _, r := range harness.ReadTopic(l.t, l.Brokers, topology.TopicDecisions, workspace) {
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			l.t.Fatal(err)
		}
		if had, ok := seen[o.Seq]; ok {
			copies++
			if had != o.Chain {
				l.t.Errorf("%s: seq %d was published with the chain hashes %x and %x", workspace, o.Seq, had, o.Chain)
			}
		}
		seen[o.Seq] = o.Chain
	}
	if copies == 0 {
		l.t.Errorf("%s: only one group has published", workspace)
	}
	return copies
}
