package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// rule lets a workspace have the newest logic from here on.
func (a *agent) rule(version uint32) {
	a.w.t.Helper()
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = version, sequencer.Logic
	a.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	a.w.until("the rules", func() bool {
		for _, o := range a.v.all() {
			if o.Kind == sequencer.OutcomeRules && o.Rules.Version == version {
				return true
			}
		}
		return false
	})
}

// rest writes a shard by a transaction that read another one.
func (a *agent) rest(write, read string) sequencer.TxID {
	a.w.t.Helper()
	tx, in := a.intent(write, "of "+read)
	view := sequencer.Seq(a.v.len())
	in.Base = view
	in.Seal.Shards[0].Former = &sequencer.Former{View: view} // it was not there
	in.Seal.Reads = []sequencer.Read{{Scope: sequencer.Scope("shard:/" + read), View: view}}
	a.append(in)
	a.w.decided(a.v, tx)
	return tx
}

// A workspace that was begun under the first logic gets the second by its rules, which survive a change of owners, and
// retraction with it: the dry run says what goes, and then it goes, in the tables and in the snapshot too.
func TestRetraction(t *testing.T) {
	w := newWorld(t)
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	old := a.write("orders/1", "old")
	w.decided(v, old)
	if cone, err := c.Cone(w.context(), "shop", old); err != nil || cone.Code != sequencer.CodeUnknownIntent {
		t.Fatalf("under the first logic: %+v, %v", cone, err)
	}
	if rules, _, err := c.Rules(w.context(), "shop"); err != nil || rules != sequencer.DefaultRules() {
		t.Fatalf("the rules of a new workspace: %+v, %v", rules, err)
	}
	a.rule(1)
	before := a.write("orders/1", "first")
	w.decided(v, before)
	named := a.write("orders/1", "second")
	w.decided(v, named)
	reader := a.rest("orders/2", "orders/1")
	apart := a.rest("orders/3", "orders/9")
	stop()
	w.run(w.cfg) // another owner, from the table

	var cone *topology.Cone
	w.until("an owner", func() bool {
		var err error
		cone, err = c.Cone(w.context(), "shop", named)
		return err == nil
	})
	text := ""
	if rules, through, err := c.Rules(w.context(), "shop"); err != nil || rules.Version != 1 || through == 0 {
		t.Errorf("the rules after their change: %+v at %d, %v", rules, through, err)
	}
	for _, m := range cone.Members {
		text += fmt.Sprintf("%s %d %s %s %s; ", m.Tx, m.Depth, m.Why, m.Of, m.At)
	}
	if want := fmt.Sprintf("%s 1 read_from %s shard:/orders/1; %s 0   ; ", reader, named, named); text != want ||
		cone.Code != "" || cone.Total != 2 {
		t.Errorf("%s, want %s: %+v", text, want, cone)
	}
	a.append(&sequencer.Intent{Kind: sequencer.IntentRetract, Tx: named, N: 1, Agent: "ann",
		Incarnation: a.incarnation, Base: sequencer.Seq(v.len())})
	undone := func(tx sequencer.TxID) bool {
		for _, o := range v.all() {
			if o.Tx == tx && o.Kind == sequencer.OutcomeSettled && o.Retraction == named && o.Final {
				return true
			}
		}
		return false
	}
	w.until("the settlements", func() bool { return undone(named) && undone(reader) })
	w.tablesEqual(v, "shop")
	for tx, want := range map[sequencer.TxID]string{before: "committed", named: "retracted", reader: "retracted",
		apart: "committed"} {
		got, err := c.Closure(w.context(), "shop", tx, 1)
		if err != nil || got.Rows[0].Status != want || (want == "retracted") != (got.Rows[0].Retraction == named) {
			t.Errorf("%s is %+v, %v, want %s", tx, got, err, want)
		}
	}
	want := fmt.Sprintf("shard:/orders/1=first by %s; shard:/orders/3=of orders/9 by %s; ", before, apart)
	w.snapshotShows(c, v, want)
	w.servers.StopNATS()
	if _, err := c.Cone(w.context(), "shop", named); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("without NATS: %v", err)
	}
}

// snapshotShows compares contents and writers of the shop's shards at the newest decision.
func (w *world) snapshotShows(c *streams.Client, v *view, want string) {
	w.t.Helper()
	s, err := c.Snapshot(w.context(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	shown := ""
	for _, row := range s.Shards {
		if row.Restored != 0 { // the log has it
			row.Content = w.carried(c, row.Restored, row.Scope)
		}
		shown += fmt.Sprintf("%s=%s by %s; ", row.Scope, row.Content, row.Writer.Tx)
	}
	if shown != want || s.Seq != sequencer.Seq(v.len()) {
		w.t.Errorf("the snapshot at %d shows %s, want %s", s.Seq, shown, want)
	}
}

// carried is the content that a decision has of a shard, read from the log.
func (w *world) carried(c *streams.Client, seq sequencer.Seq, scope sequencer.Scope) (content []byte) {
	w.t.Helper()
	have := errors.New("it is here")
	err := c.Follow(w.context(), "shop", seq-1, func(o *sequencer.Outcome, _ streams.Way) error {
		for _, s := range o.Shards {
			if s.Scope == scope {
				content = s.Content
			}
		}
		return have
	})
	if !errors.Is(err, have) {
		w.t.Fatalf("decision %d: %v", seq, err)
	}
	return content
}

// A first join sets the logic of its workspace; one that asks for a later logic stops the workspace, as a rules record
// does, and no other one.
func TestFirstJoinSetsTheLogic(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.Partitions = 1 })
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	join := func(workspace string, logic uint32) {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann",
			Join: &sequencer.Join{ID: "j-" + workspace, Logic: logic}}
		if _, err := c.Append(w.context(), workspace, in); err != nil {
			t.Fatal(err)
		}
	}
	join("shop", sequencer.Logic)
	w.until("the join", func() bool { return v.len() == 1 })
	if o := v.all()[0]; o.Rules == nil || o.Rules.Logic != sequencer.Logic {
		t.Errorf("%+v", o)
	}
	if cone, err := c.Cone(w.context(), "shop", "t"); err != nil || cone.Code != sequencer.CodeTooOld {
		t.Errorf("%+v, %v", cone, err)
	}
	join("bank", sequencer.Logic+1)
	w.halts(1)
	if _, err := c.Cone(w.context(), "bank", "t"); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("who asks a stopped workspace hears %v", err)
	}
	if _, err := c.Cone(w.context(), "shop", "t"); err != nil {
		t.Errorf("who asks another one hears %v", err)
	}
}
