package gates

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/recorded"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// record is set by -record, which writes recorded logs again.
var record = flag.Bool("record", false, "TestRecordGateLogs: record the logs of sessions with tool calls again")

const gateLogsFolder = "testdata/logs"

// TestRecordedGateLogs replays the logs of sessions with tool calls, as TestRecordedLogs does those of demo runs. They
// hold every kind of intent and every kind of outcome.
func TestRecordedGateLogs(t *testing.T) {
	intents, outcomes := map[sequencer.IntentKind]int{}, map[sequencer.OutcomeKind]int{}
	for _, order := range harness.Orders() {
		t.Run(order, func(t *testing.T) {
			frames := recorded.Keeps(t, gateLogsFolder, order)
			replica := sequencer.NewReplica("w")
			for _, f := range frames {
				in, err := topology.DecodeIntent(f.Value)
				if err != nil {
					t.Fatal(err)
				}
				intents[in.Kind]++
				applied, err := replica.Apply(f.Offset, in)
				if err != nil {
					t.Fatal(err)
				}
				for i := range applied.Outcomes {
					outcomes[applied.Outcomes[i].Kind]++
				}
			}
			if logic := replica.Fold().State().Rules.Logic; logic != 2 {
				t.Errorf("it was recorded under logic %d: want 2", logic)
			}
		})
	}
	t.Logf("intents %v, outcomes %v", intents, outcomes)
	for kind := sequencer.IntentJoin; kind <= sequencer.IntentTick; kind++ {
		if intents[kind] == 0 {
			t.Errorf("no log has a %v", kind)
		}
	}
	for kind := sequencer.OutcomeBegun; kind <= sequencer.OutcomeTurn; kind++ {
		if outcomes[kind] == 0 {
			t.Errorf("no log has an outcome %v", kind)
		}
	}
}

// TestRecordGateLogs records the logs of sessions with tool calls; it does nothing without -record.
func TestRecordGateLogs(t *testing.T) {
	if !*record {
		t.Skip("nothing to do: the flag -record writes the recorded logs again, which changes what later versions must keep")
	}
	servers := harness.Start(t)
	for _, order := range harness.Orders() {
		s := &gateSession{order: order, errands: harness.NewErrands()}
		if !t.Run(order, func(t *testing.T) { s.play(t, servers) }) {
			return
		}
		recorded.Record(t, servers, gateLogsFolder, order, s.workspace, "a session of tool calls, "+order)
	}
}

// gateSession is a session in which everything happens that the gate brings into a log.
type gateSession struct {
	order     string
	workspace string
	errands   *harness.Errands
	shop      *harness.Shop
	cfg       sidecar.Config
	sidecars  []*harness.Sidecar
}

// play ends with the sidecars' end.
func (s *gateSession) play(t *testing.T, servers *harness.Servers) {
	d := harness.Deploy(t, servers)
	s.workspace, s.shop = d.Workspace, harness.OpenShop(t)
	s.shop.MaxTime = 300 * time.Millisecond
	s.cfg = sidecar.Config{Tools: s.shop.Tools(t), Hook: vetoing(t), Order: modeNamed(s.order),
		Limits: sidecar.Limits{AdoptAfter: 200 * time.Millisecond, RenewEvery: 500 * time.Millisecond}}
	s.sidecars = d.SidecarsWith(t, 3, s.cfg)
	shortLease(t, s.sidecars[0])
	for i, step := range []func(context.Context, *harness.Deployment, *testing.T) error{
		s.mistakes, s.branches, s.retractions, s.tools, s.ownActs, s.orphans, s.meetings, s.rules,
	} {
		if err := step(t.Context(), d, t); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func modeNamed(order string) sequencer.Mode {
	return map[string]sequencer.Mode{"ordered": sequencer.Ordered, "locked": sequencer.Locked}[order]
}

// mistakes are commits with held calls, and every way in which they do not get there.
func (s *gateSession) mistakes(ctx context.Context, _ *harness.Deployment, _ *testing.T) error {
	for i, kind := range mistakes() {
		if kind.name == "stale read" && s.order == "locked" {
			continue // there a read is never stale: who would write waits
		}
		about := harness.Task{Task: fmt.Sprintf("m%d", i), Customer: "c"}
		if err := kind.make(ctx, s.errands, s.sidecars[i%3], s.sidecars[(i+1)%3], about); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		tx, err := s.sidecars[i%3].Client.Begin(ctx, client.BeginOptions{})
		if err == nil {
			err = everySink(ctx, s.errands, tx, about.Task+"-good")
		}
		if err == nil {
			err = s.errands.Sealed(ctx, tx, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// branches are groups of which one branch is chosen.
func (s *gateSession) branches(ctx context.Context, _ *harness.Deployment, _ *testing.T) error {
	for round := range 2 {
		g, err := s.sidecars[round].Client.Speculate(ctx, 3, client.BeginOptions{})
		if err == nil {
			err = speculate(ctx, s.errands, g, round, round)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// retractions are one with open transactions above it, and two at once.
func (s *gateSession) retractions(ctx context.Context, _ *harness.Deployment, _ *testing.T) error {
	for n, shape := range []string{"chain", "fan", "mixed"} {
		r := newRetold(s.sidecars, s.errands, s.shop, n)
		r.mode = s.order
		err := r.tell(ctx, shape, 5)
		roots := []string{r.root()}
		if err == nil && n == 2 {
			roots = append(roots, r.story[len(r.story)-2].name)
		} else if err == nil {
			err = r.hold(ctx, 5)
		}
		if err == nil {
			err = r.retracted(ctx, roots...)
		}
		if err != nil {
			return fmt.Errorf("a %s: %w", shape, err)
		}
	}
	return nil
}

// tools changes and withdraws a tool that a plan relies on.
func (s *gateSession) tools(ctx context.Context, d *harness.Deployment, t *testing.T) error {
	plans := t.Context()
	c := s.sidecars[0].Client
	for i, change := range []func() error{
		func() error { _, err := c.PutTool(ctx, "plan", "tool", "changed"); return err },
		func() error { _, err := c.DeleteTool(ctx, "plan", "tool"); return err },
		func() error { _, err := c.PutTool(ctx, "plan", "other", "1"); return err },
	} {
		signature := fmt.Sprint(i)
		if _, err := c.PutTool(ctx, "plan", "tool", signature); err != nil {
			return err
		}
		tx := planned(t, s.errands, s.sidecars[0], "plan-"+signature)
		if err := change(); err != nil {
			return err
		}
		if _, err := tx.SealPinned(plans, []client.Pin{{Server: "plan", Name: "tool", Signature: signature}}); err != nil {
			return err
		}
		if _, err := s.errands.Over(ctx, tx); err != nil {
			return err
		}
	}
	return s.withdrawn(ctx, d, t)
}

// withdrawn ends a server of tools.
func (s *gateSession) withdrawn(ctx context.Context, d *harness.Deployment, t *testing.T) error {
	tx, err := s.sidecars[0].Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	if err := tx.Abort(ctx, ""); err != nil {
		return err
	}
	in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Agent: s.sidecars[0].Agent,
		Incarnation: sequencer.Seq(incarnationOf(t, tx.ID())),
		Register:    &sequencer.Register{Server: "plan", Generation: 1 << 40}}
	_, err = d.Dial(t).Append(ctx, d.Workspace, in)
	return err
}

// ownActs are touches under which an agent acts by itself, and what it says of that after an abort.
func (s *gateSession) ownActs(ctx context.Context, _ *harness.Deployment, _ *testing.T) error {
	for i, result := range []string{"", "clean", "leaked", "partial"} {
		tx, err := s.sidecars[i%3].Client.Begin(ctx, client.BeginOptions{})
		if err != nil {
			return err
		}
		scope := fmt.Sprintf("own:/%d", i)
		wants := []client.Want{{Scope: scope, Access: "write"}}
		if _, err := tx.Touch(ctx, wants, client.TouchOptions{}); err != nil {
			return err
		}
		beside, err := s.sidecars[i%3].Client.Begin(ctx, client.BeginOptions{})
		if err != nil {
			return err
		}
		_, err = beside.Touch(ctx, wants, client.TouchOptions{})
		if harness.ProblemCode(err) != string(sequencer.CodeOwnTransaction) {
			return fmt.Errorf("what a transaction of the same agent holds is touched: %w", err)
		}
		if err := beside.Abort(ctx, ""); err != nil {
			return err
		}
		if result == "" {
			if err := s.errands.Sealed(ctx, tx, ""); err != nil {
				return err
			}
			continue
		}
		if err := tx.Abort(ctx, "changed its mind"); err != nil {
			return err
		}
		if _, err := tx.Settle(ctx, []client.SettledEffect{{Scopes: []string{scope}, Result: result}}, true); err != nil {
			return err
		}
		if _, err := s.errands.Over(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// orphans are calls of a sidecar that goes: one is adopted by one that waits for it, one is settled by the next
// sidecar of its agent.
func (s *gateSession) orphans(ctx context.Context, d *harness.Deployment, t *testing.T) error {
	cfg := s.cfg
	cfg.Agent = "goes"
	for i := range 2 {
		goes := d.SidecarWith(t, cfg)
		tx, err := goes.Client.Begin(ctx, client.BeginOptions{})
		if err != nil {
			return err
		}
		path := fmt.Sprintf("orphans/%d", i)
		if err := (inFiles{s.errands}).write(ctx, tx, path, "left"); err != nil {
			return err
		}
		goes.Stop()
		if i == 1 {
			next := d.SidecarWith(t, cfg)
			defer next.Stop()
		}
		wants, err := s.sidecars[0].Client.Begin(ctx, client.BeginOptions{})
		if err == nil {
			err = errors.Join((inFiles{s.errands}).write(ctx, wants, path, "wanted"), s.errands.Sealed(ctx, wants, ""))
		}
		if err != nil {
			return fmt.Errorf("orphan %d: %w", i, err)
		}
	}
	return nil
}

// meetings are agents that want the same at the same time.
func (s *gateSession) meetings(ctx context.Context, _ *harness.Deployment, t *testing.T) error {
	read := &seen{reads: map[string]map[string]string{}}
	first, err := s.sidecars[0].Client.Begin(ctx, client.BeginOptions{})
	for _, part := range []string{status, address} {
		if err == nil {
			err = inFiles{s.errands}.write(ctx, first, part, nothing)
		}
	}
	if err == nil {
		err = s.errands.Sealed(ctx, first, "")
	}
	if err != nil {
		return err
	}
	harness.Share(t, 3, 6, func(_ context.Context, worker, job int) error {
		tx, err := s.sidecars[worker].Client.Begin(ctx, client.BeginOptions{})
		if err == nil {
			_, err = persist(ctx, s.errands, tx, func(tx *client.Tx) error {
				return turn(ctx, tx, []orderAt{inShards{}, inFiles{s.errands}}[job%2], read, job < 3)
			})
		}
		return err
	})
	return nil
}

// rules changes the workspace's rules and works on under the new ones.
func (s *gateSession) rules(ctx context.Context, _ *harness.Deployment, _ *testing.T) error {
	c := s.sidecars[0].Client
	now, err := c.Rules(ctx)
	if err != nil {
		return err
	}
	horizon, commits, levels, observe := uint32(20), uint32(1), "A1,A3", true
	change := client.RulesChange{HorizonSeqs: &horizon, HorizonCommits: &commits, Levels: &levels}
	if now, err = c.SetRules(ctx, now.Version, change); err != nil {
		return err
	}
	old := s.errands.Issued[0].Tx
	if _, err := c.Retract(ctx, old, "", false); harness.ProblemCode(err) != string(sequencer.CodeTooOld) &&
		harness.ProblemCode(err) != string(sequencer.CodeNotCommitted) {
		return fmt.Errorf("a retraction of %s, which is past the horizon: %w", old, err)
	}
	if _, err := c.SetRules(ctx, now.Version, client.RulesChange{Observe: &observe}); err != nil {
		return err
	}
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err == nil {
		err = everySink(ctx, s.errands, tx, "observed")
	}
	if err == nil {
		err = s.errands.Sealed(ctx, tx, "")
	}
	if err == nil && s.errands.Ends[tx.ID()].State != api.StateCommitted {
		err = fmt.Errorf("%s is not committed", tx.ID())
	}
	return err
}

// incarnationOf is the incarnation that a transaction's name has.
func incarnationOf(t *testing.T, tx string) uint64 {
	t.Helper()
	parts := strings.Split(tx, ".") // agent, incarnation, number
	n, err := strconv.ParseUint(parts[len(parts)-2], 10, 64)
	if err != nil {
		t.Fatalf("the transaction %s names no incarnation: %v", tx, err)
	}
	return n
}
