package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// sealAsking seals a transaction of a with a held call that needs approval, and returns once b's view shows that.
func sealAsking(ctx context.Context, t *testing.T, a, b *rig, where string, reads ...string) (id string,
	decided chan client.Decision) {
	t.Helper()
	tx := open(ctx, t, a, client.BeginOptions{})
	for _, scope := range reads {
		must(tx.Read(ctx, scope))(t)
	}
	must(tx.Effect(ctx, "mail", map[string]any{"at": where, "ask": true}, client.EffectOptions{}))(t)
	if _, err := b.session.Approve(ctx, tx.ID(), "0", &api.Word{Yes: true, By: "ann"}); err == nil {
		t.Errorf("a call of %s is approved before the seal", tx.ID())
	}
	decided = make(chan client.Decision, 1)
	go func() {
		d, _ := tx.Seal(ctx)
		decided <- d
	}()
	waits := func() bool {
		seen, _ := b.view.Transaction(sequencer.TxID(tx.ID()))
		return seen.Waiting != nil
	}
	if err := b.session.eventually(ctx, waits); err != nil {
		t.Fatalf("%s does not wait: %v", tx.ID(), err)
	}
	return tx.ID(), decided
}

// A held call leaves once it is approved, also through another agent's sidecar, and never after a no.
func TestApprove(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door())
	ctx := background(t)
	id, decided := sealAsking(ctx, t, a, b, "x")
	for _, c := range []struct {
		tx, index, args string
		code            string
	}{
		{id, "0", strings.Repeat("ab", 32), string(sequencer.CodeWrongFootprint)},
		{id, "0", "ab", api.CodeBadRequest},
		{id, "1", "", string(sequencer.CodeWrongFootprint)},
		{id, "x", "", api.CodeBadRequest},
		{"a.9.9", "0", "", api.CodeUnknownTx},
	} {
		_, err := b.session.Approve(ctx, c.tx, c.index, &api.Word{Yes: true, By: "ann", ArgsSHA256: c.args})
		if api.AsProblem(err).Code != c.code {
			t.Errorf("approve call %s of %s with arguments %s: %v, want %s", c.index, c.tx, c.args, err, c.code)
		}
	}
	if len(world.world()) > 0 {
		t.Fatalf("the world saw %q before anybody has approved it", world.world())
	}
	d := must(b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann"}))(t)
	if d.State != api.StateCommitted || len(d.Approvals) != 1 || d.Approvals[0].By != "ann" || !d.Approvals[0].Yes {
		t.Errorf("approved: %+v", d)
	}
	_, late := b.session.Approve(ctx, id, "0", &api.Word{By: "bob"})
	if p := api.AsProblem(late); p.Code != api.CodeApprovalLate || p.Decision == nil ||
		p.Decision.Approvals[0].By != "ann" {
		t.Errorf("denied after it was committed: %v", late)
	}
	if d := <-decided; d.State != api.StateCommitted || len(d.Approvals) != 1 {
		t.Errorf("its agent is told %+v", d)
	}
	for args, code := range map[string]string{"": "", d.Approvals[0].ArgsSHA256: "",
		strings.Repeat("ab", 32): api.CodeApprovalLate} { // what left is not what was looked at
		_, err := b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "bob", ArgsSHA256: args})
		p := api.AsProblem(err)
		if err == nil && code != "" || err != nil && (p.Code != code || !strings.Contains(p.Detail, "another args_sha256")) {
			t.Errorf("approved again, arguments %s: %v", args, err)
		}
	}
	a.final(ctx, t, id)
	world.expect(t, "mail x")

	id, decided = sealAsking(ctx, t, a, b, "y")
	for range 2 { // the second finds that it has happened
		d := must(b.session.Approve(ctx, id, "0", &api.Word{By: "bob"}))(t)
		if d.State != api.StateAborted || d.Code != string(sequencer.CodeDenied) || d.Approvals[0].Yes {
			t.Errorf("denied: %+v", d)
		}
	}
	_, late = b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann"})
	if p := api.AsProblem(late); p.Code != api.CodeApprovalLate || p.Decision == nil || p.Decision.Code != "denied" {
		t.Errorf("approved after it was denied: %v", late)
	}
	if d := <-decided; d.Code != string(sequencer.CodeDenied) || d.Retryable {
		t.Errorf("its agent is told %+v", d)
	}
	world.expect(t, "mail x")
}

// A workspace of an older logic knows no approvals: there the call would leave without a yes, so it is not taken.
func TestApproveNeedsLogic(t *testing.T) {
	log, world := newLog(), newSink()
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "old",
		Join: &sequencer.Join{ID: "old", Logic: asksApproval - 1}}))(t)
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	_, err := tx.Effect(ctx, "mail", map[string]any{"at": "x", "ask": true}, client.EffectOptions{})
	if problemCode(err) != api.CodeTool {
		t.Errorf("a call that needs approval under logic %d: %v", asksApproval-1, err)
	}
}

// A sidecar that began after the seal has not seen that the transaction waits: it asks the fold, shows the calls of
// all agents with their arguments, and takes words on them.
func TestApproveThroughALaterSidecar(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door())
	ctx := background(t)
	id, decided := sealAsking(ctx, t, a, b, "x")
	late := start(t, "c", log.Door())
	if _, known := late.view.Transaction(sequencer.TxID(id)); known {
		t.Fatal("the later sidecar has seen the transaction, so this tests nothing")
	}
	list := must(late.session.Unapproved(ctx, api.Page{Limit: 10}))(t)
	if len(list.Items) != 1 {
		t.Fatalf("%+v waits for approval, want one call", list.Items)
	}
	one := list.Items[0]
	if one.Tx != id || *one.Index != 0 || one.Agent != "a" || one.Tool != "mail" || one.State != api.EffectUnapproved ||
		!sameJSON(one.Args, []byte(`{"at":"x","ask":true}`)) || one.ArgsSHA256 == "" || one.Note != "" {
		t.Errorf("listed is %+v with %s", one, one.Args)
	}
	for pick, want := range map[string]int{"tool mail": 1, "tool post": 0, "tx " + id: 1, "tx b.1.1": 0,
		"state held": 0} {
		name, is, _ := strings.Cut(pick, " ")
		if got := must(late.session.Unapproved(ctx, api.Page{Limit: 10, Pick: map[string]string{name: is}}))(t); len(
			got.Items) != want {
			t.Errorf("%s picks %d calls, want %d", pick, len(got.Items), want)
		}
	}
	own := must(a.client.Tx(id).Effects(ctx))(t)
	if e := own.Effects[0]; e.State != api.EffectUnapproved || e.Args != nil || !strings.Contains(e.Note, "approve") {
		t.Errorf("its own agent is shown %+v", e)
	}
	if _, err := late.session.Approve(ctx, "a.9.9", "0", &api.Word{Yes: true, By: "ann"}); api.AsProblem(err).Code !=
		api.CodeUnknownTx {
		t.Errorf("approve what is not there: %v", err)
	}
	d := must(late.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann", ArgsSHA256: one.ArgsSHA256}))(t)
	if d.State != api.StateCommitted || (<-decided).State != api.StateCommitted {
		t.Errorf("approved: %+v", d)
	}
	a.final(ctx, t, id)
	world.expect(t, "mail x")
	if list := must(late.session.Unapproved(ctx, api.Page{Limit: 10}))(t); len(list.Items) > 0 {
		t.Errorf("still waiting for approval: %+v", list.Items)
	}
}

// Of two who say yes at once one counts, and both are told who that was. A no that comes between them ends it.
func TestApproversRace(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door())
	ctx := background(t)
	for n := range 8 {
		id, decided := sealAsking(ctx, t, a, b, fmt.Sprint(n))
		type answer struct {
			d   *api.Decision
			err error
		}
		answers := make(chan answer, 2)
		for i, by := range []*rig{a, b} {
			go func() {
				word := &api.Word{Yes: i == 0 || n%2 == 0, By: []string{"ann", "bob"}[i]}
				d, err := by.session.Approve(ctx, id, "0", word)
				answers <- answer{d, err}
			}()
		}
		end := <-decided
		if len(end.Approvals) != 1 || end.Approvals[0].By == "" {
			t.Fatalf("%s ends as %+v", id, end)
		}
		for range 2 {
			got := <-answers
			if got.err != nil {
				got.d = api.AsProblem(got.err).Decision
			}
			if n%2 == 0 && got.err != nil || got.d == nil || got.d.State != end.State ||
				got.d.Approvals[0] != end.Approvals[0] {
				t.Errorf("an approver is told %+v, %v; it ended as %+v", got.d, got.err, end)
			}
		}
		a.final(ctx, t, id)
		sent := slices.Contains(world.world(), fmt.Sprintf("mail %d", n))
		if sent != (end.State == api.StateCommitted) {
			t.Errorf("%s is %s, and the world saw %q", id, end.State, world.world())
		}
	}
}

// What a transaction read may be overwritten while it waits for people: then nothing leaves, and a yes is told so.
func TestApproveRefusedMeanwhile(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door())
	ctx := background(t)
	must(b.client.Put(ctx, "shard:/s", []byte("1"), client.WriteOptions{}))(t)
	seen := func() bool { return a.view.At() >= b.view.At() } // else it would read that there is none, and not wait
	if err := a.session.eventually(ctx, seen); err != nil {
		t.Fatal(err)
	}
	id, decided := sealAsking(ctx, t, a, b, "x", "shard:/s")
	must(b.client.Put(ctx, "shard:/s", []byte("2"), client.WriteOptions{}))(t)
	if d := <-decided; d.Code != string(sequencer.CodeStaleRead) {
		t.Fatalf("it ends as %+v", d)
	}
	_, err := b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann"})
	if p := api.AsProblem(err); p.Code != api.CodeApprovalLate || p.Decision == nil || p.Decision.Code != "stale_read" ||
		!strings.Contains(p.Detail, "overwritten") {
		t.Errorf("approved afterwards: %v", err)
	}
	world.expect(t)
}

// The bound of approvals ends what waits, for good.
func TestApproveTooLate(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door())
	ctx := background(t)
	ticks, version := uint32(3), must(a.session.Rules(ctx, nil))(t).Version
	must(a.session.Rules(ctx, &api.ChangeOfRules{Was: version, To: &api.RulesChange{ApprovalTicks: &ticks}}))(t)
	id, decided := sealAsking(ctx, t, a, b, "x")
	if err := log.Tick(int(ticks) + 1); err != nil {
		t.Fatal(err)
	}
	d := <-decided
	if d.Code != string(sequencer.CodeDenied) || d.Retryable || !strings.Contains(d.Detail, "nobody") {
		t.Errorf("after the bound it is %+v", d)
	}
	if _, err := b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann"}); api.AsProblem(err).Code !=
		api.CodeApprovalLate {
		t.Errorf("approved after the bound: %v", err)
	}
	world.expect(t)
}

// A hook that answers only after an approval is heard all the same: what the transaction waits for then has another
// cause than its seal.
func TestApproveBeforeTheHook(t *testing.T) {
	log, world := newLog(), newSink()
	approved := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-approved:
			_, _ = io.WriteString(w, `{"yes":true}`)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hook.Close) // once a has stopped, and no longer asks
	a := start(t, "a", log.Door(), withTools(world), func(c *setup) {
		c.Hook = Hook{URL: hook.URL, Timeout: time.Minute}
	})
	b := start(t, "b", log.Door())
	ctx := background(t)
	id, decided := sealAsking(ctx, t, a, b, "x")
	d := must(b.session.Approve(ctx, id, "0", &api.Word{Yes: true, By: "ann"}))(t)
	if d.State != api.StateSealed || d.Approvals[0].By != "ann" || len(d.BlockedBy) != 1 ||
		d.BlockedBy[0].Why != "verdict" {
		t.Errorf("approved, it is %+v", d)
	}
	heard := func() bool { // b may have seen both before a has seen that it waits
		w := a.session.txs[sequencer.TxID(id)].waiting
		return w != nil && len(w.Approvals) > 0 && w.Approvals[0].By != ""
	}
	if err := a.session.eventually(ctx, heard); err != nil { // its own view is there, too
		t.Fatal(err)
	}
	close(approved)
	if d := <-decided; d.State != api.StateCommitted {
		t.Errorf("after the hook's yes it is %+v", d)
	}
	a.final(ctx, t, id)
	world.expect(t, "mail x")
}
