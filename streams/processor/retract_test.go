package processor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// rule lets a workspace have the newest logic from here on.
func ruleBy(a *teststreams.Agent, version uint32) {
	a.World.T.Helper()
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = version, sequencer.Logic
	a.Append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	a.World.Until("the rules", func() bool {
		for _, o := range a.View.All() {
			if o.Kind == sequencer.OutcomeRules && o.Rules.Version == version {
				return true
			}
		}
		return false
	})
}

// rest writes a shard by a transaction that read another one.
func restOf(a *teststreams.Agent, write, read string) sequencer.TxID {
	a.World.T.Helper()
	tx, in := a.Intent(write, "of "+read)
	view := sequencer.Seq(a.View.Len())
	in.Base = view
	in.Seal.Shards[0].Former = &sequencer.Former{View: view} // it was not there
	in.Seal.Reads = []sequencer.Read{{Scope: sequencer.Scope("shard:/" + read), View: view}}
	a.Append(in)
	a.World.Decided(a.View, tx)
	return tx
}

// A workspace that was begun under the first logic gets the second by its rules, which survive a change of owners, and
// retraction with it: the dry run says what goes, and then it goes, in the tables and in the snapshot too.
func TestRetraction(t *testing.T) {
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	old := a.Write("orders/1", "old")
	w.Decided(v, old)
	if cone, err := c.Cone(w.Context(), "shop", old); err != nil || cone.Code != sequencer.CodeUnknownIntent {
		t.Fatalf("under the first logic: %+v, %v", cone, err)
	}
	if rules, _, err := c.Rules(w.Context(), "shop"); err != nil || rules != sequencer.DefaultRules() {
		t.Fatalf("the rules of a new workspace: %+v, %v", rules, err)
	}
	ruleBy(a, 1)
	before := a.Write("orders/1", "first")
	w.Decided(v, before)
	named := a.Write("orders/1", "second")
	w.Decided(v, named)
	reader := restOf(a, "orders/2", "orders/1")
	apart := restOf(a, "orders/3", "orders/9")
	stop()
	w.Run(w.Cfg) // another owner, from the table

	var cone *topology.Cone
	w.Until("an owner", func() bool {
		var err error
		cone, err = c.Cone(w.Context(), "shop", named)
		return err == nil
	})
	text := ""
	if rules, through, err := c.Rules(w.Context(), "shop"); err != nil || rules.Version != 1 || through == 0 {
		t.Errorf("the rules after their change: %+v at %d, %v", rules, through, err)
	}
	for _, m := range cone.Members {
		text += fmt.Sprintf("%s %d %s %s %s; ", m.Tx, m.Depth, m.Why, m.Of, m.At)
	}
	if want := fmt.Sprintf("%s 1 read_from %s shard:/orders/1; %s 0   ; ", reader, named, named); text != want ||
		cone.Code != "" || cone.Total != 2 {
		t.Errorf("%s, want %s: %+v", text, want, cone)
	}
	a.Append(&sequencer.Intent{Kind: sequencer.IntentRetract, Tx: named, N: 1, Agent: "ann",
		Incarnation: a.Incarnation, Base: sequencer.Seq(v.Len())})
	undone := func(tx sequencer.TxID) bool {
		for _, o := range v.All() {
			if o.Tx == tx && o.Kind == sequencer.OutcomeSettled && o.Retraction == named && o.Final {
				return true
			}
		}
		return false
	}
	w.Until("the settlements", func() bool { return undone(named) && undone(reader) })
	tablesEqual(w, v, "shop")
	for tx, want := range map[sequencer.TxID]string{before: "committed", named: "retracted", reader: "retracted",
		apart: "committed"} {
		got, err := c.Closure(w.Context(), "shop", tx, 1)
		if err != nil || got.Rows[0].Status != want || (want == "retracted") != (got.Rows[0].Retraction == named) {
			t.Errorf("%s is %+v, %v, want %s", tx, got, err, want)
		}
	}
	want := fmt.Sprintf("shard:/orders/1=first by %s; shard:/orders/3=of orders/9 by %s; ", before, apart)
	snapshotShows(w, c, v, want)
	w.Servers.StopNATS()
	if _, err := c.Cone(w.Context(), "shop", named); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("without NATS: %v", err)
	}
}

// snapshotShows compares contents and writers of the shop's shards at the newest decision.
func snapshotShows(w *teststreams.World, c *streams.Client, v *teststreams.View, want string) {
	w.T.Helper()
	s, err := c.Snapshot(w.Context(), "shop")
	if err != nil {
		w.T.Fatal(err)
	}
	shown := ""
	for _, row := range s.Shards {
		if row.Restored != 0 { // the log has it
			row.Content = carried(w, c, row.Restored, row.Scope)
		}
		shown += fmt.Sprintf("%s=%s by %s; ", row.Scope, row.Content, row.Writer.Tx)
	}
	if shown != want || s.Seq != sequencer.Seq(v.Len()) {
		w.T.Errorf("the snapshot at %d shows %s, want %s", s.Seq, shown, want)
	}
}

// carried is the content that a decision has of a shard, read from the log.
func carried(w *teststreams.World, c *streams.Client, seq sequencer.Seq, scope sequencer.Scope) (content []byte) {
	w.T.Helper()
	have := errors.New("it is here")
	err := c.Follow(w.Context(), "shop", seq-1, func(o *sequencer.Outcome, _ streams.Way) error {
		for _, s := range o.Shards {
			if s.Scope == scope {
				content = s.Content
			}
		}
		return have
	})
	if !errors.Is(err, have) {
		w.T.Fatalf("decision %d: %v", seq, err)
	}
	return content
}

// A first join sets the logic of its workspace; one that asks for a later logic stops the workspace, as a rules record
// does, and no other one.
func TestFirstJoinSetsTheLogic(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	join := func(workspace string, logic uint32) {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann",
			Join: &sequencer.Join{ID: "j-" + workspace, Logic: logic}}
		if _, err := c.Append(w.Context(), workspace, in); err != nil {
			t.Fatal(err)
		}
	}
	join("shop", sequencer.Logic)
	w.Until("the join", func() bool { return v.Len() == 1 })
	if o := v.All()[0]; o.Rules == nil || o.Rules.Logic != sequencer.Logic {
		t.Errorf("%+v", o)
	}
	if cone, err := c.Cone(w.Context(), "shop", "t"); err != nil || cone.Code != sequencer.CodeTooOld {
		t.Errorf("%+v, %v", cone, err)
	}
	join("bank", sequencer.Logic+1)
	halts(w, 1)
	if _, err := c.Cone(w.Context(), "bank", "t"); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("who asks a stopped workspace hears %v", err)
	}
	if _, err := c.Cone(w.Context(), "shop", "t"); err != nil {
		t.Errorf("who asks another one hears %v", err)
	}
}
